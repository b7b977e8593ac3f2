"""What the kernel estimators share: validation in, shapes and dtypes out."""

from __future__ import annotations

import numbers
from typing import NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data


class TrainingData(NamedTuple):
    """Validated rows: X (n, d) and y (n, k) of one float dtype, weights (n,) or None."""

    X: np.ndarray
    y: np.ndarray
    weights: np.ndarray | None

    def take(self, rows: np.ndarray) -> TrainingData:
        """Some of the rows."""
        weights = None if self.weights is None else self.weights[rows]
        return TrainingData(self.X[rows], self.y[rows], weights)


class KernelRegressor(RegressorMixin, BaseEstimator):
    """Base of the kernel estimators."""

    def _training_data(self, X, y, sample_weight=None) -> TrainingData:
        X, y = validate_data(
            self, X, y, multi_output=True, y_numeric=True, dtype=(np.float64, np.float32)
        )
        self._y_ndim = y.ndim
        y = np.asarray(y, dtype=X.dtype).reshape(len(y), -1)
        if sample_weight is None:
            return TrainingData(X, y, None)
        weights = _check_sample_weight(sample_weight, X, dtype=X.dtype, ensure_non_negative=True)
        used = weights > 0  # a row of weight zero is no row
        if not used.any():
            raise ValueError("sample_weight must be positive for at least one row")
        X, y, weights = X[used], y[used], weights[used]
        return TrainingData(X, y, None if np.all(weights == 1.0) else weights)

    def _new_rows(self, X) -> np.ndarray:
        check_is_fitted(self)
        return validate_data(self, X, reset=False, dtype=self._dtype)

    def _shaped(self, predictions: np.ndarray) -> np.ndarray:
        """Predictions (..., m, k) in the shape of the target seen in fit."""
        return predictions[..., 0] if self._y_ndim == 1 else predictions

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def check_number(name: str, value, *, low=None, high=None, low_open=False, allow_none=False):
    """Raise unless `value` is a real number in the interval; names parameter, value, interval."""
    if value is None and allow_none:
        return
    left = "(" if low_open or low is None else "["
    interval = f"{left}{'-inf' if low is None else low}, {'inf' if high is None else high}]"
    allowed = f"a number in {interval}" + (" or None" if allow_none else "")
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name}={value!r} must be {allowed}; got {type(value).__name__}")
    inside = (low is None or value > low or (value == low and not low_open)) and (
        high is None or value <= high
    )
    if not inside:  # NaN is never inside
        raise ValueError(f"{name}={value!r} must be {allowed}")


def check_flag(name: str, value):
    """Raise unless `value` is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name}={value!r} must be True or False; got {type(value).__name__}")
