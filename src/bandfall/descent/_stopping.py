"""Limits at which training ends, and the status that says why it ended."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import numpy as np

# At the smallest allowed bandwidth, a slower rise of R² counts as no progress.
STALL_SPEED = 1e-12
HORIZON = 1e12  # later than any change at a speed that matters


class Status(StrEnum):
    """Why a path ended; `explanation` says it in words."""

    explanation: str

    R2_REACHED = "r2_reached", "training R² reached its limit"
    TIME_REACHED = "time_reached", "training time reached its limit"
    STALLED = (
        "stalled",
        "no allowed bandwidth makes progress: repeated rows with different targets, a "
        "min_bandwidth too wide to fit the data, or a schedule that keeps a bandwidth which "
        "does not train",
    )
    ITERATION_LIMIT = (
        "iteration_limit",
        "max_iter iterations were used up before any other limit",
    )
    CONSTANT_TARGET = "constant_target", "the target is constant: there is nothing to learn"
    INTERRUPTED = "interrupted", "Ctrl-C or a time limit ended training"
    CUT_BACK = (
        "cut_back",
        "the path was cut back to an earlier stage, as validation_fraction does",
    )
    ROUNDING = (
        "rounding",
        "rounding errors undo what training learns; give float64 features or raise min_speed",
    )

    def __new__(cls, value: str, explanation: str) -> Status:
        status = str.__new__(cls, value)
        status._value_, status.explanation = value, explanation
        return status


@dataclass(frozen=True)
class Stopping:
    """Limits of a run: R² (Algorithm 1, line 13) and training time."""

    max_r2: float = 0.999
    max_time: float = math.inf

    @property
    def r2_goal(self) -> float:
        """`max_r2`, or the largest value that rounding distinguishes from 1; no limit above 1."""
        return self.max_r2 if self.max_r2 > 1.0 else min(self.max_r2, 1.0 - 1e-12)

    def check(self, *, r2: float, time: float) -> Status | None:
        """The limit that is reached now, if any."""
        if r2 >= self.r2_goal:
            return Status.R2_REACHED
        return Status.TIME_REACHED if time >= self.max_time else None


class Rest(NamedTuple):
    """The contribution of training at a constant bandwidth: coefficients U g(λ) Uᵀr."""

    filters: np.ndarray  # (n,): g(λ); the residual that is left is U (1 − λ g(λ)) Uᵀr
    duration: float
    status: Status


def first_end(*, r2: float, time: float, stalled: float) -> tuple[Status, float]:
    """The limit that comes first, and its time; at the latest a standstill at `HORIZON`."""
    ends = {Status.R2_REACHED: r2, Status.TIME_REACHED: time, Status.STALLED: min(stalled, HORIZON)}
    status = min(ends, key=lambda limit: ends[limit])  # the first one of equals
    return status, ends[status]
