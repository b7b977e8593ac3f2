"""Threads over blocks of rows: NumPy releases the GIL, so threads can use all cores."""

from __future__ import annotations

import math
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from typing import TypeVar

import numpy as np
from threadpoolctl import LibController, ThreadpoolController

# Large enough that starting a block costs little, small enough for the caches.
CACHE_ENTRIES = 1 << 18

# Rows up to which BLAS gets one thread: in products with a kernel matrix, and in its
# decompositions, where a second thread has more to do.
FEW_ROWS = 6000
FEW_DECOMPOSED_ROWS = 1000

Task = TypeVar("Task")
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
    with _single_threaded_blas:
        _in_turn(_pool(os.getpid()), function, tasks)


def _in_turn(
    pool: ThreadPoolExecutor, function: Callable[[Task], object], tasks: Iterable[Task]
) -> None:
    """Call `function` on every task, with few tasks waiting, because each takes memory."""
    waiting: deque[Future[object]] = deque()
    try:
        for task in tasks:
            waiting.append(pool.submit(function, task))
            if len(waiting) >= 8 * n_threads():
                waiting.popleft().result()
        while waiting:
            waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()


def for_each_block(
    function: Callable[[slice], object], n_rows: int, rows_per_block: int, parallel: bool
) -> None:
    """Call `function` on consecutive slices of ``range(n_rows)``."""
    for_each(function, row_blocks(n_rows, rows_per_block), parallel)


@lru_cache(maxsize=1)
def _pool(process: int) -> ThreadPoolExecutor:
    """One pool per process, because a forked child must not inherit that of its parent."""
    return ThreadPoolExecutor(n_threads(), thread_name_prefix="bandfall")


class _SingleThreadedBlas(AbstractContextManager[None]):
    """Holds BLAS to one thread while any caller is inside; safe from several threads.

    Some libraries have one setting for the process, others one per calling thread. The first kind
    is set by the first caller and restored by the last, in whatever threads; the second kind is set
    and restored by each thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._n_inside = 0  # threads
        self._own = threading.local()
        self._numbers: list[int] = []

    def __enter__(self) -> None:
        depth = getattr(self._own, "depth", 0)
        if depth == 0:
            with self._lock:
                self._come_in()
        self._own.depth = depth + 1

    def __exit__(self, *exception: object) -> None:
        self._own.depth -= 1
        if self._own.depth > 0:
            return
        with self._lock:
            self._n_inside -= 1
            self._restore()

    def _come_in(self) -> None:
        if self._n_inside == 0:
            self._numbers = [pool.num_threads for pool in _blas_pools()]
        try:
            for pool in _blas_pools():
                pool.set_num_threads(1)
            _release_control()
            self._n_inside += 1
        except BaseException:  # an interrupt: no caller leaves
            self._restore()
            raise

    def _restore(self) -> None:
        for pool, number in zip(_blas_pools(), self._numbers, strict=True):
            by_thread = getattr(pool, "threading_layer", "") == "openmp"
            if self._n_inside == 0 or by_thread or pool.internal_api == "mkl":
                pool.set_num_threads(number)
        _release_control()


@lru_cache(maxsize=1)
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


def _blas_pools() -> list[LibController]:
    return _controller().select(user_api="blas").lib_controllers


def _release_control() -> None:
    """Allow any thread to set the numbers of threads.

    In threadpoolctl 3.7 and later, only the thread that set them first can change them, until it
    leaves a limit. An empty limit is enough; a limit set by the user stays in force.
    """
    with _controller().limit(limits=None):
        pass


_single_threaded_blas = _SingleThreadedBlas()


def blas_threads_for(n_rows: int, few: int = FEW_ROWS) -> AbstractContextManager[None]:
    """Limit BLAS to one thread for up to `few` rows, for which several threads are slower.

    NumPy and SciPy have one pool of threads each, and idle threads busy-wait. Callers may nest and
    overlap: the last one to leave restores the original setting.
    """
    return _single_threaded_blas if n_rows <= few else nullcontext()


def decomposition_threads_for(n_rows: int) -> AbstractContextManager[None]:
    """`blas_threads_for` around decompositions of an (n_rows, n_rows) matrix."""
    return blas_threads_for(n_rows, FEW_DECOMPOSED_ROWS)


def rows_within(budget: int, row_size: int) -> int:
    """Number of rows of size `row_size` that fit the budget; at least one."""
    return max(1, budget // max(1, row_size))


def row_blocks(n_rows: int, rows_per_block: int) -> list[slice]:
    """Consecutive slices of ``range(n_rows)``."""
    starts = range(0, n_rows, rows_per_block)
    return [slice(start, min(start + rows_per_block, n_rows)) for start in starts]
