"""Choice of an operator by the memory budget."""

from __future__ import annotations

import numpy as np

from bandfall._products.base import (
    DEFAULT_BUDGET,
    KernelOperator,
    RepeatedRowsOperator,
    distinct_rows,
    vector_share,
)
from bandfall._products.blocked import BlockedOperator
from bandfall._products.dense import DenseOperator, dense_bytes
from bandfall._products.symmetric import SymmetricOperator, symmetric_bytes
from bandfall._typing import DTypeLike
from bandfall.kernels._kernel import Kernel

_WORTH_A_LOOK = 500  # rows: below, looking for repeats costs more than they do
_DISTINCT_SHARE = 0.98
# Up to here one product with a whole matrix is quicker than several with strips. In single
# precision, compiled loops take all strips in one call.
_FEW_ROWS = 600
_FEW_SINGLE_ROWS = 399


def make_operator(
    X: np.ndarray,
    kernel: Kernel,
    dtype: DTypeLike = np.float64,
    budget: int = DEFAULT_BUDGET,
    n_columns: int = 1,
) -> KernelOperator:
    """The operator for these rows that stays inside `budget` bytes.

    Dense for few rows, a triangle while distances and a kernel matrix fit, blocked beyond. If
    many rows repeat, K is evaluated only over the distinct ones. A part of the budget is reserved
    for the vectors of a solver, of `n_columns` targets each.
    """
    vectors = vector_share(budget, len(X), n_columns, np.dtype(dtype))
    matrices = budget - vectors
    if len(X) >= _WORTH_A_LOOK:
        first, labels = distinct_rows(X)
        if len(first) < _DISTINCT_SHARE * len(X):
            return RepeatedRowsOperator(
                make_operator(X[first], kernel, dtype, budget, n_columns=n_columns), labels
            )
    few = _FEW_SINGLE_ROWS if np.dtype(dtype) == np.float32 else _FEW_ROWS
    if len(X) <= few and dense_bytes(len(X), np.dtype(dtype)) <= matrices:
        return DenseOperator(X, kernel, dtype, vectors)
    if symmetric_bytes(len(X), np.dtype(dtype)) <= matrices:
        return SymmetricOperator(X, kernel, dtype, vectors)
    return BlockedOperator(X, kernel, dtype, matrices, vectors)
