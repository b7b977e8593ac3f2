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
from numbers import Real
from types import ModuleType
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from bandfall._typing import Array, JsonDict
from bandfall.kernels import _profiles as profiles
from bandfall.kernels._geometry import EUCLIDEAN, Geometry, Minkowski, geometry_of

if TYPE_CHECKING:
    import torch

__all__ = ["KERNELS", "Kernel", "KernelLike", "get_kernel", "kernel_matrix"]


@dataclass(frozen=True)
class Kernel:
    """A profile k(u) with k(0) = 1 and k(∞) = 0, of u = distance / bandwidth in a geometry.

    Kernels are values: equal if all their parts are, and usable as keys.

    Parameters
    ----------
    name : str
        What users type.
    power : float
        The profile is a function of q = u**power.
    profile : callable (q, xp, work=None) -> array
        k as a function of q, elementwise. It may overwrite and return q, and may use `work`, an
        array like q, as scratch.
    slope : callable (q, xp) -> array, or None
        k′(u) u^(1−p) as a function of q, with the p of the geometry (k′(u)/u if Euclidean), for
        gradients of kernel sums. At u = 0 it is the limit or, if there is no limit
        (Laplace), 0: the centre of the subdifferential. It may overwrite q, like `profile`. None
        for a user's profile without a derivative.
    max_derivative : float
        max over u ≥ 0 of ``|k′(u)|`` (Proposition 4); ∞ if unbounded, NaN if unknown.
    geometry : Geometry

    Examples
    --------
    >>> import numpy as np
    >>> from bandfall.kernels import get_kernel
    >>> get_kernel("gaussian")(np.array([0.0, 1.0]))
    array([1.        , 0.60653066])
    >>> get_kernel("laplace", p=1.5)
    get_kernel('laplace-1.5')
    """

    name: str
    power: float
    profile: Callable[..., Array]
    slope: Callable[[Array, ModuleType], Array] | None = None
    max_derivative: float = math.nan
    geometry: Geometry = EUCLIDEAN

    def __post_init__(self) -> None:
        if isinstance(self.geometry, Minkowski):  # p = 2 has one form only
            object.__setattr__(self, "geometry", geometry_of(self.geometry.p))

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

    # Packages that store an object by its state, such as skops, need only the name.
    def __getstate__(self) -> JsonDict:
        return {"name": self.name} if self.built_in else self.__dict__

    def __setstate__(self, state: JsonDict) -> None:
        known = get_kernel(str(state["name"])).__dict__ if len(state) == 1 else state
        self.__dict__.update({"geometry": EUCLIDEAN, **known})

    def __reduce__(self) -> tuple:
        # Built-in profiles are functions of this module: pickle them by name.
        if self.built_in:
            return (get_kernel, (self.name,))
        parts = (self.name, self.power, self.profile, self.slope, self.max_derivative)
        return (Kernel, (*parts, self.geometry))


# The argument of `get_kernel`: a kernel, its name, or a profile k(u).
KernelLike: TypeAlias = Kernel | str | Callable[[Array], Array]


# Table 3 and Section 5. Derivatives by hand; the maxima of |k′| are attained at
# u = 1 (Gaussian), 0 (Laplace), 1/√3 (Matérn 3/2 and Cauchy), (1+√5)/(2√5) (Matérn 5/2).
_GOLDEN = (1.0 + profiles.SQRT5) / 2.0
KERNELS: dict[str, Kernel] = {
    kernel.name: kernel
    for kernel in (
        Kernel("gaussian", 2, profiles.gaussian, profiles.gaussian_slope, math.exp(-0.5)),
        Kernel("matern12", 1, profiles.matern12, profiles.laplace_slope, 1.0),
        Kernel("matern32", 1, profiles.matern32, profiles.matern32_slope, profiles.SQRT3 / math.e),
        Kernel(
            "matern52",
            1,
            profiles.matern52,
            profiles.matern52_slope,
            profiles.SQRT5 / 3.0 * _GOLDEN * (1.0 + _GOLDEN) * math.exp(-_GOLDEN),
        ),
        Kernel("cauchy", 2, profiles.cauchy, profiles.cauchy_slope, 3.0 * profiles.SQRT3 / 8.0),
    )
}
_ALIASES = {"laplace": "matern12"}


