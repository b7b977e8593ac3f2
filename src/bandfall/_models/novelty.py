"""Distances of new rows to the nearest training row, in the metric of a model."""

from __future__ import annotations

from weakref import finalize

import numpy as np
from scipy.spatial import cKDTree

from bandfall._products import HOST, Backend
from bandfall._products.loops import loops_over
from bandfall._threads import CACHE_ENTRIES, for_each_block, n_threads, rows_within
from bandfall.kernels._geometry import EUCLIDEAN, Geometry
from bandfall.kernels._kernel import get_kernel

_SHARE = 0.99  # share of rows like the training rows that count as near
_MAX_ROWS = 2000  # sample that the scale is measured on
_COPIES = 4  # of a block of distances
_TREE_ROWS = 5000  # for fewer rows, building a tree takes longer than comparing all
_TREE_DIRECTIONS = 10.0  # a tree is slow if rows spread in more directions than this
_PARALLEL = 1 << 20  # distances
_trees: dict[int, cKDTree | None] = {}  # by id of the array of rows, while it exists


def nearest_distances(
    Z_new: np.ndarray,
    Z: np.ndarray,
    *,
    own: np.ndarray | None = None,
    geometry: Geometry = EUCLIDEAN,
    backend: Backend = HOST,
) -> np.ndarray:
    """Distance of each new row to the nearest of the rows Z, shape (m,).

    Both are in the coordinates of the metric. `own` names the row of Z to ignore for each new row:
    itself.

    Examples
    --------
    >>> nearest_distances(np.array([[3.0, 4.0]]), np.zeros((2, 2)))
    array([5.])
    """
    own = np.full(len(Z_new), -1) if own is None else own
    tree = _tree_of(Z)
    if tree is not None and np.isfinite(Z_new).all():
        distances, rows = tree.query(Z_new, k=2, p=geometry.p, workers=n_threads())
        return np.where(rows == own[:, None], np.inf, distances).min(axis=1)
    kernel = get_kernel(f"laplace-{geometry.p}")  # power 1: the distance itself
    n_entries = len(Z_new) * len(Z)
    loops = loops_over(Z, kernel, Z.dtype, n_entries if Z_new.dtype == Z.dtype else 0)
    placed, nearest = loops.placed(Z_new), np.empty(len(Z_new))

    def search(part: slice) -> None:
        distances = np.empty((len(nearest[part]), len(Z)), loops.dtype)
        with np.errstate(over="ignore", invalid="ignore"):
            loops.distances(placed[part], slice(0, len(Z)), distances)
            known = np.flatnonzero(own[part] >= 0)
            distances[known, own[part][known]] = np.inf
            # Rounding may select the wrong row, but the distance to the selected row is exact.
            closest = Z[distances.argmin(axis=1)]
            nearest[part] = geometry.norms(Z_new[part].astype(np.float64) - closest)

    entries = min(CACHE_ENTRIES, backend.budget // (8 * _COPIES))
    for_each_block(search, len(Z_new), rows_within(entries, len(Z)), n_entries > _PARALLEL)
    return nearest


def _tree_of(Z: np.ndarray) -> cKDTree | None:
    """The search tree of many rows, kept while the array exists; None if it would save nothing."""
    if len(Z) <= _TREE_ROWS:
        return None
    key = id(Z)
    if key not in _trees:
        sample = Z[:: -(-len(Z) // _MAX_ROWS)].astype(np.float64)
        covariance = np.cov(sample, rowvar=False).reshape(sample.shape[1], -1)
        squares = float(np.sum(covariance**2))
        few = np.trace(covariance) ** 2 <= _TREE_DIRECTIONS * squares
        # copy_data: a tree that refers to Z would keep it alive. The others speed up building.
        build = {"balanced_tree": False, "compact_nodes": False, "copy_data": True}
        _trees[key] = cKDTree(Z, **build) if few else None
        finalize(Z, _trees.pop, key, None)
    return _trees[key]


def novelty_scale(
    Z: np.ndarray, *, geometry: Geometry = EUCLIDEAN, backend: Backend = HOST
) -> float:
    """The distance to the nearest other row that 99 % of the training rows Z do not exceed.

    It is positive, and 1 if no two rows differ.
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
