"""The kinds of columns: decided with the training rows, and applied to all later rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from bandfall._warnings import warn_caller
from bandfall.tables import _text as text
from bandfall.tables._objects import level
from bandfall.tables._standard import is_constant
from bandfall.tables._table import Column, Reading, Table, label

_ID_ROWS = 20  # values of fewer rows may be distinct by chance
_ID_SHARE = 0.9  # share of distinct values in an id
_NAMED, _LONGEST = 3, 30  # levels in a message, and characters of each
CONSTANT = "constant"
_ROUNDED = "its values differ only by rounding"
ID = "nearly all values differ, as in an id"
_NOUNS = {"number": "numbers", "datetime": "dates", "duration": "durations"}
_TRUTH = {"true": 1.0, "false": 0.0, "1": 1.0, "0": 0.0}


def prepare_table(
    table: Table, *, missing: str | Sequence[str] | None = None, warn: bool = True
) -> Table:
    """Decide the kind of each column of a training table, and convert text to numbers or times.

    Encoders that learn from the prepared table, or from some of its rows, all use these kinds.

    Parameters
    ----------
    table : Table
    missing : str or sequence of str, optional
        Words that stand for a missing value in any column of text. Common ones ("n/a", "?"), and
        a few words among many numbers or dates, are recognised anyway.
    warn : bool

    Warns
    -----
    UserWarning
        Once for converted text and once for columns that are left out; names the columns.
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
        column if reading.dropped else read_column(column, reading, label(table.names, j))
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
    read, dropped, categories = [], [], []
    for j, (reading, column) in enumerate(zip(readings, table.columns, strict=True)):
        where = label(table.names, j)
        if reading.style:
            how = text.style_words(reading.style) + _example(column, reading)
            words = f"text read as {_NOUNS[reading.kind]} ({how})"
            read.append(f"{where}: {words}{_gaps(column, reading)}")
        if reading.dropped not in ("", CONSTANT):
            dropped.append(f"{where} ({reading.dropped})")
        elif reading.kind == "category" and (why := _nearly_numbers(column, _known_levels(column))):
            categories.append(f"{where} ({why})")
    if read:
        message = "; ".join(read)
        warn_caller(message[0].upper() + message[1:])
    if dropped:
        warn_caller(f"columns are left out: {', '.join(dropped)}")
    if categories:
        message = f"columns are taken as categories: {', '.join(categories)}"
        warn_caller(message)


def _example(column: Column, reading: Reading) -> str:
    """An ambiguous number, such as 1.234, and how it is read."""
    if reading.kind != "number":
        return ""
    levels = [one for one in _known_levels(column) if one not in reading.missing]
    doubtful = text.doubtful(levels)
    return f": {doubtful} is {text.numbers([doubtful], reading.style)[0]:.10g}" if doubtful else ""


def _gaps(column: Column, reading: Reading) -> str:
    """The words in a column that count as missing, and how often they occur."""
    counts = _counts(column)
    found = [f"{word!r} ({counts[word]:,}×)" for word in reading.missing if word in counts]
    return f", missing: {', '.join(found)}" if found else ""


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
        return Reading(column.kind, dropped=_ROUNDED if varied else CONSTANT)
    levels = _known_levels(column)
    if len(levels) == 1 and known.all():
        return Reading("category", dropped=CONSTANT)
    if not column.declared:
        words = text.missing_words(_counts(column))
        values = [level for level in levels if level not in words]
        if style := text.number_style(values):
            return Reading("number", style, missing=words)
        if style := text.date_style(values):
            return Reading("datetime", style, missing=words)
        if text.are_clocks(values):
            return Reading("duration", text.CLOCK, missing=words)
    n_known = int(known.sum())
    if n_known >= _ID_ROWS and len(levels) >= _ID_SHARE * n_known:
        ambiguous = not column.declared and text.is_ambiguous_date(levels)
        doubt = "dates with day and month in doubt; write 2024-03-31" if ambiguous else ""
        return Reading("category", dropped=doubt or _nearly_numbers(column, levels) or ID)
    return Reading("category")


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


