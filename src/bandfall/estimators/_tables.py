"""Tables in: frames with names and kinds of columns, or arrays, and weights of their rows."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from bandfall.encoding import Table, is_frame, read_table
from bandfall.encoding.objects import is_missing
from bandfall.estimators._arrays import as_numpy
from bandfall.estimators._base import FLOATS
from bandfall.estimators._groups import group_numbers, group_values
from bandfall.selection.weights import training_weights


class TableInputMixin:
    """Reads what an estimator is given; the target is the business of `_read_target`."""

    _target_checks: Mapping[str, bool] = MappingProxyType({})  # for scikit-learn's validation
    _training_rows: tuple[Any, np.ndarray] | None
    _used_rows: np.ndarray | None = None  # numbers of the rows that count; None for all

    def _read_target(self, y: Any) -> np.ndarray:
        """The target as the estimator takes it, shape (n,) or (n, k)."""
        raise NotImplementedError

    def _training_table(self, X: Any, y: Any, sample_weight: Any, groups: Any) -> Any:
        """Validated rows: a Table, the target as read, weights and groups or None."""
        _refuse_records(X)
        _refuse_missing_targets(y)
        X = _objects(X)
        if is_frame(X) or _holds_more_than_numbers(X):
            table, self._dtype = self._read(X, reset=True), np.dtype(np.float64)
            y = self._read_target(y)
            if len(y) != len(table):
                raise ValueError(f"y of {len(y)} rows does not fit X with {len(table)} rows")
        else:
            X, y = validate_data(
                self, X, y, dtype=FLOATS, ensure_all_finite="allow-nan", **self._target_checks
            )
            y = self._read_target(y)
            table, self._dtype = read_table(X), X.dtype
        self._training_rows = table.take(np.arange(len(table))), np.array(y)
        weights = self._row_weights(sample_weight, y)
        groups = None if groups is None else group_values(groups, y)
        self._used_rows = None
        if weights is None:
            return table, y, None, group_numbers(groups)
        used = np.flatnonzero(weights > 0)  # a row of weight zero is no row
        if not len(used):
            raise ValueError("sample_weight must be positive for at least one row")
        if len(used) < len(y):
            self._used_rows = used
            groups = None if groups is None else groups[used]
        weights = training_weights(weights[used])
        return table.take(used), y[used], weights, group_numbers(groups)

    def _only(
        self, rows: np.ndarray, table: Table, y: np.ndarray, weights: Any, groups: Any
    ) -> tuple[Table, np.ndarray, Any, Any]:
        """The training table with some of its rows; the others do not count."""
        self._used_rows = rows if self._used_rows is None else self._used_rows[rows]
        weights = None if weights is None else training_weights(weights[rows])
        groups = None if groups is None else group_numbers(groups[rows])
        return table.take(rows), y[rows], weights, groups

    def _row_weights(self, sample_weight: Any, y: Any) -> Any:
        """How much rows count, shape (n,), or None where all count alike."""
        if sample_weight is None:
            return None
        return _check_sample_weight(sample_weight, y, ensure_non_negative=True)

    def _new_table(self, X: Any) -> Table:
        check_is_fitted(self)
        _refuse_records(X)
        X = _objects(X)
        if is_frame(X) or _holds_more_than_numbers(X):
            return self._read(X, reset=False)
        X = validate_data(self, X, reset=False, dtype=FLOATS, ensure_all_finite="allow-nan")
        return read_table(X)

    def _read(self, X: Any, *, reset: bool) -> Table:
        """The table of a frame or of objects; names are kept, and told where they differ."""
        table = read_table(X)
        if isinstance(X, np.ndarray) or hasattr(X, "__dataframe__"):
            validate_data(self, X, reset=reset, skip_check_array=True)
        elif reset:
            self.n_features_in_ = table.width
            self.feature_names_in_ = np.asarray(table.names, dtype=object)
        return table


def _refuse_records(X: Any) -> None:
    """Say what to do with rows that name their values one by one."""
    dicts = isinstance(X, list | tuple) and len(X) > 0 and isinstance(X[0], dict)
    if dicts or (isinstance(X, np.ndarray) and X.dtype.names is not None):
        raise TypeError("rows as dicts or records are not taken; use pandas.DataFrame(X)")


def _objects(X: Any) -> Any:
    """Rows as lists that hold text as an array of objects; anything else as it is."""
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


def _holds_more_than_numbers(X: Any) -> bool:
    """Whether X is an array of text, or of objects some of which are text or times."""
    if not isinstance(X, np.ndarray) or X.ndim != 2:
        return False
    if X.dtype.kind in "US":
        return True
    kinds = (str, datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64)
    return X.dtype == object and any(isinstance(value, kinds) for value in X.flat)


def _refuse_missing_targets(y: Any) -> None:
    """Say how many targets are missing, and what to do."""
    values = np.asarray(as_numpy(y))
    if values.dtype.kind == "f":
        missing = np.isnan(values)
    elif values.dtype == object:
        missing = np.array([is_missing(value) for value in values.flat]).reshape(values.shape)
    else:
        return
    if not missing.any() or not missing.ndim:
        return
    rows = np.flatnonzero(missing.reshape(len(missing), -1).any(axis=1))
    raise ValueError(
        f"Input y contains NaN: {len(rows):,} of {len(values):,} rows have no target, first "
        f"row {rows[0]}; fit the other rows"
    )
