"""The dense operator: distances kept once, one elementwise pass per new bandwidth."""

from __future__ import annotations

import numpy as np
from scipy.linalg import get_blas_funcs

from bandfall._blocks import rows_within
from bandfall._products.base import DEFAULT_BUDGET
from bandfall._products.kept import KeptMatrix, KeptOperator, evaluate_with
from bandfall._products.loops import loops_over
from bandfall._threads import for_each_block
from bandfall._typing import DTypeLike
from bandfall.kernels._kernel import Kernel

# Columns up to which BLAS's symmetric product, which reads half of K, is faster, unless K is
# small.
_FEW_COLUMNS = 8
_SMALL = 300  # rows
_PARALLEL_ROWS = 2000


def dense_bytes(n_rows: int, dtype: np.dtype) -> int:
    """Memory a `DenseOperator` needs: distances and one kernel matrix."""
    return 2 * n_rows * n_rows * np.dtype(dtype).itemsize


class DenseOperator(KeptOperator):
    """K(σ) as a matrix in memory.

    The last K(σ) is kept, so products at an unchanged bandwidth evaluate nothing.

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
        dtype: DTypeLike = np.float64,
        vector_bytes: int = DEFAULT_BUDGET // 8,
    ):
        super().__init__(len(X), kernel, dtype, vector_bytes)
        loops = loops_over(np.asarray(X), kernel, self.dtype, self.n_rows**2)
        self._rows = loops.own
        distances = np.empty((self.n_rows, self.n_rows), self.dtype)
        parallel = self.n_rows > _PARALLEL_ROWS

        def measure(rows: slice) -> None:
            loops.distances(self._rows[rows], slice(None), distances[rows])

        for_each_block(measure, self.n_rows, rows_within(1 << 22, self.n_rows), parallel)
        evaluate = evaluate_with(loops, parallel)
        self._kept = KeptMatrix(distances, np.empty_like(distances), evaluate)
        self._symmetric_product = get_blas_funcs("symv", dtype=self.dtype)

    def _times(self, entries: np.ndarray, block: np.ndarray) -> np.ndarray:
        if block.shape[1] > _FEW_COLUMNS or self.n_rows <= _SMALL:
            return entries @ block
        result = np.empty_like(block)
        for column in range(block.shape[1]):
            result[:, column] = self._symmetric_product(1.0, entries.T, block[:, column])
        return result

    def matrix(self, bandwidth: float) -> np.ndarray:
        """K(bandwidth), as a view that the next bandwidth overwrites."""
        return self._kept.at(bandwidth)
