"""The smallest eigenvalue of K: the rate at which the slowest part of the target is learned.

K is positive semi-definite, so its singular values are its eigenvalues (Remark 2).
"""

from __future__ import annotations

import math
from collections.abc import Generator
from contextlib import closing

import numpy as np
from scipy import linalg

from bandfall._products import HOST, Backend, KernelOperator
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
    method: str = "auto",
    tolerance: float = 0.0,
    backend: Backend = HOST,
) -> np.ndarray:
    """s_min(K(σ)) (Theorem 1), exact at bandwidth 0 (1, or 0 if rows repeat) and ∞.

    Parameters
    ----------
    X : array-like of shape (n, d)
    kernel : str, Kernel or callable
    bandwidth : float or array-like, in [0, ∞]
    weights : array-like of shape (n,), optional
        With weights, the matrix is √w K √w.
    method : {"auto", "exact", "lanczos"}
        "exact" computes one eigenvalue of the matrix with LAPACK. "lanczos" uses at most
        300 products and returns the smallest Ritz value minus its residual norm, which
        lies below s_min once the iteration has reached the lower end of the spectrum. "auto" is
        exact up to 2,000 rows.
    tolerance : float
        Gershgorin's bound, which costs one product and lies below s_min, is used if it
        is known to be within this tolerance. Lanczos stops at it too.
    backend : Backend

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
    if method not in ("auto", "exact", "lanczos"):
        raise ValueError(f"method={method!r} is unknown; allowed: 'auto', 'exact', 'lanczos'")
    if not tolerance >= 0:
        raise ValueError(f"tolerance={tolerance!r} must be at least 0")
    X, bandwidths = rows(X, "X"), non_negative(bandwidth, "bandwidth")
    settings = weights, method, tolerance, backend
    values = list(_lowest(X, get_kernel(kernel), bandwidths.ravel(), *settings))
    return np.array(values).reshape(bandwidths.shape)


def path_smallest_eigenvalue(
    path: PathSource, *, backend: Backend = HOST
) -> tuple[np.ndarray, np.ndarray]:
    """s_min at each distinct bandwidth of a path.

    Bandwidths are visited from narrow to wide. If K is nearly the identity, Gershgorin's
    bound is used. Once s_min is so small that it no longer matters over the length of the path, it
    is set to 0 for all wider bandwidths. Both err downwards, by less than 1e-3 in t·s̄_min in
    total, so a bound built on them still holds.

    Parameters
    ----------
    path : Path or estimator with ``path_``
    backend : Backend

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
    settings = path.weights, "auto", tolerance, backend
    with closing(_lowest(X, path.kernel, bandwidths, *settings)) as lowest:
        for b, value in enumerate(lowest):
            values[b] = value
            if value <= tolerance and bandwidths[b] > 0:
                break
    return bandwidths, values


def mean_smallest_eigenvalue(
    path: PathSource, *, backend: Backend = HOST
) -> tuple[np.ndarray, np.ndarray]:
    """s̄_min(t) = (1/t) ∫₀ᵗ s_min dτ along a path (Theorem 1).

    Exact for the path's piecewise constant bandwidth.

    Parameters
    ----------
    path, backend
        As for `path_smallest_eigenvalue`.

    Returns
    -------
    time : ndarray of shape (M + 1,)
        Start of every step, and the end.
    mean : ndarray of shape (M + 1,)
        At time 0 the value of the first step.
    """
    path = trained_path(path)
    trajectory = Trajectory.from_path(path, backend)
    return trajectory.time, smallest_exponent(path, trajectory, backend)[1]


def smallest_exponent(
    path: Path, trajectory: Trajectory, backend: Backend
) -> tuple[np.ndarray, np.ndarray]:
    """∫₀ᵗ s_min dτ = t s̄_min(t), and s̄_min(t), at every time of the trajectory."""
    _, values = path_smallest_eigenvalue(path, backend=backend)
    steps = values[trajectory.bandwidth_index]
    exponent = trajectory.cumulative(steps * trajectory.duration)
    start = steps[:1] if len(steps) else np.zeros(1)
    return exponent, np.concatenate([start, exponent[1:] / trajectory.time[1:]])


def _lowest(
    X: np.ndarray,
    kernel: Kernel,
    bandwidths: np.ndarray,
    weights: ArrayLike | None,
    method: str,
    tolerance: float,
    backend: Backend,
) -> Generator[float, None, None]:
    """s_min at one bandwidth after another; see `smallest_eigenvalue`."""
    w = row_weights(weights, len(X))
    least = float(w.min())
    repeats = group_rows(X)[1] < len(X)
    exact = method == "exact" or (method == "auto" and len(X) <= EXACT_ROWS)
    with operator_for(X, kernel, None if weights is None else w, backend) as operator:
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
                    estimate = _exact if exact else _lanczos
                    bound = max(estimate(operator, bandwidth, tolerance), bound)
                yield bound


def _exact(operator: KernelOperator, bandwidth: float, tolerance: float) -> float:
    K = as_matrix(operator, bandwidth)
    options = {"eigvals_only": True, "overwrite_a": True, "check_finite": False}
    return max(0.0, float(linalg.eigh(K, subset_by_index=[0, 0], **options)[0]))


def _lanczos(operator: KernelOperator, bandwidth: float, tolerance: float) -> float:
    """Smallest Ritz value minus its residual."""
    start = np.random.default_rng(0).standard_normal((operator.n_rows, 1))
    vector = operator.array(start)
    image = operator.product(bandwidth, vector)
    space = KrylovSpace(operator, bandwidth, vector, image, LANCZOS_PRODUCTS)
    while True:
        last = space.exhausted or space.dimension >= space.max_dimension
        if last or space.dimension % 10 == 0:
            value, residual = space.lowest()
            if last or residual <= max(tolerance, 1e-6 * value):
                return max(0.0, value - residual)
        space.expand()
