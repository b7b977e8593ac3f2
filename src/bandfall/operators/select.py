"""Which operator serves: decided by memory, not by the user."""

from __future__ import annotations

import numpy as np

from bandfall.kernels import Kernel
from bandfall.operators.base import (
    DEFAULT_MEMORY_BUDGET,
    GIBIBYTE,
    KernelOperator,
    RepeatedRowsOperator,
    group_rows,
    vector_share,
)
from bandfall.operators.blocked import BlockedOperator
from bandfall.operators.dense import DenseOperator, dense_bytes
from bandfall.operators.device import check_device

_WORTH_A_LOOK = 500  # rows: below, looking for repeats costs more than they do
_DISTINCT_SHARE = 0.98


def make_operator(
    X: np.ndarray,
    kernel: Kernel,
    dtype: np.dtype | type = np.float64,
    memory_budget: int = DEFAULT_MEMORY_BUDGET,
    device: str | None = None,
    n_columns: int = 1,
) -> KernelOperator:
    """The operator for these rows that stays inside `memory_budget` bytes.

    Dense while distances and a kernel matrix fit, blocked beyond. Where many rows repeat, K is
    evaluated over the distinct ones only. With a `device`, torch serves instead of NumPy; see
    `check_device`. A part of the budget is left to the vectors, of `n_columns` targets each,
    of whatever solves with the operator.
    """
    vectors = vector_share(memory_budget, len(X), n_columns, np.dtype(dtype))
    matrices = memory_budget - vectors
    device = check_device(device)
    if device is not None:
        from bandfall.operators.torch import TorchOperator

        return TorchOperator(X, kernel, dtype, device, matrices, vectors)
    if len(X) >= _WORTH_A_LOOK:
        labels, n_distinct = group_rows(X)
        if n_distinct < _DISTINCT_SHARE * len(X):
            distinct = np.empty((n_distinct, X.shape[1]), X.dtype)
            distinct[labels] = X
            return RepeatedRowsOperator(
                make_operator(distinct, kernel, dtype, memory_budget, n_columns=n_columns), labels
            )
    if dense_bytes(len(X), np.dtype(dtype)) <= matrices:
        return DenseOperator(X, kernel, dtype, vectors)
    return BlockedOperator(X, kernel, dtype, matrices, vectors)


def check_dense_budget(n_rows: int, dtype: np.dtype, memory_budget: int) -> None:
    """Refuse n² memory over the budget before anything is allocated."""
    needed = dense_bytes(n_rows, dtype)
    if needed > memory_budget:
        raise MemoryError(
            f"kernel matrices of {n_rows} rows need {needed / GIBIBYTE:.2f} GiB, over the "
            f"memory_budget of {memory_budget / GIBIBYTE:.2f} GiB; raise memory_budget, use "
            "float32 features or fewer rows"
        )
