"""What users pass: arrays of any library, frames, targets, weights and groups, validated.

Arrays of any library are converted to NumPy arrays, and results are NumPy arrays.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from sklearn.utils import assert_all_finite, check_consistent_length, column_or_1d
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from bandfall._checks import warn_caller
from bandfall._products.base import distinct_rows
from bandfall._targets import Target
from bandfall._targets.losses import training_weights
from bandfall._targets.numbers import check_variation
from bandfall._typing import Array, ArrayLike, Estimator, TableLike, Weights
from bandfall.tables import Table, prepare_table, read_table
from bandfall.tables._table import is_missing

FLOATS = (np.float64, np.float32)
_MANY_COPIES = 0.5  # share of all rows


class TrainingTable(NamedTuple):
    """Validated rows to train on."""

    table: Table
    target: Target  # learned from y, not yet coded
    values: np.ndarray  # (n,) or (n, k): the target
    weights: Weights  # (n,)
    groups: np.ndarray | None  # (n,): numbers of groups, in the order of time if `ordered`
    ordered: bool  # whether groups are times, of which the latest are held out
    dtype: np.dtype  # of the features
    used: np.ndarray | None  # indices of these rows in X, in order; None for all


def training_table(
    estimator: Estimator,
    X: TableLike,
    y: ArrayLike,
    sample_weight: ArrayLike | None,
    groups: ArrayLike | None,
    time: str | ArrayLike | None,
) -> TrainingTable:
    """Validate the arguments of `fit`, without rows of weight zero.

    Stores names and number of features on the estimator.
    """
    if groups is not None and time is not None:
        raise ValueError("give groups or time, not both: either decides which rows are held out")
    X, y, sample_weight, groups, time = map(as_numpy, (X, y, sample_weight, groups, time))
    dtype = np.dtype(np.float32 if getattr(X, "dtype", None) == np.float32 else np.float64)
    table = _read(estimator, X, y)
    _refuse_missing_targets(y)
    target, values = estimator.target_kind.learn(y)
    known = _times(table, time) if time is not None else groups
    known = None if known is None else column_or_1d(known)
    check_consistent_length(table, values, known)
    weights = used = None
    class_weight = getattr(estimator, "class_weight", None)
    if sample_weight is not None or class_weight is not None:
        weights = _check_sample_weight(sample_weight, values, ensure_non_negative=True)
        if class_weight is not None:
            weights = weights * compute_sample_weight(class_weight, np.ravel(np.asarray(y)))
            _check_sample_weight(weights, values, ensure_non_negative=True)
        used = used_rows(weights)
        weights = training_weights(weights[used])
        if len(used) == len(values):
            used = None
        else:
            table, values = table.take(used), values[used]
            known = None if known is None else known[used]
    if known is not None:
        known = group_numbers(known) if time is None else np.unique(known, return_inverse=True)[1]
        if not known.any():
            raise ValueError("there must be at least two groups or times: one is held out")
    return TrainingTable(table, target, values, weights, known, time is not None, dtype, used)


def used_rows(weights: np.ndarray) -> np.ndarray:
    """Indices of the rows whose weight is not zero; raises ValueError if there are none."""
    used = np.flatnonzero(weights > 0)
    if not len(used):
        raise ValueError("sample_weight must be positive for at least one row")
    return used


def new_table(estimator: Estimator, X: TableLike) -> Table:
    """Validate rows to predict."""
    check_is_fitted(estimator)
    return _read(estimator, as_numpy(X))


def _read(estimator: Estimator, X: TableLike, *y: ArrayLike) -> Table:
    """Read rows; store the number and names of columns (given y), or compare them with `fit`."""
    table = read_table(X)
    if hasattr(X, "__len__") and not isinstance(X, dict | Table):
        validate_data(estimator, X, *y, reset=bool(y), skip_check_array=True)
    elif y:
        estimator.n_features_in_ = table.width
        estimator.feature_names_in_ = np.asarray(table.names, dtype=object)
    return table


def _refuse_missing_targets(y: ArrayLike) -> None:
    values = np.asarray(y)
    if values.dtype.kind == "f":
        assert_all_finite(values, input_name="y")
    elif values.dtype.kind == "O" and values.ndim:
        with np.errstate(invalid="ignore"):  # some machines report that NaN was compared
            missing = np.argwhere(np.frompyfunc(is_missing, 1, 1)(values))
        if len(missing):
            raise ValueError(f"Input y contains NaN: row {missing[0, 0]} has no target; remove it")


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

    >>> group_numbers(np.array(["b", "a", "b"])).tolist()
    [0, 1, 0]
    """
    seen: dict[object, int] = {}
    names = [row if is_missing(one) else (one,) for row, one in enumerate(values.tolist())]
    return np.array([seen.setdefault(name, len(seen)) for name in names])


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


def check_magnitudes(X: np.ndarray, y: np.ndarray | None = None) -> None:
    """Raise ValueError if squared distances, or sums over y, would leave the range of the dtype."""
    limits = np.finfo(X.dtype)
    given = [("X", X, (float(limits.max) / (16.0 * X.shape[1])) ** 0.5)]
    if y is not None:
        check_variation(y, float(limits.tiny) / float(limits.eps), X.dtype)
        given.append(("y", y, float(limits.max) / (4.0 * len(y))))
    for name, values, allowed in given:
        largest = float(max(values.max(), -values.min()))
        if largest > allowed:
            raise ValueError(
                f"{name} has values as large as {largest:.3g}, too large for {X.dtype}, where at "
                f"most {allowed:.3g} is allowed; rescale them"
            )


def as_numpy(array: Array) -> Array:
    """Convert tensors, dask collections and arrays of the array API to NumPy; keep anything else.

    Tensors on a GPU are copied to the host, blocks on a cluster to this process. Masked values
    become NaN.
    """
    if hasattr(array, "__dask_graph__"):
        return array.compute()
    if hasattr(array, "detach"):  # a torch tensor
        return array.detach().cpu().numpy()
    if np.ma.is_masked(array) and array.dtype.kind in "biuf":
        return array.astype(np.result_type(array, np.float32)).filled(np.nan)
    if isinstance(array, np.ndarray | np.generic) or not hasattr(array, "__array_namespace__"):
        return array
    try:
        return np.from_dlpack(array)
    except (BufferError, RuntimeError, TypeError):  # on a device NumPy cannot reach
        return np.from_dlpack(array.to_device("cpu"))
