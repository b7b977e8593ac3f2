"""Distances kept once, and the last K(σ) evaluated from them."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property, partial

import numpy as np
from scipy.linalg import get_blas_funcs

from bandfall._products.base import (
    DEFAULT_BUDGET,
    KernelOperator,
    LanczosSteps,
    distinct_rows,
    product_of_equal_rows,
)
from bandfall._products.loops import (
    Loops,
    compiled_vectors,
    loops_over,
    pairs_code,
    symmetric_product,
)
from bandfall._threads import FEW_ROWS, for_each, for_each_block, row_blocks, rows_within
from bandfall._typing import Array, DTypeLike
from bandfall.kernels._kernel import Kernel


class KeptMatrix:
    """K(σ) for the last bandwidth; products at an unchanged bandwidth evaluate nothing.

    `distances` are raised to the kernel's power and of any shape; ``evaluate(distances, bandwidth,
    out)`` computes K(σ) into `entries`, an array like them.
    """

    def __init__(
        self, distances: Array, entries: Array, evaluate: Callable[[Array, float, Array], object]
    ):
        self.distances = distances
        self._evaluate = evaluate
        self._entries = entries
        self._bandwidth = math.nan

    def at(self, bandwidth: float) -> Array:
        """K(bandwidth), as a view that the next bandwidth overwrites."""
        if bandwidth != self._bandwidth:
            self._bandwidth = math.nan  # K is invalid until the pass is complete
            self._evaluate(self.distances, bandwidth, self._entries)
            self._bandwidth = bandwidth
        return self._entries


def evaluate_with(loops: Loops, parallel: bool) -> Callable[[np.ndarray, float, np.ndarray], None]:
    """The `evaluate` of a `KeptMatrix` on the host: by blocks, with or without threads."""

    def evaluate(distances: np.ndarray, bandwidth: float, out: np.ndarray) -> None:
        flat, entries = distances.reshape(-1), out.reshape(-1)

        def part(block: slice) -> None:
            loops.evaluate(flat[block], bandwidth, entries[block])

        for_each_block(part, len(flat), loops.block_entries, parallel)

    return evaluate


_PARALLEL_ROWS = 2000  # beyond, evaluating is worth several threads
# Columns up to which products read half of K: BLAS's symmetric product is faster then, unless K is
# small; and one pass of compiled loops as fast as BLAS, which has to be called once a tile: each
# call releases the interpreter's lock, and threads wait for each other.
_FEW_COLUMNS = 8
_SMALL_MATRIX = 300  # rows up to which BLAS's product with a whole matrix is fastest
_STRIP = 256  # rows
# Multiplications in one call: BLAS is twice as fast on products this small with a narrow block,
# and entries read for one side of the diagonal are still in the cache for the other.
_SMALL_PRODUCT = 1_000_000
_SHARES = 16  # of a large product; fixed, so that results do not depend on the thread count


def dense_bytes(n_rows: int, dtype: np.dtype) -> int:
    """Memory a `DenseOperator` needs: distances and one kernel matrix."""
    return 2 * n_rows * n_rows * np.dtype(dtype).itemsize


def symmetric_bytes(n_rows: int, dtype: np.dtype) -> int:
    """Memory a `SymmetricOperator` needs: a triangle of distances and one of K."""
    return n_rows * (n_rows + _STRIP) * np.dtype(dtype).itemsize


class SymmetricOperator(KernelOperator):
    """K(σ) as a triangle in memory.

    Each strip of rows goes from the diagonal to the right, and is also used for the part below the
    diagonal: half the memory and half the evaluations of a whole matrix. Distances, computed in
    float64, and the last K(σ) are kept, so products at an unchanged bandwidth evaluate nothing.
    """

    def __init__(
        self,
        X: np.ndarray,
        kernel: Kernel,
        dtype: DTypeLike = np.float64,
        vector_bytes: int = DEFAULT_BUDGET // 8,
        strip_rows: int = _STRIP,
    ):
        super().__init__(len(X), kernel, dtype, vector_bytes)
        self._loops = loops_over(np.asarray(X), kernel, self.dtype, self.n_rows**2)
        self._height = strip_rows
        self._n_shares = 1 if self.n_rows <= FEW_ROWS else _SHARES
        self._strips = row_blocks(self.n_rows, strip_rows)
        sizes = [(rows.stop - rows.start) * (self.n_rows - rows.start) for rows in self._strips]
        self._places = np.cumsum([0, *sizes])  # of strips, in arrays of all entries
        distances, parallel = np.empty(sum(sizes), self.dtype), self.n_rows > _PARALLEL_ROWS
        evaluate = evaluate_with(self._loops, parallel)
        self._kept = KeptMatrix(distances, np.empty_like(distances), evaluate)
        block_rows = min(strip_rows, max(_STRIP, rows_within(1 << 22, self.n_rows)))
        for_each_block(self._measure, self.n_rows, block_rows, parallel)

    def max_distance(self) -> float:
        return float(self._kept.distances.max()) ** (1.0 / self.kernel.power)

    def product(self, bandwidth: float, block: np.ndarray) -> np.ndarray:
        if bandwidth == 0.0:
            return product_of_equal_rows(*self._distinct, block)
        return self._times(self._kept.at(bandwidth), block)

    @cached_property
    def _distinct(self) -> tuple[np.ndarray, np.ndarray]:
        return distinct_rows(self._loops.own)

    def _times(self, entries: np.ndarray, block: np.ndarray) -> np.ndarray:
        """K @ block, from the entries of K."""
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
        factors = np.ones(0, np.float32) if steps.factors is None else steps.factors
        labels = np.zeros(0, np.intp) if steps.labels is None else steps.labels
        entries = self._kept.at(bandwidth), self.n_rows, self._height
        tridiagonal = steps.alpha, steps.beta, steps.negligible
        around = np.ascontiguousarray(factors), labels
        pairs_code().lanczos(*entries, steps.basis, steps.first, *tridiagonal, *around)

    def _compiled(self, n_columns: int) -> bool:
        return n_columns <= _FEW_COLUMNS and compiled_vectors(self._kept.distances, self.n_rows)

    def _multiply(
        self, entries: np.ndarray, share: int, n_shares: int, block: np.ndarray
    ) -> np.ndarray:
        """The contribution of some strips to a product, for both of their sides, tile by tile."""
        total = self.zeros(block.shape)
        width = max(self._height, _SMALL_PRODUCT // (self._height * block.shape[1]))
        for number in range(share, len(self._strips), n_shares):
            rows, K = self._strips[number], self._strip(entries, number)
            for first in range(rows.start, self.n_rows, width):
                last = min(first + width, self.n_rows)
                tile = K[:, first - rows.start : last - rows.start]
                total[rows] += tile @ block[first:last]
                below = max(first, rows.stop)  # the diagonal has no other side
                if below < last:
                    total[below:last] += tile[:, below - first :].T @ block[rows]
        return total

    def _strip(self, values: np.ndarray, number: int) -> np.ndarray:
        """Entries of a strip, from the diagonal on."""
        strip = values[self._places[number] : self._places[number + 1]]
        return strip.reshape(-1, self.n_rows - self._strips[number].start)

    def _measure(self, rows: slice) -> None:
        """Distances of some rows of one strip."""
        number = rows.start // self._height
        start, strip = self._strips[number].start, self._strip(self._kept.distances, number)
        out = strip[rows.start - start : rows.stop - start]
        self._loops.distances(self._loops.own[rows], slice(start, self.n_rows), out)


class DenseOperator(SymmetricOperator):
    """K(σ) as a matrix in memory: a single strip."""

    def __init__(
        self,
        X: np.ndarray,
        kernel: Kernel,
        dtype: DTypeLike = np.float64,
        vector_bytes: int = DEFAULT_BUDGET // 8,
    ):
        super().__init__(X, kernel, dtype, vector_bytes, strip_rows=len(X))
        self._symmetric_product = get_blas_funcs("symv", dtype=self.dtype)

    def _times(self, entries: np.ndarray, block: np.ndarray) -> np.ndarray:
        K = entries.reshape(self.n_rows, -1)
        if block.shape[1] > _FEW_COLUMNS or self.n_rows <= _SMALL_MATRIX:
            return K @ block
        columns = [self._symmetric_product(1.0, K.T, column) for column in block.T]
        return np.stack(columns, axis=1)

    def extends(self, bandwidth: float, n_columns: int) -> bool:
        return False

    def matrix(self, bandwidth: float) -> np.ndarray:
        return self._strip(self._kept.at(bandwidth), 0)
