"""How the columns of a table are read: decided on training rows, kept for all later ones."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from bandfall.encoding import text
from bandfall.encoding.objects import level
from bandfall.encoding.standard import is_constant
from bandfall.encoding.table import Column, Reading, Table, label

_ID_ROWS = 20  # fewer rows may differ by chance
_ID_SHARE = 0.9  # of values that differ
_NAMED, _LONGEST = 3, 30  # levels in a message, and their characters
CONSTANT = "constant"
_ID = "nearly all values differ, as those of an id"
_TRUTH = {"true": 1.0, "false": 0.0, "1": 1.0, "0": 0.0}


def prepare_table(table: Table, *, warn: bool = True) -> Table:
    """A table of training rows with text that is numbers or times read as such.

    What each column is taken for is decided here, once: encoders that learn from the prepared
    table, or from some of its rows, keep to it.

    Warns
    -----
    UserWarning
        Once for text that is read, once for columns that are left out, naming them.
    """
    if table.readings:
        return table
    readings = [learn_reading(column) for column in table.columns]
    if warn:
        _warn_of(readings, table)
    if table.matrix is not None:
        return replace(table, readings=readings)
    parts = [
        column if reading.dropped else read_column(column, reading, label(table.names, j), None)
        for j, (column, reading) in enumerate(zip(table.parts, readings, strict=True))
    ]
    return Table(table.names, None, parts, readings)


def _warn_of(readings: list[Reading], table: Table) -> None:
    read, dropped, categories = [], [], []
    for j, (reading, column) in enumerate(zip(readings, table.columns, strict=True)):
        where = label(table.names, j)
        if reading.style:
            read.append(f"{where} as {reading.kind}s ({reading.style})")
        if reading.dropped not in ("", CONSTANT):
            dropped.append(f"{where} ({reading.dropped})")
        elif reading.kind == "category" and (why := _nearly_numbers(column, _known_levels(column))):
            categories.append(f"{where} ({why})")
    if read:
        warnings.warn(f"text is read: {', '.join(read)}", UserWarning, stacklevel=4)
    if dropped:
        warnings.warn(f"columns are left out: {', '.join(dropped)}", UserWarning, stacklevel=4)
    if categories:
        message = f"columns are taken as categories: {', '.join(categories)}"
        warnings.warn(message, UserWarning, stacklevel=4)


def learn_reading(column: Column) -> Reading:
    """Decide what a column of training rows is."""
    known = ~column.missing
    if not known.any():
        return Reading(column.kind, dropped="no value")
    if column.kind != "category":
        constant = known.all() and is_constant(column.values)
        return Reading(column.kind, dropped=CONSTANT if constant else "")
    levels = _known_levels(column)
    if len(levels) == 1 and known.all():
        return Reading("category", dropped=CONSTANT)
    if not column.declared:
        if style := text.number_style(levels):
            return Reading("number", style)
        if style := text.date_style(levels):
            return Reading("datetime", style)
        if text.are_clocks(levels):
            return Reading("duration", text.CLOCK)
    n_known = int(known.sum())
    if n_known >= _ID_ROWS and len(levels) >= _ID_SHARE * n_known:
        ambiguous = not column.declared and text.is_ambiguous_date(levels)
        doubt = "dates with day and month in doubt; write 2024-03-31" if ambiguous else ""
        return Reading("category", dropped=doubt or _nearly_numbers(column, levels) or _ID)
    return Reading("category")


def _known_levels(column: Column) -> list[str]:
    """Levels of a category that some row has."""
    return [column.levels[code] for code in np.unique(column.values[~column.missing])]


def _nearly_numbers(column: Column, levels: list[str]) -> str:
    """What keeps text from being numbers, where it is little; else empty."""
    if column.declared or len(levels) < _ID_ROWS:
        return ""
    wrong = text.slips(levels)
    listed = ", ".join(repr(one[:_LONGEST]) for one in wrong[:_NAMED])
    more = ", …" if len(wrong) > _NAMED else ""
    return f"numbers but for {listed}{more}; correct or empty these" if wrong else ""


def looks_like_id(values: np.ndarray) -> bool:
    """Whether numbers may be ids: whole, all different, and one after the other or dense."""
    values = values[~np.isnan(values)]
    if len(values) < _ID_ROWS or np.any(values != np.round(values)):
        return False
    if len(np.unique(values)) < len(values):
        return False
    return bool(np.all(np.diff(values) > 0) or np.ptp(values) < 2 * len(values))


def read_column(column: Column, reading: Reading, where: str, known: Callable | None) -> Column:
    """A column as the kind that the training rows had.

    Parameters
    ----------
    column : Column
    reading : Reading
    where : str
        What messages call the column.
    known : callable (str) -> bool or None
        Of a category: whether a level was seen in training.

    Raises
    ------
    ValueError
        Naming the column, where it is of another kind.
    """
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
    """Numbers, truth values and dates as text, in the way objects are."""
    unique, codes = np.unique(column.values, return_inverse=True)
    unique = unique[~np.isnan(unique)]  # the last
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
        raise ValueError(f"{where} holds a {reading.kind} in training; {error}") from None
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
    raise ValueError(f"{levels[0]!r} is none")


def _other_kind(where: str, reading: Reading, column: Column) -> ValueError:
    return ValueError(f"{where} was a {reading.kind} in training and is a {column.kind} now")
