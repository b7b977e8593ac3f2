"""Tiles of K(σ) between leaves of rows, for operators that never store K(σ)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from bandfall._products.loops import (
    add_products,
    compiled_form,
    compiled_scale,
    even_features,
    fill_tile,
)
from bandfall._threads import scratch
from bandfall.kernels._geometry import Euclidean, to_power
from bandfall.kernels._kernel import Kernel, kernel_matrix

_FUSED_OUTPUTS = 8  # beyond, a stored tile is multiplied faster
LEAF_SIZE = 512  # a float32 tile of this side is one megabyte: a core's second-level cache


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
            elif isinstance(kernel.geometry, Euclidean):
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
        elif not isinstance(self.kernel.geometry, Euclidean):
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
        few = n_outputs <= _FUSED_OUTPUTS
        return few and self._form is not None and compiled_scale(self._form, bandwidth) is not None

    def add_products(
        self, i: int, j: int, bandwidth: float, blocks: np.ndarray, totals: np.ndarray
    ) -> None:
        """Add the contribution of the tile between leaves i and j, for both of its sides.

        `blocks` and float64 `totals` have shape (k, n), in the order of the leaves.
        """
        assert self._form is not None
        rows, columns = self.slices[i], self.slices[j]
        left = np.ascontiguousarray(blocks[:, rows].T)
        right = np.ascontiguousarray(blocks[:, columns])
        total = np.zeros(left.shape)
        other = np.zeros((0, 0) if i == j else right.shape)
        near = self._centred[i] if i == j else self._about(i, j)
        add_products(self._form, near, self._right[j], bandwidth, right, left, total, other)
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
