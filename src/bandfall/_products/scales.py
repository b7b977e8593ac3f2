"""p-norms of float64 rows to the power p, and their derivatives by the scale of each feature."""

from __future__ import annotations

from types import ModuleType

import numpy as np
from scipy import linalg

from bandfall._products.loops import can_compile, pairs_code
from bandfall.kernels._geometry import Geometry

WORTH_COMPILING = 1 << 19  # entries × features of one pass


def distances_to_p(X: np.ndarray, p: float) -> np.ndarray:
    """‖x_i − x_j‖_p^p of centred rows X (n, d), shape (n, n).

    Between rows that are nearly equal, Euclidean ones are exact only relative to the norms of rows.
    """
    if p == 2.0:
        squares = np.einsum("ij,ij->i", X, X)
        D = X @ (-2.0 * X.T)
        D += squares[:, None]
        D += squares
        np.maximum(D, 0.0, out=D)
        D.flat[:: len(D) + 1] = 0.0
        return D
    code = _code(X)
    if code is None:
        columns = np.asfortranarray(X)
        return Geometry(p).block(columns, columns, p)
    total = np.empty((len(X), len(X)))
    code.distances(np.ascontiguousarray(X.T), p, total)
    return total


def weighted_powers(X: np.ndarray, p: float, weights: np.ndarray) -> np.ndarray:
    """Σ_ij weights_ij |x_ik − x_jk|^p, shape (d,), of symmetric weights by their lower half."""
    if p == 2.0:
        ones = np.ones((len(X), 1))
        products = symmetric_product(weights, np.hstack([X, ones]))
        return 2.0 * ((X * X).T @ products[:, -1] - np.einsum("ik,ik->k", X, products[:, :-1]))
    total = np.empty(X.shape[1])
    code = _code(X)
    if code is None:
        # |z|^p = z sgn(z) |z|^(p−1); Σ_ij over all pairs is twice that over the lower half.
        half = np.tril(weights, -1)
        columns = np.asfortranarray(X)
        geometry = Geometry(p)
        total[:] = 2.0 * np.einsum("ik,ik->k", X, geometry.pull(half + half.T, columns, columns))
    else:
        code.weighted_powers(np.ascontiguousarray(X.T), p, weights, total)
    return total


def symmetric_product(A: np.ndarray, block: np.ndarray) -> np.ndarray:
    """A @ block for a symmetric A, of which only the lower half is read."""
    return linalg.blas.dsymm(1.0, A.T, block, lower=0)


def _code(X: np.ndarray) -> ModuleType | None:
    """The compiled loops, where they are worth it."""
    return pairs_code() if len(X) * X.size >= WORTH_COMPILING and can_compile() else None
