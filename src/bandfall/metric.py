"""The learned metric: directions weighted by how much the fitted function varies along them.

The mean outer product of gradients, G = E[∇f ∇fᵀ], tells which directions matter. Measuring
distances in coordinates scaled by its root and fitting again carries "changing the kernel
during training" from the bandwidth to the metric.

A root is a symmetric matrix (d, d), or a vector (d,) of scales where that is enough.
"""

from __future__ import annotations

import numpy as np

from bandfall.backends import HOST, Backend
from bandfall.descent import Path

__all__ = ["gradient_outer_product", "mean_outer_product", "metric_root", "scaled", "slopes"]

_MAX_ROWS = 2000
_WIDE = 1000  # features: beyond, each is scaled on its own
_SCARCE = 8  # features a row: beyond, rows say nothing about pairs of them
_FLOOR = 1e-3  # no direction fades further, so that it can come back
_SHRINKAGE = 2 / 3  # of G's off-diagonal part, whose d² entries come from few rows


def gradient_outer_product(
    path: Path, X: np.ndarray | None = None, *, backend: Backend = HOST
) -> np.ndarray:
    """E[∇f ∇fᵀ] over rows, averaged over targets of unit norm, shape (d, d).

    Parameters
    ----------
    path : Path
    X : ndarray of shape (m, d), optional
        Rows to average over; by default training rows, at most 2,000 of them.
    backend : Backend
        Where to compute, and in how much memory.
    """
    if X is None:
        X = path.X[:: max(1, -(-len(path.X) // _MAX_ROWS))]
    return mean_outer_product(path.gradient(X, backend=backend), path.scale)


def mean_outer_product(gradient: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """E[∇f ∇fᵀ] from gradients (m, d, k) at rows, each target divided by its scale (k,)."""
    units = gradient.astype(np.float64) / np.where(scale > 0, scale, np.inf)
    return np.tensordot(units, units, ((0, 2), (0, 2))) / len(units)


def scaled(X: np.ndarray, root: np.ndarray) -> np.ndarray:
    """Rows in the coordinates in which distances are measured, in the dtype of X."""
    root = root.astype(X.dtype)
    return X * root if root.ndim == 1 else X @ root


def slopes(product: np.ndarray, root: np.ndarray) -> np.ndarray:
    """Root mean square of ∂f/∂x_k, from G in coordinates `scaled` by `root`."""
    return np.sqrt(np.maximum(np.diag(_in_features(product, root)), 0.0))


def metric_root(
    product: np.ndarray,
    root: np.ndarray,
    *,
    n_rows: int | None = None,
    shrinkage: float = _SHRINKAGE,
    floor: float = _FLOOR,
    diagonal: bool = False,
) -> np.ndarray:
    """The next root, from G in coordinates scaled by the one before.

    The metric is G in the features' own coordinates, its off-diagonal part shrunk. Its root's
    largest eigenvalue becomes 1, and none falls below `floor`. A vector if `diagonal`, beyond
    1,000 features, or beyond eight features a training row.

    Parameters
    ----------
    product : ndarray of shape (d, d)
    root : ndarray of shape (d, d) or (d,)
    n_rows : int, optional
        That the function was trained on; many if not given.
    shrinkage : float in [0, 1]
        1 scales features one by one.
    floor : float
    diagonal : bool
        Scale features one by one: for kernels whose norm depends on the axes.
    """
    metric = _in_features(product, root)
    scarce = n_rows is not None and len(metric) > _SCARCE * n_rows
    if diagonal or scarce or len(metric) > _WIDE:
        return _normalised(np.sqrt(np.maximum(np.diag(metric), 0.0)), floor)
    own = np.diag(np.diag(metric))
    eigenvalues, vectors = np.linalg.eigh(own + (1.0 - shrinkage) * (metric - own))
    sizes = _normalised(np.sqrt(np.maximum(eigenvalues, 0.0)), floor)
    return (vectors * sizes) @ vectors.T


def _in_features(product: np.ndarray, root: np.ndarray) -> np.ndarray:
    """With z = root x, ∇_x f = root ∇_z f."""
    return product * np.outer(root, root) if root.ndim == 1 else root @ product @ root


def _normalised(sizes: np.ndarray, floor: float) -> np.ndarray:
    largest = sizes.max(initial=0.0)
    if not 0.0 < largest < np.inf:  # a constant function prefers no direction
        return np.ones_like(sizes)
    return np.maximum(sizes / largest, floor)