@dataclass(frozen=True)
class _Family:
    """Kernels profile(u^exponent): positive definite for 0 < exponent ≤ p ≤ 2."""

    formula: str
    exponent: float  # unless another is given
    profile: Callable[..., Array]
    derivative: Callable[[Array, ModuleType], Array]

    def max_derivative(self, exponent: float) -> float:
        """max |k′|, where (log |k′|)′ = 0: at q = (e−1)/e (exponential), (e−1)/(e+1) (rational)."""
        if exponent < 1.0:
            return math.inf
        exponential = self.profile is profiles.matern12
        q = (exponent - 1.0) / (exponent + (0.0 if exponential else 1.0))
        steepness = math.exp(-q) if exponential else (1.0 + q) ** -2
        return exponent * q ** (1.0 - 1.0 / exponent) * steepness


_FAMILIES = {
    "laplace": _Family("exp(-u^q)", 1.0, profiles.matern12, profiles.exponential_derivative),
    "cauchy": _Family("1/(1 + u^q)", 2.0, profiles.cauchy, profiles.rational_derivative),
}
_FAMILY_OF = {"matern12": "laplace", "laplace": "laplace", "cauchy": "cauchy"}
# A name, "-p" and "^exponent".
_FORM = re.compile(r"(?P<name>[a-z0-9]+)(-(?P<p>[0-9.]+))?(\^(?P<exponent>[0-9.]+))?")


@lru_cache(maxsize=256)
def _named(name: str, p: float, exponent: float | None) -> Kernel:
    """The kernel of a known name in the p-norm; exponent=None takes the default of its family."""
    family = _FAMILIES.get(_FAMILY_OF.get(name, ""))
    standard = KERNELS[_ALIASES.get(name, name)]
    if family is None:
        if exponent is not None:
            raise ValueError(
                f"kernel {name!r} has no exponent; kernels that have one: "
                + ", ".join(f"{key!r}, {one.formula}" for key, one in _FAMILIES.items())
            )
        if p < 2.0:
            raise ValueError(
                f"kernel {name!r} is not positive definite in the {p:g}-norm: near zero it falls "
                "like 1 - c u², which no kernel of that norm does. Use p=2, or 'laplace' or "
                "'cauchy' with an exponent of at most p"
            )
        return standard
    q = family.exponent if exponent is None else exponent
    if q > p:
        raise ValueError(
            f"kernel {name!r}, {family.formula} with exponent q = {q:g}, is not positive definite "
            f"in the {p:g}-norm: ‖z‖_p^q is conditionally negative definite for q <= p only. "
            f"Give an exponent of at most {p:g}"
        )
    if (p, q) == (2.0, family.exponent):
        return standard
    base = _FAMILY_OF[name]
    norm = "" if p == 2.0 else f"-{_short(p)}"
    power = "" if q == family.exponent else f"^{_short(q)}"
    return Kernel(
        f"{base}{norm}{power}",
        q,
        family.profile,
        profiles.PowerSlope(family.derivative, q, p),
        family.max_derivative(q),
        geometry_of(p),
    )


def _short(number: float) -> str:
    """A number with all its digits, without a trailing ".0"."""
    return repr(number).removesuffix(".0")


@dataclass(frozen=True)
class _UserProfile:
    """Adapts a user's k(u) to the (q, xp) signature; a class, so that it can be pickled."""

    function: Callable[[Array], Array]

    def __call__(self, q: Array, xp: ModuleType, work: Array = None) -> Array:
        return self.function(q)


