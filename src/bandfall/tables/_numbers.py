"""Encodings of numbers (standardised, normal quantiles, steps) and cycles of dates.

An encoding is a frozen dataclass, whose fields model files store. Because a file may come from
anyone, `__post_init__` raises ValueError or TypeError unless the fields make a working encoding.

`learn` takes training rows (n, p), in which medians replace missing values, which of them are
known, and the maximum number of steps. `columns` is the input column of each encoded column.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, TypeAlias

import numpy as np
from scipy.special import ndtri

from bandfall._checks import ShapeChecker, check_positions
from bandfall._typing import Array

if TYPE_CHECKING:
    from bandfall._graphs import Graph

FARTHEST = 1e6  # standard deviations; values are clipped here, within the range of float32
_LAST_QUANTILE = -ndtri(1e-7)  # normal quantiles are clipped here
DAY = 86_400.0
PERIODS = ("day", "week", "year")
_LENGTH = {"day": DAY, "week": 7 * DAY, "year": 365.0 * DAY}
# The years 1 to 9999, which the calendars of all libraries support.
_FIRST, _LAST = -62_135_596_800.0, 253_402_300_799.0


@dataclass(frozen=True, eq=False)
class Standard:
    """z = (x − centre) / scale."""

    suffix: ClassVar[str] = ""

    centre: np.ndarray  # (p,)
    scale: np.ndarray  # (p,)

    def __post_init__(self) -> None:
        shapes = ShapeChecker()
        shapes("centre", self.centre, "p")
        shapes("scale", self.scale, "p")
        if np.any(self.scale <= 0):
            raise ValueError("a scale is not positive")

    @classmethod
    def learn(
        cls, values: np.ndarray, known: np.ndarray | None = None, n_steps: int = 1
    ) -> Standard:
        """Means and deviations; a constant column gets scale 1 and becomes exactly zero."""
        centre, deviation = moments(values)
        constant = np.ptp(values, axis=0) <= rounding(values)
        return cls(np.where(constant, values[0], centre), np.where(constant, 1.0, deviation))

    def transform(self, values: np.ndarray) -> np.ndarray:
        """Encoded rows, shape (m, width)."""
        with np.errstate(over="ignore"):
            z = (values - self.centre) / self.scale
        return np.minimum(np.maximum(z, -FARTHEST), FARTHEST)

    def jacobian(self, values: np.ndarray) -> np.ndarray:
        """Slopes dz/dx of the encoded columns, shape (m, width)."""
        return np.broadcast_to(1.0 / self.scale, values.shape)

    @property
    def columns(self) -> np.ndarray:
        """Each input column has one encoded column."""
        return np.arange(len(self.centre))

    def onnx(self, graph: Graph, columns: str) -> str:
        """Add `transform` to a graph, from the name of float64 values."""
        encoded: Array = self.transform(graph.symbol(columns))
        return encoded.name


def moments(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of columns of any magnitude, by units of powers of two."""
    exponent = np.frexp(np.abs(values).max(axis=0))[1]
    unit = np.ldexp(values, -exponent)
    return np.ldexp(unit.mean(axis=0), exponent), np.ldexp(unit.std(axis=0), exponent)


def is_constant(values: np.ndarray) -> bool:
    """Whether a complete column varies by no more than rounding."""
    return bool(np.ptp(values) <= rounding(values[:, None])[0])


def rounding(values: np.ndarray) -> np.ndarray:
    """Largest differences within columns that may be rounding: 8 last bits of the largest value.

    Whole numbers below 2⁵³ are exact. Reciprocals of differences below 1e-305 would overflow.
    """
    largest = np.abs(values).max(axis=0, initial=0.0)
    exact = (largest < 2.0**53) & np.all(values == np.round(values), axis=0)
    return np.where(exact, 0.0, np.maximum(8 * np.spacing(largest), 1e-305))


