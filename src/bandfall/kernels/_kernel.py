"""Kernels: profiles, geometries and their names.

A kernel is a *profile* k(u) of the scaled distance u = ‖x − x′‖ / σ with k(0) = 1 and
k(∞) = 0 (paper, Section 3.3 and Table 3), and a *geometry*, which defines ‖·‖.
Profiles are written in q = u**power, so that Gaussian and Cauchy never take a square root.

Which pairs are positive definite, for any number of features? ‖z‖_p^p is conditionally negative
definite for 0 < p ≤ 2, and so is ‖z‖_p^q for 0 < q ≤ p, a power at most 1 of it (Schoenberg,
1938). With N conditionally negative definite and N(0) = 0, exp(−N) is positive definite, and so
is 1/(1 + N) = ∫ exp(−t (1 + N)) dt over t > 0. Conversely a profile is positive definite in the
p-norm of all dimensions only if it is a mixture of exp(−s ‖z‖_p^p), s ≥ 0 (Bretagnolle,
Dacunha-Castelle and Krivine, 1966), hence convex in ‖z‖_p^p. Gaussian, Matérn 3/2 and 5/2 fall
like 1 − c u² near zero, which for p < 2 is concave in u^p: these need p = 2.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from bandfall._typing import Array
from bandfall.kernels import _profiles as profiles
from bandfall.kernels._geometry import EUCLIDEAN, Geometry

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Kernel:
    """A profile k(u) with k(0) = 1 and k(∞) = 0, of u = distance / bandwidth in a geometry.

    Kernels are values: equal if all their parts are, and usable as keys.

    Parameters
    ----------
    name : str
    power : float
        The profile is a function of q = u**power.
    profile : callable (q, xp, work=None) -> array
        k as a function of q, elementwise. It may overwrite and return q, and may use `work`, an
        array like q, as scratch.
    slope : callable (q, xp) -> array, or None
        k′(u) u^(1−p) as a function of q, with the p of the geometry (k′(u)/u if Euclidean), for
        gradients of kernel sums. At u = 0 it is the limit or, if there is no limit
        (Laplace), 0: the centre of the subdifferential. It may overwrite q. None if unknown.
    max_derivative : float
        max over u ≥ 0 of ``|k′(u)|`` (Proposition 4); ∞ if unbounded, NaN if unknown.
    geometry : Geometry

    Examples
    --------
    >>> import numpy as np
    >>> from bandfall.kernels import get_kernel
    >>> get_kernel("gaussian")(np.array([0.0, 1.0]))
    array([1.        , 0.60653066])
    """

    name: str
    power: float
    profile: Callable[..., Array]
    slope: Callable[[Array, ModuleType], Array] | None = None
    max_derivative: float = math.nan
    geometry: Geometry = EUCLIDEAN

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        if self.built_in:
            return f"get_kernel({self.name!r})"
        return f"Kernel({self.name!r}, power={self.power!r}, geometry={self.geometry!r})"

    def __call__(self, scaled_distance: Array, xp: ModuleType = np) -> Array:
        """k(u) for u = distance / bandwidth ≥ 0."""
        return self.profile(xp.asarray(xp.asarray(scaled_distance) ** self.power), xp)

    def derivative(self, scaled_distance: Array, xp: ModuleType = np) -> Array:
        """k′(u); at u = 0 the value 0 (the profile is even in x − x′)."""
        if self.slope is None:
            raise ValueError(f"kernel {self.name!r} was given without a derivative")
        u = xp.asarray(scaled_distance)
        return self.slope(xp.asarray(u**self.power), xp) * u ** (self.geometry.p - 1.0)

    @property
    def built_in(self) -> bool:
        """Whether `get_kernel` returns this kernel for its name."""
        try:
            return get_kernel(self.name) == self
        except ValueError:
            return False


# The argument of `get_kernel`: a kernel, its name, or a profile k(u).
KernelLike: TypeAlias = Kernel | str | Callable[[Array], Array]


class _Family(NamedTuple):
    """Kernels profile(u^q): positive definite for 0 < q ≤ p ≤ 2."""

    usual: str  # the kernel of p = 2 and of the usual exponent
    exponent: float
    profile: Callable[..., Array]
    derivative: Callable[[Array, ModuleType], Array]

    def kernel(self, name: str, q: float, p: float = 2.0) -> Kernel:
        """The kernel of an exponent in the p-norm."""
        name += "" if p == 2.0 else f"-{_short(p)}"
        name += "" if q == self.exponent else f"^{_short(q)}"
        slope = profiles.PowerSlope(self.derivative, q, p)
        return Kernel(name, q, self.profile, slope, self._max_derivative(q), Geometry(p))

    def _max_derivative(self, q: float) -> float:
        """max |k′|, where (log |k′|)′ = 0: at u^q = (q−1)/q (Laplace), (q−1)/(q+1) (Cauchy)."""
        if q < 1.0:
            return math.inf
        exponential = self.profile is profiles.matern12
        steepest = (q - 1.0) / (q + (0.0 if exponential else 1.0))
        steepness = math.exp(-steepest) if exponential else (1.0 + steepest) ** -2
        return q * steepest ** (1.0 - 1.0 / q) * steepness


_FAMILIES = {
    "laplace": _Family("matern12", 1.0, profiles.matern12, profiles.exponential_derivative),
    "cauchy": _Family("cauchy", 2.0, profiles.cauchy, profiles.rational_derivative),
}
_ALIASES = {"matern12": "laplace"}
# Table 3 and Section 5. Derivatives by hand; the maxima of |k′| are attained at
# u = 1 (Gaussian), 0 (Laplace), 1/√3 (Matérn 3/2 and Cauchy), (1+√5)/(2√5) (Matérn 5/2).
_GOLDEN = (1.0 + profiles.SQRT5) / 2.0
_STEEPEST52 = profiles.SQRT5 / 3.0 * _GOLDEN * (1.0 + _GOLDEN) * math.exp(-_GOLDEN)
KERNELS: dict[str, Kernel] = {
    kernel.name: kernel
    for kernel in (
        Kernel("gaussian", 2, profiles.gaussian, profiles.gaussian_slope, math.exp(-0.5)),
        _FAMILIES["laplace"].kernel("matern12", 1.0),
        Kernel("matern32", 1, profiles.matern32, profiles.matern32_slope, profiles.SQRT3 / math.e),
        Kernel("matern52", 1, profiles.matern52, profiles.matern52_slope, _STEEPEST52),
        _FAMILIES["cauchy"].kernel("cauchy", 2.0),
    )
}
# A name, "-p" and "^exponent".
_FORM = re.compile(r"(?P<name>[a-z0-9]+)(-(?P<p>\d*\.?\d+))?(\^(?P<exponent>\d*\.?\d+))?")


@dataclass(frozen=True)
class _UserProfile:
    """Adapts a user's k(u) to the (q, xp) signature; a class, so that it can be pickled."""

    function: Callable[[Array], Array]

    def __call__(self, q: Array, xp: ModuleType, work: Array = None) -> Array:
        return self.function(q)


