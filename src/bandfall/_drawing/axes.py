"""Axes of charts: their range, positions of values, and ticks; numbers as readable text."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np

from bandfall._typing import Values

SMALLEST, LARGEST = 1e-4, 1e7  # outside, powers of ten are used
APART = 10_000  # from here on, commas separate thousands
_RAISED = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
# Steps between ticks of dates: seconds, then months.
_SECONDS = [n * unit for unit, counts in (
    (1, (1, 5, 15, 30)), (60, (1, 5, 15, 30)), (3600, (1, 3, 6, 12)), (86400, (1, 2, 7, 14)),
) for n in counts]  # fmt: skip
_MONTHS = (1, 3, 6, *(12 * n * 10**e for e in range(4) for n in (1, 2, 5)))


@dataclass(frozen=True)
class Axis:
    """One axis of a chart: its label and its range.

    If `low` is above `high`, the axis is reversed. `names` label the values 0, 1, 2, … of a feature
    that is not numeric. On an axis of `dates`, values are seconds since 1970. Values up to `zero`
    stand for zero, which a logarithmic axis cannot show.
    """

    label: str
    low: float
    high: float
    log: bool = False
    names: tuple[str, ...] = ()
    dates: bool = False
    zero: float = -math.inf

    @classmethod
    def around(
        cls, label: str, *values: Values, log: bool = False, zero: float = -math.inf
    ) -> Axis:
        """An axis that contains all values, with a margin."""
        flat = np.concatenate([np.ravel(np.asarray(v, dtype=float)) for v in values])
        flat = flat[np.isfinite(flat) & ((flat > 0) | (not log))]
        low, high = (float(flat.min()), float(flat.max())) if len(flat) else (0.1, 1.0)
        if log:
            room = max((high / low) ** 0.04, 1.05)
            return cls(label, low / room, high * room, True, zero=zero)
        room = 0.04 * (high - low) or 0.5 * abs(high) or 0.5
        return cls(label, low - room, high + room)

    @classmethod
    def from_zero(cls, label: str, values: Values) -> Axis:
        """An axis for bars, which includes zero."""
        axis = cls.around(label, values, [0.0])
        low = axis.low if np.min(values) < 0 else 0.0
        high = axis.high if np.max(values) > 0 else 0.0
        return cls(label, low, high) if low < high else axis

    def fraction(self, value: float) -> float:
        """Position of a value between `low` (0) and `high` (1)."""
        if self.log:
            return math.log(max(value, 1e-300) / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def ticks(self) -> list[float]:
        """Round values on the axis."""
        low, high = sorted((self.low, self.high))
        if self.names:
            return [float(i) for i in range(len(self.names))]
        if self.dates:
            return _date_ticks(low, high)
        return _log_ticks(low, high) if self.log else _linear_ticks(low, high)

    def tick_name(self, tick: float) -> str:
        """The label of a tick; all ticks of a linear axis have one notation."""
        if self.dates:
            years = all(f"{_moment(one):%j %T}" == "001 00:00:00" for one in self.ticks())
            return _date_name(tick, math.inf if years else abs(self.high - self.low))
        if self.names:
            return self.names[int(tick)]
        largest = 0.0 if self.log else max(map(abs, self.ticks()), default=0.0)
        powers = largest >= LARGEST or 0.0 < largest < SMALLEST
        return number(tick, powers=powers, apart=largest >= APART)

    def words(self, value: float) -> str:
        """A value with its label, for tooltips."""
        if self.dates:
            text = f"{_moment(value):%Y-%m-%d %H:%M}".removesuffix(" 00:00")
        elif self.names:
            text = self.names[int(value)]
        else:
            text = "0" if value <= self.zero else number(value)
        return f"{self.label} {text}".strip()


def _moment(seconds: float) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=float(seconds))


def _date_ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Round moments: whole steps of seconds to weeks, or the first days of months and years."""
    for step in _SECONDS:
        first, last = math.ceil(low / step), math.floor(high / step)
        if last - first < most:
            return [float(i * step) for i in range(first, last + 1)]
    ends = np.array([low, high]).astype("datetime64[s]").astype("datetime64[M]").astype(int)
    for step in _MONTHS:
        months = np.arange(ends[0], ends[1] + 1)
        months = months[(months + 12 * 1970) % step == 0].astype("datetime64[M]")
        ticks = months.astype("datetime64[s]").astype(float)
        ticks = ticks[(low <= ticks) & (ticks <= high)]
        if len(ticks) <= most:
            break
    return [float(tick) for tick in ticks]


def _date_name(seconds: float, span: float) -> str:
    """A date or time, as precise as an axis of this span needs."""
    moment, days = _moment(seconds), span / 86400
    if days > 1500:
        return f"{moment:%Y}"
    if days > 75:
        return f"{moment:%b %Y}"
    if days > 4:
        return f"{moment.day} {moment:%b}"
    return f"{moment:%H:%M:%S}" if span < 300 else f"{moment.day} {moment:%b %H:%M}"


def _linear_ticks(low: float, high: float, wanted: int = 5) -> list[float]:
    raw = (high - low) / wanted
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [i * step for i in range(first, math.floor(high / step + 1e-9) + 1)]


def _log_ticks(low: float, high: float, fewest: int = 3) -> list[float]:
    """Powers of ten, with 2 and 5 between if there are few; linear within a decade."""
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    few = math.log10(high / low) < 2.5
    ticks = [m * 10.0**e for e in exponents for m in ((1, 2, 5) if few else (1,))]
    ticks = [tick for tick in ticks if low <= tick <= high]
    if len(ticks) < fewest:
        return [tick for tick in _linear_ticks(low, high, 4) if low <= tick <= high]
    return ticks[:: math.ceil(len(ticks) / 7)]


def number(value: float, *, powers: bool = False, apart: bool = False) -> str:
    """A number as readable text: few digits, separated thousands, powers of ten if they help.

    Numbers of four digits, which may be years, are not separated unless `apart`. With `powers`,
    powers of ten are always used.

    Examples
    --------
    >>> number(5000.0, apart=True)
    '5,000'
    >>> [number(v) for v in (0.0257512, -3.0, 1984.0, 1.5e6, 2e-7, -4.5e12, float("nan"))]
    ['0.02575', '−3', '1984', '1,500,000', '2 × 10⁻⁷', '−4.5 × 10¹²', '–']
    """
    if not math.isfinite(value):
        return "–" if math.isnan(value) else ("∞" if value > 0 else "−∞")
    if value == 0:
        return "0"
    exponent, tail = math.floor(math.log10(abs(value))), ""
    if SMALLEST <= abs(value) < LARGEST and not powers:
        digits = min(max(0, 3 - exponent), 7)
        comma = "," if apart or abs(round(value)) >= APART else ""
        text = f"{value:{comma}.{digits}f}"
    else:
        text, tail = f"{value / 10.0**exponent:.2f}", f" × 10{str(exponent).translate(_RAISED)}"
    return (text.rstrip("0").rstrip(".") if "." in text else text).replace("-", "−") + tail
