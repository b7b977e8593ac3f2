"""The state of training: residual, time, and the speed of any trial bandwidth."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from bandfall._products import KernelOperator
from bandfall._typing import Array


@dataclass(frozen=True)
class Plan:
    """Position of a run in its current stage; an interrupted run needs it to continue exactly.

    Attributes
    ----------
    start, end : float
        Start and end of the stage in training time; `end` is ∞ while it is unknown.
    centred : bool
        Whether the stage's bandwidth belongs to its middle.
    """

    start: float = 0.0
    end: float = -math.inf
    centred: bool = False


class TrainingFront:
    """State r(t) = y − f̂(t) under r′ = −K(σ) r, scaled so that ‖y‖² = 1, hence R² = 1 − ‖r‖².

    Remembers the speed and the product K(σ) r of the last requested bandwidth, so that the
    step after a search costs no further product.
    """

    def __init__(
        self,
        operator: KernelOperator,
        residual: Array,
        time: float,
        bandwidth: float,
        plan: Plan | None = None,
    ):
        self.operator = operator
        self.plan = Plan(start=time) if plan is None else plan
        self.time = time
        self.bandwidth = bandwidth
        self.n_products = 0
        self._tolerance = -100.0 * operator.n_rows * float(np.finfo(operator.dtype).eps)
        self.move_to(residual, time)

    @property
    def r2(self) -> float:
        """R² on training data (Algorithm 1, line 4)."""
        return 1.0 - self.squared_norm

    def move_to(self, residual: Array, time: float) -> None:
        """Set a new residual and time."""
        self.residual = residual
        self.time = time
        self.squared_norm = float((residual * residual).sum())
        self._speeds: dict[float, float] = {}
        self._velocity_bandwidth: float | None = None
        self._limit_speed: float | None = None

    def velocity(self, bandwidth: float) -> Array:
        """K(bandwidth) r = −r′; kept until the residual or the bandwidth changes."""
        if bandwidth != self._velocity_bandwidth:
            self._velocity = self.operator.product(bandwidth, self.residual)
            self._velocity_bandwidth = bandwidth
            self.n_products += 1
        return self._velocity

    def speed(self, bandwidth: float) -> float:
        """2 rᵀK(bandwidth)r / yᵀy (Equation 7)."""
        if bandwidth in self._speeds:
            return self._speeds[bandwidth]
        speed = 2.0 * float((self.residual * self.velocity(bandwidth)).sum())
        if not speed >= self._tolerance * self.squared_norm:  # NaN neither
            raise ValueError(
                f"kernel {self.operator.kernel.name!r} is not positive semi-definite on these "
                f"rows: rᵀKr = {speed / 2:.3g} < 0 at bandwidth {bandwidth:.6g}"
            )
        self._speeds[bandwidth] = speed
        return speed

    def know_speed(self, bandwidth: float, speed: float) -> None:
        """Set a speed that is already known, to save a product."""
        self._speeds[bandwidth] = speed

    def limit_speed(self) -> float:
        """2 rᵀK(0)r / yᵀy; K(0) is one for equal rows, and zero otherwise."""
        if self._limit_speed is None:
            limit = self.operator.product(0.0, self.residual)
            self._limit_speed = 2.0 * float((self.residual * limit).sum())
        return self._limit_speed

    def speed_ceiling(self, bandwidth: float) -> float:
        """A bound on speed(σ) for every σ ≤ bandwidth."""
        self.n_products += 1
        return float(speed_ceilings(self.operator, bandwidth, self.residual).sum())


def speed_ceilings(operator: KernelOperator, bandwidth: float, residual: Array) -> Array:
    """A bound on what each column adds to speed(σ) for every σ ≤ bandwidth.

    With E(σ) = K(σ) − K(0) ≥ 0 and falling with σ, rᵀE(σ)r ≤ |r|ᵀE(bandwidth)|r|.
    """
    magnitude = abs(residual)
    excess = operator.product(bandwidth, magnitude) - operator.product(0.0, magnitude)
    return 2.0 * (residual * operator.product(0.0, residual) + magnitude * excess).sum(0)
