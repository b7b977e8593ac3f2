"""Independent tasks of a search, in threads if that is faster."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import TypeVar

import joblib

from bandfall._threads import FEW_ROWS, blas_threads_for, n_threads

Task = TypeVar("Task")
Result = TypeVar("Result")


def threads_for(n_rows: int, n_jobs: int | None, fewest_rows: int = 200) -> int:
    """Number of tasks over `n_rows` rows to run at a time; `n_jobs` is the user's wish.

    With fewer than `fewest_rows` rows, the interpreter takes most of the time, not the loops.
    """
    if n_jobs is None:
        return n_threads() if fewest_rows <= n_rows <= FEW_ROWS else 1
    return joblib.effective_n_jobs(n_jobs)


def parallel_map(
    function: Callable[[Task], Result],
    tasks: list[Task],
    *,
    n_rows: int,
    n_jobs: int | None,
    stop: Callable[[], None] = lambda: None,
    press: Callable[[], None] | None = None,
) -> list[Result]:
    """Apply a function to all tasks, in threads if that is faster; results are in order.

    No thread is left running: if a task fails or the user interrupts, `stop` is called, which
    should make running tasks end soon, and then all tasks are awaited. With `press`, which is
    called for a KeyboardInterrupt instead, the results of all tasks are returned.
    """
    n_jobs = min(threads_for(n_rows, n_jobs), len(tasks))
    with blas_threads_for(n_rows):  # also between products: idle BLAS threads busy-wait
        if n_jobs <= 1:
            return [function(task) for task in tasks]
        with ThreadPoolExecutor(n_jobs, thread_name_prefix="bandfall-search") as pool:
            futures = [pool.submit(function, task) for task in tasks]
            try:
                try:
                    done, _ = wait(futures, return_when=FIRST_EXCEPTION)
                    for one in done:
                        one.result()
                except KeyboardInterrupt:
                    if press is None:
                        raise
                    press()
                return [future.result() for future in futures]
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                stop()
                raise