def get_kernel(kernel: KernelLike) -> Kernel:
    """Return the kernel for a name, a `Kernel` or a user's own profile.

    Parameters
    ----------
    kernel : str, Kernel or callable
        One of "gaussian", "matern12" (or "laplace"), "matern32", "matern52", "cauchy"; a
        `Kernel`; or a function k(u) of the scaled distance, elementwise, with
        k(0) = 1, falling to k(∞) = 0 and never negative. Whether it is positive
        definite cannot be seen from the function; training refuses it when it is not.
        "laplace" and "cauchy" may have another norm p in [1, 2] and another exponent
        q <= p of exp(−u^q) and 1/(1 + u^q): "laplace-1.5" has p = 1.5, "laplace^0.7" has q = 0.7,
        "laplace-1.5^0.7" both.

    Examples
    --------
    >>> from bandfall.kernels import get_kernel
    >>> get_kernel("laplace-1.5^0.7").geometry
    Geometry(p=1.5)
    """
    if isinstance(kernel, Kernel):
        return kernel
    if isinstance(kernel, str):
        return _from_text(kernel)
    if callable(kernel):
        return _checked_profile(kernel)
    raise TypeError(
        f"kernel must be a name, a Kernel or a callable profile k(u); got {type(kernel).__name__}"
    )


