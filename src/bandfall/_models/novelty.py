"""Distances of new rows to the nearest training row, in the metric of a model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from weakref import finalize

import numpy as np
from scipy.spatial import cKDTree

from bandfall._products import HOST, Backend
from bandfall._products.loops import loops_over
from bandfall._threads import CACHE_ENTRIES, for_each_block, n_threads, row_blocks, rows_within
from bandfall.kernels._geometry import EUCLIDEAN, Euclidean, Geometry, Minkowski
from bandfall.kernels._kernel import get_kernel

_SHARE = 0.99  # of rows like the training rows; rows farther away are novel
_MAX_ROWS = 2000  # sample that the scale is measured on
_COPIES = 4  # of a block of scores, while they are computed
_TREE_ROWS = 5000  # for fewer rows, building a tree takes longer than comparing all
_TREE_DIRECTIONS = 10.0  # a tree is slow if rows spread in more directions than this
# Larger tables that spread in many directions are compared along the main ones: the nearest rows
# there are candidates, and the nearest candidate counts.
_COMPARED_ROWS = 50_000
_MAIN_DIRECTIONS, _CANDIDATES = 8, 32
_PARALLEL = 1 << 20  # distances
_trees: dict[int, _Tree | None] = {}  # by id of the array of rows, while it exists


def nearest_distances(
    Z_new: np.ndarray,
    Z: np.ndarray,
    *,
    own: np.ndarray | None = None,
    enough: float | None = None,
    geometry: Geometry = EUCLIDEAN,
    backend: Backend = HOST,
) -> np.ndarray:
    """Distance of each new row to the nearest of the rows Z, shape (m,).

    Both are in the coordinates of the metric. `own` names the row of Z to ignore for each new row:
    itself. Distances up to `enough` need not be exact, which halves the time.

    Examples
    --------
    >>> nearest_distances(np.array([[3.0, 4.0]]), np.zeros((2, 2)))
    array([5.])
    """
    tree = _tree_of(Z, geometry)
    if tree is not None and np.isfinite(Z_new).all():
        return tree.nearest(Z_new, Z, own, geometry)
    if not isinstance(geometry, Euclidean):
        return _smallest(Z_new, Z, own, geometry, backend.budget)
    centre = Z.mean(axis=0, dtype=np.float64)
    rows, new = Z - centre, Z_new - centre
    if enough is None:
        return _distances(new, rows, own, np.float64, backend.budget)
    # Rounding may select the wrong row, but the distance to the selected row is exact.
    nearest = _distances(new, rows, own, np.float32, backend.budget)
    open_ = np.flatnonzero(~(nearest <= enough))
    few = None if own is None else own[open_]
    nearest[open_] = _distances(new[open_], rows, few, np.float64, backend.budget)
    return nearest


@dataclass(frozen=True)
class _Tree:
    """A search tree of rows, or of their projections onto the main directions (d, 8)."""

    tree: cKDTree
    directions: np.ndarray | None = None

    @classmethod
    def of(
        cls,
        Z: np.ndarray,
        most_directions: float = _TREE_DIRECTIONS,
        compared_rows: int = _COMPARED_ROWS,
    ) -> _Tree | None:
        """Build a tree; None if comparing all rows is as fast."""
        if not np.isfinite(Z).all():
            return None
        # copy_data: a tree that refers to Z would keep it alive. The others speed up building.
        build = {"balanced_tree": False, "compact_nodes": False, "copy_data": True}
        sample = Z[:: -(-len(Z) // _MAX_ROWS)].astype(np.float64)
        covariance = np.cov(sample, rowvar=False).reshape(sample.shape[1], -1)
        squares = float(np.sum(covariance**2))
        n_directions = float(np.trace(covariance) ** 2 / squares) if squares > 0 else 1.0
        if n_directions <= most_directions:
            return cls(cKDTree(Z, **build))
        if len(Z) <= compared_rows:
            return None
        directions = np.linalg.eigh(covariance)[1][:, -_MAIN_DIRECTIONS:]
        return cls(cKDTree(Z @ directions, **build), directions)

    def nearest(
        self, new: np.ndarray, Z: np.ndarray, own: np.ndarray | None, geometry: Geometry
    ) -> np.ndarray:
        """Distances to the nearest row or candidate, ignoring the row's own entry."""
        own = np.full(len(new), -1) if own is None else own
        if self.directions is None:
            distances, rows = self.tree.query(new, k=2, p=geometry.p, workers=n_threads())
            return np.where(rows == own[:, None], np.inf, distances).min(axis=1)
        nearest = np.empty(len(new))
        for part in row_blocks(len(new), rows_within(CACHE_ENTRIES, _CANDIDATES * Z.shape[1])):
            places = new[part] @ self.directions
            _, rows = self.tree.query(places, k=_CANDIDATES, workers=n_threads())
            gaps = new[part].astype(np.float64)[:, None] - Z[rows]
            distances = geometry.norms(gaps.reshape(-1, Z.shape[1])).reshape(rows.shape)
            nearest[part] = np.where(rows == own[part, None], np.inf, distances).min(axis=1)
        return nearest


