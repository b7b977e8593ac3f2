"""Which operator serves: decided by memory, not by the user."""

from __future__ import annotations

import numpy as np

from bandfall.kernels import Kernel
from bandfall.operators.base import (
    DEFAULT_BUDGET,
    KernelOperator,
    RepeatedRowsOperator,
    group_rows,
    vector_share,
)
from bandfall.operators.blocked import BlockedOperator
from bandfall.operators.dense import DenseOperator, dense_bytes

_WORTH_A_LOOK = 500  # rows: below, looking for repeats costs more than they do
_DISTINCT_SHARE = 0.98


def make_operator(
    X: np.ndarray,
    kernel: Kernel,
    dtype: np.dtype | type = np.float64,
    budget: int = DEFAULT_BUDGET,
    n_columns: int = 1,
) -> KernelOperator:
    """The operator for these rows that stays inside `budget` bytes.

    Dense while distances and a kernel matrix fit, blocked beyond. Where many rows repeat, K is
    evaluated over the distinct ones only. A part of the budget is left to the vectors, of
    `n_columns` targets each, of whatever solves with the operator.
    """
    vectors = vector_share(budget, len(X), n_columns, np.dtype(dtype))
    matrices = budget - vectors
    if len(X) >= _WORTH_A_LOOK:
        labels, n_distinct = group_rows(X)
        if n_distinct < _DISTINCT_SHARE * len(X):
            distinct = np.empty((n_distinct, X.shape[1]), X.dtype)
            distinct[labels] = X
            return RepeatedRowsOperator(
                make_operator(distinct, kernel, dtype, budget, n_columns=n_columns), labels
            )
    if dense_bytes(len(X), np.dtype(dtype)) <= matrices:
        return DenseOperator(X, kernel, dtype, vectors)
    return BlockedOperator(X, kernel, dtype, matrices, vectors)
