"""Arguments of the theory functions: rows, bandwidths, weights, a path or a fitted model."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeAlias

import numpy as np

from bandfall._products import HOST, KernelOperator, WeightedOperator, operator_over
from bandfall._typing import ArrayLike, Estimator, TableLike, Weights
from bandfall.descent import Path
from bandfall.kernels._kernel import Kernel

PathSource: TypeAlias = Path | Estimator  # a path, a fitted estimator with one, a search of these


def best_model(model: PathSource) -> PathSource:
    """The best model of a search, or the model itself."""
    return getattr(model, "best_estimator_", model)


def as_path(model: PathSource) -> Path:
    """The path of a fitted estimator, or the Path itself (a Path is its own ``path_``)."""
    model = best_model(model)
    path: Path | None = getattr(model, "path_", None)
    if path is None:
        hint = "it has no path_; is it fitted?"
        if hasattr(model, "steps"):
            hint = "pass its last step, pipeline[-1], and new rows through pipeline[:-1].transform"
        got = type(model).__name__
        raise TypeError(f"expected a Path or an estimator with one, got {got}: {hint}")
    return path


def trained_path(model: PathSource) -> Path:
    """`as_path`; raises ValueError if the path is compressed or has several leaves."""
    path = as_path(model)
    if path.n_leaves > 1:
        raise ValueError(
            f"the path has {path.n_leaves} leaves, which were trained separately; fit with "
            "leaf_rows above the number of rows for a path of one leaf"
        )
    if path.solver is None:
        raise ValueError(
            "a compressed path has lost the stages of its training; use the path before compress()"
        )
    return path


def path_rows(model: PathSource, X: TableLike) -> np.ndarray:
    """Rows of X as float64 in the columns of a model's path, as its ``_model_rows`` makes them."""
    model, n_columns = best_model(model), as_path(model).X.shape[1]
    convert = getattr(model, "_model_rows", None)
    if convert is None:  # distances between rows in different columns would be wrong
        raise TypeError(
            f"{type(model).__name__} cannot convert rows of features to rows of its path_; pass "
            "the path_, and X_new in the columns that it was trained on"
        )
    return rows(convert(X), "X_new", n_columns)


def rows(X: TableLike, name: str, n_features: int | None = None) -> np.ndarray:
    """`X` as finite float64 rows of shape (m, d)."""
    array = np.asarray(X, dtype=np.float64)
    if array.ndim != 2 or 0 in array.shape:
        raise ValueError(f"{name} must have shape (n_rows, n_features); got {array.shape}")
    if n_features is not None and array.shape[1] != n_features:
        raise ValueError(f"{name} has {array.shape[1]} features, the training rows {n_features}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} contains NaN or infinity")
    return array


def non_negative(values: ArrayLike, name: str) -> np.ndarray:
    """A number or array of numbers in [0, ∞] as float64."""
    array = np.asarray(values, dtype=np.float64)
    if not (array >= 0).all():  # NaN is not
        raise ValueError(f"{name}={values!r} must be in [0, inf]")
    return array


def row_weights(weights: ArrayLike | None, n_rows: int) -> np.ndarray:
    """Positive weights of shape (n,); ones by default."""
    if weights is None:
        return np.ones(n_rows)
    array = np.asarray(weights, dtype=np.float64)
    if array.shape != (n_rows,) or not (array > 0).all() or not math.isfinite(array.sum()):
        raise ValueError(f"weights must be {n_rows} positive numbers, one per training row")
    return array


@contextmanager
def operator_for(X: np.ndarray, kernel: Kernel, weights: Weights) -> Iterator[KernelOperator]:
    """Products with K(σ), or with S K(σ) S for S = diag(√w), in float64."""
    with operator_over(HOST, np.asarray(X, dtype=np.float64), kernel, np.float64) as operator:
        if weights is None:
            yield operator
        else:
            yield WeightedOperator(operator, np.asarray(weights, dtype=np.float64))
