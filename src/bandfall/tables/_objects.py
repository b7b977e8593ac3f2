"""Columns of Python objects: their kinds and their values."""

from __future__ import annotations

import datetime
import math
import numbers
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, SupportsFloat

import numpy as np

from bandfall.tables._table import Column, label

_EPOCH = datetime.datetime(1970, 1, 1)
_MICROSECOND = datetime.timedelta(microseconds=1)


def columns_of_dict(X: Mapping[object, object]) -> list[Column]:
    """The columns of a dict, each an array or a list."""
    return [_column(X[key], label([str(key)], 0)) for key in X]


def _column(values: object, where: str) -> Column:
    if isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind in "iufb":
        return Column("boolean" if values.dtype == bool else "number", values.astype(np.float64))
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise ValueError(f"{where} must be a list or an array of values")
    return column_of_objects(list(values), where)


def column_of_objects(values: Sequence[object], where: str) -> Column:
    """A column of values of any type.

    Numbers, booleans, times and durations are recognised if all values are of that kind.
    Anything else is a category whose levels are the values as text.

    Examples
    --------
    >>> column_of_objects(["b", None, "a", "b"], "x").values
    array([ 0, -1,  1,  0])
    >>> column_of_objects([True, None], "x").kind
    'boolean'
    """
    kinds = {kind for value in values if (kind := _kind_of(value, where)) is not None}
    kind = kinds.pop() if len(kinds) == 1 else "category"
    if kind == "category":
        return categories(values)
    convert = _CONVERTERS[kind]
    found = (np.nan if is_missing(value) else convert(value) for value in values)
    return Column(kind, np.fromiter(found, np.float64, len(values)))


def categories(values: Iterable[object], declared: bool = False) -> Column:
    """A category whose levels are the values as text; a column of NaN if all are missing."""
    seen: dict[object, int] = {}
    codes = np.array([seen.setdefault(value, len(seen)) for value in values], dtype=np.int64)
    levels: dict[str, int] = {}
    places = np.full(len(seen), -1, dtype=np.int64)
    for value, code in seen.items():
        text = level(value)
        if text is not None:
            places[code] = levels.setdefault(text, len(levels))
    if not levels and not declared:
        return Column("number", np.full(len(codes), np.nan))
    return Column("category", places[codes], tuple(levels), declared)


def level(value: object) -> str | None:
    """A value as the text of a level; None if it is missing.

    Whole numbers are written without a decimal point, because a missing value elsewhere in the
    column turns integers into floats.

    Examples
    --------
    >>> level(2.0), level("2"), level(None), level(" ")
    ('2', '2', None, None)
    """
    if isinstance(value, str):
        return value if value and not value.isspace() else None
    if is_missing(value):
        return None
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value)


def is_missing(value: object) -> bool:
    """Whether a value is missing: None, NaN, NA, NaT, empty text."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(value, str):
        return not value or value.isspace()
    return isinstance(value, float | np.generic | Decimal) and bool(value != value)


def _kind_of(value: object, where: str) -> str | None:
    if isinstance(value, str):
        return "category" if value and not value.isspace() else None
    if is_missing(value):
        return None
    if isinstance(value, bool | np.bool_):
        return "boolean"
    if isinstance(value, datetime.timedelta | np.timedelta64 | datetime.time):
        return "duration"  # before numbers: a timedelta64 is an np.number
    if isinstance(
        value, bytes | list | tuple | set | dict | np.ndarray | complex | np.complexfloating
    ):
        raise ValueError(
            f"{where} holds values of type {type(value).__name__}; "
            "supported are numbers, text, booleans and times: convert the column, or drop it"
        )
    if isinstance(value, numbers.Real | np.number | Decimal):
        return "number"
    if isinstance(value, datetime.date | np.datetime64) or type(value).__name__ == "Period":
        return "datetime"
    return "category"


def _number(value: SupportsFloat) -> float:
    try:
        return float(value)
    except OverflowError:  # an integer of hundreds of digits
        return math.inf


def _seconds(value: Any) -> float:
    """Seconds since 1970 in local time; a pandas period, such as a month, counts as its start."""
    if isinstance(value, np.datetime64):
        return float(value.astype("datetime64[us]").astype(np.int64) / 1e6)
    day = value if isinstance(value, datetime.date) else value.start_time
    if not isinstance(day, datetime.datetime):
        day = datetime.datetime(day.year, day.month, day.day)
    return _duration(day.replace(tzinfo=None) - _EPOCH)


def _duration(value: datetime.timedelta | np.timedelta64 | datetime.time) -> float:
    """Seconds, to the microsecond."""
    if isinstance(value, datetime.time):
        return value.hour * 3600 + value.minute * 60 + value.second + value.microsecond / 1e6
    if isinstance(value, np.timedelta64):
        return int(value.astype("timedelta64[us]").astype(np.int64)) / 1e6
    return value // _MICROSECOND / 1e6


_CONVERTERS: dict[str, Callable[[Any], float]] = {
    "number": _number,
    "boolean": float,
    "datetime": _seconds,
    "duration": _duration,
}
