"""The learned metric: features weighted by how much the fitted function varies along them.

The mean outer product of gradients, G = E[∇f ∇fᵀ], tells which directions matter. Measuring
distances in coordinates scaled by its root and fitting again carries "changing the kernel
during training" from the bandwidth to the metric.
"""

from __future__ import annotations

import numpy as np

from bandfall.descent import Path

__all__ = ["feature_scales", "gradient_outer_product", "metric_root"]

_MAX_ROWS = 2000


def gradient_outer_product(path: Path, X: np.ndarray | None = None) -> np.ndarray:
    """E[∇f ∇fᵀ] over rows, averaged over targets of unit norm, shape (d, d).

    Parameters
    ----------
    path : Path
    X : ndarray of shape (m, d), optional
        Rows to average over; by default training rows, at most 2,000 of them.
    """
    if X is None:
        X = path.X[:: max(1, -(-len(path.X) // _MAX_ROWS))]
    gradient = path.gradient(X).astype(np.float64)  # (m, d, k)
    gradient /= np.where(path.scale > 0, path.scale, np.inf)
    return np.einsum("mik,mjk->ij", gradient, gradient) / len(X)


def feature_scales(product: np.ndarray, scales: np.ndarray, floor: float = 1e-3) -> np.ndarray:
    """New scales of features from the mean squared gradient in coordinates scaled before.

    With z = scales · x, ∂f/∂x_k = scales_k ∂f/∂z_k, hence scales_k ← scales_k √G_kk: the root
    mean square of ∂f/∂x_k. The largest becomes 1; none falls below `floor`, so that a feature
    that seems irrelevant fades but can come back.

    Parameters
    ----------
    product : ndarray of shape (d, d) or (d,)
        `gradient_outer_product` in scaled coordinates, or its diagonal.
    scales : ndarray of shape (d,)

    Returns
    -------
    ndarray of shape (d,)
    """
    diagonal = np.diag(product) if product.ndim == 2 else product
    new = scales * np.sqrt(np.maximum(diagonal, 0.0))
    largest = new.max(initial=0.0)
    if not 0.0 < largest < np.inf:  # a constant function prefers no feature
        return np.ones_like(scales)
    return np.maximum(new / largest, floor)


def metric_root(product: np.ndarray, root: np.ndarray, floor: float = 1e-3) -> np.ndarray:
    """The same for a full metric: a matrix A so that distances are those of X A.

    With Z = X A, the gradient in X is A ∇_z f, hence the new metric is A G Aᵀ; its symmetric
    root is taken, eigenvalues not below `floor` times the largest.
    """
    metric = root @ product @ root.T
    eigenvalues, vectors = np.linalg.eigh(0.5 * (metric + metric.T))
    sizes = np.sqrt(np.maximum(eigenvalues, 0.0))
    largest = sizes.max(initial=0.0)
    if not 0.0 < largest < np.inf:
        return np.eye(len(product))
    return (vectors * np.maximum(sizes / largest, floor)) @ vectors.T
