"""Radial kernels: the only place where a kernel formula stands.

A translation-invariant kernel is a *profile* k(u) of the scaled distance
u = ‖x − x′‖ / σ with k(0) = 1 and k(∞) = 0 (paper, Section 3.3 and Table 3).
Profiles are written in q = u**power, so that Gaussian and Cauchy never take a
square root, and with an array namespace ``xp``, so that one formula serves
NumPy arrays and torch tensors alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

__all__ = ["KERNELS", "Kernel", "get_kernel", "kernel_matrix"]

# NumPy array or torch tensor; formulas below use only what both offer.
Array = Any

SQRT3 = math.sqrt(3.0)
SQRT5 = math.sqrt(5.0)


@dataclass(frozen=True)
class Kernel:
    """A radial profile k(u), u = distance / bandwidth, with k(0) = 1 and k(∞) = 0.

    Parameters
    ----------
    name : str
        What users type.
    power : {1, 2}
        The profile is a function of q = u**power.
    profile : callable (q, xp, work=None) -> array
        k as a function of q, elementwise. It may overwrite q, which may be its result, and
        use `work`, an array like q.
    slope : callable (q, xp) -> array, or None
        k′(u)/u as a function of q: what the gradient of a kernel sum needs. At
        u = 0 it is the limit or, where there is none (Laplace), 0: the centre of the
        subdifferential. It may overwrite q, like `profile`. None for a user's profile given
        without a derivative.
    max_derivative : float
        max over u ≥ 0 of ``|k′(u)|`` (Proposition 4), NaN where unknown.

    Examples
    --------
    >>> import numpy as np
    >>> from bandfall.kernels import get_kernel
    >>> get_kernel("gaussian")(np.array([0.0, 1.0]))
    array([1.        , 0.60653066])
    """

    name: str
    power: int
    profile: Callable[..., Array]
    slope: Callable[[Array, Any], Array] | None = None
    max_derivative: float = math.nan

    def __call__(self, scaled_distance: Array, xp: Any = np) -> Array:
        """k(u) for u = distance / bandwidth ≥ 0."""
        return self.profile(xp.asarray(xp.asarray(scaled_distance) ** self.power), xp)

    def derivative(self, scaled_distance: Array, xp: Any = np) -> Array:
        """k′(u); at u = 0 the value 0 (the profile is even in x − x′)."""
        if self.slope is None:
            raise ValueError(f"kernel {self.name!r} was given without a derivative")
        u = xp.asarray(scaled_distance)
        return self.slope(xp.asarray(u**self.power), xp) * u

    @property
    def built_in(self) -> bool:
        """Whether the name alone stands for this kernel."""
        return KERNELS.get(self.name) == self

    # What stores an object by its state (skops) also gets by with the name.
    def __getstate__(self) -> dict[str, Any]:
        return {"name": self.name} if self.built_in else self.__dict__

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(KERNELS[state["name"]].__dict__ if len(state) == 1 else state)

    def __reduce__(self) -> tuple:
        # Built-in profiles are lambdas: pickle them by name.
        if self.built_in:
            return (get_kernel, (self.name,))
        return (
            Kernel,
            (self.name, self.power, self.profile, self.slope, self.max_derivative),
        )


# Profiles are called in the innermost loop: they consume q and, where they need a second
# array, use `work`. With work=None they allocate.
def _gaussian(q: Array, xp: Any, work: Array = None) -> Array:
    q *= -0.5
    return xp.exp(q, out=q)


def _matern12(q: Array, xp: Any, work: Array = None) -> Array:
    q *= -1.0
    return xp.exp(q, out=q)


def _matern32(q: Array, xp: Any, work: Array = None) -> Array:
    q *= SQRT3
    decay = xp.exp(xp.negative(q, out=work), out=work)
    q += 1.0
    q *= decay
    return q


def _matern52(q: Array, xp: Any, work: Array = None) -> Array:
    q *= SQRT5
    decay = xp.exp(xp.negative(q, out=work), out=work)
    q += 1.5  # 1 + v + v²/3 = ((v + 3/2)² + 3/4)/3 with v = √5 u
    q *= q
    q += 0.75
    q *= decay
    q *= 1.0 / 3.0
    return q


def _cauchy(q: Array, xp: Any, work: Array = None) -> Array:
    q += 1.0
    return xp.reciprocal(q, out=q)


def _gaussian_slope(q: Array, xp: Any) -> Array:
    return xp.negative(_gaussian(q, xp), out=q)


def _laplace_slope(q: Array, xp: Any) -> Array:
    inverse = xp.asarray(xp.clip(q, float(xp.finfo(q.dtype).tiny), None))
    inverse = xp.reciprocal(inverse, out=inverse)
    inverse *= q > 0
    q = _matern12(q, xp)
    q *= inverse
    return xp.negative(q, out=q)


def _matern32_slope(q: Array, xp: Any) -> Array:
    q *= -SQRT3
    q = xp.exp(q, out=q)
    q *= -3.0
    return q


def _matern52_slope(q: Array, xp: Any) -> Array:
    q *= SQRT5
    decay = xp.exp(-q)
    q += 1.0
    q *= decay
    q *= -5.0 / 3.0
    return q


def _cauchy_slope(q: Array, xp: Any) -> Array:
    q = _cauchy(q, xp)
    q *= q
    q *= -2.0
    return q


# Table 3 and Section 5. Derivatives by hand; the maxima of |k′| are attained at
# u = 1 (Gaussian), 0 (Laplace), 1/√3 (Matérn 3/2 and Cauchy), (1+√5)/(2√5) (Matérn 5/2).
_GOLDEN = (1.0 + SQRT5) / 2.0
KERNELS: dict[str, Kernel] = {
    kernel.name: kernel
    for kernel in (
        Kernel("gaussian", 2, _gaussian, _gaussian_slope, math.exp(-0.5)),
        Kernel("matern12", 1, _matern12, _laplace_slope, 1.0),
        Kernel("matern32", 1, _matern32, _matern32_slope, SQRT3 / math.e),
        Kernel(
            "matern52",
            1,
            _matern52,
            _matern52_slope,
            SQRT5 / 3.0 * _GOLDEN * (1.0 + _GOLDEN) * math.exp(-_GOLDEN),
        ),
        Kernel("cauchy", 2, _cauchy, _cauchy_slope, 3.0 * SQRT3 / 8.0),
    )
}
_ALIASES = {"laplace": "matern12"}


class _UserProfile:
    """Adapts a user's k(u) to the (q, xp) signature; a class, so that it can be pickled."""

    def __init__(self, function: Callable[[Array], Array]):
        self.function = function

    def __call__(self, q: Array, xp: Any, work: Array = None) -> Array:
        return self.function(q)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _UserProfile) and self.function == other.function

    def __hash__(self) -> int:
        return hash(self.function)


