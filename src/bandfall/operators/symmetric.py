"""The symmetric operator: distances and K(σ) kept as one triangle, in strips of rows."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cached_property

import numpy as np

from bandfall.kernels import Kernel, kernel_matrix
from bandfall.operators.base import DEFAULT_BUDGET, HostArraysMixin, group_rows, group_sums
from bandfall.operators.rows import CACHE_ENTRIES, FEW_ROWS, for_each, for_each_block, scratch

_STRIP = 256  # rows
# Multiplications in one call: BLAS has a way of its own for so few, twice as fast for a narrow
# block, and what is read for one side of the diagonal is still in the cache for the other.
_SMALL_PRODUCT = 1_000_000
_PARALLEL_ROWS = 2000  # beyond, evaluating is worth several threads
_SHARES = 16  # of a large product, whatever the number of threads: sums have one order


def symmetric_bytes(n_rows: int, dtype: np.dtype) -> int:
    """Memory a `SymmetricOperator` needs: a triangle of distances and one of K."""
    return n_rows * (n_rows + _STRIP) * np.dtype(dtype).itemsize


class SymmetricOperator(HostArraysMixin):
    """K(σ) as a triangle in memory.

    Each strip of rows goes from the diagonal to the right, and serves the part below as well:
    half the memory and half the evaluations of a whole matrix. The last K(σ) is kept.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    kernel : Kernel
    dtype : dtype
        Of the kernel matrix and its products; distances are computed in float64.
    vector_bytes : int
        For a solver's own arrays.
    strip_rows : int
    """

    def __init__(
        self,
        X: np.ndarray,
        kernel: Kernel,
        dtype: np.dtype | type = np.float64,
        vector_bytes: int = DEFAULT_BUDGET // 8,
        strip_rows: int = _STRIP,
    ):
        super().__init__(len(X), kernel, dtype, vector_bytes)
        centred = np.asarray(X, dtype=np.float64)
        self._rows = centred - centred.mean(axis=0)
        self._height = strip_rows
        self._starts = range(0, self.n_rows, strip_rows)
        sizes = [(min(a + strip_rows, self.n_rows) - a) * (self.n_rows - a) for a in self._starts]
        self._places = np.cumsum([0, *sizes])  # of strips, in arrays of all entries
        self._distances = np.empty(sum(sizes), self.dtype)
        self._entries = np.empty_like(self._distances)
        self._bandwidth = math.nan
        for_each(self._measure, range(len(sizes)), parallel=self.n_rows > _PARALLEL_ROWS)

    def max_distance(self) -> float:
        """Largest distance between two rows."""
        return float(self._distances.max()) ** (1.0 / self.kernel.power)

    def product(self, bandwidth: float, block: np.ndarray) -> np.ndarray:
        """K(bandwidth) @ block."""
        if bandwidth == 0.0:
            return group_sums(*self._groups, block)
        if bandwidth != self._bandwidth:
            self._evaluate(bandwidth)
        block = np.ascontiguousarray(block)
        n_shares = 1 if self.n_rows <= FEW_ROWS else _SHARES
        totals = self.zeros((n_shares, *block.shape))  # no two threads write to one place

        def multiply(share: int) -> None:
            self._multiply(range(share, len(self._starts), n_shares), block, totals[share])

        for_each(multiply, range(n_shares), parallel=n_shares > 1)
        return totals.sum(axis=0) if n_shares > 1 else totals[0]

    def _multiply(self, strips: Iterable[int], block: np.ndarray, total: np.ndarray) -> None:
        """Add what some strips give, for both of their sides, a tile at a time."""
        width = max(self._height, _SMALL_PRODUCT // (self._height * block.shape[1]))
        for number in strips:
            start, K = self._starts[number], self._strip(self._entries, number)
            end = start + len(K)
            for first in range(start, self.n_rows, width):
                last = min(first + width, self.n_rows)
                total[start:end] += K[:, first - start : last - start] @ block[first:last]
                below = max(first, end)  # the diagonal has no other side
                if below < last:
                    tile = K[:, below - start : last - start]
                    total[below:last] += tile.T @ block[start:end]

    def _strip(self, values: np.ndarray, number: int) -> np.ndarray:
        """Entries of a strip, from the diagonal on."""
        strip = values[self._places[number] : self._places[number + 1]]
        return strip.reshape(-1, self.n_rows - self._starts[number])

    def _measure(self, number: int) -> None:
        start, distances = self._starts[number], self._strip(self._distances, number)
        rows = self._rows[start : start + self._height]
        distances[...] = self.kernel.geometry.block(rows, self._rows[start:], self.kernel.power)

    def _evaluate(self, bandwidth: float) -> None:
        self._bandwidth = math.nan  # an interrupted pass must not pass for a finished one
        self.n_evaluations += len(self._entries)

        def evaluate(part: slice) -> None:
            distances = self._distances[part]
            work = scratch("work", distances.shape, self.dtype)
            kernel_matrix(self.kernel, distances, bandwidth, out=self._entries[part], work=work)

        parallel = self.n_rows > _PARALLEL_ROWS
        for_each_block(evaluate, len(self._entries), CACHE_ENTRIES, parallel=parallel)
        self._bandwidth = bandwidth

    @cached_property
    def _groups(self) -> tuple[np.ndarray, int]:
        n = self.n_rows
        if np.count_nonzero(self._distances) == len(self._distances) - n:  # quicker than sorting
            return np.arange(n), n
        return group_rows(self._rows)
