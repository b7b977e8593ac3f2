"""Row blocks over threads: NumPy releases the GIL, so plain threads use all cores."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

# A block of this many entries (and its temporaries) stays in a core's own cache.
CACHE_ENTRIES = 1 << 16


def n_threads() -> int:
    """Cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def for_each_block(
    function: Callable[[slice], None], n_rows: int, rows_per_block: int, parallel: bool
) -> None:
    """Call `function` on consecutive slices of ``range(n_rows)``, over all cores if `parallel`."""
    blocks = [slice(i, min(i + rows_per_block, n_rows)) for i in range(0, n_rows, rows_per_block)]
    if not parallel or len(blocks) == 1 or n_threads() == 1:
        for block in blocks:
            function(block)
        return
    with ThreadPoolExecutor(n_threads()) as pool:
        for _ in pool.map(function, blocks):
            pass
