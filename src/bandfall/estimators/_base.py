"""What the kernel estimators share: validation in, shapes and dtypes out."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from bandfall.parameters import check_flag, check_number
from bandfall.persistence import save_model

__all__ = ["KernelRegressor", "TrainingData", "check_flag", "check_number"]


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

    def save(self, file) -> None:
        """Write the fitted estimator to one file; see `bandfall.save_model`.

        Parameters
        ----------
        file : path
        """
        save_model(self, file)

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
