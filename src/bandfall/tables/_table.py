"""Tables for the encodings: columns of a few kinds, numbers in float64."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeGuard

import numpy as np

from bandfall._typing import TableLike
from bandfall.tables._columns import (
    Column,
    check_names,
    column_of_objects,
    columns_of_dict,
    columns_of_frame,
    label,
)
from bandfall.tables._text import STYLES

if TYPE_CHECKING:
    from narwhals.typing import IntoFrame

KINDS = ("number", "category", "boolean", "datetime", "duration")
LARGEST = 1e300  # differences of larger values may overflow


@dataclass(frozen=True)
class Reading:
    """The kind of a column, and how its text is read.

    Attributes
    ----------
    kind : {"number", "category", "boolean", "datetime", "duration"}
    style : str
        How numbers or times are written as text; empty if the column is not text.
    dropped : str
        Why the column is not used; empty if it is used.
    missing : tuple of str
        Words that stand for a missing value in a column of text.
    """

    kind: str
    style: str = ""
    dropped: str = ""
    missing: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in KINDS or self.style not in ("", *STYLES.get(self.kind, ())):
            raise ValueError(f"a column of kind {self.kind!r} and style {self.style!r} is unknown")


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of equal length; see `read_table`.

    Attributes
    ----------
    names : list of str or None
        None for arrays.
    matrix : ndarray of shape (n, d) or None
        All columns, if all are numbers.
    parts : list of Column
        The columns, if not all are numbers.
    readings : list of Reading
        The kinds that `prepare_table` decided; empty before.
    """

    names: list[str] | None
    matrix: np.ndarray | None = None
    parts: list[Column] = field(default_factory=list)
    readings: list[Reading] = field(default_factory=list)

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


def is_frame(X: TableLike) -> bool:
    """Whether X is a table with named columns: a frame of any library, or a dict of columns.

    Examples
    --------
    >>> is_frame({"a": [1, 2]}), is_frame([[1, 2]]), is_frame(np.eye(2))
    (True, False, False)
    """
    if _is_sparse(X):  # some sparse matrices are dicts
        return False
    return isinstance(X, dict | Table) or _has_columns(X)


def _has_columns(X: TableLike) -> TypeGuard[IntoFrame]:
    """Whether X is a frame; asks its class, because `columns` of a lazy frame runs its query."""
    return hasattr(type(X), "columns")


def _is_sparse(X: TableLike) -> bool:
    return hasattr(type(X), "toarray")


def read_table(X: TableLike) -> Table:
    """Read a table from an array, a frame or a dict of columns.

    Parameters
    ----------
    X : ndarray, list of rows, frame (pandas, polars, pyarrow, …) or dict of columns
        Missing values: NaN, None, NA, NaT, empty text.

    Returns
    -------
    Table

    Raises
    ------
    ValueError
        For infinite values or magnitudes beyond 1e300, and for values that are neither numbers,
        text, booleans nor times; names the column.

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
        return _of_columns([str(name) for name in X], columns_of_dict(X))
    if _has_columns(X):
        return _of_columns(*columns_of_frame(X))
    return _read_array(_array_of_rows(X))


def _array_of_rows(X: TableLike) -> np.ndarray:
    try:
        rows = np.asarray(X)
    except ValueError as error:
        raise ValueError(f"the rows of X have no common length: {error}") from None
    # NumPy converts numbers among text to text: read the rows again as objects.
    return np.array(X, dtype=object) if rows.dtype.kind in "USO" else rows


def _read_array(X: np.ndarray) -> Table:
    if X.ndim != 2:
        raise ValueError(
            f"Expected 2D array, got {X.ndim}D array instead: X must have rows and columns; "
            "X.reshape(-1, 1) makes one column, X.reshape(1, -1) one row"
        )
    if X.dtype.kind in "biuf":
        matrix = np.asarray(X, dtype=np.float64)
        _check_size(len(matrix), matrix.shape[1])
        check_magnitudes(None, matrix)
        return Table(None, matrix)
    if X.dtype.kind == "c":
        raise ValueError("Complex data not supported: X must hold real numbers")
    return _of_columns(
        None, [column_of_objects(list(X[:, j]), label(None, j)) for j in range(X.shape[1])]
    )


def _of_columns(names: list[str] | None, columns: list[Column]) -> Table:
    """A table with checked numbers, as one matrix if all columns are numbers."""
    lengths = {len(column.values) for column in columns}
    if len(lengths) > 1:
        raise ValueError(f"the columns of X have different lengths: {sorted(lengths)}")
    _check_size(max(lengths, default=0), len(columns))
    if names is not None:
        check_names(names)
    for position, column in enumerate(columns):
        if column.kind != "category":
            check_magnitudes(names, column.values[:, None], position)
    if all(column.kind == "number" for column in columns):
        return Table(names, np.column_stack([column.values for column in columns]))
    return Table(names, None, columns)


def _check_size(n_rows: int, n_columns: int) -> None:
    if n_columns == 0:
        raise ValueError("Found array with 0 feature(s) while a minimum of 1 is required.")
    if n_rows == 0:
        raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required.")


def check_magnitudes(names: list[str] | None, matrix: np.ndarray, first: int = 0) -> None:
    """Raise ValueError if `matrix` has infinite or huge values; names the column."""
    wrong = np.abs(matrix) > LARGEST
    if not wrong.any():
        return
    position = int(np.flatnonzero(wrong.any(axis=0))[0])
    where = label(names, first + position)
    if np.isinf(matrix[:, position]).any():
        raise ValueError(f"Input X contains infinity: {where} holds infinite values")
    raise ValueError(f"{where} holds values beyond ±{LARGEST:.0e}; use a larger unit")
