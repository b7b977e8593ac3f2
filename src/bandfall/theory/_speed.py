"""Speed and acceleration of R² on training data (Proposition 2)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bandfall._products import HOST, Backend
from bandfall._typing import ArrayLike
from bandfall.descent._fit import front_at_end
from bandfall.descent._front import TrainingFront
from bandfall.theory._inputs import PathSource, as_path, non_negative, path_operator


def r2_speed(
    path: PathSource, bandwidth: ArrayLike | None = None, *, backend: Backend = HOST
) -> np.ndarray:
    """∂R²/∂t = 2 ‖y − f̂‖²_K / ‖y‖² ≥ 0 at the end of a path (Proposition 2, Equation 7).

    The paper's rule searches this function of the bandwidth, which is not monotone. For an earlier
    time, pass ``path.truncate(time=...)``.

    Parameters
    ----------
    path : Path or estimator with ``path_``
    bandwidth : float or array-like in [0, ∞], optional
        The path's last bandwidth by default.
    backend : Backend

    Returns
    -------
    ndarray of the shape of `bandwidth`

    Examples
    --------
    >>> import numpy as np
    >>> from bandfall import KernelDescentRegressor
    >>> from bandfall.theory import r2_speed
    >>> X = np.linspace(-1, 1, 20)[:, None]
    >>> model = KernelDescentRegressor(max_r2=0.9).fit(X, np.sin(3 * X[:, 0]))
    >>> round(float(r2_speed(model, 0.0)), 3)  # K = I: 2(1 − R²)
    0.2
    """
    return _at_bandwidths(TrainingFront.speed, path, bandwidth, backend)


def r2_acceleration(
    path: PathSource, bandwidth: ArrayLike | None = None, *, backend: Backend = HOST
) -> np.ndarray:
    """∂²R²/∂t² = −4 ‖y − f̂‖²_{K²} / ‖y‖² ≤ 0 at constant bandwidth (Equation 8).

    Parameters
    ----------
    path, bandwidth, backend
        As for `r2_speed`.

    Returns
    -------
    ndarray of the shape of `bandwidth`
    """

    def acceleration(front: TrainingFront, bandwidth: float) -> float:
        return -4.0 * float((front.velocity(bandwidth) ** 2).sum())

    return _at_bandwidths(acceleration, path, bandwidth, backend)


def _at_bandwidths(
    function: Callable[[TrainingFront, float], float],
    path: PathSource,
    bandwidth: ArrayLike | None,
    backend: Backend,
) -> np.ndarray:
    """Evaluate a function of the final state at each bandwidth, by default the last one."""
    path = as_path(path)
    if not np.any(path.scale > 0):
        raise ValueError("the target of this path is constant, so R² has no speed")
    bandwidths = non_negative(path.bandwidth if bandwidth is None else bandwidth, "bandwidth")
    with path_operator(path, backend) as operator:
        front, _ = front_at_end(path, operator)
        values = [function(front, float(b)) for b in bandwidths.ravel()]
    return np.array(values).reshape(bandwidths.shape)
