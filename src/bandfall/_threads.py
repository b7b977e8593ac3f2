"""Threads over blocks of rows and tasks: NumPy releases the GIL, so that they use all cores."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache
from typing import TypeVar

import joblib
import numpy as np
from threadpoolctl import LibController, ThreadpoolController

# Large enough that starting a block costs little, small enough for the caches.
CACHE_ENTRIES = 1 << 18

# Rows up to which BLAS gets one thread: in products with a kernel matrix, and in its
# decompositions, where a second thread has more to do.
FEW_ROWS = 6000
FEW_DECOMPOSED_ROWS = 1000

Task = TypeVar("Task")
Result = TypeVar("Result")
_local = threading.local()


def n_threads() -> int:
    """Cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def scratch(name: str, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """A buffer of this thread, reused because new memory from the system is slow to touch."""
    size = math.prod(shape)
    buffers = _local.__dict__.setdefault("buffers", {})
    key = (name, np.dtype(dtype))
    if key not in buffers or buffers[key].size < size:
        buffers[key] = np.empty(size, dtype)
    return buffers[key][:size].reshape(shape)


def for_each(function: Callable[[Task], object], tasks: Iterable[Task], parallel: bool) -> None:
    """Call `function` on every task, over all cores if `parallel`, BLAS on one thread each."""
    tasks = list(tasks)
    if not parallel or len(tasks) == 1 or n_threads() == 1:
        for task in tasks:
            function(task)
        return
    shared = iter(tasks)  # one future per thread: a million blocks would take a gigabyte

    def work(_: int) -> None:
        for task in shared:
            function(task)

    with _blas.on_one_thread():
        try:
            list(_pool(os.getpid()).map(work, range(min(n_threads(), len(tasks)))))
        finally:
            list(shared)  # after an error or Ctrl-C, threads begin no further block


def for_each_block(
    function: Callable[[slice], object], n_rows: int, rows_per_block: int, parallel: bool
) -> None:
    """Call `function` on consecutive slices of ``range(n_rows)``."""
    for_each(function, row_blocks(n_rows, rows_per_block), parallel)


@lru_cache(maxsize=1)
def _pool(process: int) -> ThreadPoolExecutor:
    """One pool per process, because a forked child must not inherit that of its parent."""
    return ThreadPoolExecutor(n_threads(), thread_name_prefix="bandfall")


class _Blas:
    """Threads of BLAS, a setting of the process, while any number of callers wants one thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._n_callers = 0
        self._numbers: list[int] = []

    @contextmanager
    def on_one_thread(self) -> Iterator[None]:
        """The first caller sets one thread, the last to leave restores the numbers."""
        try:
            with self._lock:
                self._n_callers += 1
                if self._n_callers == 1:
                    self._numbers = [pool.num_threads for pool in _blas_pools()]
                self._set([1] * len(self._numbers))
            yield
        finally:
            with self._lock:
                self._n_callers -= 1
                if self._n_callers == 0:
                    self._set(self._numbers)

    def _set(self, numbers: list[int]) -> None:
        for pool, number in zip(_blas_pools(), numbers, strict=True):
            pool.set_num_threads(number)
        # Since threadpoolctl 3.7, only the thread that set them can change numbers, until it leaves
        # a limit: an empty one is enough.
        with _controller().limit(limits=None):
            pass


_blas = _Blas()


@lru_cache(maxsize=1)
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


def _blas_pools() -> list[LibController]:
    return _controller().select(user_api="blas").lib_controllers


def blas_threads_for(n_rows: int, few: int = FEW_ROWS) -> AbstractContextManager[None]:
    """Limit BLAS to one thread for up to `few` rows, for which several threads are slower."""
    return _blas.on_one_thread() if n_rows <= few else nullcontext()


def decomposition_threads_for(n_rows: int) -> AbstractContextManager[None]:
    """`blas_threads_for` around decompositions of an (n_rows, n_rows) matrix."""
    return blas_threads_for(n_rows, FEW_DECOMPOSED_ROWS)


def threads_for(n_rows: int, n_jobs: int | None) -> int:
    """Number of tasks over `n_rows` rows to run at a time; `n_jobs` is the user's wish.

    With fewer than 200 rows, the interpreter takes most of the time, not the loops.
    """
    if n_jobs is None:
        return n_threads() if 200 <= n_rows <= FEW_ROWS else 1
    return joblib.effective_n_jobs(n_jobs)


def parallel_map(
    function: Callable[[Task], Result],
    tasks: Sequence[Task],
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
    n_jobs = min(threads_for(n_rows, n_jobs), len(tasks)) if tasks else 0
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


def rows_within(budget: int, row_size: int) -> int:
    """Number of rows of size `row_size` that fit the budget; at least one."""
    return max(1, budget // max(1, row_size))


def row_blocks(n_rows: int, rows_per_block: int) -> list[slice]:
    """Consecutive slices of ``range(n_rows)``."""
    starts = range(0, n_rows, rows_per_block)
    return [slice(start, min(start + rows_per_block, n_rows)) for start in starts]
