"""Columns of data frames, of any library that narwhals supports, of dicts and of objects."""

from __future__ import annotations

import datetime
import math
import numbers
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, SupportsFloat

import numpy as np

if TYPE_CHECKING:
    from narwhals import Series
    from narwhals.typing import IntoFrame


@dataclass(frozen=True, eq=False)
class Column:
    """One column.

    Attributes
    ----------
    kind : {"number", "category", "boolean", "datetime", "duration"}
    values : ndarray of shape (n,)
        Float64, NaN for missing values; booleans as 0 and 1, datetimes as seconds since 1970 in
        local time, durations as seconds. Categories: int64 positions in `levels`, −1 for missing
        values.
    levels : tuple of str
        Levels of a category; some may not occur.
    declared : bool
        Whether the column has a categorical dtype; its text is then not converted to numbers.
    """

    kind: str
    values: np.ndarray
    levels: tuple[str, ...] = ()
    declared: bool = False

    def take(self, rows: np.ndarray | slice) -> Column:
        """The column at some rows."""
        return Column(self.kind, self.values[rows], self.levels, self.declared)

    @property
    def missing(self) -> np.ndarray:
        """Which rows have no value."""
        return self.values < 0 if self.kind == "category" else np.isnan(self.values)


def label(names: Sequence[str] | None, position: int) -> str:
    """Name of a column in messages."""
    return f"column {position}" if names is None else f"column {names[position]!r}"


def check_names(names: list[str]) -> None:
    """Raise ValueError if several columns have the same name."""
    if len(set(names)) < len(names):
        counts = {name: names.count(name) for name in names}
        twice = ", ".join(f"{name!r} ({n}×)" for name, n in sorted(counts.items()) if n > 1)
        raise ValueError(f"X has several columns with the same name: {twice}; rename or drop them")


def columns_of_frame(X: IntoFrame) -> tuple[list[str], list[Column]]:
    """Names and columns of a frame."""
    import narwhals.stable.v2 as nw
    from narwhals.exceptions import NarwhalsError

    try:
        frame = nw.from_native(X)
    except (ValueError, NarwhalsError):  # perhaps about names: list them
        check_names([str(name) for name in X.columns])
        raise
    except TypeError as error:
        raise TypeError(
            f"X of type {type(X).__name__} is not a table: pass an array, a list of rows, a dict "
            "of columns or a DataFrame"
        ) from error
    if isinstance(frame, nw.LazyFrame):
        frame = frame.collect()
    names = [str(name) for name in frame.columns]
    series = enumerate(frame.iter_columns())
    return names, [_of_series(one, label(names, j)) for j, one in series]


def _of_series(series: Series, where: str) -> Column:
    import narwhals.stable.v2 as nw

    dtype = series.dtype
    if dtype.is_numeric():
        return Column("number", _floats(series))
    if dtype == nw.Boolean:
        return Column("boolean", _floats(series))
    if dtype in (nw.Categorical, nw.Enum):
        return categories(series.to_list(), declared=True)
    if dtype == nw.String:
        return categories(series.to_list())
    if dtype == nw.Date:
        series, dtype = series.cast(nw.Datetime("us")), nw.Datetime("us")
    if dtype == nw.Datetime:
        if getattr(dtype, "time_zone", None) is not None:
            series = series.dt.replace_time_zone(None)  # keep local time, for hours and weekdays
        return Column("datetime", _floats(series.dt.timestamp("us")) / 1e6)
    if dtype == nw.Duration:
        return Column("duration", _durations(series))
    return column_of_objects(series.to_list(), where)


def _durations(series: Series) -> np.ndarray:
    """Seconds, from whole microseconds: narwhals converts through floats and truncates."""
    values = np.asarray(series.to_numpy()).astype("timedelta64[us]")
    return np.where(np.isnat(values), np.nan, values.astype(np.int64) / 1e6)


def _floats(series: Series) -> np.ndarray:
    """Float64 with NaN where the library marks a value as missing."""
    import narwhals.stable.v2 as nw

    values = np.asarray(series.to_numpy())
    if values.dtype.kind not in "biuf":  # objects with the library's own missing value
        values = np.asarray(series.cast(nw.Float64).to_numpy())
    return values.astype(np.float64, copy=False)


def columns_of_dict(X: Mapping[object, object]) -> list[Column]:
    """The columns of a dict, each an array or a list."""
    return [_of_values(X[key], label([str(key)], 0)) for key in X]


def _of_values(values: object, where: str) -> Column:
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
    numbers = (np.nan if is_missing(value) else convert(value) for value in values)
    return Column(kind, np.fromiter(numbers, np.float64, len(values)))


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
    return _duration(day.replace(tzinfo=None) - datetime.datetime(1970, 1, 1))


def _duration(value: datetime.timedelta | np.timedelta64 | datetime.time) -> float:
    """Seconds, to the microsecond."""
    if isinstance(value, datetime.time):
        return value.hour * 3600 + value.minute * 60 + value.second + value.microsecond / 1e6
    if isinstance(value, np.timedelta64):
        return int(value.astype("timedelta64[us]").astype(np.int64)) / 1e6
    return value // datetime.timedelta(microseconds=1) / 1e6


_CONVERTERS: dict[str, Callable[[Any], float]] = {
    "number": _number,
    "boolean": float,
    "datetime": _seconds,
    "duration": _duration,
}
