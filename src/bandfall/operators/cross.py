"""Sums over stages at new points: f(x) = Σ_s k_{σ_s}(x, X) c_s and its gradient."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np

from bandfall.blocks import row_blocks, rows_within
from bandfall.geometry import Prepared
from bandfall.kernels import Kernel, kernel_matrix, vanishing_bandwidth
from bandfall.operators.base import DEFAULT_BUDGET
from bandfall.operators.rows import (
    CACHE_ENTRIES,
    for_each_block,
    n_threads,
    scratch,
)

Array = Any

# Work below this many kernel entries is not worth starting threads for.
_SERIAL_ENTRIES = 1 << 20


def cross_product(
    X_new: np.ndarray,
    X: np.ndarray,
    kernel: Kernel,
    bandwidths: Sequence[float] | np.ndarray,
    coefficients: np.ndarray,
    *,
    budget: int = DEFAULT_BUDGET,
    cumulative: bool = False,
    centres: Prepared | None = None,
) -> np.ndarray:
    """Σ_s K_new(σ_s) C_s, streamed in blocks; each distance block serves every stage.

    Parameters
    ----------
    X_new : ndarray of shape (m, d)
    X : ndarray of shape (n, d)
    kernel : Kernel
    bandwidths : sequence of S floats in [0, ∞]
    coefficients : ndarray of shape (S, n, k)
    budget : int
        Bytes for temporaries.
    cumulative : bool
        Return every partial sum over stages instead of the last one.
    centres : Prepared, optional
        The rows X, where the caller has prepared them.

    Returns
    -------
    ndarray of shape (m, k), or (S, m, k) if `cumulative`, in the dtype of `coefficients`
    """
    dtype = coefficients.dtype
    n_stages, _, n_outputs = coefficients.shape
    out = np.zeros((n_stages if cumulative else 1, len(X_new), n_outputs), dtype)
    blocks = _BlockPlan(X_new, centres or kernel.geometry.prepare(X), dtype, budget)

    def accumulate(rows: slice) -> None:
        for columns in blocks.columns():
            distances = blocks.distances(rows, columns, kernel)
            K = scratch("kernel", distances.shape, dtype)
            work = scratch("work", distances.shape, dtype)
            last = math.nan
            for s, bandwidth in enumerate(bandwidths):
                if bandwidth != last:
                    kernel_matrix(kernel, distances, bandwidth, out=K, work=work)
                    last = bandwidth
                out[s if cumulative else 0, rows] += K @ coefficients[s, columns]

    for_each_block(accumulate, len(X_new), blocks.rows, blocks.parallel(n_stages))
    if not cumulative:
        return out[0]
    return np.cumsum(out, axis=0, out=out)


class CrossOperator:
    """Products with K(σ) between new rows and training rows, for one bandwidth after another.

    Distances and the last K(σ) are kept where they take no more than a quarter of the budget.

    Parameters
    ----------
    X_new : ndarray of shape (m, d)
    X : ndarray of shape (n, d)
    kernel : Kernel
    budget : int
        Bytes.
    """

    def __init__(
        self, X_new: np.ndarray, X: np.ndarray, kernel: Kernel, budget: int = DEFAULT_BUDGET
    ):
        self._new, self._train = X_new, X
        self._kernel = kernel
        self._budget = budget
        self._bandwidth = math.nan
        self._kept = 2 * len(X_new) * len(X) * X.dtype.itemsize <= budget // 4
        if self._kept:
            blocks = self._blocks = _BlockPlan(X_new, kernel.geometry.prepare(X), X.dtype, budget)
            self._distances = np.empty((len(X_new), len(X)), X.dtype)
            self._matrix = np.empty_like(self._distances)

            def measure(rows: slice) -> None:
                for columns in blocks.columns():
                    self._distances[rows, columns] = blocks.distances(rows, columns, kernel)

            for_each_block(measure, len(X_new), blocks.rows, blocks.parallel(1))

    def product(self, bandwidth: float, block: np.ndarray) -> np.ndarray:
        """K_new(bandwidth) @ block, shape (m, k)."""
        if not self._kept:
            return cross_product(
                self._new, self._train, self._kernel, [bandwidth], block[None], budget=self._budget
            )
        known, self._bandwidth = bandwidth == self._bandwidth, math.nan
        result = np.empty((len(self._new), block.shape[1]), block.dtype)

        def multiply(rows: slice) -> None:
            K = self._matrix[rows]
            if not known:
                work = scratch("work", K.shape, K.dtype)
                kernel_matrix(self._kernel, self._distances[rows], bandwidth, out=K, work=work)
            np.matmul(K, block, out=result[rows])

        for_each_block(multiply, len(result), self._blocks.rows, self._blocks.parallel(1))
        self._bandwidth = bandwidth
        return result


def cross_gradient(
    X_new: np.ndarray,
    X: np.ndarray,
    kernel: Kernel,
    bandwidths: Sequence[float] | np.ndarray,
    coefficients: np.ndarray,
    *,
    budget: int = DEFAULT_BUDGET,
) -> np.ndarray:
    """∂/∂x Σ_s k_{σ_s}(x, X) c_s at each new row.

    With z = x − x_j and u = ‖z‖_p/σ the gradient of one term is c_j k′(u) u^(1−p)/σ^p times
    sgn(z)|z|^(p−1), so that a single weight matrix W = Σ_s c_s k′(u) u^(1−p)/σ_s^p serves all
    stages (`Geometry.pull`). Stages of bandwidth 0 are constant almost everywhere and contribute
    nothing.

    Returns
    -------
    ndarray of shape (m, d, k)
    """
    dtype = coefficients.dtype
    out = np.zeros((len(X_new), X.shape[1], coefficients.shape[2]), dtype)
    # The slopes, their factors and a mask come on top of what a product needs.
    blocks = _BlockPlan(X_new, kernel.geometry.prepare(X), dtype, budget * 5 // 9)

    def accumulate(rows: slice) -> None:
        for columns in blocks.columns():
            distances = blocks.distances(rows, columns, kernel)
            out[rows] += gradient_block(
                blocks.new[rows],
                blocks.centres.rows[columns],
                distances,
                kernel,
                bandwidths,
                coefficients[:, columns],
            )

    for_each_block(accumulate, len(X_new), blocks.rows, blocks.parallel(len(bandwidths)))
    return out


def gradient_block(
    new: Array,
    train: Array,
    distances: Array,
    kernel: Kernel,
    bandwidths: Sequence[float] | np.ndarray,
    coefficients: Array,
    xp: ModuleType = np,
) -> Array:
    """One block's share of `cross_gradient`, shape (m, d, k), with NumPy or torch."""
    if kernel.slope is None:
        raise ValueError(f"kernel {kernel.name!r} was given without a derivative")
    limits = xp.finfo(distances.dtype)
    largest = float(limits.max) / 4.0  # finite, and slopes vanish long before
    used = usable_bandwidths(bandwidths, limits)
    weights = [xp.zeros_like(distances) for _ in range(coefficients.shape[2])]
    q, work = xp.empty_like(distances), xp.empty_like(distances)
    for s in used:  # slopes once for all outputs
        bandwidth = float(bandwidths[s])
        with np.errstate(over="ignore"):
            scaled = xp.multiply(distances, bandwidth**-kernel.power, out=q)
            slopes = kernel.slope(xp.clip(scaled, 0.0, largest, out=q), xp)
            for output, W in enumerate(weights):
                W += xp.multiply(
                    slopes, coefficients[s, :, output] / bandwidth**kernel.geometry.p, out=work
                )
    elsewhere = distances > 0
    parts = []
    for W in weights:
        W *= elsewhere  # a row's own term is zero; as a difference of large numbers it is noise
        parts.append(kernel.geometry.pull(W, new, train, xp))
    return xp.stack(parts, -1)


