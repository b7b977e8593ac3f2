"""Sums over stages at new points: f(x) = Σ_s k_{σ_s}(x, X) c_s and its gradient."""

from __future__ import annotations

import numpy as np

from bandfall._products.base import DEFAULT_BUDGET
from bandfall._products.kept import KeptMatrix, evaluate_with
from bandfall._products.loops import CompiledLoops, Loops, loops_for_sums, loops_over
from bandfall._threads import (
    CACHE_ENTRIES,
    for_each_block,
    n_threads,
    row_blocks,
    rows_within,
)
from bandfall._typing import Array, Values
from bandfall.kernels._kernel import Kernel, vanishing_bandwidth


def cross_product(
    X_new: np.ndarray,
    X: np.ndarray,
    kernel: Kernel,
    bandwidths: Values,
    coefficients: np.ndarray,
    *,
    budget: int = DEFAULT_BUDGET,
    cumulative: bool = False,
    loops: Loops | None = None,
) -> np.ndarray:
    """Σ_s K_new(σ_s) C_s, in blocks; all stages use the same block of distances.

    A new row has the same sum to rounding of float64, alone and among others, although K may be
    rounded to float32: entries and their order depend on the row and X alone.

    X_new is (m, d), X (n, d) and `coefficients` (S, n, k); the result in float64 is (m, k), or with
    `cumulative` every partial sum over stages, (S, m, k). `budget` bytes are for temporaries.
    `loops` is what `loops_for_sums` returns for X, kernel and the dtype of the coefficients.
    """
    n_stages, _, n_outputs = coefficients.shape
    least = vanishing_bandwidth(np.finfo(coefficients.dtype))
    bandwidths = [0.0 if bandwidth <= least else float(bandwidth) for bandwidth in bandwidths]
    if loops is None or X_new.dtype != X.dtype:
        loops = loops_for_sums(X, kernel, np.result_type(X_new, X, coefficients))
    out = np.zeros((n_stages if cumulative else 1, len(X_new), n_outputs))
    blocks = _BlockPlan(X_new, X, kernel, loops.dtype, budget, n_stages, loops=loops)
    weights = loops.weights(coefficients)
    # Compiled loops store no block, so that their sums do not depend on the budget.
    parts = [slice(0, len(X))] if isinstance(loops, CompiledLoops) else blocks.columns

    def accumulate(rows: slice) -> None:
        for columns in parts:
            new = blocks.new[rows]
            loops.add_sums(new, columns, bandwidths, weights, out[:, rows], blocks.entries)

    for_each_block(accumulate, len(X_new), blocks.rows, blocks.parallel)
    if not cumulative:
        return out[0]
    return np.cumsum(out, axis=0, out=out)


class CrossOperator:
    """Products with K(σ) between new rows and training rows, for one bandwidth after another.

    Distances and the last K(σ) are kept if they take at most a quarter of the budget, in bytes.
    """

    def __init__(
        self, X_new: np.ndarray, X: np.ndarray, kernel: Kernel, budget: int = DEFAULT_BUDGET
    ):
        self._new, self._train = X_new, X
        self._kernel = kernel
        self._budget = budget
        self._kept: KeptMatrix | None = None
        if 2 * len(X_new) * len(X) * X.dtype.itemsize <= budget // 4:
            blocks = self._blocks = _BlockPlan(X_new, X, kernel, X.dtype, budget)
            distances = np.empty((len(X_new), len(X)), X.dtype)

            def measure(rows: slice) -> None:
                blocks.loops.distances(blocks.new[rows], slice(0, len(X)), distances[rows])

            for_each_block(measure, len(X_new), blocks.rows, blocks.parallel)
            evaluate = evaluate_with(blocks.loops, blocks.parallel)
            self._kept = KeptMatrix(distances, np.empty_like(distances), evaluate)

    def product(self, bandwidth: float, block: np.ndarray) -> np.ndarray:
        """K_new(bandwidth) @ block, shape (m, k)."""
        if self._kept is None:
            parts = (self._new, self._train, self._kernel, [bandwidth], block[None])
            return cross_product(*parts, budget=self._budget).astype(block.dtype, copy=False)
        K = self._kept.at(bandwidth)
        result = np.empty((len(self._new), block.shape[1]), block.dtype)
        # BLAS multiplies few columns faster one by one than as a matrix.
        columns = np.ascontiguousarray(block.T) if block.shape[1] <= 4 else ()

        def multiply(rows: slice) -> None:
            for number, column in enumerate(columns):
                result[rows, number] = K[rows] @ column
            if not len(columns):
                np.matmul(K[rows], block, out=result[rows])

        for_each_block(multiply, len(result), self._blocks.rows, self._blocks.parallel)
        return result


def cross_gradient(
    X_new: np.ndarray,
    X: np.ndarray,
    kernel: Kernel,
    bandwidths: Values,
    coefficients: np.ndarray,
    *,
    budget: int = DEFAULT_BUDGET,
) -> np.ndarray:
    """∂/∂x Σ_s k_{σ_s}(x, X) c_s at each new row.

    The result has shape (m, d, k). With z = x − x_j and u = ‖z‖_p/σ the gradient of one term is
    c_j k′(u) u^(1−p)/σ^p times sgn(z)|z|^(p−1), so a single weight matrix
    W = Σ_s c_s k′(u) u^(1−p)/σ_s^p is enough for all stages (`Geometry.pull`). Stages of bandwidth
    0 are constant almost everywhere and contribute nothing.
    """
    dtype = coefficients.dtype
    out = np.zeros((len(X_new), X.shape[1], coefficients.shape[2]), dtype)
    # The slopes, their factors and a mask come on top of what a product needs.
    n_stages, part = len(bandwidths), budget * 5 // 9
    blocks = _BlockPlan(X_new, X, kernel, dtype, part, n_stages)

    def accumulate(rows: slice) -> None:
        for columns in blocks.columns:
            out[rows] += blocks.loops.gradient(blocks.new[rows], columns, bandwidths, coefficients)

    for_each_block(accumulate, len(X_new), blocks.rows, blocks.parallel)
    return out


def check_columns(new: Array, train: Array) -> None:
    """Raise ValueError unless new rows have the columns of the training rows."""
    if new.ndim != 2 or new.shape[1] != train.shape[1]:
        raise ValueError(
            f"new rows must have shape (m, {train.shape[1]}) like the training rows; "
            f"got shape {tuple(new.shape)}"
        )


class _BlockPlan:
    """Blocks of the (m, n) distance matrix that fit the budget and, if possible, the cache."""

    def __init__(
        self,
        X_new: np.ndarray,
        X: np.ndarray,
        kernel: Kernel,
        dtype: np.dtype,
        budget: int,
        n_stages: int = 1,
        *,
        loops: Loops | None = None,
    ):
        X_new = np.asarray(X_new)
        check_columns(X_new, X)
        n_entries = len(X_new) * len(X) * n_stages
        self.parallel = n_entries > 1 << 22  # with fewer, one thread is faster
        if X_new.dtype != X.dtype:  # rounding the new rows would cost accuracy
            n_entries = 0
        self.loops = loops or loops_over(X, kernel, dtype, n_entries)
        self.new = self.loops.placed(X_new)
        # float64 distances, their comparison mask, the cast copy and the kernel block.
        entries = rows_within(budget, n_threads() * 40)
        self.entries = min(CACHE_ENTRIES, entries)
        n_columns = min(len(X), entries, 1 << 14)
        self.columns = row_blocks(len(X), n_columns)
        self.rows = rows_within(self.entries, n_columns)
