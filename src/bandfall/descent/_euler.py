"""Algorithm 1 of the paper (KGD-D): explicit Euler steps along a falling bandwidth.

Given X, y, new points X*, start σ₀, floor σ_m, step Δt, speed v and goal R²_max::

     1  f̂, f̂* ← 0, 0
     2  σ ← σ₀,  K ← K(σ),  K* ← K*(σ)
     3  repeat
     4      R² ← 1 − ‖y − f̂‖² / ‖y‖²,  ∂R²/∂t ← 2 ‖y − f̂‖²_K / ‖y‖²
     5      if ∂R²/∂t < v
     6          repeat
     7              σ ← σ / (1 + Δt),  K ← K(σ),  ∂R²/∂t as in line 4
     8          until ∂R²/∂t ≥ v or σ ≤ σ_m
     9          K* ← K*(σ)
    10      end
    11      f̂, f̂* ← f̂ + Δt K (y − f̂),  f̂* + Δt K* (y − f̂)        (Equation 1)
    12      t ← t + Δt
    13  until R² ≥ R²_max

Here `Euler.run` is lines 3 to 13, and `MinimumSpeed` lines 5 to 10. The state is the residual
r = y − f̂. K* is not needed: line 11 adds Δt r to the coefficients of the stage at bandwidth σ, and
the sum over stages gives f̂* at any point after training.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from bandfall._checks import check_number, warn_caller
from bandfall._closed_form import euler_filter
from bandfall._products import KernelOperator, largest_eigenvalue
from bandfall._products.base import BOUND_PRODUCTS
from bandfall.descent._front import TrainingFront
from bandfall.descent._krylov import Decay
from bandfall.descent._schedules import Schedule
from bandfall.descent._stopping import (
    HORIZON,
    STALL_SPEED,
    Rest,
    Status,
    Stopping,
    first_end,
)

STABILITY_LIMIT = 2.0  # |1 − step·λ| ≤ 1 for every eigenvalue λ of K


class StepSizeWarning(UserWarning):
    """The Euler step was lowered because the requested one would diverge."""


@dataclass(frozen=True)
class Euler:
    """Explicit Euler with constant step (Equation 1; Algorithm 1, lines 3–13).

    First order in `step_size`. If step_size · λ_max(K) is above 2 the residual would grow, so the
    step is lowered to 1/λ_max for that bandwidth, with one warning.

    Parameters
    ----------
    step_size : float
        Δt, the learning rate; also the relative size of one bandwidth shrink.
    max_iter : int
        Bound on the number of steps, so that every run ends.
    """

    step_size: float = 0.01
    max_iter: int = 1_000_000

    def __post_init__(self) -> None:
        check_number("step_size", self.step_size, low=0, low_open=True, finite=True)
        check_number("max_iter", self.max_iter, low=1, integer=True)

    @property
    def shrink(self) -> float:
        """Relative size of one bandwidth shrink of Algorithm 1."""
        return self.step_size

    def run(self, front: TrainingFront, schedule: Schedule, stopping: Stopping) -> Status:
        """Train from `front` until `stopping`."""
        stage_bandwidth, stage_step, lowered = math.nan, self.step_size, False
        for _ in range(self.max_iter):  # line 3
            if status := front.ended(stopping):  # line 13
                return status
            bandwidth = schedule.next_bandwidth(front)  # lines 4–10
            speed = front.speed(bandwidth)
            if bandwidth <= schedule.floor and speed < STALL_SPEED:
                return Status.STALLED
            if bandwidth != stage_bandwidth:
                stage_bandwidth = front.bandwidth = bandwidth
                stage_step, n_products = self._stable_step(front.operator, bandwidth)
                front.n_products += n_products
                if stage_step < self.step_size and not lowered:
                    lowered = True
                    self._warn(bandwidth, stage_step)
            step, time = _last_step(stage_step, front.time, stopping.max_time)
            # Line 11, Equation 1: f̂ ← f̂ + Δt K r, for r and for the coefficients of f̂ elsewhere.
            residual = front.residual - step * front.velocity(bandwidth)
            front.step(step * front.residual, residual, time, step, step_size=step)  # line 12
        return front.ended(stopping) or Status.ITERATION_LIMIT

    def hold(
        self,
        operator: KernelOperator,
        bandwidth: float,
        eigenvalues: np.ndarray,
        weights: np.ndarray,
        time: float,
        stopping: Stopping,
    ) -> Rest:
        """All further steps of `run` at this bandwidth, its floor, but for limits on iterations.

        After m steps the residual is U (1 − Δt λ)^m Uᵀr. `eigenvalues` (n,) are λ of K(bandwidth),
        `weights` (n,) the sums of (Uᵀr)² over columns, and `time` is the start.
        """
        step, _ = self._stable_step(operator, bandwidth)
        if step < self.step_size:
            self._warn(bandwidth, step)
        rates = -2.0 * np.log(np.clip(np.abs(1.0 - step * eigenvalues), 1e-300, 1.0))
        speeds = Decay(rates, 2.0 * eigenvalues * weights)
        status, end = first_end(  # in steps
            r2=np.ceil(Decay(rates, weights).first_below(1.0 - stopping.r2_goal, HORIZON)),
            time=(stopping.max_time - time) / step,
            stalled=np.ceil(speeds.first_below(STALL_SPEED, HORIZON)),
        )
        n_steps = math.floor(end * (1.0 + 1e-12))
        filters = euler_filter(eigenvalues, step, n_steps)
        last = (end - n_steps) * step  # the step that is shortened to end in time
        if last > 0.0:
            filters += last * (1.0 - eigenvalues * filters)
        return Rest(filters, end * step, status)

    def _stable_step(self, operator: KernelOperator, bandwidth: float) -> tuple[float, int]:
        """The step, lowered to 1/λ_max if it is unstable, and the products this took."""
        if self.step_size * operator.trace <= STABILITY_LIMIT:
            return self.step_size, 0
        bound = largest_eigenvalue(operator, bandwidth)
        stable = self.step_size * bound <= STABILITY_LIMIT
        return (self.step_size if stable else 1.0 / bound), BOUND_PRODUCTS

    def _warn(self, bandwidth: float, step: float) -> None:
        warn_caller(
            f"step_size={self.step_size:g} is unstable at bandwidth {bandwidth:.4g}, where the "
            f"largest eigenvalue of K is about {1.0 / step:.4g}; smaller steps are taken where "
            'needed. Use solver="flow", or a step_size below 2 divided by the number of rows.',
            StepSizeWarning,
        )


def _last_step(step: float, time: float, max_time: float) -> tuple[float, float]:
    """The step, shortened to end at `max_time` exactly, and the time after it."""
    remaining = max_time - time
    if remaining > step * (1.0 + 1e-9):
        return step, time + step
    return (step if remaining > step * (1.0 - 1e-9) else remaining), max_time
