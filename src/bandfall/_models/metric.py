"""The learned metric: directions weighted by how much the fitted function varies along them.

The mean outer product of gradients, G = E[∇f ∇fᵀ], shows which directions matter. Measuring
distances in coordinates scaled by its root and fitting again carries "changing the kernel
during training" from the bandwidth to the metric.

A root is a symmetric matrix (d, d), or a vector (d,) of scales.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from scipy import linalg

from bandfall._products import HOST, Backend
from bandfall._threads import row_blocks, rows_within
from bandfall.descent._partition import AnySum
from bandfall.kernels._geometry import scaled as scaled

_MAX_ROWS = 2000
# Budget for slopes of single features (rows × centres × features), and minimum number of rows.
# With many features, gradients take most of the time, and 500 rows are as good as 2,000.
_SLOPE_TERMS = 2**26
_SLOPE_ROWS = 500
_WIDE = 1000  # features: beyond, each is scaled on its own
_SCARCE = 8  # features a row: beyond, rows say nothing about pairs of them
_FLOOR = 1e-3  # no direction fades further, so that it can come back
_ENTRIES = 2**22  # gradients at a time
_TERMS = 2**29  # rows × centres × features at a time, about a second, after which a fit can end
_COPIES = 3  # of them, 8 bytes each
_COARSE = 300  # features: beyond, roots are computed in float32, in half of the time
_SHRINKAGE = 2 / 3  # of G's off-diagonal part, whose d² entries come from few rows


def learned_root(
    model: AnySum,
    scale: np.ndarray,
    root: np.ndarray,
    *,
    diagonal: bool = False,
    backend: Backend = HOST,
    ended: Callable[[], bool] = lambda: False,
) -> np.ndarray:
    """The next root, from gradients of a model in coordinates scaled by `root`; see `metric_root`.

    `scale` (k,) are norms of the targets. If `diagonal`, features are scaled one by one: for
    kernels whose norm depends on the axes. Once `ended` returns True, the rows evaluated so far
    are used.
    """
    X, n_rows = model.X, len(model.X)
    if diagonal or _one_by_one(X.shape[1], n_rows):  # d² products would be computed for d of them
        return normalised(slopes(model, scale, root, backend=backend, ended=ended), _FLOOR)
    product = gradient_outer_product(model, _some(X), scale, backend, ended)
    return metric_root(product, root, n_rows=n_rows)


def slopes(
    model: AnySum,
    scale: np.ndarray,
    root: np.ndarray,
    *,
    backend: Backend = HOST,
    ended: Callable[[], bool] = lambda: False,
) -> np.ndarray:
    """Root mean square of ∂f/∂x_k at the centres of a model in coordinates z = root x.

    ∇_x f = root ∇_z f, averaged over targets of unit norm.
    """
    X = _some(model.X, max(_SLOPE_ROWS, _SLOPE_TERMS // max(1, model.X.size)))
    squares, n_rows = np.zeros(X.shape[1]), 0
    for units in _gradients(model, X, scale, backend, ended):
        squares += (scaled(units, root) ** 2).sum(axis=(0, 1))
        n_rows += len(units)
    return np.sqrt(squares / n_rows)


def gradient_outer_product(
    model: AnySum,
    X: np.ndarray,
    scale: np.ndarray,
    backend: Backend,
    ended: Callable[[], bool] = lambda: False,
) -> np.ndarray:
    """E[∇f ∇fᵀ] over the rows X, averaged over targets of unit norm, shape (d, d)."""
    product, n_rows = np.zeros(2 * X.shape[1:]), 0
    for units in _gradients(model, X, scale, backend, ended):
        product += np.tensordot(units, units, ((0, 1), (0, 1)))
        n_rows += len(units)
    return product / n_rows


def _gradients(
    model: AnySum, X: np.ndarray, scale: np.ndarray, backend: Backend, ended: Callable[[], bool]
) -> Iterator[np.ndarray]:
    """Gradients (b, k, d) at blocks of rows, each target divided by its scale (k,)."""
    units = np.where(scale > 0, scale, np.inf)
    entries = min(_ENTRIES, backend.budget // (8 * _COPIES))
    rows = min(
        rows_within(entries, X.shape[1] * len(scale)),
        rows_within(_TERMS, X.shape[1] * len(model.X)),
    )
    n_blocks = len(row_blocks(len(X), rows))
    for i in range(n_blocks):
        gradient = model.gradient(X[i::n_blocks], backend=backend)  # spread over all rows
        yield (gradient.astype(np.float64) / units).swapaxes(1, 2)
        if ended():
            return


def _some(X: np.ndarray, n_rows: int = _MAX_ROWS) -> np.ndarray:
    """At most `n_rows` and 2,000 rows, spread evenly."""
    return X[:: max(1, -(-len(X) // min(n_rows, _MAX_ROWS)))]


def metric_root(
    product: np.ndarray,
    root: np.ndarray,
    *,
    n_rows: int | None = None,
    shrinkage: float = _SHRINKAGE,
    floor: float = _FLOOR,
) -> np.ndarray:
    """The next root, from G = `product` (d, d) in coordinates scaled by the one before.

    The metric is G in the coordinates of the features, with its off-diagonal part shrunk
    (shrinkage 1 scales features one by one). The largest eigenvalue of its root becomes 1, and none
    falls below `floor`. The root is a vector for more than 1,000 features, or more than eight
    features per training row; `n_rows` is assumed to be large by default.
    """
    if len(product) > _COARSE:
        product, root = product.astype(np.float32), root.astype(np.float32)
    # With z = root x, ∇_x f = root ∇_z f.
    metric = product * np.outer(root, root) if root.ndim == 1 else root @ product @ root
    if _one_by_one(len(metric), n_rows):
        return _root_of(np.diag(metric), floor)
    own = np.diag(np.diag(metric))
    return _root_of(own + (1.0 - shrinkage) * (metric - own), floor)


def _one_by_one(n_features: int, n_rows: int | None) -> bool:
    """Whether there are too many features for a metric that mixes them."""
    return n_features > _WIDE or (n_rows is not None and n_features > _SCARCE * n_rows)


def mean_root(roots: Sequence[np.ndarray]) -> np.ndarray:
    """Root of the mean metric, its largest eigenvalue 1."""
    if len(roots) == 1:
        return roots[0]
    squares = [root**2 if root.ndim == 1 else root @ root for root in roots]
    return _root_of(np.mean(squares, axis=0), 0.0)


def _root_of(metric: np.ndarray, floor: float) -> np.ndarray:
    """Normalised root of a metric (d, d), or of its diagonal (d,)."""
    if metric.ndim == 1:
        return normalised(np.sqrt(np.maximum(metric, 0.0)), floor)
    if metric.dtype == np.float32:
        eigenvalues, vectors = linalg.eigh(metric, driver="evd")  # NumPy takes twice as long
    else:
        eigenvalues, vectors = np.linalg.eigh(metric)
    sizes = normalised(np.sqrt(np.maximum(eigenvalues, 0.0)), floor)
    return ((vectors * sizes) @ vectors.T).astype(np.float64)


def normalised(sizes: np.ndarray, floor: float = _FLOOR) -> np.ndarray:
    """Sizes relative to the largest, none below `floor`."""
    largest = sizes.max(initial=0.0)
    if not 0.0 < largest < np.inf:  # a constant function prefers no direction
        return np.ones_like(sizes)
    return np.maximum(sizes / largest, floor)
