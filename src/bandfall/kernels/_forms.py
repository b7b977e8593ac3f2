"""Constants of the built-in kernels for code that cannot call the formulas of `_profiles`.

numba's and Triton's loops repeat these formulas; tests compare them.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from bandfall.kernels import _profiles as profiles
from bandfall.kernels._kernel import Kernel, vanishing_bandwidth

DISTANCE, EXPONENTIAL, MATERN32, MATERN52, RATIONAL = range(5)


class Formula(NamedTuple):
    """The constants of one profile."""

    kind: int
    fold: float  # e^−v or 1/(1 + v) with v = fold · q, or a Matérn kernel of √v with v = fold · u²
    constant: float  # of the slope, see `Form`; of families, the exponent
    vanished: float  # beyond this v the profile is below 1e-12, and rounding without effect

    @property
    def squared(self) -> bool:
        """Whether v is a function of u², whatever the power of the kernel."""
        return self.kind in (MATERN32, MATERN52)


_FORMULAS = {
    profiles.gaussian: Formula(EXPONENTIAL, 0.5, 1.0, 40.0),
    profiles.matern12: Formula(EXPONENTIAL, 1.0, math.nan, 40.0),
    profiles.matern32: Formula(MATERN32, 3.0, 3.0, 32.0**2),
    profiles.matern52: Formula(MATERN52, 5.0, 5.0 / 3.0, 36.0**2),
    profiles.cauchy: Formula(RATIONAL, 1.0, math.nan, math.inf),
}


def formula_of(kernel: Kernel) -> Formula | None:
    """The formula of a built-in kernel; None for a user's own."""
    return _FORMULAS[kernel.profile] if kernel.built_in else None


class Form(NamedTuple):
    """The parameters of a kernel for numba's loops."""

    kind: int
    factor: float  # the profile is a function of factor · q
    p: float  # of the norm
    power: float  # to which distances are raised
    # The slope k′(u) u^(1−p) is −constant · q^(−order) times a function of factor · q.
    constant: float
    order: float

    def scale(self, bandwidth: float) -> np.float32 | None:
        """The factor of distances**power at a bandwidth; None if it counts as 0."""
        if bandwidth <= vanishing_bandwidth(np.finfo(np.float32)):
            return None
        return np.float32(0.0 if math.isinf(bandwidth) else self.factor * bandwidth**-self.power)


def form_of(kernel: Kernel) -> Form | None:
    """The form of a built-in kernel; None for a user's own."""
    formula = formula_of(kernel)
    if formula is None:
        return None
    p, power = kernel.geometry.p, float(kernel.power)
    factor = math.sqrt(formula.fold) if formula.squared else formula.fold
    constant, order = formula.constant, 0.0
    if isinstance(kernel.slope, profiles.PowerSlope):
        constant, order = kernel.slope.exponent, p / kernel.slope.exponent - 1.0
    return Form(formula.kind, factor, p, power, constant, order)
