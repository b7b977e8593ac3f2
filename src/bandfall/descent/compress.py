"""Fewer bandwidths for the same function: an interpolative decomposition over stages."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy import linalg

from bandfall.descent.path import Path, Stage
from bandfall.kernels import Kernel
from bandfall.operators import cross_product
from bandfall.operators.distances import squared_distances

_CHECK_ROWS = 1000
_GRID = 400


def compress_path(path: Path, tolerance: float, memory_budget: int) -> Path:
    """See `Path.compress`."""
    if not tolerance > 0:
        raise ValueError(f"tolerance={tolerance!r} must be above 0")
    if not path.stages:
        return path
    rows = path.X[:: max(1, math.ceil(len(path.X) / _CHECK_ROWS))]
    exact = path.evaluate(rows, memory_budget=memory_budget)
    size = math.sqrt(float(np.mean((exact - path.offset) ** 2))) or 1.0
    merge = merge_stages(path.kernel, path.bandwidths, path.coefficients, _spread(path.X, rows))
    for n_nodes in range(2, len(path.stages)):
        bandwidths, coefficients = merge(n_nodes)
        if len(bandwidths) == len(path.stages):
            break
        merged = cross_product(
            rows, path.X, path.kernel, bandwidths, coefficients, memory_budget=memory_budget
        )
        change = math.sqrt(float(np.mean((merged + path.offset - exact) ** 2))) / size
        # Against the path before any compression: f̂ is at most 1 + its error as large.
        error = path.compression_error + (1.0 + path.compression_error) * change
        if error <= tolerance:
            stages = tuple(
                Stage(float(bandwidth), c, math.nan, math.nan)
                for bandwidth, c in zip(bandwidths, coefficients, strict=True)
            )
            return _with_own_residual(path, stages, error, memory_budget)
    return path


def _with_own_residual(
    path: Path, stages: tuple[Stage, ...], error: float, memory_budget: int
) -> Path:
    """The path with these stages, and the residual and R² that they leave."""
    merged = path.replace(
        stages=stages, solver=None, schedule=None, plan=None, compression_error=error
    )
    targets = path.targets(memory_budget=memory_budget)
    residual = targets - merged.evaluate(path.X, memory_budget=memory_budget)
    residual = (residual * (path.scale > 0)).astype(path.residual.dtype)
    return merged.replace(residual=residual, r2=path.r2_of(residual))


def _spread(X: np.ndarray, rows: np.ndarray) -> tuple[float, float]:
    """Smallest positive and largest distance between `rows` and some of X."""
    some = X[:: max(1, math.ceil(len(X) / _CHECK_ROWS))].astype(np.float64)
    centre = some.mean(axis=0)
    squares = squared_distances(rows.astype(np.float64) - centre, some - centre)
    largest = float(squares.max()) or 1.0
    smallest = float(squares[squares > 0].min(initial=largest))
    return 0.5 * math.sqrt(smallest), 2.0 * math.sqrt(largest)


def merge_stages(
    kernel: Kernel, bandwidths: np.ndarray, coefficients: np.ndarray, spread: tuple[float, float]
) -> Callable[[int], tuple[np.ndarray, np.ndarray]]:
    """Write Σ_s k_{σ_s} c_s with fewer of its bandwidths (and bandwidth 0 as it is).

    An interpolative decomposition: a pivoted QR factorisation of the profiles k(d/σ_s), as
    functions of the distance d and weighted by the size of c_s, picks the bandwidths whose
    combinations k_{σ_s} ≈ Σ_j T_js k_{σ_j} give the others best, hence c_j ← Σ_s T_js c_s.

    Parameters
    ----------
    spread : (float, float)
        Smallest and largest distance that matter.

    Returns
    -------
    callable (n_nodes) -> bandwidths of shape (J,), coefficients of shape (J, n, k)
    """
    positive = np.flatnonzero(bandwidths > 0)
    zero = coefficients[bandwidths == 0].sum(axis=0, keepdims=True)
    sizes = np.array([float(np.linalg.norm(coefficients[s])) for s in positive])
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