def _tree_of(Z: np.ndarray, geometry: Geometry) -> _Tree | None:
    """The tree of a large table, cached while the array exists; None if it would save nothing."""
    if len(Z) <= _TREE_ROWS or not isinstance(geometry, Euclidean | Minkowski):
        return None
    key = id(Z)
    if key not in _trees:
        _trees[key] = _Tree.of(Z)
        finalize(Z, _trees.pop, key, None)
    return _trees[key]


def _distances(
    new: np.ndarray, rows: np.ndarray, own: np.ndarray | None, dtype: type[np.floating], budget: int
) -> np.ndarray:
    """Distances to the nearest rows: those with the largest score x · z − ‖z‖² / 2.

    Scores are one matrix product in `dtype`. Distances come from differences, which do not cancel.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        wide = np.column_stack([rows, -0.5 * np.einsum("ij,ij->i", rows, rows)]).astype(dtype)
        entries = min(CACHE_ENTRIES, budget // (8 * _COPIES))
        nearest = np.empty(len(new))
        for part in row_blocks(len(new), rows_within(entries, len(rows))):
            ones = np.ones(len(new[part]))
            scores = np.column_stack([new[part], ones]).astype(dtype) @ wide.T
            if own is not None:
                scores[np.arange(len(scores)), own[part]] = -np.inf
            difference = new[part] - rows[scores.argmax(axis=1)]
            nearest[part] = np.sqrt(np.einsum("ij,ij->i", difference, difference))
    return nearest


def _smallest(
    new: np.ndarray, rows: np.ndarray, own: np.ndarray | None, geometry: Geometry, budget: int
) -> np.ndarray:
    """The smallest of all distances of each new row."""
    kernel = replace(get_kernel("laplace"), geometry=geometry)  # power 1: the distance itself
    n_entries = len(new) * len(rows)
    exact = new.dtype == rows.dtype  # rounding the new rows would cost accuracy
    loops = loops_over(rows, kernel, rows.dtype, n_entries if exact else 0)
    placed, nearest = loops.placed(new), np.empty(len(new))

    def search(part: slice) -> None:
        distances = np.empty((len(nearest[part]), len(rows)), loops.own.dtype)
        loops.distances(placed[part], slice(0, len(rows)), distances)
        if own is not None:
            distances[np.arange(len(distances)), own[part]] = np.inf
        nearest[part] = distances.min(axis=1)

    entries = min(CACHE_ENTRIES, budget // (8 * _COPIES))
    for_each_block(search, len(new), rows_within(entries, len(rows)), n_entries > _PARALLEL)
    return nearest


def novelty_scale(
    Z: np.ndarray, *, geometry: Geometry = EUCLIDEAN, backend: Backend = HOST
) -> float:
    """The distance to the nearest other row that 99 % of the training rows Z do not exceed.

    A row's novelty is its distance to the nearest training row divided by this. Above 1, the row
    is unlike the training rows. It is positive, and 1 if no two rows differ.
    """
    if len(Z) < 2:
        return 1.0
    own = np.arange(0, len(Z), -(-len(Z) // _MAX_ROWS))
    distances = nearest_distances(Z[own], Z, own=own, geometry=geometry, backend=backend)
    scale = float(np.quantile(distances, _SHARE))
    if scale > 0:
        return scale
    # Nearly all rows repeat others: the other rows define what is near.
    return float(min(distances[distances > 0], default=1.0))
