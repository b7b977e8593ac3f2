"""Blocks over threads: NumPy releases the GIL, so plain threads use all cores."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

# Large enough that starting a block costs little, small enough for the caches.
CACHE_ENTRIES = 1 << 18

_FEW_ROWS = 4000

Task = TypeVar("Task")
_local = threading.local()


def n_threads() -> int:
    """Cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def scratch(name: str, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """This thread's buffer of that name: memory fresh from the system is slow to touch."""
    size = int(np.prod(shape))
    buffers = _local.__dict__.setdefault("buffers", {})
    key = (name, np.dtype(dtype))
    if key not in buffers or buffers[key].size < size:
        buffers[key] = np.empty(size, dtype)
    return buffers[key][:size].reshape(shape)


def for_each(function: Callable[[Task], Any], tasks: Iterable[Task], parallel: bool) -> None:
    """Call `function` on every task, over all cores if `parallel`, BLAS on one thread each."""
    tasks = list(tasks)
    if not parallel or len(tasks) == 1 or n_threads() == 1:
        for task in tasks:
            function(task)
        return
    with _single_threaded_blas:
        for _ in _pool(os.getpid()).map(function, tasks):
            pass


def for_each_block(
    function: Callable[[slice], Any], n_rows: int, rows_per_block: int, parallel: bool
) -> None:
    """Call `function` on consecutive slices of ``range(n_rows)``."""
    starts = range(0, n_rows, rows_per_block)
    for_each(function, [slice(i, min(i + rows_per_block, n_rows)) for i in starts], parallel)


@lru_cache(maxsize=1)
def _pool(process: int) -> ThreadPoolExecutor:
    """One pool per process: a forked child must not inherit its parent's."""
    return ThreadPoolExecutor(n_threads(), thread_name_prefix="bandfall")


class _SingleThreadedBlas(AbstractContextManager[None]):
    """Holds BLAS to one thread while any caller is inside; safe from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._n_inside = 0
        self._limit: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if self._n_inside == 0:
                self._limit = _controller().limit(limits=1, user_api="blas")
            self._n_inside += 1

    def __exit__(self, *exception: object) -> None:
        with self._lock:
            self._n_inside -= 1
            if self._n_inside == 0:
                self._limit.restore_original_limits()


@lru_cache(maxsize=1)
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


_single_threaded_blas = _SingleThreadedBlas()


def blas_threads_for(n_rows: int) -> AbstractContextManager[None]:
    """Hold BLAS to one thread for few rows: many short products cost more to share than to do.

    NumPy and SciPy bring a pool each, and while one works the other spins.
    """
    return _single_threaded_blas if n_rows <= _FEW_ROWS else nullcontext()
