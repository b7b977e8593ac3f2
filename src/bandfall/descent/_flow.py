"""Exact gradient flow along a falling bandwidth: one Krylov space per stage."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from bandfall._checks import check_number
from bandfall._closed_form import flow_filter
from bandfall._products import KernelOperator
from bandfall.descent._decay import Decay
from bandfall.descent._front import Plan, TrainingFront
from bandfall.descent._krylov import KrylovSpace
from bandfall.descent._path import Stage
from bandfall.descent._recorder import Recorder
from bandfall.descent._schedules import MIN_SHRINK, Schedule, asked_bandwidth, asked_span
from bandfall.descent._stopping import (
    HORIZON,
    STALL_SPEED,
    Patience,
    Rest,
    Status,
    Stopping,
    first_end,
)

# Largest rounding difference per stage, relative to ‖y‖, between residual and coefficients.
_MAX_DRIFT = 1e-4
_MAX_FALL = 0.1  # of R² in one step: exact flows never lower it


@dataclass(frozen=True)
class Flow:
    """Integrates Equation 2 exactly while the bandwidth is constant.

    Over a stage, r ← e^{−hK} r and c = ∫₀ʰ e^{−sK} r ds come from one Lanczos space, whose
    error bound is held below `tolerance`. No step size, no stability limit; the number of
    products hardly depends on n.

    Second order in the schedule's bandwidth grid: a stage whose bandwidth was just shrunk
    lasts twice as long as its speed stays above the threshold, so that its bandwidth is the
    right one in the *middle* of the stage. Stage ends are located inside the Krylov space.

    Parameters
    ----------
    tolerance : float
        Bound on the error of the residual per stage, relative to ‖y‖; raised to what the
        dtype can resolve.
    max_dimension : int
        Maximum dimension of a Krylov space; a stage that needs more is split, without loss of
        accuracy.
    resolution : float
        Relative size of one bandwidth shrink, in which the flow is of second order: 0.1 keeps
        predictions within about 0.1 % of the limit of infinitely many shrinks.
    max_iter : int
        Bound on the number of stages, so that every run ends.
    """

    tolerance: float = 1e-7
    max_dimension: int = 96
    resolution: float = 0.1
    max_iter: int = 1_000_000

    def __post_init__(self) -> None:
        check_number("tolerance", self.tolerance, low=0, finite=True)
        check_number("max_dimension", self.max_dimension, low=1, integer=True)
        check_number("resolution", self.resolution, low=MIN_SHRINK, finite=True)
        check_number("max_iter", self.max_iter, low=1, integer=True)

    @property
    def shrink(self) -> float:
        """Relative size of one bandwidth shrink."""
        return self.resolution

    def run(
        self, front: TrainingFront, schedule: Schedule, stopping: Stopping, recorder: Recorder
    ) -> Status:
        """Train from `front` until `stopping`; stages go to `recorder`."""
        stopping = stopping.or_iterations(self.max_iter)
        tolerance = max(self.tolerance, 20.0 * float(np.finfo(front.operator.dtype).eps))
        dimension, n_iter, patience = 2, 0, Patience()
        while True:
            status = stopping.check(r2=front.r2, time=front.time, n_iter=n_iter)
            if status is not None:
                return status
            if recorder.interrupted(front):
                return Status.INTERRUPTED
            if not front.time < front.plan.end:
                self._begin_stage(front, schedule)
            speed = front.speed(front.bandwidth)
            if front.bandwidth <= schedule.floor and speed < STALL_SPEED:
                return Status.STALLED
            space, duration, reached = self._solve(
                front, schedule, stopping, tolerance, dimension - 2
            )
            dimension = space.dimension
            coefficients, residual = space.advance(duration)
            if space.rounding(duration) > _MAX_DRIFT:  # float32 and many rows
                residual = front.residual - front.operator.product(front.bandwidth, coefficients)
                front.n_products += 1
            start, before, r2 = front.time, front.residual, front.r2
            front.move_to(
                residual,
                stopping.max_time if reached is Status.TIME_REACHED else start + duration,
            )
            if front.r2 < r2 - _MAX_FALL:
                front.move_to(before, start)
                return Status.ROUNDING
            if duration > 0.0:  # a bandwidth that is only just fast enough may not last at all
                recorder.step(
                    time=start,
                    bandwidth=front.bandwidth,
                    r2=r2,
                    speed=speed,
                    duration=duration,
                    coefficients=coefficients,
                )
            front.know_speed(front.bandwidth, space.speed.at(duration))
            del space  # free its basis before the next one
            if reached is Status.R2_REACHED and front.r2 < stopping.r2_goal - tolerance:
                reached = None  # rounding promised too much
            if reached is not None:
                return reached
            if patience.is_over(front.bandwidth, duration, speed):
                return Status.STALLED
            n_iter += 1

    def hold(
        self,
        operator: KernelOperator,
        bandwidth: float,
        eigenvalues: np.ndarray,
        weights: np.ndarray,
        time: float,
        stopping: Stopping,
    ) -> Rest:
        """The rest of `run` at this bandwidth, its floor; see `Euler.hold`.

        After a time t the residual is U e^{−tλ} Uᵀr.
        """
        rates = 2.0 * np.maximum(eigenvalues, 0.0)
        speeds = Decay(rates, rates * weights)
        stalled = 0.0
        if speeds.at(0.0) >= STALL_SPEED:
            stalled = speeds.first_below(0.5 * STALL_SPEED, HORIZON)
        status, duration = first_end(
            r2=Decay(rates, weights).first_below(1.0 - stopping.r2_goal, HORIZON),
            time=stopping.max_time - time,
            stalled=stalled,
        )
        return Rest(flow_filter(eigenvalues, duration), duration, status)

    def within(self, stage: Stage) -> Flow:
        """The same solver: stages of the flow have no step size."""
        return self

    def _begin_stage(self, front: TrainingFront, schedule: Schedule) -> None:
        bandwidth = asked_bandwidth(schedule, front)
        shrunk = bandwidth != front.bandwidth and bandwidth > schedule.floor
        front.bandwidth = bandwidth
        front.plan = Plan(start=front.time, end=math.inf, centred=shrunk)

    def _solve(
        self,
        front: TrainingFront,
        schedule: Schedule,
        stopping: Stopping,
        tolerance: float,
        first_check: int,
    ) -> tuple[KrylovSpace, float, Status | None]:
        """Grow a space until it covers the rest of the stage; return it, its end and the reason."""
        velocity = front.velocity(front.bandwidth)
        space = KrylovSpace(
            front.operator, front.bandwidth, front.residual, velocity, self.max_dimension
        )
        while True:
            full = space.exhausted or space.dimension >= space.max_dimension
            if full or space.dimension >= first_check:
                space.diagonalise()
                duration, reached, end = _horizon(front, space, schedule, stopping)
                if space.error(duration) <= tolerance:
                    front.plan = replace(front.plan, end=end)
                    return space, duration, reached
                if full:
                    duration = space.longest_accurate(duration, tolerance)
                    plan = front.plan
                    if plan.centred and 0.5 * (plan.start + end) <= front.time + duration:
                        # The threshold is crossed here, so the end is known: past the
                        # crossing it could not be located any more.
                        front.plan = replace(plan, end=end)
                    return space, duration, None
            before = space.dimension
            space.expand(max(1, first_check - before))
            front.n_products += space.dimension - before


def _horizon(
    front: TrainingFront, space: KrylovSpace, schedule: Schedule, stopping: Stopping
) -> tuple[float, Status | None, float]:
    """Time to train at this bandwidth, the limit that it reaches, and the end of the stage."""
    plan, end = front.plan, front.plan.end
    if not math.isfinite(end):
        threshold = max(schedule.threshold(front.bandwidth), 0.5 * STALL_SPEED)
        lead = front.time - plan.start + space.speed.first_below(threshold, HORIZON)
        end = plan.start + min((2.0 if plan.centred else 1.0) * lead, asked_span(schedule, front))
    duration: float = end - front.time
    reached = None
    if front.bandwidth <= schedule.floor:
        gain = space.gain
        out_of_reach = space.squared_norm.at(0.0) - gain.at(0.0)
        if out_of_reach > 1.0 - stopping.r2_goal:
            resolution = float(np.finfo(front.operator.dtype).eps)
            standstill = gain.first_below(resolution, HORIZON)
            if standstill < duration:
                duration, reached = standstill, Status.STALLED
    if front.time + duration >= stopping.max_time:
        duration, reached = stopping.max_time - front.time, Status.TIME_REACHED
    enough = space.squared_norm.first_below(1.0 - stopping.r2_goal, duration)
    if enough < math.inf:
        duration, reached = enough, Status.R2_REACHED
    return duration, reached, end