@lru_cache(maxsize=256)
def _from_text(text: str) -> Kernel:
    form = _FORM.fullmatch(text)
    name = _ALIASES.get(form["name"], form["name"]) if form else ""
    family = _FAMILIES.get(name)
    if form is None or (family is None and name not in KERNELS):
        allowed = ", ".join([*KERNELS, *_FAMILIES])
        raise ValueError(
            f"kernel={text!r} is unknown; allowed: {allowed}, 'laplace' or 'cauchy' with a norm "
            "and an exponent such as 'laplace-1.5' or 'laplace-1.5^0.7', or a profile k(u)"
        )
    p = Geometry(float(form["p"] or 2.0)).p
    if family is None:
        if p < 2.0 or form["exponent"]:
            raise ValueError(
                f"kernel={text!r} is not positive definite in the {p:g}-norm, or has no exponent: "
                "only 'laplace' and 'cauchy' have other norms and exponents"
            )
        return KERNELS[name]
    q = float(form["exponent"] or family.exponent)
    if not 0.0 < q <= p:
        raise ValueError(
            f"kernel={text!r} is not positive definite in the {p:g}-norm with exponent {q:g}; give "
            f"an exponent above 0 and at most {p:g}"
        )
    if (p, q) == (2.0, family.exponent):
        return KERNELS[family.usual]
    return family.kernel(name, q, p)


def _short(number: float) -> str:
    """A number with all its digits, without a trailing ".0"."""
    return repr(number).removesuffix(".0")


def _checked_profile(function: Callable[[Array], Array]) -> Kernel:
    """Wrap a user's k(u) after checking the assumptions of the algorithms on a grid."""
    name = getattr(function, "__name__", type(function).__name__)
    grid = np.concatenate([[0.0], np.geomspace(1e-6, 1e8, 141)])
    values = np.asarray(function(grid.copy()), dtype=float)
    if (
        values.shape != grid.shape
        or not (abs(values[0] - 1.0) <= 1e-12 and 0.0 <= values[-1] <= 1e-3)
        or not np.all(np.diff(values) <= 1e-12)
    ):
        raise ValueError(
            f"kernel {name!r} must map an array of scaled distances u >= 0 to an array of the same "
            "shape, with k(0) = 1, never rising, and k(u) -> 0 for u -> infinity"
        )
    return Kernel(name, 1, _UserProfile(function))


def vanishing_bandwidth(limits: np.finfo | torch.finfo) -> float:
    """A bandwidth below this counts as 0: 1/bandwidth² times coefficients up to 1e4 is finite."""
    return float(limits.tiny) ** 0.45


def kernel_matrix(
    kernel: Kernel,
    distances: Array,
    bandwidth: float,
    xp: ModuleType = np,
    out: Array = None,
    work: Array = None,
) -> Array:
    """k(distances / bandwidth); exact in the limits of bandwidth 0 and ∞.

    Parameters
    ----------
    kernel : Kernel
    distances : array
        Distances raised to ``kernel.power``, non-negative.
    bandwidth : float
        In [0, ∞].
    xp : module
        Array namespace of `distances`.
    out, work : array, optional
        For the result, which may be `distances` itself, and scratch: with both, the built-in
        kernels allocate nothing.

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


def kernel_matrices(
    kernel: Kernel, distances: np.ndarray, bandwidths: np.ndarray, out: np.ndarray, work: np.ndarray
) -> np.ndarray:
    """`kernel_matrix` at S bandwidths into `out`, shape (S, m, n); `work` is scratch like `out`.

    One call is quicker than S if there are few distances.
    """
    limits = np.finfo(distances.dtype)
    least = vanishing_bandwidth(limits)
    ceiling = float(limits.max) ** 0.25
    bandwidths = np.asarray(bandwidths, dtype=np.float64)
    usual = bool(np.all((bandwidths > least) & (bandwidths < math.inf)))
    scales = bandwidths**-kernel.power if usual else bandwidths
    if not usual or np.any(scales > ceiling):  # limits of the profile
        for bandwidth, K, scratch in zip(bandwidths.tolist(), out, work, strict=True):
            kernel_matrix(kernel, distances, bandwidth, out=K, work=scratch)
        return out
    with np.errstate(over="ignore"):
        q = np.multiply(distances, scales.astype(distances.dtype)[:, None, None], out=out)
    result = kernel.profile(q, np, work)
    if result is not out:
        out[...] = result
    return out
