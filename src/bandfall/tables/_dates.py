"""Periodic parts of dates: the time of day, the day of the week, the time of year."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bandfall._typing import Array

if TYPE_CHECKING:
    from bandfall._graphs import Graph

DAY = 86_400.0
PERIODS = ("day", "week", "year")
_LENGTH = {"day": DAY, "week": 7 * DAY, "year": 365.0 * DAY}
# The years 1 to 9999, which the calendars of all libraries support.
_FIRST, _LAST = -62_135_596_800.0, 253_402_300_799.0


@dataclass(frozen=True, eq=False)
class Cycles:
    """Sine and cosine of the phase in each period; together they have unit variance."""

    position: int  # the input column
    periods: tuple[str, ...]  # of "day", "week" and "year"

    def __post_init__(self) -> None:
        if tuple(one for one in PERIODS if one in self.periods) != self.periods:
            raise ValueError(f"periods {self.periods!r} are unknown")

    @classmethod
    def learn(cls, position: int, seconds: np.ndarray) -> Cycles:
        """Keep the periods that dates cover once, at three or more phases (two for a day)."""
        span = np.ptp(seconds) if len(seconds) else 0.0
        periods = []
        for period in PERIODS:
            n_phases = len(np.unique(_phase(seconds, period)))
            if span >= _LENGTH[period] * 0.99 and n_phases > (1 if period == "day" else 2):
                periods.append(period)
        return cls(position, tuple(periods))

    def transform(self, seconds: np.ndarray) -> np.ndarray:
        """Encoded rows, shape (m, 2 · number of periods)."""
        encoded = np.empty((len(seconds), 2 * len(self.periods)))
        for i, period in enumerate(self.periods):
            angle = 2 * np.pi * _phase(seconds, period)
            encoded[:, 2 * i], encoded[:, 2 * i + 1] = np.sin(angle), np.cos(angle)
        return encoded

    def onnx(self, graph: Graph, seconds: str) -> str:
        """Add `transform` to an ONNX graph, from float64 seconds of shape (m, 1)."""
        parts = []
        for period in self.periods:
            angle = 2 * np.pi * _phase(graph.symbol(seconds), period)
            parts += [np.sin(angle).name, np.cos(angle).name]
        return graph.op("Concat", *parts, axis=1)

    def jacobian(self, seconds: np.ndarray) -> np.ndarray:
        """dz/dx per second at rows, shape (m, 2 · number of periods).

        The day of the week changes in whole days, so its slope is zero.
        """
        slopes = np.zeros((len(seconds), 2 * len(self.periods)))
        for i, period in enumerate(self.periods):
            if period != "week":
                angle, rate = 2 * np.pi * _phase(seconds, period), 2 * np.pi / _LENGTH[period]
                slopes[:, 2 * i], slopes[:, 2 * i + 1] = np.cos(angle) * rate, -np.sin(angle) * rate
        return slopes


def _phase(seconds: Array, period: str) -> Array:
    """The phase of dates in a period, in [0, 1)."""
    seconds = np.minimum(np.maximum(seconds, _FIRST), _LAST)
    day = np.floor(seconds / DAY)
    if period == "day":
        return seconds / DAY - day
    if period == "week":
        weekday = day + 3  # 1970 began on a Thursday; Monday is 0
        return (weekday - 7 * np.floor(weekday / 7)) / 7
    year = _year(day)
    start, end = _new_year(year) * DAY, _new_year(year + 1) * DAY
    return (seconds - start) / (end - start)


def _year(day: Array) -> Array:
    """The year of a day (days since 1970), by floor functions only, which ONNX supports."""
    year = np.floor((day + 0.5) / 365.2425) + 1970  # off by one at most, near new year
    year = year - (day < _new_year(year))
    return year + (day >= _new_year(year + 1))


def _new_year(year: Array) -> Array:
    """The first of January, in days since 1970 (Gregorian calendar)."""
    before = year - 1
    leap_days = np.floor(before / 4) - np.floor(before / 100) + np.floor(before / 400)
    return 365 * before + leap_days - 719_162
