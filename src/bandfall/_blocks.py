"""Blocks of consecutive rows, for arrays that are processed piece by piece."""

from __future__ import annotations


def rows_within(budget: int, row_size: int) -> int:
    """Number of rows of size `row_size` that fit the budget; at least one."""
    return max(1, budget // max(1, row_size))


def row_blocks(n_rows: int, rows_per_block: int) -> list[slice]:
    """Consecutive slices of ``range(n_rows)``."""
    starts = range(0, n_rows, rows_per_block)
    return [slice(start, min(start + rows_per_block, n_rows)) for start in starts]
