"""The smallest eigenvalue of K: the rate at which the slowest part of the target is learned.

K is positive semi-definite, so its singular values are its eigenvalues (Remark 2).
"""

from __future__ import annotations

import math
from collections.abc import Generator
from contextlib import closing

import numpy as np
from scipy import linalg

from bandfall._products import KernelOperator
from bandfall._products.base import as_matrix, group_rows
from bandfall._typing import ArrayLike
from bandfall.descent import Path
from bandfall.descent._krylov import KrylovSpace
from bandfall.kernels._kernel import Kernel, KernelLike, get_kernel
from bandfall.theory._inputs import (
    PathSource,
    non_negative,
    operator_for,
    row_weights,
    rows,
    trained_path,
)
from bandfall.theory._trajectory import Trajectory

# Up to here, a tridiagonal reduction (4/3 n³) is cheaper than the products of Lanczos.
EXACT_ROWS = 2000
LANCZOS_PRODUCTS = 300
# Error of the exponent t·s̄_min of a path, which is never too large.
EXPONENT_TOLERANCE = 1e-3


def smallest_eigenvalue(
    X: ArrayLike,
    kernel: KernelLike = "gaussian",
    bandwidth: ArrayLike = 1.0,
    *,
    weights: ArrayLike | None = None,
) -> np.ndarray:
    """s_min(K(σ)) (Theorem 1), exact at bandwidth 0 (1, or 0 if rows repeat) and ∞.

    Up to 2,000 rows it is computed by LAPACK. Above, it is the smallest Ritz value of at most 300
    Lanczos steps minus its residual norm, which lies below s_min once the iteration has reached the
    lower end of the spectrum.

    Parameters
    ----------
    X : array-like of shape (n, d)
    kernel : str, Kernel or callable
    bandwidth : float or array-like, in [0, ∞]
    weights : array-like of shape (n,), optional
        With weights, the matrix is √w K √w.

    Returns
    -------
    ndarray of the shape of `bandwidth`

    Examples
    --------
    >>> import numpy as np
    >>> from bandfall.theory import smallest_eigenvalue
    >>> X = np.linspace(-1, 1, 20)[:, None]
    >>> smallest_eigenvalue(X, bandwidth=[0.0, 0.05, 0.1, np.inf]).round(4)
    array([1.    , 0.7846, 0.0601, 0.    ])
    """
    X, bandwidths = rows(X, "X"), non_negative(bandwidth, "bandwidth")
    values = list(_lowest(X, get_kernel(kernel), bandwidths.ravel(), weights))
    return np.array(values).reshape(bandwidths.shape)


def path_smallest_eigenvalue(path: PathSource) -> tuple[np.ndarray, np.ndarray]:
    """s_min at each distinct bandwidth of a path.

    Bandwidths are visited from narrow to wide. If K is nearly the identity, Gershgorin's
    bound is used. Once s_min is so small that it no longer matters over the length of the path, it
    is set to 0 for all wider bandwidths. Both err downwards, by less than 1e-3 in t·s̄_min in
    total, so a bound built on them still holds.

    Parameters
    ----------
    path : Path or estimator with ``path_``

    Returns
    -------
    bandwidths : ndarray of shape (B,)
        Rising.
    values : ndarray of shape (B,)
    """
    path = trained_path(path)
    bandwidths = np.unique(path.log.bandwidth)
    values = np.zeros(len(bandwidths))
    tolerance = EXPONENT_TOLERANCE / path.time if path.time > 0 else 0.0
    X = np.asarray(path.X, dtype=np.float64)
    with closing(_lowest(X, path.kernel, bandwidths, path.weights, tolerance)) as lowest:
        for b, value in enumerate(lowest):
            values[b] = value
            if value <= tolerance and bandwidths[b] > 0:
                break
    return bandwidths, values


def mean_smallest_eigenvalue(path: PathSource) -> tuple[np.ndarray, np.ndarray]:
    """s̄_min(t) = (1/t) ∫₀ᵗ s_min dτ along a path (Theorem 1).

    Exact for the path's piecewise constant bandwidth.

    Parameters
    ----------
    path
        As for `path_smallest_eigenvalue`.

    Returns
    -------
    time : ndarray of shape (M + 1,)
        Start of every step, and the end.
    mean : ndarray of shape (M + 1,)
        At time 0 the value of the first step.
    """
    path = trained_path(path)
    trajectory = Trajectory.from_path(path)
    return trajectory.time, smallest_exponent(path, trajectory)[1]


def smallest_exponent(path: Path, trajectory: Trajectory) -> tuple[np.ndarray, np.ndarray]:
    """∫₀ᵗ s_min dτ = t s̄_min(t), and s̄_min(t), at every time of the trajectory."""
    _, values = path_smallest_eigenvalue(path)
    steps = values[trajectory.bandwidth_index]
    exponent = trajectory.cumulative(steps * trajectory.duration)
    start = steps[:1] if len(steps) else np.zeros(1)
    return exponent, np.concatenate([start, exponent[1:] / trajectory.time[1:]])


def _lowest(
    X: np.ndarray,
    kernel: Kernel,
    bandwidths: np.ndarray,
    weights: ArrayLike | None,
    tolerance: float = 0.0,
) -> Generator[float, None, None]:
    """s_min at one bandwidth after another, or Gershgorin's bound if within the tolerance."""
    w = row_weights(weights, len(X))
    least = float(w.min())
    repeats = group_rows(X)[1] < len(X)
    with operator_for(X, kernel, None if weights is None else w) as operator:
        ones = operator.array(np.ones((len(X), 1)))
        for bandwidth in bandwidths.tolist():
            if repeats or (math.isinf(bandwidth) and len(X) > 1):  # equal rows of K
                yield 0.0
            elif bandwidth == 0.0:
                yield least
            else:
                row_sums = operator.numpy(operator.product(bandwidth, ones))[:, 0]
                bound = max(0.0, float((2.0 * w - row_sums).min()))  # Gershgorin's
                if least - bound > tolerance:  # s_min is at most any diagonal entry
                    if len(X) <= EXACT_ROWS:
                        K = as_matrix(operator, bandwidth)
                        ends = {"subset_by_index": [0, 0], "eigvals_only": True}
                        estimate = float(linalg.eigh(K, overwrite_a=True, **ends)[0])
                    else:
                        estimate = _lanczos(operator, bandwidth, tolerance)
                    bound = max(estimate, bound)
                yield bound


def _lanczos(operator: KernelOperator, bandwidth: float, tolerance: float) -> float:
    """Smallest Ritz value minus its residual."""
    start = np.random.default_rng(0).standard_normal((operator.n_rows, 1))
    vector = operator.array(start)
    image = operator.product(bandwidth, vector)
    space = KrylovSpace(operator, bandwidth, vector, image, LANCZOS_PRODUCTS)
    for _ in space.grow(growth=0.1):
        value, residual = space.lowest()
        if residual <= max(tolerance, 1e-6 * value):
            break
    return value - residual
