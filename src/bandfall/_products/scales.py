"""p-norms of rows to the power p, and their derivatives by the scale of each feature."""

from __future__ import annotations

from functools import lru_cache
from types import ModuleType

import numpy as np

from bandfall.kernels._geometry import geometry_of

WORTH_COMPILING = 1 << 20  # entries × features of one pass


def distances_to_p(X: np.ndarray, p: float) -> np.ndarray:
    """‖x_i − x_j‖_p^p of float64 rows X (n, d), shape (n, n)."""
    code = _code(X, p)
    if code is None:
        geometry = geometry_of(p)
        rows = geometry.prepare(X).rows
        return geometry.block(rows, rows, p)
    total = np.empty((len(X), len(X)))
    code.distances(np.ascontiguousarray(X.T), p, total)
    return total


def weighted_powers(X: np.ndarray, p: float, weights: np.ndarray) -> np.ndarray:
    """Σ_ij weights_ij |x_ik − x_jk|^p for symmetric weights (n, n), shape (d,)."""
    code = _code(X, p)
    if code is None:
        # |z|^p = z sgn(z) |z|^(p−1), and the sum over rows i equals that over rows j.
        return 2.0 * np.einsum("ik,ik->k", X, geometry_of(p).pull(weights, X, X))
    total = np.empty(X.shape[1])
    code.weighted_powers(np.ascontiguousarray(X.T), p, weights, total)
    return total


def _code(X: np.ndarray, p: float) -> ModuleType | None:
    """The compiled loops, where they are worth it; matrix products are for the Euclidean norm."""
    return None if p == 2.0 or len(X) * X.size < WORTH_COMPILING else _compiled()


@lru_cache(maxsize=1)
def _compiled() -> ModuleType | None:
    try:
        from numba import config

        from bandfall._products import scales_numba
    except ImportError:
        return None
    return None if getattr(config, "DISABLE_JIT", False) else scales_numba
