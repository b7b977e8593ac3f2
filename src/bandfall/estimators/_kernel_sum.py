"""Every kernel estimator predicts with the same formula; this is the formula's data."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from bandfall.descent import Path
from bandfall.estimators._base import KernelRegressor
from bandfall.kernels import Kernel


class KernelSum(NamedTuple):
    """f̂(x) = offset + Σ_s k_{σ_s}(x, X) c_s.

    Attributes
    ----------
    X : ndarray of shape (n, d)
    kernel : Kernel
    bandwidths : ndarray of shape (S,)
    coefficients : ndarray of shape (S, n, k)
    offset : ndarray of shape (k,)
    dtype : dtype
        In which new rows are taken.
    y_ndim : {1, 2}
        Dimensions of the predictions.
    """

    X: np.ndarray
    kernel: Kernel
    bandwidths: np.ndarray
    coefficients: np.ndarray
    offset: np.ndarray
    dtype: np.dtype
    y_ndim: int


def path_sum(path: Path, dtype: np.dtype, y_ndim: int) -> KernelSum:
    """What a path evaluates."""
    parts = (path.X, path.kernel, path.bandwidths, path.coefficients, path.offset)
    return KernelSum(*parts, dtype, y_ndim)


def kernel_sum(estimator: KernelRegressor) -> KernelSum:
    """What a fitted kernel estimator evaluates in `predict`; of an average, its heaviest member."""
    check_is_fitted(estimator)
    best = getattr(estimator, "best_estimator_", None)
    if best is not None:
        return kernel_sum(best)._replace(dtype=estimator._dtype, y_ndim=estimator._y_ndim)
    path = getattr(estimator, "path_", None)
    if path is not None:
        return path_sum(path, estimator._dtype, estimator._y_ndim)
    if not hasattr(estimator, "kernel_sum_"):
        raise TypeError(f"{type(estimator).__name__} is not a kernel estimator")
    model = estimator.kernel_sum_
    return KernelSum(
        model.X,
        model.kernel,
        model.bandwidths,
        model.coefficients,
        model.offset,
        estimator._dtype,
        estimator._y_ndim,
    )
