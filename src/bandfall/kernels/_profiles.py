"""Profiles k and their slopes, as functions of q = u**power: the formulas of all kernels.

They are written with an array namespace ``xp``, so that one formula works on NumPy arrays and torch
tensors. They run in the innermost loop: they overwrite q and use `work` as a second array; with
work=None they allocate one. Slopes are k′(u)/u; `PowerSlope` computes k′(u) u^(1−p).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import NamedTuple

from bandfall._typing import Array

SQRT3 = math.sqrt(3.0)
SQRT5 = math.sqrt(5.0)


def gaussian(q: Array, xp: ModuleType, work: Array = None) -> Array:
    """exp(−q/2), q = u²."""
    q *= -0.5
    return xp.exp(q, out=q)


def matern12(q: Array, xp: ModuleType, work: Array = None) -> Array:
    """exp(−q), q = u, or any power of it."""
    q *= -1.0
    return xp.exp(q, out=q)


def matern32(q: Array, xp: ModuleType, work: Array = None) -> Array:
    """(1 + √3 q) exp(−√3 q), q = u."""
    q *= SQRT3
    decay = xp.exp(xp.negative(q, out=work), out=work)
    q += 1.0
    q *= decay
    return q


def matern52(q: Array, xp: ModuleType, work: Array = None) -> Array:
    """(1 + √5 q + 5q²/3) exp(−√5 q), q = u."""
    q *= SQRT5
    decay = xp.exp(xp.negative(q, out=work), out=work)
    q += 1.5  # 1 + v + v²/3 = ((v + 3/2)² + 3/4)/3 with v = √5 u
    q *= q
    q += 0.75
    q *= decay
    q *= 1.0 / 3.0
    return q


def cauchy(q: Array, xp: ModuleType, work: Array = None) -> Array:
    """1/(1 + q), q = u², or any power of u."""
    q += 1.0
    return xp.reciprocal(q, out=q)


def gaussian_slope(q: Array, xp: ModuleType) -> Array:
    """−exp(−q/2)."""
    return xp.negative(gaussian(q, xp), out=q)


def matern32_slope(q: Array, xp: ModuleType) -> Array:
    """−3 exp(−√3 q)."""
    q *= -SQRT3
    q = xp.exp(q, out=q)
    q *= -3.0
    return q


def matern52_slope(q: Array, xp: ModuleType) -> Array:
    """−5/3 (1 + √5 q) exp(−√5 q)."""
    q *= SQRT5
    decay = xp.exp(-q)
    q += 1.0
    q *= decay
    q *= -5.0 / 3.0
    return q


@dataclass(frozen=True)
class PowerSlope:
    """k′(u) u^(1−p) of k = profile(u^exponent) as a function of q = u^exponent.

    k′(u) u^(1−p) = exponent · profile′(q) · q^(1 − p/exponent).
    """

    derivative: Callable[[Array, ModuleType], Array]  # profile′, may overwrite q
    exponent: float
    p: float

    def __call__(self, q: Array, xp: ModuleType) -> Array:
        """The slope; q may be overwritten."""
        order = self.p / self.exponent - 1.0
        if order == 0.0:
            q = self.derivative(q, xp)
            q *= self.exponent
            return q
        # The clip keeps the square of the result finite, however small q is.
        least = float(xp.finfo(q.dtype).tiny) ** (0.5 / max(order, 0.5))
        factor = xp.asarray(xp.clip(q, least, None)) ** -order
        factor *= q > 0
        factor *= self.exponent
        factor *= self.derivative(q, xp)
        return factor


def exponential_derivative(q: Array, xp: ModuleType) -> Array:
    """d/dq exp(−q)."""
    q = matern12(q, xp)
    return xp.negative(q, out=q)


def rational_derivative(q: Array, xp: ModuleType) -> Array:
    """d/dq 1/(1 + q)."""
    q = cauchy(q, xp)
    q *= q
    return xp.negative(q, out=q)


# Constants of the profiles for code that cannot call them: numba's and Triton's loops repeat these
# formulas, and tests compare them.
DISTANCE, EXPONENTIAL, MATERN32, MATERN52, RATIONAL = range(5)


class Formula(NamedTuple):
    """The constants of one profile."""

    kind: int
    fold: float  # e^−v or 1/(1 + v) with v = fold · q, or a Matérn kernel of √v with v = fold · u²
    constant: float  # of the slope, see `loops.Form`; of families, the exponent
    vanished: float  # beyond this v the profile is below 1e-12, and rounding without effect

    @property
    def squared(self) -> bool:
        """Whether v is a function of u², whatever the power of the kernel."""
        return self.kind in (MATERN32, MATERN52)


FORMULAS = {
    gaussian: Formula(EXPONENTIAL, 0.5, 1.0, 40.0),
    matern12: Formula(EXPONENTIAL, 1.0, math.nan, 40.0),
    matern32: Formula(MATERN32, 3.0, 3.0, 32.0**2),
    matern52: Formula(MATERN52, 5.0, 5.0 / 3.0, 36.0**2),
    cauchy: Formula(RATIONAL, 1.0, math.nan, math.inf),
}
