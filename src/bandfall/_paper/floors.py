"""The bandwidth floors σ_m of Figures 1, 4, 6 and 7, and the axis they are drawn on."""

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike

# Smallest and largest floor. Figures 1 and 6 (synthetic data) differ by kernel, Figures 4 and 7
# (real data) by data set.
KERNEL_FLOORS: Mapping[str, tuple[float, float]] = MappingProxyType(
    {
        "gaussian": (1e-4, 1.1),
        "matern12": (1e-4, 1e5),
        "matern32": (1e-4, 20.0),
        "matern52": (1e-4, 20.0),
        "cauchy": (1e-4, 3.0),
    }
)
DATASET_FLOORS: Mapping[str, tuple[float, float]] = MappingProxyType(
    {
        "cpu": (0.2, 1e5),
        "power": (0.1, 1e5),
        "superconductors": (0.2, 1e5),
        "uk_temperature": (0.1, 100.0),
    }
)

_OFFSET = 0.01
_ROOT = 5


def complexity(bandwidth: ArrayLike) -> np.ndarray:
    r"""Model complexity of bandwidths ≥ 0, of the same shape: the figures' horizontal axis.

    .. math:: c(\sigma) = (\sigma + 0.01)^{-1/5}

    It falls as the bandwidth rises, and is finite at zero.

    Examples
    --------
    >>> complexity([0.99, 0.0]).round(4)
    array([1.    , 2.5119])
    """
    bandwidth = np.asarray(bandwidth, dtype=float)
    if not (bandwidth >= 0.0).all():
        raise ValueError("bandwidth must be non-negative")
    return (bandwidth + _OFFSET) ** (-1.0 / _ROOT)


def floor_grid(lowest: float, highest: float, n_floors: int = 100) -> np.ndarray:
    """Floors from `highest` down to `lowest`, evenly spaced in `complexity`, shape (n_floors,).

    From the simplest model to the most complex; `KERNEL_FLOORS` and `DATASET_FLOORS` have the ends.

    Examples
    --------
    >>> floor_grid(*KERNEL_FLOORS["gaussian"], n_floors=4).round(4)
    array([1.100e+00, 1.268e-01, 2.140e-02, 1.000e-04])
    """
    if not 0.0 <= lowest < highest < np.inf:
        raise ValueError(
            f"floors must satisfy 0 <= lowest < highest < inf; got {lowest!r} and {highest!r}"
        )
    if n_floors < 2:
        raise ValueError(f"n_floors must be at least 2; got {n_floors!r}")
    simplest, most_complex = complexity([highest, lowest])
    floors = np.linspace(simplest, most_complex, n_floors) ** -float(_ROOT) - _OFFSET
    # The fifth root rounds the ends; return them as given.
    floors[[0, -1]] = highest, lowest
    return floors
