"""The record of a controlled training run."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

import numpy as np


class TangentStatus(Enum):
    """The state of training; comments name remedies."""

    RUNNING = "running"
    R2_REACHED = "r2_reached"
    ITERATION_LIMIT = "iteration_limit"
    STALLED = "stalled"  # no step along the direction lowers the loss: lower lr, more units
    CONSTANT_TARGET = "constant_target"  # no target varies: there is nothing to train
    NOT_FINITE = "not_finite"  # data or outputs are NaN or infinite: check X, y, the start


class LogRow(NamedTuple):
    """The state at the start of one step, and whether the step was accepted."""

    epoch: int
    blend: float
    r2: float
    speed: float
    kernel_drift: float
    damping: float
    accepted: bool


class TangentLog(list[LogRow]):
    """Rows in the order of the steps; every column is also an array attribute.

    Attributes
    ----------
    epoch : ndarray of int
    blend, r2, speed : ndarray of float
        α of the step, R² on its rows before it, and ∂R²/∂t along it.
    kernel_drift : ndarray of float
        ‖K_NTK(t)v − K_NTK(0)v‖ / ‖K_NTK(0)v‖ for a fixed random v on rows of the first step: the
        distance from the regime of a constant tangent kernel. Measured on every tenth step.
    damping : ndarray of float
    accepted : ndarray of bool
        False if the step was undone because the loss would have risen.
    """

    def __getattr__(self, name: str) -> np.ndarray:
        if name in LogRow._fields:
            return np.array([getattr(row, name) for row in self])
        raise AttributeError(name)

    def __repr__(self) -> str:
        if not self:
            return "<TangentLog: empty>"
        last = self[-1]
        return (
            f"<TangentLog: {len(self)} steps, R² {last.r2:.6f}, blend {last.blend:.3f}, "
            f"kernel drift {last.kernel_drift:.3g}>"
        )
