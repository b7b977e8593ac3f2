"""Rules for the next bandwidth, one small class each.

Solvers call a schedule before every step; `Front` measures the R² speed of any trial bandwidth.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, Protocol

from bandfall._checks import check_number

MIN_SHRINK = 1e-8  # with a smaller relative shrink the search would hardly end


class Front(Protocol):
    """The training state that a schedule can read."""

    time: float
    bandwidth: float

    def speed(self, bandwidth: float) -> float:
        """∂R²/∂t = 2 rᵀK(bandwidth)r / yᵀy (Equation 7)."""

    def limit_speed(self) -> float:
        """The speed in the limit of bandwidth zero."""

    def speed_ceiling(self, bandwidth: float) -> float:
        """A bound on the speed at this and every smaller bandwidth."""


class Schedule(Protocol):
    """Chooses bandwidths, which it never shrinks below `floor`."""

    @property
    def floor(self) -> float:
        """The smallest bandwidth that it shrinks to."""

    def next_bandwidth(self, front: Front) -> float:
        """The bandwidth for the step that starts now."""

    def threshold(self, bandwidth: float) -> float:
        """The speed below which the schedule leaves `bandwidth`; 0 if it never does."""
        return 0.0

    def span(self, front: Front) -> float:
        """The longest time for which this bandwidth may be used; ∞ if there is no limit."""
        return math.inf


def asked(schedule: Schedule, name: Literal["next_bandwidth", "span"], front: Front) -> float:
    """The next bandwidth or the span of a schedule; raises ValueError if invalid."""
    value: float = getattr(schedule, name)(front)
    if not value >= 0.0:  # NaN neither
        raise ValueError(f"{name} of {schedule!r} must be in [0, inf]; got {value!r}")
    return value


@dataclass(frozen=True)
class Constant(Schedule):
    """Always the start bandwidth: kernel gradient descent (Equations 1 and 3)."""

    @property
    def floor(self) -> float:
        """Any bandwidth is low enough."""
        return math.inf

    def next_bandwidth(self, front: Front) -> float:
        return front.bandwidth


@dataclass(frozen=True)
class Geometric(Schedule):
    """Halves every `half_life` units of training time, in steps of `ratio`, down to `floor`."""

    half_life: float
    start: float
    floor: float = 0.0
    ratio: float = 1.01

    def __post_init__(self) -> None:
        check_number("half_life", self.half_life, low=0, low_open=True, finite=True)
        check_number("start", self.start, low=0, finite=True)
        check_number("floor", self.floor, low=0, finite=True)
        check_number("ratio", self.ratio, low=1, low_open=True, finite=True)

    def next_bandwidth(self, front: Front) -> float:
        n_shrinks, _ = self._shrinks(front.time)
        return max(self.start * self.ratio**-n_shrinks, self.floor)

    def span(self, front: Front) -> float:
        n_shrinks, interval = self._shrinks(front.time)
        return (n_shrinks + 1) * interval - front.time

    def _shrinks(self, time: float) -> tuple[int, float]:
        interval = self.half_life * math.log2(self.ratio)
        return math.floor(time / interval + 1e-9), interval


@dataclass(frozen=True)
class MinimumSpeed(Schedule):
    """The paper's rule (Section 3.5; Algorithm 1, lines 4–10).

    While R² on training data rises slower than `min_speed`, shrink the bandwidth by
    1/(1 + shrink) until it rises fast enough or `floor` is reached. Speed is not monotone in
    the bandwidth: the *first* bandwidth on the grid that is fast enough is taken.

    Two readings of Algorithm 1: the bandwidth never falls below the floor, which lines 7–8, taken
    literally, would let it by one shrink. And once no bandwidth down to the floor can be fast
    enough, which for floor 0 is certain as soon as R² > 1 − min_speed/2, the floor is used at once:
    lines 6–8 would arrive there too, after arbitrarily many evaluations.
    """

    min_speed: float
    shrink: float = 0.01
    floor: float = 0.0

    def __post_init__(self) -> None:
        check_number("min_speed", self.min_speed, low=0, low_open=True, finite=True)
        check_number("shrink", self.shrink, low=MIN_SHRINK, finite=True)
        check_number("floor", self.floor, low=0, finite=True)

    def next_bandwidth(self, front: Front) -> float:
        bandwidth = front.bandwidth
        if front.speed(bandwidth) >= self.min_speed:  # line 5
            return bandwidth
        if math.isinf(bandwidth):
            raise ValueError("bandwidth=inf cannot be shrunk; start from a finite one")
        # The flow ends a stage where the speed equals min_speed: allow for rounding in float32.
        enough = self.min_speed * (1.0 + 1e-5)
        ends_at_floor = front.limit_speed() < enough
        while bandwidth > self.floor:  # lines 6–8
            if ends_at_floor and front.speed_ceiling(bandwidth) < enough:
                return self.floor
            bandwidth = max(bandwidth / (1.0 + self.shrink), self.floor)
            if front.speed(bandwidth) >= self.min_speed:
                break
        return bandwidth

    def threshold(self, bandwidth: float) -> float:
        return self.min_speed if bandwidth > self.floor else 0.0
