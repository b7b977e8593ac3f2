"""The blocked operator: K(σ) in tiles under a byte budget, on all cores."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from bandfall._products.base import DEFAULT_BUDGET, HostArraysMixin, group_rows, group_sums
from bandfall._products.order import Leaves
from bandfall._products.tiles import LEAF_SIZE, Tiles
from bandfall._threads import for_each, n_threads, scratch
from bandfall._typing import DTypeLike
from bandfall.kernels._kernel import Kernel


class BlockedOperator(HostArraysMixin):
    """Products with K(σ) for any number of rows, without storing all of K(σ).

    Rows are ordered by the leaves of a k-d tree. Each tile of the upper triangle is evaluated
    once and used for both of its sides. Tiles whose leaves are so far apart that every entry is
    below rounding are skipped; late in training, when the bandwidth is small, few are left. As many
    tiles as the budget allows are kept for the next product at the same bandwidth.

    Parameters
    ----------
    X, kernel, dtype, vector_bytes
        As in `DenseOperator`.
    budget : int
        Bytes for tiles, scratch and kept results together.
    """

    def __init__(
        self,
        X: np.ndarray,
        kernel: Kernel,
        dtype: DTypeLike = np.float64,
        budget: int = DEFAULT_BUDGET,
        vector_bytes: int = DEFAULT_BUDGET // 8,
    ):
        super().__init__(len(X), kernel, dtype, vector_bytes)
        self.n_evaluations = 0
        rows = np.asarray(X, dtype=np.float64)
        rows = rows - rows.mean(axis=0)
        self._leaves = Leaves(rows, self._leaf_size(budget))
        self._of_rows = Tiles(rows[self._leaves.order], self._leaves.slices, kernel, self.dtype)
        self._nearest = self._leaves.distance_bounds(kernel.geometry)
        side = self._side = max(s.stop - s.start for s in self._leaves.slices)
        working = n_threads() * 3 * side * side * self.dtype.itemsize
        n_kept = max(0, budget - working) // (side * side * self.dtype.itemsize)
        n_tiles = len(self._leaves.slices) * (len(self._leaves.slices) + 1) // 2
        self._kept = np.empty((min(n_kept, n_tiles), side * side), self.dtype)
        self._bandwidth = math.nan

    def max_distance(self) -> float:
        """Largest distance between two rows."""
        return self.kernel.geometry.diameter(self._of_rows.rows, self._side)

    def product(self, bandwidth: float, block: np.ndarray) -> np.ndarray:
        """K(bandwidth) @ block."""
        if bandwidth == 0.0:
            return group_sums(*self._groups, block)
        if bandwidth != self._bandwidth:
            self._begin(bandwidth)
        self._count_evaluations()
        ordered = np.ascontiguousarray(block[self._leaves.order])
        flat = np.ascontiguousarray(ordered.T)
        fused = self._of_rows.fuses(bandwidth, block.shape[1])
        workers = n_threads()
        totals = np.zeros((workers, *block.shape))  # one a thread: no two write to one place

        def work(worker: int) -> None:
            for number in range(worker, len(self._tiles), workers):
                if fused and number >= len(self._evaluated):
                    i, j = self._tiles[number]
                    self._of_rows.add_products(i, j, bandwidth, flat, totals[worker].T)
                else:
                    self._apply(number, ordered, totals[worker])

        try:
            for_each(work, range(workers), parallel=True)
        except BaseException:
            self._bandwidth = math.nan  # kept tiles may be half written
            raise
        result = np.empty_like(block)
        result[self._leaves.order] = totals.sum(axis=0)
        return result

    def _begin(self, bandwidth: float) -> None:
        """List the tiles of K(bandwidth) that do not vanish; none is evaluated yet."""
        near = self._nearest <= self._of_rows.reach(bandwidth)
        self._tiles = np.argwhere(np.triu(near))
        self._evaluated = np.zeros(min(len(self._tiles), len(self._kept)), dtype=bool)
        self._bandwidth = bandwidth

    def _count_evaluations(self) -> None:
        """Count the entries that the next product evaluates: tiles that are not kept."""
        sizes = np.array([s.stop - s.start for s in self._leaves.slices])
        entries = sizes[self._tiles].prod(axis=1)
        entries[: len(self._evaluated)][self._evaluated] = 0
        self.n_evaluations += int(entries.sum())

    def _apply(self, number: int, block: np.ndarray, total: np.ndarray) -> None:
        """Add the contribution of one tile to the product, for both of its sides."""
        i, j = self._tiles[number]
        rows, columns = self._leaves.slices[i], self._leaves.slices[j]
        K = self._tile(number, i, j)
        total[rows] += K @ block[columns]
        if i != j:
            total[columns] += K.T @ block[rows]

    def _tile(self, number: int, i: int, j: int) -> np.ndarray:
        shape = self._of_rows.shape(i, j)
        if number >= len(self._evaluated):
            tile = scratch("tile", shape, self.dtype)
            return self._of_rows.evaluate(i, j, self._bandwidth, tile)
        tile = self._kept[number, : shape[0] * shape[1]].reshape(shape)
        if not self._evaluated[number]:
            self._of_rows.evaluate(i, j, self._bandwidth, tile)
            self._evaluated[number] = True
        return tile

    def _leaf_size(self, budget: int) -> int:
        side = math.isqrt(max(1, budget // (n_threads() * 6 * self.dtype.itemsize)))
        return max(16, min(LEAF_SIZE, side))

    @cached_property
    def _groups(self) -> tuple[np.ndarray, int]:
        original = np.empty_like(self._of_rows.rows)
        original[self._leaves.order] = self._of_rows.rows
        return group_rows(original)
