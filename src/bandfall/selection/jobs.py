"""Independent tasks of a search, over threads where that pays."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import joblib

from bandfall.operators.rows import FEW_ROWS, blas_threads_for, n_threads

Task = TypeVar("Task")
Result = TypeVar("Result")

_WORTH_THREADS = 200  # rows: below, Python itself takes most of the time


def parallel_map(
    function: Callable[[Task], Result], tasks: list[Task], *, n_rows: int, n_jobs: int | None
) -> list[Result]:
    """Results in order, over threads where that pays: the order of work is not theirs to see."""
    if n_jobs is None:
        n_jobs = n_threads() if _WORTH_THREADS <= n_rows <= FEW_ROWS else 1
    with blas_threads_for(n_rows):  # also between products: threads that wait spin
        return joblib.Parallel(n_jobs=n_jobs, require="sharedmem")(
            joblib.delayed(function)(task) for task in tasks
        )
