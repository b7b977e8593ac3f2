"""The kinds of columns: decided with the training rows, and applied to all later rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from bandfall._checks import ShapeChecker, warn_caller
from bandfall.tables import _text as text
from bandfall.tables._numbers import is_constant
from bandfall.tables._table import Column, Reading, Table, categories, label

_ID_ROWS = 20  # values of fewer rows may be distinct by chance
CONSTANT = "constant"
ID = "nearly all values differ, as in an id"
_NOUNS = {"number": "numbers", "datetime": "dates", "duration": "durations"}


def prepare_table(
    table: Table, *, missing: str | Sequence[str] | None = None, warn: bool = True
) -> Table:
    """Decide the kind of each column of a training table, and convert text to numbers or times.

    Encoders that learn from the prepared table, or from some of its rows, all use these kinds.
    `missing` are words that stand for a missing value in any column of text. Common ones ("n/a",
    "?"), and a few words among many numbers or dates, are recognised anyway. Warns once for
    converted text and once for columns that are left out.
    """
    if table.readings:
        return table
    words = [missing] if isinstance(missing, str) else list(missing or ())
    if not all(isinstance(word, str) for word in words):
        raise TypeError(f"missing={missing!r} must hold words: text, not numbers")
    readings = _learn_readings(table, words)
    if warn:
        _warn_of(readings, table)
    if table.matrix is not None:
        return replace(table, readings=readings)
    parts = [
        column if reading.dropped else _converted(column, reading, label(table.names, j))
        for j, (column, reading) in enumerate(zip(table.parts, readings, strict=True))
    ]
    return Table(table.names, None, parts, readings)


def _learn_readings(table: Table, missing: Sequence[str]) -> list[Reading]:
    """The kind of each column; if some have decimal commas, 1.234 means 1234 in all."""
    readings = [learn_reading(column, missing) for column in table.columns]
    if any(reading.style == "comma" for reading in readings):
        with text.usual_style("comma"):
            others = [learn_reading(column, missing) for column in table.columns]
        if not any(reading.style == "point" for reading in others):
            return others
    return readings


def _warn_of(readings: list[Reading], table: Table) -> None:
    read, dropped, unclear = [], [], []
    unused = all(reading.dropped for reading in readings)
    for j, (reading, column) in enumerate(zip(readings, table.columns, strict=True)):
        where = label(table.names, j)
        if reading.style:
            read.append(f"{where}: {_how_read(column, reading)}")
        if reading.dropped and (unused or reading.dropped != CONSTANT):
            dropped.append(f"{where} ({reading.dropped})")
        elif reading.kind == "category" and (why := _nearly_numbers(column, list(_counts(column)))):
            unclear.append(f"{where} ({why})")
    if read:
        message = "; ".join(read)
        warn_caller(message[0].upper() + message[1:])
    if dropped:
        none_left = "; none is left to predict from" if unused else ""
        warn_caller(f"columns are left out: {', '.join(dropped)}{none_left}")
    if unclear:
        warn_caller(f"columns are taken as categories: {', '.join(unclear)}")


def _how_read(column: Column, reading: Reading) -> str:
    """How text is converted, and the words for gaps."""
    counts, how = _counts(column), text.STYLE_WORDS.get(reading.style, reading.style)
    gaps = [f"{word!r} ({counts[word]:,}×)" for word in reading.missing if word in counts]
    missing = f", missing: {', '.join(gaps)}" if gaps else ""
    return f"text read as {_NOUNS[reading.kind]} ({how}){missing}"


def learn_reading(column: Column, missing: Sequence[str] = ()) -> Reading:
    """Decide the kind of a column of training rows."""
    reading = _learn_reading(_without(column, missing))
    return replace(reading, missing=tuple(dict.fromkeys((*missing, *reading.missing))))


def _learn_reading(column: Column) -> Reading:
    known = ~column.missing
    if not known.any():
        return Reading(column.kind, dropped="no value")
    if column.kind != "category":
        if not known.all() or not is_constant(column.values):
            return Reading(column.kind)
        varied = np.ptp(column.values) > 0
        why = "its values differ only by rounding" if varied else CONSTANT
        return Reading(column.kind, dropped=why)
    levels = list(_counts(column))
    if len(levels) == 1 and known.all():
        return Reading("category", dropped=CONSTANT)
    converted = None if column.declared else _text_reading(column, levels)
    return converted or Reading("category", dropped=_why_no_category(column, levels))


def _text_reading(column: Column, levels: list[str]) -> Reading | None:
    """How text is read as numbers or times; None if it is neither."""
    words = text.missing_words(_counts(column))
    values = [level for level in levels if level not in words]
    for kind in text.STYLES:
        if style := text.style_of(kind, values):
            return Reading(kind, style, missing=words)
    return None


def _why_no_category(column: Column, levels: list[str]) -> str:
    """Why a column of text with nearly as many levels as rows is dropped; else empty."""
    n_known = int(np.sum(~column.missing))
    if n_known < _ID_ROWS or len(levels) < 0.9 * n_known:
        return ""
    if not column.declared and text.is_ambiguous_date(levels):
        return "dates with day and month in doubt; write 2024-03-31"
    return _nearly_numbers(column, levels) or ID


def _counts(column: Column) -> dict[str, int]:
    """Number of rows of each level of a category."""
    codes, counts = np.unique(column.values[~column.missing], return_counts=True)
    return {column.levels[code]: int(n) for code, n in zip(codes, counts, strict=True)}


def _without(column: Column, words: Sequence[str]) -> Column:
    """A category in which some words, with or without blanks around them, are missing values."""
    gone = [i for i, level in enumerate(column.levels) if level.strip() in words or level in words]
    if not gone:
        return column
    return replace(column, values=np.where(np.isin(column.values, gone), -1, column.values))


def _nearly_numbers(column: Column, levels: list[str]) -> str:
    """A message if all but a few values of a text column are numbers; else empty."""
    if column.declared or len(levels) < _ID_ROWS:
        return ""
    if not (wrong := text.slips(levels)):
        return ""
    listed = ", ".join(repr(level[:30]) for level in wrong[:3]) + (", …" if len(wrong) > 3 else "")
    return f"numbers except for {listed}; correct these cells or leave them empty"


def looks_like_id(values: np.ndarray) -> bool:
    """Whether numbers may be ids: whole, distinct, and rising or dense."""
    values = values[~np.isnan(values)]
    if len(values) < _ID_ROWS or np.any(values != np.round(values)):
        return False
    if len(np.unique(values)) < len(values):
        return False
    return bool(np.all(np.diff(values) > 0) or np.ptp(values) < 2 * len(values))


def positions(readings: Sequence[Reading], *kinds: str) -> list[int]:
    """Positions of the used columns of these kinds."""
    return [j for j, one in enumerate(readings) if one.kind in kinds and not one.dropped]


def _converted(
    column: Column, reading: Reading, where: str, levels: Sequence[str | None] = ()
) -> Column:
    """A column with the kind, and perhaps `levels`, that it had in training, or ValueError."""
    if column.kind == "category":
        column = _without(column, reading.missing)
    if column.kind == reading.kind:
        return column
    if column.missing.all():
        gap = -1 if reading.kind == "category" else np.nan
        return Column(reading.kind, np.full(len(column.values), gap))
    if column.kind == "category":
        if reading.kind in text.STYLES:
            return _from_text(column, reading, where)
    elif reading.kind == "category":
        converted = _as_levels(column)
        if not levels or not set(levels).isdisjoint(converted.levels):
            return converted
    elif reading.kind == "number" and column.kind == "boolean":
        return Column("number", column.values)
    elif reading.kind == "boolean" and np.isin(column.values[~column.missing], (0, 1)).all():
        return Column("boolean", column.values)
    raise ValueError(f"{where} was a {reading.kind} in training and is a {column.kind} now")


def _as_levels(column: Column) -> Column:
    """Numbers, booleans and dates as text, as they would be read."""
    values: list[object] = column.values.tolist()
    if column.kind == "boolean":
        values = [one if np.isnan(one) else bool(one) for one in column.values]
    elif column.kind == "datetime":
        values = (column.values * 1e6).round().astype("datetime64[us]").tolist()
    return categories(values)


def _from_text(column: Column, reading: Reading, where: str) -> Column:
    used = np.unique(column.values[column.values >= 0])
    levels = [column.levels[code] for code in used]
    values = np.full(len(column.levels) + 1, np.nan)  # the last for missing values
    try:
        usual = text.style_of(reading.kind, levels) or text.STYLES[reading.kind][0]
        values[used] = text.read(levels, reading.style or usual)
    except ValueError as error:
        raise ValueError(f"{where} was a {reading.kind} in training; {error}") from None
    return Column(reading.kind, values[column.values])


@dataclass(frozen=True, eq=False)
class Schema:
    """Names, kinds, levels and ranges of a table."""

    names: list[str] | None  # None for arrays
    readings: list[Reading]  # one per column
    low: np.ndarray  # (d,): smallest training value; NaN for categories and without values
    high: np.ndarray
    levels: list[tuple[str | None, ...]]  # of each category, None for missing values; else empty

    def __post_init__(self) -> None:
        if not self.readings:
            raise ValueError("the schema has no columns")
        names = self.names
        if names is not None and not len(names) == len(set(names)) == self.width:
            raise ValueError("names do not fit the columns")
        shapes = ShapeChecker(d=self.width)
        for name, values in (("low", self.low), ("high", self.high)):
            shapes(name, values, "d", allowed="any")
            if np.isinf(values).any():
                raise ValueError(f"{name} must be finite or missing")

    @property
    def width(self) -> int:
        """Number of columns."""
        return len(self.readings)

    def label(self, position: int) -> str:
        """Name of a column in messages."""
        return label(self.names, position)

    def check(self, table: Table, *, warn: bool = True) -> Table:
        """The columns of `table` with the order and the kinds of the training rows.

        Columns are matched by name if both have names, else by position. Additional columns are
        ignored, and unused columns may be missing. Raises ValueError if a column is missing or of
        another kind, and warns if values are far outside the training range.
        """
        table = self._aligned(table)
        if table.matrix is None or not self._plain:
            columns = [
                column if reading.dropped else _converted(column, reading, self.label(j), levels)
                for j, (column, reading, levels) in enumerate(
                    zip(table.columns, self.readings, self.levels, strict=True)
                )
            ]
            table = Table(self.names, None, columns)
        if warn:
            self._warn_of_range(table)
        return table

    def _aligned(self, table: Table) -> Table:
        if self.names is None or table.names is None or table.names == self.names:
            if table.width != self.width:
                raise ValueError(
                    f"X has {table.width} features, but the model was fitted to {self.width}"
                )
            return table
        columns = dict(zip(table.names, table.columns, strict=True))
        used = [name for j, name in enumerate(self.names) if not self.readings[j].dropped]
        missing = [name for name in used if name not in columns]
        if missing:
            raise ValueError(f"X lacks the columns {', '.join(map(repr, missing))}")
        empty = Column("number", np.full(len(table), np.nan))
        return Table(self.names, None, [columns.get(name, empty) for name in self.names])

    @cached_property
    def _plain(self) -> bool:
        """Whether all used columns are numbers."""
        return all(one.kind == "number" or one.dropped for one in self.readings)

    @cached_property
    def _limits(self) -> tuple[list[int], np.ndarray, np.ndarray]:
        """Positions of columns with a range, and the limits beyond which values are far outside."""
        reach = self.high - self.low
        known = [j for j, one in enumerate(self.readings) if reach[j] > 0 and not one.dropped]
        return known, (self.low - reach)[known], (self.high + reach)[known]

    def _warn_of_range(self, table: Table) -> None:
        known, low, high = self._limits
        values = table.numbers(known)
        far = np.flatnonzero(((values < low) | (values > high)).any(axis=0))
        if len(far):
            named = ", ".join(
                f"{self.label(j)} (training: {self.low[j]:.6g} to {self.high[j]:.6g})"
                for j in (known[i] for i in far)
            )
            warn_caller(f"values far outside the range of the training rows: {named}")
