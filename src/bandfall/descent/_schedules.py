"""Rules for the next bandwidth, one small class each."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from bandfall._checks import check_number

if TYPE_CHECKING:
    from bandfall.descent._front import TrainingFront

MIN_SHRINK = 1e-8  # with a smaller relative shrink the search would hardly end


class Schedule(Protocol):
    """Chooses bandwidths, which it never shrinks below `floor`.

    `Euler` calls it before every step, `Flow` at the start of every stage.
    """

    @property
    def floor(self) -> float:
        """The smallest bandwidth that it shrinks to."""

    def next_bandwidth(self, front: TrainingFront) -> float:
        """The bandwidth for the step that starts now."""

    def threshold(self, bandwidth: float) -> float:
        """The speed below which the schedule leaves `bandwidth`; 0 if it never does."""
        return 0.0


@dataclass(frozen=True)
class Constant(Schedule):
    """Always the start bandwidth: kernel gradient descent (Equations 1 and 3)."""

    @property
    def floor(self) -> float:
        """Any bandwidth is low enough."""
        return math.inf

    def next_bandwidth(self, front: TrainingFront) -> float:
        return front.bandwidth


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

    def next_bandwidth(self, front: TrainingFront) -> float:
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
