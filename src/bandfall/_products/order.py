"""Rows in the order of the leaves of a k-d tree, so that near rows are in the same block."""

from __future__ import annotations

import numpy as np

from bandfall.kernels._geometry import Geometry


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
        return geometry.box_bound(gap)


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
