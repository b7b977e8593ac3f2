"""Eigenvalues of K: rates of learning (Theorem 1) and effective numbers of parameters (Appendix A).

K is positive semi-definite, so its singular values are its eigenvalues (Remark 2).
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass

import numpy as np
from scipy import linalg

from bandfall._closed_form import Spectrum, euler_filter, flow_filter, ridge_filter
from bandfall._products import HOST, KernelOperator, check_dense_budget
from bandfall._products.base import group_rows
from bandfall._typing import ArrayLike
from bandfall.descent import Path
from bandfall.descent._krylov import KrylovSpace
from bandfall.kernels._kernel import Kernel, KernelLike, get_kernel
from bandfall.theory._inputs import (
    PathSource,
    as_path,
    best_model,
    non_negative,
    operator_for,
    row_weights,
    rows,
    trained_path,
)
from bandfall.theory._trajectory import Trajectory, inside_step

# Up to here, a tridiagonal reduction (4/3 n³) is cheaper than the products of Lanczos.
EXACT_ROWS = 2000
LANCZOS_PRODUCTS = 300
# Error of the exponent t·s̄_min of a path, which is never too large.
EXPONENT_TOLERANCE = 1e-3
EXACT_TRACE_ROWS = 400
_FEW_STEPS = 12  # a decomposition of K costs 12 products with n columns


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
    lower end of the spectrum. The result has the shape of `bandwidth`; with `weights`, the matrix
    is √w K √w.

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
    """s_min at each distinct bandwidth of a path: (rising bandwidths, values).

    Bandwidths are visited from narrow to wide. If K is nearly the identity, Gershgorin's
    bound is used. Once s_min is so small that it no longer matters over the length of the path, it
    is set to 0 for all wider bandwidths. Both err downwards, by less than 1e-3 in t·s̄_min in
    total, so a bound built on them still holds.
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

    Exact for the path's piecewise constant bandwidth. Returns the starts of the M steps with the
    end, and the mean at each; at time 0 it is the value of the first step.
    """
    path = trained_path(path)
    trajectory = Trajectory.from_path(path)
    return trajectory.time, smallest_exponent(path, trajectory)[1]


def smallest_exponent(path: Path, trajectory: Trajectory) -> tuple[np.ndarray, np.ndarray]:
    """∫₀ᵗ s_min dτ = t s̄_min(t), and s̄_min(t), at every time of the trajectory."""
    steps = path_smallest_eigenvalue(path)[1][trajectory.bandwidth_index]
    exponent = np.append(0.0, np.cumsum(steps * trajectory.duration))
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
                        K = operator.matrix(bandwidth).copy()
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


def kernel_eigenvalues(
    X: ArrayLike,
    kernel: KernelLike = "gaussian",
    bandwidth: float = 1.0,
    *,
    weights: ArrayLike | None = None,
) -> np.ndarray:
    """All n eigenvalues of K(σ) (of √w K √w with weights), rising; exact at bandwidth 0 and ∞."""
    X, kernel = rows(X, "X"), get_kernel(kernel)
    w = row_weights(weights, len(X))
    if float(non_negative(bandwidth, "bandwidth")) in (0.0, np.inf):
        # K consists of blocks of ones: one eigenvalue per group of equal rows, its total weight.
        labels = group_rows(X)[0] if bandwidth == 0 else np.zeros(len(X), dtype=int)
        groups = np.bincount(labels, weights=w)
        return np.sort(np.append(np.zeros(len(X) - len(groups)), groups))
    check_dense_budget(len(X), np.dtype(np.float64), HOST.budget)
    with operator_for(X, kernel, None if weights is None else w) as operator:
        K = operator.matrix(float(bandwidth)).copy()
    values = linalg.eigh(K, eigvals_only=True, overwrite_a=True, check_finite=False)
    return np.maximum(values, 0.0)


def ridge_degrees_of_freedom(
    X: ArrayLike,
    kernel: KernelLike = "gaussian",
    bandwidth: float = 1.0,
    penalty: ArrayLike = 1e-3,
    *,
    weights: ArrayLike | None = None,
) -> np.ndarray:
    """df = Tr(K(K + λI)⁻¹) of kernel ridge regression.

    At bandwidth ∞ it is 1/(1 + λ/n) and at bandwidth 0 n/(1 + λ) (Proposition 3,
    Equation 9), exactly; for repeated rows the latter becomes Σ_g g/(g + λ) over groups of g
    equal rows. One decomposition serves all penalties; the result has their shape.

    Examples
    --------
    >>> import numpy as np
    >>> from bandfall.theory import ridge_degrees_of_freedom
    >>> X = np.linspace(-1, 1, 20)[:, None]
    >>> float(ridge_degrees_of_freedom(X, bandwidth=0.0, penalty=1.0))
    10.0
    >>> float(ridge_degrees_of_freedom(X, bandwidth=np.inf, penalty=20.0))
    0.5
    """
    eigenvalues = kernel_eigenvalues(X, kernel, bandwidth, weights=weights)
    penalties = non_negative(penalty, "penalty")
    return (eigenvalues @ ridge_filter(eigenvalues, penalties.ravel())).reshape(penalties.shape)


def flow_degrees_of_freedom(
    X: ArrayLike,
    kernel: KernelLike = "gaussian",
    bandwidth: float = 1.0,
    time: ArrayLike = 1000.0,
    *,
    weights: ArrayLike | None = None,
) -> np.ndarray:
    """df = Tr(I − e^{−tK}) of kernel gradient flow (Equation 3).

    At bandwidth ∞ it is 1 − e^{−tn}, at bandwidth 0 n(1 − e^{−t}). The result has the shape of
    `time`.
    """
    eigenvalues = kernel_eigenvalues(X, kernel, bandwidth, weights=weights)
    times = non_negative(time, "time")
    return (eigenvalues @ flow_filter(eigenvalues, times.ravel())).reshape(times.shape)


def degrees_of_freedom(model: PathSource) -> float:
    """df = Tr(∂f̂(X)/∂y) of a fitted model (Appendix A).

    This is the trace of the smoother of the centred target, as in Proposition 3; the
    mean, which is subtracted and added back, is not counted. The model is a
    `KernelDescentRegressor` (or its path, see `staged_degrees_of_freedom`), `KernelRidgeRegressor`,
    `KernelFlowRegressor`, or a search over one of them.

    Examples
    --------
    >>> import numpy as np
    >>> from bandfall import KernelRidgeRegressor
    >>> from bandfall.theory import degrees_of_freedom
    >>> X = np.linspace(-1, 1, 20)[:, None]
    >>> model = KernelRidgeRegressor(bandwidth=0.5, penalty=1e-3).fit(X, np.sin(3 * X[:, 0]))
    >>> round(degrees_of_freedom(model), 2)
    7.57
    """
    model = best_model(model)
    smoother = getattr(model, "_smoother", None)
    if smoother is not None:  # a model of one bandwidth with coefficients g(K)(y − ȳ)
        total, weights, g = smoother()
        at = (total.X, total.kernel, float(total.bandwidths[0]))
        eigenvalues = kernel_eigenvalues(*at, weights=weights)
        return float(eigenvalues @ g(eigenvalues))
    return float(staged_degrees_of_freedom(as_path(model)).value[-1])


@dataclass(frozen=True)
class StagedDegreesOfFreedom:
    """Degrees of freedom of a path at time 0 and the ends of its S stages."""

    time: np.ndarray
    value: np.ndarray
    standard_error: np.ndarray  # due to random probes; zero if the trace is exact


def staged_degrees_of_freedom(
    path: PathSource, *, n_probes: int | None = None
) -> StagedDegreesOfFreedom:
    """df = n − Tr(P_s ⋯ P₁) after each stage s of a path, its schedule held fixed.

    With the bandwidths fixed, training is linear in y: the residual is multiplied by
    (I − ΔtK)^m in a stage of m Euler steps and by e^{−tK} in one of exact flow. The trace is exact
    up to 400 rows, and estimated from 32 random sign vectors (Hutchinson) above or, if given,
    from `n_probes`.
    """
    path = trained_path(path)
    n = len(path.X)
    if n_probes is not None and (n_probes != int(n_probes) or n_probes < 2):
        raise ValueError(f"n_probes={n_probes!r} must be an integer of at least 2")
    exact = n_probes is None and n <= EXACT_TRACE_ROWS
    shape = n, int(n_probes or 32)
    signs = np.random.default_rng(0)
    probes = np.eye(n) if exact else signs.choice([-1.0, 1.0], size=shape)
    traces, errors = [float(n)], [0.0]
    for image in _images(path, probes):
        forms = np.einsum("ij,ij->j", probes, image)
        traces.append(float(forms.sum() if exact else forms.mean()))
        errors.append(0.0 if exact else float(forms.std(ddof=1)) / np.sqrt(shape[1]))
    return StagedDegreesOfFreedom(np.append(0.0, path.ends), n - np.array(traces), np.array(errors))


def _images(path: Path, block: np.ndarray) -> Iterator[np.ndarray]:
    """P_s ⋯ P₁ block after each stage s, with P = (I − ΔtK)^m or e^{−tK}.

    With weights, in the coordinates √w r. A stage is one eigendecomposition if the block is wide,
    else Euler steps or Krylov spaces, as in training.
    """
    with operator_for(path.X, path.kernel, path.weights) as operator:
        wide, block = block.shape[1] >= operator.n_rows, operator.array(block)
        for stage in path.stages:
            step_size, bandwidth = stage.step_size, stage.bandwidth
            n_steps = max(1, round(stage.duration / step_size)) if step_size else 0
            if wide and not 0 < n_steps <= _FEW_STEPS:
                spectrum = Spectrum(operator.matrix(bandwidth).copy())
                eigenvalues = spectrum.eigenvalues
                if step_size:
                    learned = eigenvalues * euler_filter(eigenvalues, step_size, n_steps)
                else:
                    learned = eigenvalues * flow_filter(eigenvalues, stage.duration)
                block = spectrum.coefficients(block, 1.0 - learned)
            elif step_size:
                for _ in range(n_steps):
                    block = block - step_size * operator.product(bandwidth, block)
            else:
                block = inside_step(operator, bandwidth, block, np.zeros(0), stage.duration)[2]
            yield operator.numpy(block)