@dataclass(frozen=True, eq=False)
class Quantiles:
    """z = Φ⁻¹(share of training values below x), with the middle rank for ties.

    The smallest and the largest value are mapped to the ends, even if tied.
    """

    suffix: ClassVar[str] = ""

    knots: np.ndarray  # (q, p): training values at evenly spaced ranks, rising

    def __post_init__(self) -> None:
        ShapeChecker()("knots", self.knots, "q p")
        if len(self.knots) < 1 or np.any(np.diff(self.knots, axis=0) < 0):
            raise ValueError("knots must rise")

    @classmethod
    def learn(
        cls, values: np.ndarray, known: np.ndarray | None = None, n_steps: int = 1
    ) -> Quantiles:
        """Quantiles of the columns of `values`."""
        # Values themselves: rounded means of two values would break ties.
        places = np.linspace(0, len(values) - 1, min(1000, len(values)))
        return cls(np.sort(values, axis=0)[np.round(places).astype(int)])

    def transform(self, values: np.ndarray) -> np.ndarray:
        """Encoded rows, shape (m, width)."""
        # The mean of the interpolated ranks from both sides, which differ at ties.
        share, ranks = np.empty(values.shape), np.linspace(0.0, 1.0, len(self.knots))
        for j, (x, (up, down)) in enumerate(zip(values.T, self._sides, strict=True)):
            share[:, j] = 0.5 * (np.interp(x, up, ranks) + 1.0 - np.interp(-x, down, ranks))
        share = np.where(values >= self.knots[-1], 1.0, share)
        scores = ndtri(np.where(values <= self.knots[0], 0.0, share))
        return np.minimum(np.maximum(scores, -_LAST_QUANTILE), _LAST_QUANTILE)

    def jacobian(self, values: np.ndarray) -> np.ndarray:
        """The right derivative at knots, zero beyond the ends."""
        n, z = len(self.knots), self.transform(values)
        pairs = zip(values.T, self._sides, strict=True)
        right = np.stack([up.searchsorted(x, side="right") for x, (up, _) in pairs], axis=1)
        # The density nearly vanishes at the ends, where z is clipped.
        inside = (right > 0) & (right < n) & (np.abs(z) < _LAST_QUANTILE)
        gaps, j = np.diff(self.knots, axis=0, append=np.inf), np.arange(values.shape[1])
        gap = np.where(inside, gaps[np.clip(right - 1, 0, n - 1), j], np.inf)
        density = np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)
        return 1.0 / max(n - 1, 1) / density / gap

    @property
    def columns(self) -> np.ndarray:
        """Each input column has one encoded column."""
        return np.arange(self.knots.shape[1])

    def onnx(self, graph: Graph, columns: str) -> str:
        """Add `transform` to a graph, from the name of float64 values."""
        return graph.each_column(_onnx_scores, columns, self.knots)

    @cached_property
    def _sides(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Knots of each column, upwards, and their negatives, upwards."""
        return [(np.array(knots), -knots[::-1]) for knots in self.knots.T]


def _onnx_scores(graph: Graph, x: str, knots: str, n: int) -> str:
    """Φ⁻¹ of the mean of both interpolated ranks (they differ at ties)."""
    last = graph.constant(max(n - 1, 1), np.float64)
    sides = []
    for comparison in ("Less", "LessOrEqual"):
        left, share = graph.interval(comparison, x, knots, n)
        place = graph.op("Add", graph.cast(left, np.float64), share)
        sides.append(graph.op("Div", place, last))
    share = graph.op("Mul", graph.op("Add", *sides), graph.constant(0.5, np.float64))
    for comparison, end, limit in (("GreaterOrEqual", n - 1, 1.0), ("LessOrEqual", 0, 0.0)):
        knot = graph.op("Gather", knots, graph.constant(end, np.int64))
        beyond = graph.op(comparison, x, knot)
        share = graph.op("Where", beyond, graph.constant(limit, np.float64), share)
    return graph.clip(graph.normal_quantile(share), -_LAST_QUANTILE, _LAST_QUANTILE)


@dataclass(frozen=True, eq=False)
class Steps:
    """Each feature as ramps between its quantile knots q₀ < q₁ < …,

        z_i = weight · clip((x − q_i) / (q_{i+1} − q_i), 0, 1).

    The ramps of a feature have equal weights, and their variances sum to 1. Outside the training
    range, the first and the last ramp continue as t / (1 + |t|) and level off after one more step.
    """

    suffix: ClassVar[str] = "_step"  # of output names, before a number

    # (width,): input column of each ramp; ramps of a column are consecutive, from low to high.
    columns: np.ndarray
    # (width,): q_i, q_{i+1} − q_i, and the height of the ramp.
    low: np.ndarray
    gap: np.ndarray
    weight: np.ndarray

    def __post_init__(self) -> None:
        check_positions("columns", self.columns)
        shapes = ShapeChecker(width=len(self.columns))
        for name, array in (("low", self.low), ("gap", self.gap), ("weight", self.weight)):
            shapes(name, array, "width")
        if np.any(np.diff(self.columns) < 0) or np.any(self.gap <= 0):
            raise ValueError("steps must rise")

    @classmethod
    def learn(cls, values: np.ndarray, known: np.ndarray, n_steps: int) -> Steps:
        """Ramps between quantiles of the `known` values; equal knots are merged."""
        knots = [_knots(column[ok], n_steps) for column, ok in zip(values.T, known.T, strict=True)]
        columns = np.repeat(np.arange(len(knots)), [len(q) - 1 for q in knots])
        low = np.concatenate([np.empty(0), *(q[:-1] for q in knots)])
        gap = np.concatenate([np.empty(0), *(np.diff(q) for q in knots)])
        plain = cls(columns, low, gap, np.ones(len(low)))
        ramps = plain.transform(values)
        # Values are in [0, 1], so the difference is accurate and needs no centred copy.
        variance = np.einsum("ij,ij->j", ramps, ramps) / len(ramps) - ramps.mean(axis=0) ** 2
        total = np.bincount(columns, weights=variance, minlength=len(knots))
        weight = 1.0 / np.sqrt(np.where(total > 0, total, 1.0))
        return cls(columns, low, gap, weight[columns])

    def transform(self, values: np.ndarray) -> np.ndarray:
        """Encoded rows, shape (m, width)."""
        encoded = np.empty((len(values), len(self.low)))
        for start in range(0, len(values), 512):  # rows whose ramps stay in the cache
            along = self._along(values[start : start + 512])
            place = np.minimum(along, 1.0, out=encoded[start : start + 512])
            np.maximum(place, 0.0, out=place)
            below = np.minimum(along[:, self.first], 0.0)
            place[:, self.first] += below / (1.0 - below)
            above = np.maximum(along[:, self.last] - 1.0, 0.0)
            place[:, self.last] += above / (1.0 + above)
            place *= self.weight
        return encoded

    def jacobian(self, values: np.ndarray) -> np.ndarray:
        """The right derivative at knots."""
        along = self._along(values)
        positions = np.arange(len(self.low))
        rising = (along >= 0) | np.isin(positions, self.first)
        rising &= (along < 1) | np.isin(positions, self.last)
        beyond = along - np.clip(along, 0.0, 1.0)
        return np.where(rising, self.weight / self.gap / (1.0 + np.abs(beyond)) ** 2, 0.0)

    def onnx(self, graph: Graph, columns: str) -> str:
        """Add `transform` to a graph, from the name of float64 values."""
        x = graph.op("Gather", columns, graph.constant(self.columns, np.int64), axis=1)
        along = (graph.symbol(x) - self.low) / self.gap
        along = np.minimum(np.maximum(along, -FARTHEST), FARTHEST)
        place = np.minimum(np.maximum(along, 0.0), 1.0)
        ramps = np.arange(len(self.low))
        below = np.minimum(along - place, 0.0) * np.isin(ramps, self.first)
        above = np.maximum(along - place, 0.0) * np.isin(ramps, self.last)
        beyond = below + above
        return ((place + beyond / (np.absolute(beyond) + 1.0)) * self.weight).name

    def _along(self, values: np.ndarray) -> np.ndarray:
        """Position on each ramp: 0 at its low end, 1 at its high end, shape (m, width)."""
        along = values.take(self.columns, axis=1)
        with np.errstate(over="ignore"):
            along -= self.low
            along /= self.gap
        np.minimum(along, FARTHEST, out=along)
        return np.maximum(along, -FARTHEST, out=along)

    @cached_property
    def first(self) -> np.ndarray:
        """The first ramp of each feature."""
        return np.flatnonzero(np.diff(self.columns, prepend=-1))

    @cached_property
    def last(self) -> np.ndarray:
        """The last ramp of each feature."""
        return np.flatnonzero(np.diff(self.columns, append=-1))


NumberEncoding: TypeAlias = Standard | Quantiles | Steps
NUMBERS: dict[str, type[NumberEncoding]] = {
    "standard": Standard,
    "quantile": Quantiles,
    "steps": Steps,
}


def steps_for(n_rows: int, n_features: int) -> int:
    """Number of steps per feature: more for many rows, fewer for many features."""
    finest = 32 if 32 * n_features <= 160 else 12
    return max(12, min(finest, n_rows // 200))


def _knots(values: np.ndarray, n_steps: int) -> np.ndarray:
    """At most n_steps + 1 rising values from the smallest to the largest."""
    knots = np.unique(values)
    if len(knots) > n_steps + 1:
        places = np.round(np.linspace(0, len(values) - 1, n_steps + 1)).astype(int)
        knots = np.unique(np.sort(values)[places])
    if not len(knots):
        return np.zeros(1)
    return knots[np.append(True, np.diff(knots) > rounding(knots[:, None])[0])]


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
        """Add `transform` to an ONNX graph, from float64 seconds (m, 1)."""
        parts = []
        for period in self.periods:
            angle = 2 * np.pi * _phase(graph.symbol(seconds), period)
            parts += [np.sin(angle).name, np.cos(angle).name]
        return graph.op("Concat", *parts, axis=1)

    def jacobian(self, seconds: np.ndarray) -> np.ndarray:
        """dz/dx per second at rows; the day of the week changes in steps, so its slope is zero."""
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
