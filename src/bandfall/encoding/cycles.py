"""Parts of dates that come again: the time of day, the day of the week, the time of year."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

DAY = 86_400.0
PERIODS = ("day", "week", "year")
_LENGTH = {"day": DAY, "week": 7 * DAY, "year": 365.0 * DAY}
# The years 1 to 9999, which every library's calendar holds.
_FIRST, _LAST = -62_135_596_800.0, 253_402_300_799.0


@dataclass(frozen=True, eq=False)
class Cycles:
    """Sine and cosine of the phase in each period; together as heavy as a standardised number.

    Attributes
    ----------
    position : int
        The input column.
    periods : tuple of str
        Of "day", "week" and "year".
    """

    position: int
    periods: tuple[str, ...]

    @classmethod
    def learn(cls, position: int, seconds: np.ndarray) -> Cycles:
        """The periods that dates show: seen at least once, and at more than two phases.

        Of the time of day two phases are enough.
        """
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

    def jacobian(self, seconds: np.ndarray) -> np.ndarray:
        """dz/dx a second at rows, shape (m, 2 · number of periods).

        The day of the week goes by whole days, so that it has no slope.
        """
        slopes = np.zeros((len(seconds), 2 * len(self.periods)))
        for i, period in enumerate(self.periods):
            if period != "week":
                angle, rate = 2 * np.pi * _phase(seconds, period), 2 * np.pi / _LENGTH[period]
                slopes[:, 2 * i], slopes[:, 2 * i + 1] = np.cos(angle) * rate, -np.sin(angle) * rate
        return slopes


def _phase(seconds: np.ndarray, period: str) -> np.ndarray:
    """Where in its period a date is, in [0, 1)."""
    seconds = np.minimum(np.maximum(seconds, _FIRST), _LAST)
    if period == "day":
        return seconds / DAY % 1.0
    if period == "week":
        return (np.floor(seconds / DAY) + 3) % 7 / 7  # 1970 began on a Thursday; Monday is 0
    years = np.floor(seconds).astype("datetime64[s]").astype("datetime64[Y]")
    bounds = years, years + np.timedelta64(1, "Y")
    start, end = (bound.astype("datetime64[s]").astype(np.float64) for bound in bounds)
    return (seconds - start) / (end - start)
