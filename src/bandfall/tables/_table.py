"""Tables for the encodings: columns of a few kinds, read from arrays, frames, dicts and objects."""

from __future__ import annotations

import datetime
import math
import numbers
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any, SupportsFloat, TypeGuard

import numpy as np

from bandfall._typing import TableLike
from bandfall.tables._text import STYLES

if TYPE_CHECKING:
    from narwhals import Series
    from narwhals.typing import IntoFrame

KINDS = ("number", "category", "boolean", "datetime", "duration")
LARGEST = 1e300  # differences of larger values may overflow


@dataclass(frozen=True, eq=False)
class Column:
    """One column.

    Values are float64, NaN if missing: booleans as 0 and 1, datetimes as seconds since 1970 in
    local time, durations as seconds. Those of categories are int64 positions in `levels`, −1 if
    missing.
    """

    kind: str  # of KINDS
    values: np.ndarray
    levels: tuple[str, ...] = ()  # of a category; some may not occur
    declared: bool = False  # has a categorical dtype: its text is not converted to numbers

    def take(self, rows: np.ndarray | slice) -> Column:
        """The column at some rows."""
        return Column(self.kind, self.values[rows], self.levels, self.declared)

    @property
    def missing(self) -> np.ndarray:
        """Which rows have no value."""
        return self.values < 0 if self.kind == "category" else np.isnan(self.values)


