"""Axes: which values a chart spans, where they lie, and which are named."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bandfall.drawing.numbers import number

MIN_LOG_TICKS = 3


@dataclass(frozen=True)
class Axis:
    """A direction of a chart: its label and the values between which it runs.

    `low` may lie above `high`: the axis is then reversed. `names`, where given, stand for the
    values 0, 1, 2, … of a feature that is no number.
    """

    label: str
    low: float
    high: float
    log: bool = False
    names: tuple[str, ...] = ()

    @classmethod
    def around(cls, label: str, *values: Sequence[float] | np.ndarray, log: bool = False) -> Axis:
        """The axis that holds all values, with some room."""
        flat = np.concatenate([np.ravel(np.asarray(v, dtype=float)) for v in values])
        flat = flat[np.isfinite(flat) & ((flat > 0) | (not log))]
        low, high = (float(flat.min()), float(flat.max())) if len(flat) else (0.1, 1.0)
        if log:
            room = max((high / low) ** 0.04, 1.05)
            return cls(label, low / room, high * room, True)
        room = 0.04 * (high - low) or 0.5 * abs(high) or 0.5
        return cls(label, low - room, high + room)

    def fraction(self, value: float) -> float:
        """Where between `low` (0) and `high` (1) a value lies."""
        if self.log:
            value = max(value, 1e-300)
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def ticks(self) -> list[float]:
        """Round values on the axis."""
        low, high = sorted((self.low, self.high))
        if self.names:
            return [float(i) for i in range(len(self.names))]
        return _log_ticks(low, high) if self.log else _linear_ticks(low, high)

    def tick_name(self, tick: float, longest: int = 14) -> str:
        """What stands beside a tick."""
        if not self.names:
            return number(tick)
        name = self.names[int(tick)]
        return name if len(name) <= longest else name[: longest - 1] + "…"


def _linear_ticks(low: float, high: float, wanted: int = 5) -> list[float]:
    raw = (high - low) / wanted
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [i * step for i in range(first, math.floor(high / step + 1e-9) + 1)]


def _log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten, with 2 and 5 between them where there are few; linear within a decade."""
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    few = math.log10(high / low) < 2.5
    ticks = [m * 10.0**e for e in exponents for m in ((1, 2, 5) if few else (1,))]
    ticks = [tick for tick in ticks if low <= tick <= high]
    if len(ticks) < MIN_LOG_TICKS:
        return [tick for tick in _linear_ticks(low, high, 4) if low <= tick <= high]
    every = math.ceil(len(ticks) / 7) or 1
    return ticks[::every]