def get_kernel(
    kernel: KernelLike, *, p: float | None = None, exponent: float | None = None
) -> Kernel:
    """Return the kernel for a name, a `Kernel` or a user's own profile.

    Parameters
    ----------
    kernel : str, Kernel or callable
        One of "gaussian", "matern12" (or "laplace"), "matern32", "matern52", "cauchy"; a
        `Kernel`; or a function k(u) of the scaled distance, elementwise, with
        k(0) = 1, falling to k(∞) = 0 and never negative. Whether it is positive
        definite cannot be seen from the function; training refuses it when it is not.
        Names may include the other two parameters: "laplace-1.5" stands for p=1.5,
        "laplace^0.7" for exponent=0.7, "laplace-1.5^0.7" for both.
    p : float in [1, 2], default=2
        Distances are measured in the p-norm. Below 2, only "laplace" and "cauchy" are allowed: the
        others are not positive definite.
    exponent : float in (0, p], optional
        q of exp(−u^q), "laplace", or 1/(1 + u^q), "cauchy"; by default 1 and 2.

    Returns
    -------
    Kernel

    Examples
    --------
    >>> from bandfall.kernels import get_kernel
    >>> get_kernel("laplace-1.5^0.7") == get_kernel("laplace", p=1.5, exponent=0.7)
    True
    >>> print(get_kernel("laplace", p=1))
    laplace-1
    """
    if isinstance(kernel, Kernel):
        if p is None and exponent is None:
            return kernel
        if not kernel.built_in:
            raise ValueError(f"p and exponent do not apply to {kernel!r}: make another Kernel")
        kernel = kernel.name
    if isinstance(kernel, str):
        return _from_text(kernel, p, exponent)
    if callable(kernel):
        if exponent is not None:
            raise ValueError("exponent= needs the name of a kernel; put it into your profile k(u)")
        return _checked_profile(kernel, geometry_of(2.0 if p is None else p))
    raise TypeError(
        f"kernel must be a name, a Kernel or a callable profile k(u); got {type(kernel).__name__}"
    )


def _from_text(text: str, p: float | None, exponent: float | None) -> Kernel:
    form = _FORM.fullmatch(text)
    name = form["name"] if form else text
    if form is None or _ALIASES.get(name, name) not in KERNELS:
        allowed = ", ".join([*KERNELS, *_ALIASES])
        raise ValueError(
            f"kernel={text!r} is unknown; allowed: {allowed}, one of these with a norm and an "
            "exponent such as 'laplace-1.5' or 'laplace-1.5^0.7', or a profile k(u)"
        )
    given = {"p": p, "exponent": exponent}
    for key, value in given.items():
        if form[key] is not None:
            if value is not None:
                raise ValueError(f"{key} is given twice: kernel={text!r} and {key}={value!r}")
            given[key] = _number(text, form[key])
    p, exponent = given["p"], given["exponent"]
    if exponent is not None:
        if not isinstance(exponent, Real) or isinstance(exponent, bool) or not exponent > 0:
            raise ValueError(f"exponent={exponent!r} must be a number above 0, and at most p")
        exponent = float(exponent)
    return _named(name, geometry_of(2.0 if p is None else p).p, exponent)


def _number(text: str, digits: str) -> float:
    try:
        return float(digits)
    except ValueError:
        raise ValueError(f"kernel={text!r}: {digits!r} is not a number") from None


def _checked_profile(function: Callable[[Array], Array], geometry: Geometry) -> Kernel:
    """Wrap a user's k(u) after checking the assumptions of the algorithms on a grid."""
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
    return Kernel(name, 1, _UserProfile(function), geometry=geometry)


def vanishing_bandwidth(limits: np.finfo | torch.finfo) -> float:
    """The bandwidth below which a bandwidth counts as 0, for the dtype of a finfo.

    There, 1/bandwidth² and its product with coefficients up to 1e4 are still finite. Training data
    that pass validation span many times this distance.
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
    out : array, optional
        Holds the result; may be `distances` itself.
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