def check_columns(new: Array, train: Array) -> None:
    """Refuse new rows that are no rows like those of training."""
    if new.ndim != 2 or new.shape[1] != train.shape[1]:
        raise ValueError(
            f"new rows must have shape (m, {train.shape[1]}) like the training rows; "
            f"got shape {tuple(new.shape)}"
        )


def usable_bandwidths(bandwidths: Sequence[float] | np.ndarray, limits: Any) -> np.ndarray:
    """Which stages have a gradient: not those of bandwidth ∞, 0, or as good as 0."""
    values = np.asarray(bandwidths, dtype=float)
    return np.flatnonzero((values > vanishing_bandwidth(limits)) & np.isfinite(values))


class _BlockPlan:
    """Blocks of the (m, n) distance matrix that fit the budget and, if they can, the cache."""

    def __init__(self, X_new: np.ndarray, centres: Prepared, dtype: np.dtype, budget: int):
        self.centres = centres
        self._n = len(centres.rows)
        new = np.asarray(X_new, dtype=np.float64)
        check_columns(new, centres.rows)
        self.new = new - centres.mean
        self.dtype = dtype
        # float64 distances, their comparison mask, the cast copy and the kernel block.
        entries = rows_within(budget, n_threads() * 40)
        self._columns = min(self._n, entries, 1 << 14)
        self.rows = rows_within(min(CACHE_ENTRIES, entries), self._columns)

    def columns(self) -> list[slice]:
        return row_blocks(self._n, self._columns)

    def distances(self, rows: slice, columns: slice, kernel: Kernel) -> np.ndarray:
        centres = self.centres
        squares = None if centres.squares is None else centres.squares[columns]
        block = kernel.geometry.block(
            self.new[rows], centres.rows[columns], kernel.power, squares=squares
        )
        return block.astype(self.dtype, copy=False)

    def parallel(self, n_stages: int) -> bool:
        return len(self.new) * self._n * n_stages > _SERIAL_ENTRIES
