"""The compiled form of kernels."""

from __future__ import annotations

import math
from dataclasses import dataclass

from bandfall.kernels import _profiles as profiles
from bandfall.kernels._geometry import Euclidean, Minkowski
from bandfall.kernels._kernel import Kernel

DISTANCE, EXPONENTIAL, MATERN32, MATERN52, RATIONAL = range(5)

# For each profile: its kind, the factor of q, its slope, and the constant of that slope.
_FORMS = {
    profiles.gaussian: (EXPONENTIAL, 0.5, profiles.gaussian_slope, 1.0),
    profiles.matern12: (EXPONENTIAL, 1.0, profiles.laplace_slope, 1.0),
    profiles.matern32: (MATERN32, math.sqrt(3.0), profiles.matern32_slope, 3.0),
    profiles.matern52: (MATERN52, math.sqrt(5.0), profiles.matern52_slope, 5.0 / 3.0),
    profiles.cauchy: (RATIONAL, 1.0, profiles.cauchy_slope, 2.0),
}


@dataclass(frozen=True)
class Form:
    """The parameters of a kernel for compiled loops."""

    kind: int
    factor: float  # the profile is a function of factor · q
    p: float  # of the norm
    power: float  # to which distances are raised
    # The slope k′(u) u^(1−p) is −constant · q^(−order) times a function of factor · q; NaN if the
    # user defined the slope.
    constant: float
    order: float


def form_of(kernel: Kernel) -> Form | None:
    """The form of a kernel; None for a user's own profile or geometry."""
    if not isinstance(kernel.geometry, Euclidean | Minkowski):
        return None
    form = next((form for profile, form in _FORMS.items() if profile is kernel.profile), None)
    if form is None:
        return None
    kind, factor, slope, constant = form
    p, power = kernel.geometry.p, float(kernel.power)
    order = 1.0 if kernel.profile is profiles.matern12 else 0.0
    if isinstance(kernel.slope, profiles.PowerSlope):
        constant, order = kernel.slope.exponent, p / kernel.slope.exponent - 1.0
    elif kernel.slope is not slope:
        constant = order = math.nan
    return Form(kind, factor, p, power, constant, order)
