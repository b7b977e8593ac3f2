"""Built-in kernels as the Triton kernels evaluate them: constants, and numbers per bandwidth."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from bandfall.kernels._forms import EXPONENTIAL, MATERN32, MATERN52, RATIONAL, formula_of
from bandfall.kernels._kernel import Kernel, vanishing_bandwidth

_LOG2E = math.log2(math.e)
_PROFILES = {
    EXPONENTIAL: "exponential",
    MATERN32: "matern32",
    MATERN52: "matern52",
    RATIONAL: "rational",
}


@dataclass(frozen=True)
class TritonForm:
    """A built-in kernel as the Triton kernels evaluate it.

    k is a profile of q = fold · u^exponent. In units of the points, q = (total · factor)^power
    with total = Σ_k |z_k|^p and power = exponent / p.
    """

    profile: str  # "exponential": 2^−q, "rational": 1/(1 + q), "matern32" and "matern52" of √q
    p: float
    exponent: float
    fold: float
    # Beyond this q the profile is below 1e-12, and the rounding of q without effect.
    vanished: float

    @property
    def power(self) -> float:
        """The exponent of a scaled total."""
        return self.exponent / self.p

    @property
    def by_logarithms(self) -> bool:
        """Whether neither a product nor a square root gives q; see `triton_kernels._scaled`."""
        return self.power not in (1.0, 0.5)

    @property
    def constants(self) -> dict[str, str | float]:
        """Constants of a Triton kernel."""
        return {"PROFILE": self.profile, "POWER": self.power, "P": self.p}

    def scale(self, bandwidth: float, unit: float, dtype: torch.dtype) -> float:
        """The factor of `triton_kernels._scaled` at a bandwidth, for points in units.

        At bandwidth 0 it is so large that only coinciding rows count.
        """
        limit = float(torch.finfo(dtype).max) ** 0.8
        if bandwidth <= unit * vanishing_bandwidth(torch.finfo(dtype)):
            return limit
        if not self.by_logarithms:
            return min(self.fold ** (1.0 / self.power) * (unit / bandwidth) ** self.p, limit)
        if math.isinf(bandwidth):
            return -limit
        return math.log2(self.fold) + self.exponent * math.log2(unit / bandwidth)

    def limits(self, scales: list[float]) -> tuple[float, float]:
        """The squared distances, in units, between which cancellation would show at any scale.

        Below the first, ‖x‖² + ‖z‖² itself is so small that its rounding hardly moves k.
        """
        largest = torch.finfo(torch.float32).max
        if self.by_logarithms:
            exponent = (math.log2(self.vanished) - min(scales)) / self.power
            return 0.0, 2.0**exponent if exponent < 127.0 else largest
        harmless = 4.0 if self.power == 1.0 else 0.0
        vanished = self.vanished ** (1.0 / self.power)
        return (
            min(harmless / max(max(scales), 1.0 / largest), largest),
            min(vanished / max(min(scales), 1.0 / largest), largest),
        )

    def slope_factor(self, bandwidth: float, unit: float) -> float:
        """Factor that turns `triton_kernels._slope` into k′(u) u^(1−p) unit^(p−1) / bandwidth^p.

        With k = f(q), k′(u) u^(1−p) = exponent · f′(q) · q / u^p. If the power of u does not
        cancel, `_slope` divides by the total, and the bandwidth drops out.
        """
        steepness = self.exponent
        if self.profile == "rational":
            steepness *= 0.5  # `_slope` has the factor 2 of the Cauchy kernel
        elif self.profile == "exponential":
            steepness *= self.fold / _LOG2E
        else:
            steepness = 1.0
        if self.by_logarithms or (self.profile == "rational" and self.power != 1.0):
            return steepness / (self.fold * unit)
        return steepness * unit ** (self.p - 1.0) / bandwidth**self.p


def triton_form(kernel: Kernel) -> TritonForm:
    """The form of a built-in kernel."""
    formula = formula_of(kernel)
    assert formula is not None
    exponential = formula.kind == EXPONENTIAL
    fold = formula.fold * _LOG2E if exponential else formula.fold
    exponent = 2.0 if formula.squared else float(kernel.power)
    profile = _PROFILES[formula.kind]
    return TritonForm(profile, kernel.geometry.p, exponent, fold, formula.vanished)
