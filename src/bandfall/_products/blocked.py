"""The blocked operator: K(σ) in tiles under a byte budget, on all cores."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from bandfall._products.base import (
    DEFAULT_BUDGET,
    KernelOperator,
    distinct_rows,
    product_of_equal_rows,
)
from bandfall._products.loops import (
    compiled_code,
    compiled_form,
    even_features,
    fill_tile,
)
from bandfall._threads import for_each, n_threads, scratch
from bandfall._typing import DTypeLike
from bandfall.kernels._geometry import Geometry, to_power
from bandfall.kernels._kernel import Kernel, kernel_matrix

LEAF_SIZE = 512  # a float32 tile of this side is one megabyte: a core's second-level cache


class BlockedOperator(KernelOperator):
    """Products with K(σ) for any number of rows, without storing all of K(σ).

    Rows are ordered by the leaves of a k-d tree. Each tile of the upper triangle is evaluated
    once and used for both of its sides. Tiles whose leaves are so far apart that every entry is
    below rounding are skipped; late in training, when the bandwidth is small, few are left. As many
    tiles as the budget allows are kept for the next product at the same bandwidth.

    `budget` bytes are for tiles, scratch and kept results together.
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
        rows = np.asarray(X, dtype=np.float64)
        rows = rows - rows.mean(axis=0)
        side = math.isqrt(max(1, budget // (n_threads() * 6 * self.dtype.itemsize)))
        self._leaves = Leaves(rows, max(16, min(LEAF_SIZE, side)))
        slices = self._leaves.slices
        self._of_rows = Tiles(rows[self._leaves.order], slices, kernel, self.dtype)
        self._nearest = self._leaves.distance_bounds(kernel.geometry)
        self._side = max(leaf.stop - leaf.start for leaf in slices)
        tile_entries = self._side**2
        working = n_threads() * 3 * tile_entries * self.dtype.itemsize
        n_kept = max(0, budget - working) // (tile_entries * self.dtype.itemsize)
        n_tiles = len(slices) * (len(slices) + 1) // 2
        self._kept = np.empty((min(n_kept, n_tiles), tile_entries), self.dtype)
        self._bandwidth = math.nan

    @cached_property
    def _distinct(self) -> tuple[np.ndarray, np.ndarray]:
        return distinct_rows(self._of_rows.rows)

    def max_distance(self) -> float:
        return self.kernel.geometry.diameter(self._of_rows.rows, self._side)

    def product(self, bandwidth: float, block: np.ndarray) -> np.ndarray:
        result, order = np.empty_like(block), self._leaves.order
        ordered = np.ascontiguousarray(block[order])
        if bandwidth == 0.0:
            result[order] = product_of_equal_rows(*self._distinct, ordered)
            return result
        if bandwidth != self._bandwidth:
            near = self._nearest <= self._of_rows.reach(bandwidth)
            self._tiles = np.argwhere(np.triu(near))  # those that do not vanish
            self._evaluated = np.zeros(min(len(self._tiles), len(self._kept)), dtype=bool)
            self._bandwidth = bandwidth
        flat = np.ascontiguousarray(ordered.T)
        fused = self._of_rows.fuses(bandwidth, block.shape[1])
        workers = n_threads()
        totals = np.zeros((workers, *block.shape))  # one a thread: no two write to one place

        def work(worker: int) -> None:
            for number in range(worker, len(self._tiles), workers):
                i, j = self._tiles[number]
                if fused and number >= len(self._evaluated):
                    self._of_rows.add_products(i, j, bandwidth, flat, totals[worker].T)
                    continue
                rows, columns = self._leaves.slices[i], self._leaves.slices[j]
                K = self._tile(number, i, j)
                totals[worker, rows] += K @ ordered[columns]
                if i != j:
                    totals[worker, columns] += K.T @ ordered[rows]

        for_each(work, range(workers), parallel=True)
        result[order] = totals.sum(axis=0)
        return result

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


class Tiles:
    """K(σ) between any two leaves.

    Distances inside a tile are computed relative to the centre of its leaf, which keeps float32
    accurate for near rows. Nothing is kept between calls, so threads may share it. The float64
    `rows` (n, d) have zero mean and come leaf by leaf, as `slices` say; K(σ) has the given dtype.
    """

    def __init__(self, rows: np.ndarray, slices: Sequence[slice], kernel: Kernel, dtype: np.dtype):
        self.rows = rows
        self.slices = slices
        self.kernel = kernel
        self.dtype = dtype
        # Entries below rounding / n cannot change a sum of n of them.
        self._radius = _vanishing_point(kernel, float(np.finfo(dtype).eps) / len(rows))
        self._form = compiled_form(kernel, rows[:1].astype(dtype), dtype, len(rows) ** 2)
        self._centres, self._centred, self._right = [], [], []
        for leaf in slices:
            centre = rows[leaf].mean(axis=0)
            centred = (rows[leaf] - centre).astype(dtype)
            right = centred.T
            if self._form is not None:
                centred, centre = even_features(centred), even_features(centre[None])[0]
                right = centred.T
            elif kernel.geometry.rotates:
                squares = np.einsum("ij,ij->i", centred, centred)
                right = np.vstack([right, np.ones_like(squares), squares])
            self._centres.append(centre)
            self._centred.append(centred)
            self._right.append(np.ascontiguousarray(right))

    def reach(self, bandwidth: float) -> float:
        """A distance beyond which every entry of K(bandwidth) is below rounding."""
        return self._radius * bandwidth

    def shape(self, i: int, j: int) -> tuple[int, int]:
        """Shape of the tile between two leaves."""
        return len(self._centred[i]), len(self._centred[j])

    def evaluate(self, i: int, j: int, bandwidth: float, out: np.ndarray) -> np.ndarray:
        """K(bandwidth) between leaves i and j, into `out`."""
        if self._form is not None:
            near = self._centred[i] if i == j else self._about(i, j)
            return fill_tile(self.kernel, self._form, near, self._right[j], bandwidth, out)
        if i == j:  # exact zeros for equal rows, and few of these
            rows = self.rows[self.slices[i]]
            out[...] = self.kernel.geometry.block(rows, rows, self.kernel.power)
        elif not self.kernel.geometry.rotates:
            rows = self._about(i, j)
            out[...] = self.kernel.geometry.block(rows, self._centred[j], self.kernel.power)
        else:
            # ‖x − z‖² = [−2p, ‖p‖², 1]·[z, 1, ‖z‖²] about the centre of z's leaf.
            p = self._about(i, j)
            left = np.empty((len(p), p.shape[1] + 2), self.dtype)
            np.multiply(p, -2.0, out=left[:, :-2])
            np.einsum("ij,ij->i", p, p, out=left[:, -2])
            left[:, -1] = 1.0
            np.matmul(left, self._right[j], out=out)
            np.abs(out, out=out)  # rounding may leave a tiny negative square
            to_power(out, 0.5 * self.kernel.power)  # from squares
        work = scratch("work", out.shape, self.dtype)
        return kernel_matrix(self.kernel, out, bandwidth, out=out, work=work)

    def fuses(self, bandwidth: float, n_outputs: int) -> bool:
        """Whether `add_products` can be used, which multiplies tiles without storing them."""
        few = n_outputs <= 8  # more are multiplied faster with a stored tile
        return few and self._form is not None and self._form.scale(bandwidth) is not None

    def add_products(
        self, i: int, j: int, bandwidth: float, blocks: np.ndarray, totals: np.ndarray
    ) -> None:
        """Add the contribution of the tile between leaves i and j, for both of its sides.

        `blocks` and float64 `totals` have shape (k, n), in the order of the leaves.
        """
        form = self._form
        assert form is not None
        rows, columns = self.slices[i], self.slices[j]
        left = np.ascontiguousarray(blocks[:, rows].T)
        right = np.ascontiguousarray(blocks[:, columns])
        total = np.zeros(left.shape)
        other = np.zeros((0, 0) if i == j else right.shape)
        near = self._centred[i] if i == j else self._about(i, j)
        scaled = form.p, form.power, form.scale(bandwidth), form.kind
        compiled_code().product(near, self._right[j], *scaled, right, left, total, other)
        totals[:, rows] += total.T
        if i != j:
            totals[:, columns] += other

    def _about(self, i: int, j: int) -> np.ndarray:
        """Rows of leaf i relative to the centre of leaf j."""
        return self._centred[i] + (self._centres[i] - self._centres[j]).astype(self.dtype)


def _vanishing_point(kernel: Kernel, value: float) -> float:
    """A scaled distance beyond which the profile stays below `value`."""
    u = 1.0
    while u < 1e12 and float(kernel(np.array([u]))[0]) > value:
        u *= 1.1
    return u if u < 1e12 else math.inf


class Leaves:
    """A partition of rows into boxes of about equal size.

    `order` (n,) has row numbers, leaf by leaf, and `slices` the part of it for each leaf; the
    bounding boxes are `low` and `high`, (n_leaves, d).
    """

    def __init__(self, X: np.ndarray, max_size: int):
        parts = _split(X, max_size)
        self.order = np.concatenate(parts)
        ends = np.cumsum([len(part) for part in parts])
        self.slices = [slice(end - len(part), end) for part, end in zip(parts, ends, strict=True)]
        self.low = np.stack([X[part].min(axis=0) for part in parts])
        self.high = np.stack([X[part].max(axis=0) for part in parts])

    def distance_bounds(self, geometry: Geometry) -> np.ndarray:
        """Lower bounds on distances between rows of each two leaves, (n_leaves, n_leaves)."""
        return np.stack([self.distances_from(i, geometry) for i in range(len(self.slices))])

    def distances_from(self, i: int, geometry: Geometry) -> np.ndarray:
        """Lower bounds on distances between rows of leaf i and of every leaf, (n_leaves,)."""
        gap = np.maximum(self.low - self.high[i], self.low[i] - self.high)
        return geometry.norms(np.maximum(gap, 0.0))


def _split(X: np.ndarray, max_size: int) -> list[np.ndarray]:
    """Halve at the median of the widest feature until no part exceeds `max_size`."""
    waiting, parts = [np.arange(len(X))], []
    while waiting:
        rows = waiting.pop()
        if len(rows) <= max_size:
            parts.append(rows)
            continue
        block = X[rows]
        widest = int(np.argmax(block.max(axis=0) - block.min(axis=0)))
        half = len(rows) // 2
        order = np.argpartition(block[:, widest], half)
        waiting += [rows[order[half:]], rows[order[:half]]]
    return parts
