"""Fewer bandwidths for the same function: an interpolative decomposition over them."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy import linalg

from bandfall.kernels._geometry import EUCLIDEAN, Geometry
from bandfall.kernels._kernel import Kernel

_CHECK_ROWS = 1000
_GRID = 400


def check_rows(X: np.ndarray) -> np.ndarray:
    """At most 1,000 rows of X, at which the error of merging is measured."""
    return X[:: max(1, math.ceil(len(X) / _CHECK_ROWS))]


def distance_range(X: np.ndarray, geometry: Geometry = EUCLIDEAN) -> tuple[float, float]:
    """Smallest positive and largest distance that matter between rows of X."""
    some = check_rows(X).astype(np.float64)
    centred = some - some.mean(axis=0)
    power = geometry.p  # saves a root for each distance
    distances = geometry.block(centred, centred, power)
    largest = float(distances.max()) or 1.0
    smallest = float(distances[distances > 0].min(initial=largest))
    return 0.5 * smallest ** (1.0 / power), 2.0 * largest ** (1.0 / power)


def merge_stages(
    kernel: Kernel, bandwidths: np.ndarray, coefficients: np.ndarray, spread: tuple[float, float]
) -> Callable[[int], tuple[np.ndarray, np.ndarray]]:
    """Write Σ_s k_{σ_s} c_s with fewer of its bandwidths; bandwidth 0 is kept.

    An interpolative decomposition: a pivoted QR factorisation of the profiles k(d/σ_s), as
    functions of the distance d and weighted by the size of c_s, picks the bandwidths whose
    combinations k_{σ_s} ≈ Σ_j T_js k_{σ_j} give the others best, hence c_j ← Σ_s T_js c_s.

    `spread` is the smallest and the largest distance that matter. The returned function takes a
    number J and returns J bandwidths, shape (J,), and their coefficients, shape (J, n, k).
    """
    positive = np.flatnonzero(bandwidths > 0)
    zero = coefficients[bandwidths == 0].sum(axis=0, keepdims=True)
    unit = float(np.abs(coefficients).max(initial=0.0)) or 1.0  # squares of large ones overflow
    sizes = np.array([float(np.linalg.norm(coefficients[s] / unit)) for s in positive])
    sizes = np.maximum(sizes, 1e-12 * sizes.max(initial=1e-300))
    distances = np.append(np.geomspace(*spread, _GRID), 0.0)
    profiles = np.stack([kernel(distances / bandwidths[s]) for s in positive], axis=1)
    R, order = linalg.qr(profiles * sizes, mode="r", pivoting=True)

    def merge(n_nodes: int) -> tuple[np.ndarray, np.ndarray]:
        n = min(n_nodes, len(positive))
        kept, rest = order[:n], order[n:]
        T = linalg.solve_triangular(R[:n, :n], R[:n, n:])
        T *= sizes[kept][:, None] / sizes[rest]
        merged = coefficients[positive[kept]] + np.einsum(
            "js,snk->jnk", T.astype(coefficients.dtype), coefficients[positive[rest]]
        )
        chosen = bandwidths[positive[kept]]
        if np.any(zero):
            chosen, merged = np.append(chosen, 0.0), np.concatenate([merged, zero])
        falling = np.argsort(-chosen)
        return chosen[falling], merged[falling]

    return merge
