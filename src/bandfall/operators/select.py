"""Which operator serves: decided by memory, not by the user."""

from __future__ import annotations

import numpy as np

from bandfall.kernels import Kernel
from bandfall.operators.base import DEFAULT_MEMORY_BUDGET, GIBIBYTE, KernelOperator
from bandfall.operators.dense import DenseOperator, dense_bytes


def make_operator(
    X: np.ndarray,
    kernel: Kernel,
    dtype: np.dtype | type = np.float64,
    memory_budget: int = DEFAULT_MEMORY_BUDGET,
) -> KernelOperator:
    """The operator for these rows that stays inside `memory_budget` bytes."""
    check_dense_budget(len(X), np.dtype(dtype), memory_budget)
    return DenseOperator(X, kernel, dtype)


def check_dense_budget(n_rows: int, dtype: np.dtype, memory_budget: int) -> None:
    """Refuse n² memory over the budget before anything is allocated."""
    needed = dense_bytes(n_rows, dtype)
    if needed > memory_budget:
        raise MemoryError(
            f"kernel matrices of {n_rows} rows need {needed / GIBIBYTE:.2f} GiB, over the "
            f"memory_budget of {memory_budget / GIBIBYTE:.2f} GiB; raise memory_budget, use "
            "float32 features or fewer rows"
        )
