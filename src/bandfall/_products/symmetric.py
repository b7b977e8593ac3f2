"""The symmetric operator: distances and K(σ) kept as one triangle, in strips of rows."""

from __future__ import annotations

from functools import partial

import numpy as np

from bandfall._products.base import DEFAULT_BUDGET, BasisOperator, LanczosSteps
from bandfall._products.kept import KeptMatrix, KeptOperator, evaluate_with
from bandfall._products.loops import compiled_vectors, extend_bases, loops_over, symmetric_product
from bandfall._threads import FEW_ROWS, for_each
from bandfall._typing import DTypeLike
from bandfall.kernels._kernel import Kernel

_STRIP = 256  # rows
# Multiplications in one call: BLAS is twice as fast on products this small with a narrow block,
# and entries read for one side of the diagonal are still in the cache for the other.
_SMALL_PRODUCT = 1_000_000
# Columns up to which one pass of compiled loops over K is as fast as BLAS, which has to be called
# once a tile: each call releases the interpreter's lock, and threads wait for each other.
_FEW_COLUMNS = 8
_PARALLEL_ROWS = 2000  # beyond, evaluating is worth several threads
_SHARES = 16  # of a large product, whatever the number of threads: sums have one order


def symmetric_bytes(n_rows: int, dtype: np.dtype) -> int:
    """Memory a `SymmetricOperator` needs: a triangle of distances and one of K."""
    return n_rows * (n_rows + _STRIP) * np.dtype(dtype).itemsize


class SymmetricOperator(KeptOperator, BasisOperator):
    """K(σ) as a triangle in memory.

    Each strip of rows goes from the diagonal to the right, and is also used for the part below the
    diagonal: half the memory and half the evaluations of a whole matrix. The last K(σ) is kept.

    Parameters
    ----------
    X, kernel, dtype, vector_bytes
        As in `DenseOperator`.
    strip_rows, small_product, few_rows : int
        Rows of a strip, multiplications in one call, and rows up to which one thread multiplies.
    """

    def __init__(
        self,
        X: np.ndarray,
        kernel: Kernel,
        dtype: DTypeLike = np.float64,
        vector_bytes: int = DEFAULT_BUDGET // 8,
        strip_rows: int = _STRIP,
        small_product: int = _SMALL_PRODUCT,
        few_rows: int = FEW_ROWS,
    ):
        super().__init__(len(X), kernel, dtype, vector_bytes)
        self._loops = loops_over(np.asarray(X), kernel, self.dtype, self.n_rows**2)
        self._rows = self._loops.own
        self._height, self._small_product = strip_rows, small_product
        self._n_shares = 1 if self.n_rows <= few_rows else _SHARES
        self._starts = range(0, self.n_rows, strip_rows)
        sizes = [(min(a + strip_rows, self.n_rows) - a) * (self.n_rows - a) for a in self._starts]
        self._places = np.cumsum([0, *sizes])  # of strips, in arrays of all entries
        distances, parallel = np.empty(sum(sizes), self.dtype), self.n_rows > _PARALLEL_ROWS
        evaluate = evaluate_with(self._loops, parallel)
        self._kept = KeptMatrix(distances, np.empty_like(distances), evaluate)
        for_each(self._measure, range(len(sizes)), parallel)

    def _times(self, entries: np.ndarray, block: np.ndarray) -> np.ndarray:
        n_shares = self._n_shares
        if self._compiled(block.shape[1]):
            multiply = partial(symmetric_product, entries, self._height)
        else:
            multiply = partial(self._multiply, entries)
            block = np.ascontiguousarray(block)
        parts: list[np.ndarray] = [block] * n_shares  # no two threads write to one place

        def compute(share: int) -> None:
            parts[share] = multiply(share, n_shares, block)

        for_each(compute, range(n_shares), parallel=n_shares > 1)
        return sum(parts[1:], parts[0])

    def extends(self, bandwidth: float, n_columns: int) -> bool:
        return bandwidth > 0.0 and self._n_shares == 1 and self._compiled(n_columns)

    def extend(self, bandwidth: float, steps: LanczosSteps) -> None:
        extend_bases(self._kept.at(bandwidth), self._height, self.n_rows, steps)

    def _compiled(self, n_columns: int) -> bool:
        return n_columns <= _FEW_COLUMNS and compiled_vectors(self._kept.distances, self.n_rows)

    def _multiply(
        self, entries: np.ndarray, share: int, n_shares: int, block: np.ndarray
    ) -> np.ndarray:
        """The contribution of some strips to a product, for both of their sides, tile by tile."""
        total = self.zeros(block.shape)
        width = max(self._height, self._small_product // (self._height * block.shape[1]))
        for number in range(share, len(self._starts), n_shares):
            start, K = self._starts[number], self._strip(entries, number)
            end = start + len(K)
            for first in range(start, self.n_rows, width):
                last = min(first + width, self.n_rows)
                total[start:end] += K[:, first - start : last - start] @ block[first:last]
                below = max(first, end)  # the diagonal has no other side
                if below < last:
                    tile = K[:, below - start : last - start]
                    total[below:last] += tile.T @ block[start:end]
        return total

    def _strip(self, values: np.ndarray, number: int) -> np.ndarray:
        """Entries of a strip, from the diagonal on."""
        strip = values[self._places[number] : self._places[number + 1]]
        return strip.reshape(-1, self.n_rows - self._starts[number])

    def _measure(self, number: int) -> None:
        start, distances = self._starts[number], self._strip(self._kept.distances, number)
        rows = self._rows[start : start + self._height]
        self._loops.distances(rows, slice(start, self.n_rows), distances)