@dataclass(frozen=True)
class Reading:
    """The kind of a column, and how its text is read."""

    kind: str  # of KINDS
    style: str = ""  # how numbers or times are written as text; empty if the column is not text
    dropped: str = ""  # why the column is not used; empty if it is used
    missing: tuple[str, ...] = ()  # words that stand for a missing value in a column of text

    def __post_init__(self) -> None:
        if self.kind not in KINDS or self.style not in ("", *STYLES.get(self.kind, ())):
            raise ValueError(f"a column of kind {self.kind!r} and style {self.style!r} is unknown")


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of equal length; see `read_table`."""

    names: list[str] | None  # None for arrays
    matrix: np.ndarray | None = None  # (n, d): all columns, if all are numbers
    parts: list[Column] = field(default_factory=list)  # the columns, if not all are numbers
    readings: list[Reading] = field(default_factory=list)  # decided by `prepare_table`

    @property
    def columns(self) -> list[Column]:
        """All columns as `Column` objects."""
        if self.matrix is None:
            return self.parts
        return [Column("number", values) for values in self.matrix.T]

    @property
    def width(self) -> int:
        """Number of columns."""
        return len(self.parts) if self.matrix is None else self.matrix.shape[1]

    def numbers(self, positions: list[int]) -> np.ndarray:
        """Columns of numbers, booleans or times, shape (n, len(positions)), NaN for gaps."""
        if self.matrix is not None:
            complete = len(positions) == self.matrix.shape[1]
            return self.matrix if complete else self.matrix[:, positions]
        values = np.empty((len(self), len(positions)))
        for i, position in enumerate(positions):
            values[:, i] = self.parts[position].values
        return values

    def __len__(self) -> int:
        return len(self.parts[0].values) if self.matrix is None else len(self.matrix)

    def take(self, rows: np.ndarray | slice) -> Table:
        """Some of the rows: positions, a mask or a slice."""
        if self.matrix is not None:
            return Table(self.names, self.matrix[rows], readings=self.readings)
        parts = [column.take(rows) for column in self.parts]
        return Table(self.names, None, parts, self.readings)


def _has_columns(X: TableLike) -> TypeGuard[IntoFrame]:
    """Whether X is a frame, by its class, because `columns` of a lazy frame runs its query."""
    return hasattr(type(X), "columns")


def _is_sparse(X: TableLike) -> bool:
    return hasattr(type(X), "toarray")


def read_table(X: TableLike) -> Table:
    """Read a table from an array, a frame or a dict of columns.

    X is an ndarray, a list of rows, a frame (pandas, polars, pyarrow, …) or a dict of columns.
    Missing values are NaN, None, NA, NaT and empty text. Raises ValueError, which names the column,
    for magnitudes beyond 1e300, and for values that are neither numbers, text, booleans nor times.

    Examples
    --------
    >>> table = read_table({"age": [31, None], "sex": ["f", "m"]})
    >>> table.names, [column.kind for column in table.columns], len(table)
    (['age', 'sex'], ['number', 'category'], 2)
    >>> read_table(np.eye(3)).width
    3
    """
    if isinstance(X, Table):
        return X
    if isinstance(X, np.ndarray):
        return _read_array(X)
    if _is_sparse(X):
        raise TypeError("sparse matrices are not supported; use X.toarray()")
    if isinstance(X, dict):
        names = [str(name) for name in X]
        parts = zip(names, X.values(), strict=True)
        return _of_columns(names, [_of_values(one, label([name], 0)) for name, one in parts])
    if _has_columns(X):
        return _of_columns(*_columns_of_frame(X))
    try:
        rows = np.asarray(X)
    except ValueError as error:
        raise ValueError(f"the rows of X have no common length: {error}") from None
    # NumPy converts numbers among text to text: read the rows again as objects.
    return _read_array(np.array(X, dtype=object) if rows.dtype.kind in "USO" else rows)


def _read_array(X: np.ndarray) -> Table:
    if X.ndim != 2:
        raise ValueError(
            f"Expected 2D array, got {X.ndim}D array instead. Reshape your data: X.reshape(-1, 1) "
            "makes one column, X.reshape(1, -1) one row"
        )
    if X.dtype.kind in "biuf":
        matrix = np.asarray(X, dtype=np.float64)
        _check_size(len(matrix), matrix.shape[1])
        _check_magnitudes(None, matrix)
        return Table(None, matrix)
    if X.dtype.kind == "c":
        raise ValueError("Complex data not supported: X must hold real numbers")
    return _of_columns(
        None, [_of_objects(list(X[:, j]), label(None, j)) for j in range(X.shape[1])]
    )


def _of_columns(names: list[str] | None, columns: list[Column]) -> Table:
    """A table with checked numbers, as one matrix if all columns are numbers."""
    lengths = {len(column.values) for column in columns}
    if len(lengths) > 1:
        raise ValueError(f"the columns of X have different lengths: {sorted(lengths)}")
    _check_size(max(lengths, default=0), len(columns))
    if names is not None and len(set(names)) < len(names):
        twice = sorted({repr(name) for name in names if names.count(name) > 1})
        raise ValueError(f"X has several columns with the same name: {', '.join(twice)}")
    for position, column in enumerate(columns):
        if column.kind != "category":
            _check_magnitudes(names, column.values[:, None], position)
    if all(column.kind == "number" for column in columns):
        return Table(names, np.column_stack([column.values for column in columns]))
    return Table(names, None, columns)


def _check_size(n_rows: int, n_columns: int) -> None:
    if n_columns == 0:
        shape = f"(shape=({n_rows}, 0))"
        raise ValueError(f"Found array with 0 feature(s) {shape} while a minimum of 1 is required.")
    if n_rows == 0:
        raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required.")


def _check_magnitudes(names: list[str] | None, matrix: np.ndarray, first: int = 0) -> None:
    wrong = np.abs(matrix) > LARGEST
    if not wrong.any():
        return
    position = int(np.flatnonzero(wrong.any(axis=0))[0])
    where = label(names, first + position)
    if np.isinf(matrix[:, position]).any():
        raise ValueError(f"Input X contains infinity: {where} holds infinite values")
    raise ValueError(f"{where} holds values beyond ±{LARGEST:.0e}; use a larger unit")


def label(names: Sequence[str] | None, position: int) -> str:
    """Name of a column in messages."""
    return f"column {position}" if names is None else f"column {names[position]!r}"


def _columns_of_frame(X: IntoFrame) -> tuple[list[str], list[Column]]:
    import narwhals.stable.v2 as nw

    try:
        frame = nw.from_native(X)
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
        return Column("duration", _seconds(series.to_numpy(), "timedelta64[us]"))
    return _of_objects(series.to_list(), where)


def _floats(series: Series) -> np.ndarray:
    """Float64 with NaN where the library marks a value as missing."""
    import narwhals.stable.v2 as nw

    values = np.asarray(series.to_numpy())
    if values.dtype.kind not in "biuf":  # objects with the library's own missing value
        values = np.asarray(series.cast(nw.Float64).to_numpy())
    return values.astype(np.float64, copy=False)


def _of_values(values: object, where: str) -> Column:
    if isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind in "iufb":
        return Column("boolean" if values.dtype == bool else "number", values.astype(np.float64))
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise ValueError(f"{where} must be a list or an array of values")
    return _of_objects(list(values), where)


def _of_objects(values: Sequence[Any], where: str) -> Column:
    """A column of values of any type; a category if they are not all of one other kind."""
    kinds = {kind for value in values if (kind := _kind_of(value, where)) is not None}
    kind = kinds.pop() if len(kinds) == 1 else "category"
    if kind == "category":
        return categories(values)
    known: list[Any] = [None if is_missing(value) else value for value in values]
    if kind == "datetime":
        naive = [one.replace(tzinfo=None) if hasattr(one, "tzinfo") else one for one in known]
        return Column(kind, _seconds(naive, "datetime64[us]"))
    if kind == "duration":
        return Column(kind, _seconds(map(_as_timedelta, known), "timedelta64[us]"))
    return Column(kind, np.array([np.nan if one is None else _number(one) for one in known]))


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
    """A value as the text of a level; None if it is missing."""
    if is_missing(value):
        return None
    # A missing value elsewhere in the column turns integers into floats.
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
    return "datetime" if isinstance(value, datetime.date | np.datetime64) else "category"


def _number(value: SupportsFloat) -> float:
    try:
        return float(value)
    except OverflowError:  # an integer of hundreds of digits
        return math.inf


def _seconds(values: Iterable[object], unit: str) -> np.ndarray:
    """Seconds of times or durations, since 1970 or in all, to the microsecond."""
    whole = np.array(list(values), dtype=unit)
    return np.where(np.isnat(whole), np.nan, whole.astype(np.int64) / 1e6)


def _as_timedelta(value: object) -> object:
    """A time of day as the time since midnight; anything else as it is."""
    if not isinstance(value, datetime.time):
        return value
    return datetime.datetime.combine(datetime.date.min, value) - datetime.datetime.min
