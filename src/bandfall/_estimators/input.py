"""Validation of the tables that users pass: frames or arrays, targets, weights and groups."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, replace

import numpy as np
from sklearn.utils import check_consistent_length, column_or_1d
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from bandfall._products.base import distinct_rows
from bandfall._targets import Target
from bandfall._targets.losses import training_weights
from bandfall._targets.numbers import check_variation
from bandfall._typing import ArrayLike, Estimator, TableLike, Weights
from bandfall._warnings import warn_caller
from bandfall.tables import Table, is_frame, prepare_table, read_table
from bandfall.tables._table import is_missing

FLOATS = (np.float64, np.float32)
_MANY_COPIES = 0.5  # share of all rows


@dataclass(frozen=True)
class TrainingTable:
    """Validated rows to train on."""

    table: Table
    target: Target  # learned from y, not yet coded
    values: np.ndarray  # (n,) or (n, k): the target
    weights: Weights  # (n,)
    groups: np.ndarray | None  # (n,): group or time of each row
    dtype: np.dtype  # of the features
    numbers: np.ndarray | None = None  # indices of these rows in X, in order; None for all
    ordered: bool = False  # whether groups are times, of which the latest are held out

    def __len__(self) -> int:
        return len(self.values)

    def take(self, rows: np.ndarray) -> TrainingTable:
        """The table with some of the rows."""
        return replace(
            self,
            table=self.table.take(rows),
            values=self.values[rows],
            weights=None if self.weights is None else training_weights(self.weights[rows]),
            groups=None if self.groups is None else self.groups[rows],
            numbers=rows if self.numbers is None else self.numbers[rows],
        )

    def group_numbers(self) -> np.ndarray | None:
        """Groups as 0, 1, …, in the order of time if they are times."""
        if self.groups is None or not self.ordered:
            return None if self.groups is None else group_numbers(self.groups)
        times, numbers = np.unique(self.groups, return_inverse=True)
        if len(times) < 2:
            raise ValueError(
                "time must hold at least two times, so that later rows can be held out"
            )
        return numbers


def training_table(
    estimator: Estimator,
    kind: type[Target],
    X: TableLike,
    y: ArrayLike,
    sample_weight: ArrayLike | None,
    groups: ArrayLike | None,
    time: str | ArrayLike | None = None,
    class_weight: dict[object, float] | str | None = None,
) -> TrainingTable:
    """Validate the arguments of `fit`, without rows of weight zero.

    Stores names and number of features on the estimator.
    """
    X = _as_table(X)
    _refuse_missing_targets(y)
    if _holds_more_than_numbers(X):
        table, dtype = _read(estimator, X, reset=True), np.dtype(np.float64)
        target, values = kind.learn(y)
        if len(values) != len(table):
            raise ValueError(f"y has {len(values)} rows, but X has {len(table)}")
    else:
        rows, y = validate_data(
            estimator, X, y, dtype=FLOATS, ensure_all_finite="allow-nan", **kind.checks
        )
        target, values = kind.learn(y)
        table, dtype = read_table(rows), rows.dtype
    weights = None
    if sample_weight is not None or class_weight is not None:
        weights = _check_sample_weight(sample_weight, values, ensure_non_negative=True)
    if class_weight is not None:
        weights = weights * compute_sample_weight(class_weight, np.ravel(y))
    if groups is not None and time is not None:
        raise ValueError("give groups or time, not both: either decides which rows are held out")
    known = None if groups is None else column_or_1d(groups)
    if time is not None:
        known = _times(table, time)
    if known is not None:
        check_consistent_length(values, known)
    rows = TrainingTable(table, target, values, weights, known, dtype, ordered=time is not None)
    if weights is None:
        return rows
    used = np.flatnonzero(weights > 0)
    if not len(used):
        raise ValueError("sample_weight must be positive for at least one row")
    rows = rows.take(used)
    return replace(rows, numbers=None) if len(used) == len(values) else rows


def new_table(estimator: Estimator, X: TableLike) -> Table:
    """Validate rows to predict."""
    check_is_fitted(estimator)
    X = _as_table(X)
    if _holds_more_than_numbers(X):
        return _read(estimator, X, reset=False)
    X = validate_data(estimator, X, reset=False, dtype=FLOATS, ensure_all_finite="allow-nan")
    return read_table(X)


def _read(estimator: Estimator, X: TableLike, *, reset: bool) -> Table:
    """Read a frame or an array of objects; store its names, or compare them with those of `fit`."""
    table = read_table(X)
    if isinstance(X, np.ndarray) or hasattr(X, "__dataframe__"):
        validate_data(estimator, X, reset=reset, skip_check_array=True)
    elif reset:
        estimator.n_features_in_ = table.width
        estimator.feature_names_in_ = np.asarray(table.names, dtype=object)
    return table


def _as_table(X: TableLike) -> TableLike:
    """X, or an array of objects for lists of rows that contain text; refuses what is no table."""
    refuse_series(X)
    dicts = isinstance(X, list | tuple) and len(X) > 0 and isinstance(X[0], dict)
    if dicts or (isinstance(X, np.ndarray) and X.dtype.names is not None):
        raise TypeError("rows as dicts or records are not supported; use pandas.DataFrame(X)")
    if not isinstance(X, list | tuple) or not all(isinstance(row, list | tuple) for row in X):
        return X
    if not any(isinstance(value, str) for row in X for value in row):
        return X
    lengths = {len(row) for row in X}
    if len(lengths) > 1:
        raise ValueError(f"the rows of X have different lengths: {sorted(lengths)}")
    objects = np.empty((len(X), *lengths), dtype=object)
    objects[:] = X
    return objects


def _holds_more_than_numbers(X: TableLike) -> bool:
    """Whether X is a frame, or an array with text or times in it."""
    if not isinstance(X, np.ndarray) or X.ndim != 2:
        return is_frame(X)
    kinds = (str, datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64)
    objects = X.dtype == object and any(isinstance(value, kinds) for value in X.flat)
    return objects or X.dtype.kind in "US"


def _refuse_missing_targets(y: ArrayLike) -> None:
    """Raise ValueError if targets are missing."""
    values = np.asarray(y)
    if values.ndim == 0 or values.dtype.kind not in "fO":
        return
    is_nan = np.isnan if values.dtype.kind == "f" else np.frompyfunc(is_missing, 1, 1)
    missing = is_nan(values).astype(bool)
    if not missing.any():
        return
    rows = np.flatnonzero(missing.reshape(len(missing), -1).any(axis=1))
    raise ValueError(
        f"Input y contains NaN: {len(rows):,} of {len(values):,} rows have no target, first "
        f"row {rows[0]}; remove these rows before fit"
    )


def _times(table: Table, time: str | ArrayLike) -> np.ndarray:
    """The times of rows as numbers (n,), from a column of the table or from an array."""
    if not isinstance(time, str):
        column = read_table({"time": np.ravel(time)}).columns[0]
    elif table.names is not None and time in table.names:
        column = table.columns[table.names.index(time)]
    else:
        raise ValueError(f"time={time!r} is not a column of X")
    column = prepare_table(Table(["time"], parts=[column]), warn=False).columns[0]
    if column.kind == "category" or np.isnan(column.values).any():
        raise ValueError("time must hold a number or a date for each row")
    return column.values


def group_numbers(values: np.ndarray) -> np.ndarray:
    """The groups as 0, 1, …, shape (n,); every missing value is a separate group.

    Examples
    --------
    >>> group_numbers(np.array(["b", "a", "b"])).tolist()
    [0, 1, 0]
    """
    numbers: dict[object, int] = {}
    found = [
        numbers.setdefault(row if value is None or value != value else (value,), len(numbers))
        for row, value in enumerate(values.tolist())
    ]
    if len(numbers) < 2:
        raise ValueError("groups must name at least two groups, so that one can be held out")
    return np.array(found)


def warn_of_copies(columns: np.ndarray, targets: np.ndarray) -> None:
    """Warn if most rows are copies of earlier rows, including the target."""
    if not columns.shape[1]:  # without features all rows are equal
        return
    n_distinct = len(distinct_rows(np.column_stack([columns, targets]))[0])
    n_copies = len(columns) - n_distinct
    if n_copies > _MANY_COPIES * len(columns):
        warn_caller(
            f"{n_copies:,} of {len(columns):,} rows repeat an earlier row, target included. If "
            "they are copies (an up-sampled table), the held-out score is too good: put all "
            "copies of a row into one group (groups= in Python, --group in a shell)",
        )


def refuse_series(X: TableLike) -> None:
    """Raise ValueError for a Series in place of a table."""
    if type(X).__name__ == "Series":
        raise ValueError(
            "X is a Series, not a table: write df.iloc[[i]] instead of df.iloc[i] for one row, "
            "df[['name']] instead of df['name'] for one column"
        )


def columns_without_numbers(X: TableLike) -> str:
    """Names and dtypes of a table's columns that hold no numbers, for an error message."""
    if not (hasattr(X, "dtypes") and hasattr(X, "columns")):
        return ""
    kinds = zip(X.columns, X.dtypes, strict=True)
    return ", ".join(
        f"{name!r} ({dtype})" for name, dtype in kinds if getattr(dtype, "kind", "O") not in "biuf"
    )


