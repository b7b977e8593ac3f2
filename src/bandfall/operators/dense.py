"""The dense operator: distances kept once, one elementwise pass per new bandwidth."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property

import numpy as np
from scipy.linalg import get_blas_funcs

from bandfall.blocks import rows_within
from bandfall.kernels import Kernel, kernel_matrix
from bandfall.operators.base import DEFAULT_BUDGET, HostArraysMixin, group_rows, group_sums
from bandfall.operators.rows import CACHE_ENTRIES, for_each_block, scratch

# Up to so many columns BLAS's symmetric product, which reads half of K, is the faster; where K
# is small, calling it takes longer than reading.
_FEW_COLUMNS = 8
_SMALL = 300  # rows
_PARALLEL_ROWS = 2000


def dense_bytes(n_rows: int, dtype: np.dtype) -> int:
    """Memory a `DenseOperator` needs: distances and one kernel matrix."""
    return 2 * n_rows * n_rows * np.dtype(dtype).itemsize


class DenseOperator(HostArraysMixin):
    """K(σ) as a matrix in memory.

    The last K(σ) is kept: products at an unchanged bandwidth evaluate no kernel.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    kernel : Kernel
    dtype : dtype
        Of the kernel matrix and its products; distances are computed in float64.
    vector_bytes : int
        For a solver's own arrays.
    """

    def __init__(
        self,
        X: np.ndarray,
        kernel: Kernel,
        dtype: np.dtype | type = np.float64,
        vector_bytes: int = DEFAULT_BUDGET // 8,
    ):
        super().__init__(len(X), kernel, dtype, vector_bytes)
        centred = np.asarray(X, dtype=np.float64)
        self._rows = centred - centred.mean(axis=0)
        self._distances = np.empty((self.n_rows, self.n_rows), self.dtype)
        self._for_each_block(self._measure, 1 << 22)
        self._matrix = np.empty_like(self._distances)
        self._bandwidth = math.nan
        self._symmetric_product = get_blas_funcs("symv", dtype=self.dtype)

    def max_distance(self) -> float:
        """Largest distance between two rows."""
        return float(self._distances.max()) ** (1.0 / self.kernel.power)

    def product(self, bandwidth: float, block: np.ndarray) -> np.ndarray:
        """K(bandwidth) @ block."""
        if bandwidth == 0.0:
            return group_sums(*self._groups, block)
        K = self.matrix(bandwidth)
        if block.shape[1] > _FEW_COLUMNS or self.n_rows <= _SMALL:
            return K @ block
        result = np.empty_like(block)
        for column in range(block.shape[1]):
            result[:, column] = self._symmetric_product(1.0, K.T, block[:, column])
        return result

    def matrix(self, bandwidth: float) -> np.ndarray:
        """K(bandwidth) itself: a view that the next bandwidth overwrites."""
        if bandwidth != self._bandwidth:
            self._evaluate(bandwidth)
        return self._matrix

    def _evaluate(self, bandwidth: float) -> None:
        self._bandwidth = math.nan  # an interrupted pass must not pass for a finished one
        self.n_evaluations += self.n_rows**2

        def evaluate(rows: slice) -> None:
            distances = self._distances[rows]
            work = scratch("work", distances.shape, self.dtype)
            kernel_matrix(self.kernel, distances, bandwidth, out=self._matrix[rows], work=work)

        self._for_each_block(evaluate, CACHE_ENTRIES)
        self._bandwidth = bandwidth

    def _measure(self, rows: slice) -> None:
        block = self.kernel.geometry.block(self._rows[rows], self._rows, self.kernel.power)
        self._distances[rows] = block

    def _for_each_block(self, function: Callable[[slice], None], entries: int) -> None:
        """Rows of K, about so many of its entries at a time."""
        size = rows_within(entries, self.n_rows)
        for_each_block(function, self.n_rows, size, parallel=self.n_rows > _PARALLEL_ROWS)

    @cached_property
    def _groups(self) -> tuple[np.ndarray, int]:
        n = self.n_rows
        if np.count_nonzero(self._distances) == n * (n - 1):  # quicker to see than by sorting
            return np.arange(n), n
        return group_rows(self._rows)
