"""Exact gradient flow along a falling bandwidth: one Krylov space per stage."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bandfall._checks import check_number
from bandfall._closed_form import flow_filter
from bandfall._products import KernelOperator
from bandfall._typing import Array, Times
from bandfall.descent._front import TrainingFront
from bandfall.descent._krylov import Decay, KrylovSpace, never
from bandfall.descent._schedules import MIN_SHRINK, Schedule
from bandfall.descent._stopping import (
    HORIZON,
    STALL_SPEED,
    Rest,
    Status,
    Stopping,
    first_end,
)

# Largest rounding difference per stage, relative to ‖y‖, between residual and coefficients.
_MAX_DRIFT = 1e-4
_MAX_FALL = 0.1  # largest fall of R² in one step; exact flows never lower it
_MAX_IDLE = 100  # stages in a row that end at once


@dataclass(frozen=True)
class Flow:
    """Integrates Equation 2 exactly while the bandwidth is constant.

    Over a stage, r ← e^{−hK} r and c = ∫₀ʰ e^{−sK} r ds come from one Lanczos space, whose
    error bound is held below `tolerance`. The number of products hardly depends on n.

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

    def run(self, front: TrainingFront, schedule: Schedule, stopping: Stopping) -> Status:
        """Train from `front` until `stopping`."""
        tolerance = max(self.tolerance, 20.0 * float(np.finfo(front.operator.dtype).eps))
        dimension, n_idle = 2, 0
        stage_start, stage_end, centred = front.time, -math.inf, False
        for _ in range(self.max_iter):
            if status := front.ended(stopping):
                return status
            start = front.time
            if start >= stage_end:
                bandwidth = schedule.next_bandwidth(front)
                centred = bandwidth != front.bandwidth and bandwidth > schedule.floor
                front.bandwidth = bandwidth
                stage_start, stage_end = start, math.inf
            bandwidth = front.bandwidth
            speed = front.speed(bandwidth)
            if n_idle > _MAX_IDLE or (bandwidth <= schedule.floor and speed < STALL_SPEED):
                return Status.STALLED
            flow = front.residual, front.velocity(bandwidth)
            space = KrylovSpace(front.operator, bandwidth, *flow, self.max_dimension)
            step = train_pass(
                space,
                elapsed=start - stage_start,
                left=stage_end - start,
                centred=centred,
                threshold=max(schedule.threshold(bandwidth), 0.5 * STALL_SPEED),
                goal=1.0 - stopping.r2_goal,
                tolerance=self.tolerance,
                at_floor=bandwidth <= schedule.floor,
                max_time=stopping.max_time - start,
                first_check=dimension - 2,  # neighbouring stages need about the same dimension
            )
            duration, reached, dimension = float(step.times), step.status, space.dimension
            front.n_products += dimension - 1
            coefficients, residual = _advanced(space, front, duration)  # Equation 2
            stage_end = start + float(step.left)
            if float((residual * residual).sum()) > front.squared_norm + _MAX_FALL:
                return Status.ROUNDING
            timed_out = reached is Status.TIME_REACHED
            end = stopping.max_time if timed_out else start + duration
            n_idle += 1
            if duration > 0.0:  # a bandwidth that is only just fast enough may not last at all
                n_idle = 0
                front.step(coefficients, residual, end, duration)
            front.know_speed(bandwidth, float(space.speed.at(duration)))
            del space, step  # free the basis before the next one
            if reached is Status.R2_REACHED and front.r2 < stopping.r2_goal - tolerance:
                reached = None  # rounding promised too much
            if reached is not None:
                return reached
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
        """The rest of `run`, as `Euler.hold`; after a time t the residual is U e^{−tλ} Uᵀr."""
        rates = 2.0 * eigenvalues
        speeds, stalled = Decay(rates, rates * weights), 0.0
        if speeds.at(0.0) >= STALL_SPEED:
            stalled = speeds.first_below(0.5 * STALL_SPEED, HORIZON)
        status, duration = first_end(
            r2=Decay(rates, weights).first_below(1.0 - stopping.r2_goal, HORIZON),
            time=stopping.max_time - time,
            stalled=stalled,
        )
        return Rest(flow_filter(eigenvalues, duration), duration, status)


def _advanced(space: KrylovSpace, front: TrainingFront, duration: float) -> tuple[Array, Array]:
    """`KrylovSpace.advance`, with a residual that agrees with the coefficients up to rounding."""
    coefficients, residual = space.advance(duration)
    if space.rounding(duration) > _MAX_DRIFT:  # in float32 with many rows
        residual = front.residual - front.operator.product(front.bandwidth, coefficients)
        front.n_products += 1
    return coefficients, residual


@dataclass(frozen=True)
class Pass:
    """How far one Krylov space takes its paths: numbers for one path, arrays (V,) for several."""

    space: KrylovSpace
    times: Times
    complete: Times  # whether the space covers all times up to a limit or the end of the stage
    left: Times  # time from the start of the pass to the end of the stage; ∞ if unknown
    limits: dict[Status, Times]  # the time at which each would be reached

    @property
    def status(self) -> Status | None:
        """The limit that a single path reaches; None at the end of its stage or before."""
        reached = (status for status, time in self.limits.items() if time == self.times)
        return next(reached, None) if self.complete else None


def train_pass(
    space: KrylovSpace,
    *,
    elapsed: Times,
    left: Times,
    centred: bool,
    threshold: Times,
    goal: float,
    tolerance: float,
    at_floor: bool = False,
    max_time: float = math.inf,
    first_check: int = 0,
    growth: float = 0.0,
    ended: Callable[[], bool] = never,
) -> Pass:
    """Grow a space (`KrylovSpace.grow`) until it covers the rest of every path's stage, or is full.

    A stage has lasted for the time `elapsed` and ends after the time `left` (∞ while unknown).
    Training ends at a squared residual `goal` or after `max_time`. The speed falls to `threshold`
    at the end of a stage, or in its middle if it is `centred`.
    """
    allowed = space.allowed_errors(tolerance)
    limits = {Status.R2_REACHED: math.inf, Status.TIME_REACHED: max_time, Status.STALLED: math.inf}
    for _ in space.grow(first_check, growth, ended):
        crossing = space.speed.first_below(threshold, HORIZON)
        end = (2.0 if centred else 1.0) * (elapsed + crossing) - elapsed
        rest = np.where(left < math.inf, left, end)
        if at_floor:
            limits[Status.STALLED] = space.standstill(goal)
        wanted = np.minimum(np.minimum(rest, max_time), limits[Status.STALLED])
        limits[Status.R2_REACHED] = space.squared_norm.first_below(goal, wanted)
        wanted = np.minimum(wanted, limits[Status.R2_REACHED])
        complete = space.errors(wanted) <= allowed
        if covered := complete.all():
            break
    times = wanted if covered else space.longest_accurate(wanted, allowed)
    # Past the crossing, the end of the stage could not be located any more.
    located = (crossing <= times) | (times == rest)
    return Pass(space, times, complete, np.where(located, rest, left), limits)