def _known_levels(column: Column) -> list[str]:
    """Levels of a category that occur."""
    return [column.levels[code] for code in np.unique(column.values[~column.missing])]


def _nearly_numbers(column: Column, levels: list[str]) -> str:
    """A message if all but a few values of a text column are numbers; else empty."""
    if column.declared or len(levels) < _ID_ROWS:
        return ""
    wrong = text.slips(levels)
    listed = ", ".join(repr(one[:_LONGEST]) for one in wrong[:_NAMED])
    more = ", …" if len(wrong) > _NAMED else ""
    return (
        f"numbers except for {listed}{more}; correct these cells or leave them empty"
        if wrong
        else ""
    )


def looks_like_id(values: np.ndarray) -> bool:
    """Whether numbers may be ids: whole, distinct, and rising or dense."""
    values = values[~np.isnan(values)]
    if len(values) < _ID_ROWS or np.any(values != np.round(values)):
        return False
    if len(np.unique(values)) < len(values):
        return False
    return bool(np.all(np.diff(values) > 0) or np.ptp(values) < 2 * len(values))


def read_column(
    column: Column, reading: Reading, where: str, known: Callable[[str], bool] | None = None
) -> Column:
    """Convert a column to the kind that it had in training; raises ValueError if impossible.

    `where` names the column in messages. `known` returns whether a level of a category occurred in
    training.
    """
    if column.kind == "category" and reading.missing:
        column = _without(column, reading.missing)
    if column.kind == reading.kind:
        return column
    if column.missing.all():
        return _empty(reading.kind, len(column.values))
    if reading.kind == "category":
        converted = _as_levels(column)
        if known is None or any(known(one) for one in converted.levels):
            return converted
        raise _other_kind(where, reading, column)
    if column.kind == "category":
        return _from_text(column, reading, where)
    if reading.kind == "number" and column.kind == "boolean":
        return Column("number", column.values)
    if reading.kind == "boolean" and np.isin(column.values[~column.missing], (0, 1)).all():
        return Column("boolean", column.values)
    raise _other_kind(where, reading, column)


def _empty(kind: str, n_rows: int) -> Column:
    if kind == "category":
        return Column(kind, np.full(n_rows, -1, dtype=np.int64))
    return Column(kind, np.full(n_rows, np.nan))


def _as_levels(column: Column) -> Column:
    """Numbers, booleans and dates as text, as `column_of_objects` would convert them."""
    unique, codes = np.unique(column.values, return_inverse=True)
    unique = unique[~np.isnan(unique)]  # NaN comes last
    if column.kind == "boolean":
        names = ["True" if value else "False" for value in unique]
    elif column.kind == "datetime":
        names = [str(np.datetime64(round(value * 1e6), "us").item()) for value in unique]
    else:
        names = [str(level(value)) for value in unique]
    codes = np.where(column.missing, -1, codes.reshape(-1))
    return Column("category", codes.astype(np.int64), tuple(names))


def _from_text(column: Column, reading: Reading, where: str) -> Column:
    used = np.unique(column.values[column.values >= 0])
    levels = [column.levels[code] for code in used]
    found = np.full(len(column.levels) + 1, np.nan)  # the last for missing values
    try:
        found[used] = _values(levels, reading)
    except ValueError as error:
        raise ValueError(f"{where} was a {reading.kind} in training; {error}") from None
    return Column(reading.kind, found[column.values])


def _values(levels: list[str], reading: Reading) -> np.ndarray:
    if reading.kind == "number":
        return text.numbers(levels, reading.style or text.number_style(levels) or "point")
    if reading.kind == "datetime":
        return text.dates(levels, reading.style or text.date_style(levels) or "iso")
    if reading.kind == "duration":
        return text.clocks(levels)
    if all(one.lower() in _TRUTH for one in levels):
        return np.array([_TRUTH[one.lower()] for one in levels])
    raise ValueError(f"{levels[0]!r} is not a {reading.kind}")


def _other_kind(where: str, reading: Reading, column: Column) -> ValueError:
    return ValueError(f"{where} was a {reading.kind} in training and is a {column.kind} now")