def check_magnitudes(X: np.ndarray, y: np.ndarray) -> None:
    """Raise ValueError if distances or sums would leave the range of the dtype."""
    check_distances(X)
    limits = np.finfo(X.dtype)
    spread = float(np.ptp(X, axis=0).max())
    if 0.0 < spread < (float(limits.tiny) / float(limits.eps)) ** 0.5:
        raise ValueError(
            f"X spans no more than {spread:.3g} in any feature, too little for distances in "
            f"{X.dtype}; rescale the features"
        )
    if y.dtype.kind not in "biuf":
        raise ValueError(f"y must hold numbers only; got dtype {y.dtype}")
    largest = float(np.abs(y, dtype=np.float64).max())
    if largest > float(limits.max) / (4.0 * len(y)):
        raise ValueError(
            f"y has values as large as {largest:.3g}, too large for sums in {X.dtype}; rescale "
            "the target"
        )
    check_variation(y, float(limits.tiny) / float(limits.eps), X.dtype)


def check_distances(X: np.ndarray) -> None:
    """Raise ValueError for features so large that squared distances would overflow."""
    largest = float(max(X.max(), -X.min()))
    allowed = (float(np.finfo(X.dtype).max) / (16.0 * X.shape[1])) ** 0.5
    if largest > allowed:
        raise ValueError(
            f"X has values as large as {largest:.3g}, too large for distances in {X.dtype}, where "
            f"at most {allowed:.3g} is allowed; rescale the features"
        )