def get_kernel(kernel: str | Kernel | Callable[[Array], Array]) -> Kernel:
    """The kernel that a name, a `Kernel` or a user's own profile stands for.

    Parameters
    ----------
    kernel : str, Kernel or callable
        One of "gaussian", "matern12" (or "laplace"), "matern32", "matern52", "cauchy"; a
        `Kernel`; or a function k(u) of the scaled distance, elementwise, with
        k(0) = 1, falling to k(∞) = 0 and never negative. Whether it is positive
        definite cannot be seen from the function; training refuses it when it is not.

    Returns
    -------
    Kernel
    """
    if isinstance(kernel, Kernel):
        return kernel
    if isinstance(kernel, str):
        name = _ALIASES.get(kernel, kernel)
        if name in KERNELS:
            return KERNELS[name]
        allowed = ", ".join([*KERNELS, *_ALIASES])
        raise ValueError(f"kernel={kernel!r} is unknown; allowed: {allowed}, or a profile k(u)")
    if callable(kernel):
        return _checked_profile(kernel)
    raise TypeError(
        f"kernel must be a name, a Kernel or a callable profile k(u); got {type(kernel).__name__}"
    )


def _checked_profile(function: Callable[[Array], Array]) -> Kernel:
    """Wrap a user's k(u) after checking on a grid what the algorithms rely on."""
    name = getattr(function, "__name__", type(function).__name__)
    grid = np.concatenate([[0.0], np.geomspace(1e-6, 1e8, 141)])
    values = np.asarray(function(grid.copy()), dtype=float)
    if values.shape != grid.shape or not np.all(np.isfinite(values)):
        raise ValueError(
            f"kernel {name!r} must map an array of scaled distances u >= 0 to finite values of "
            "the same shape"
        )
    if abs(values[0] - 1.0) > 1e-12 or abs(values[-1]) > 1e-3:
        raise ValueError(
            f"kernel {name!r} must have k(0) = 1 and k(u) -> 0 for u -> infinity; got "
            f"k(0) = {values[0]:.6g} and k(1e8) = {values[-1]:.6g}"
        )
    if values.min() < 0.0 or np.any(np.diff(values) > 1e-12):
        raise ValueError(f"kernel {name!r} must be non-negative and must not rise with u")
    return Kernel(name, 1, _UserProfile(function))


def vanishing_bandwidth(limits: Any) -> float:
    """The bandwidth up to which one is as good as 0, in a dtype that a finfo describes.

    1/bandwidth² is still a number there, and so is its product with coefficients up to 1e4; data
    that are not refused for being too small span many times as much.
    """
    return float(limits.tiny) ** 0.45


def kernel_matrix(
    kernel: Kernel,
    distances: Array,
    bandwidth: float,
    xp: ModuleType = np,
    out: Array = None,
    work: Array = None,
) -> Array:
    """k(distances / bandwidth) with the limits at bandwidth 0 and ∞ exact.

    Parameters
    ----------
    kernel : Kernel
    distances : array
        Distances raised to ``kernel.power``, non-negative.
    bandwidth : float
        In [0, ∞].
    xp : module
        Array namespace of `distances`.
    out : array, optional
        For the result; may be `distances` itself.
    work : array, optional
        Scratch like `out`; with both, the built-in kernels allocate nothing.

    Returns
    -------
    array like `distances`
        At bandwidth 0, one where rows coincide and zero elsewhere; at ∞, one everywhere.
    """
    if out is None:
        out = xp.empty_like(distances)
    limits = xp.finfo(distances.dtype)
    if bandwidth <= vanishing_bandwidth(limits):
        out[...] = distances == 0
        return out
    scale = 0.0 if math.isinf(bandwidth) else bandwidth**-kernel.power
    ceiling = float(limits.max) ** 0.25  # profiles vanish long before, and its square is finite
    with np.errstate(over="ignore"):
        q = xp.multiply(distances, scale, out=out)
    if scale > ceiling:
        xp.clip(q, 0.0, ceiling, out=q)
    result = kernel.profile(q, xp, work)
    if result is not out:
        out[...] = result
    return out
