"""Effective number of parameters of ridge, flow and paths (Appendix A, Proposition 3)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy import linalg

from bandfall._closed_form import Spectrum, euler_filter, flow_filter, ridge_filter
from bandfall._products import HOST, check_dense_budget
from bandfall._products.base import as_matrix, group_rows
from bandfall._typing import ArrayLike
from bandfall.descent import Path
from bandfall.kernels._kernel import KernelLike, get_kernel
from bandfall.theory._inputs import (
    PathSource,
    as_path,
    best_model,
    non_negative,
    operator_for,
    path_operator,
    row_weights,
    rows,
    trained_path,
)
from bandfall.theory._trajectory import inside_step

EXACT_ROWS = 400
_FEW_STEPS = 12  # a decomposition of K costs 12 products with n columns


@dataclass(frozen=True)
class StagedDegreesOfFreedom:
    """Degrees of freedom of a path during training.

    Attributes
    ----------
    time : ndarray of shape (S + 1,)
        0 and the end of every stage.
    value : ndarray of shape (S + 1,)
    standard_error : ndarray of shape (S + 1,)
        Standard error due to random probes; zero if the trace is exact.
    """

    time: np.ndarray
    value: np.ndarray
    standard_error: np.ndarray


def degrees_of_freedom(model: PathSource) -> float:
    """df = Tr(∂f̂(X)/∂y) of a fitted model (Appendix A).

    This is the trace of the smoother of the centred target, as in Proposition 3; the
    mean, which is subtracted and added back, is not counted.

    Parameters
    ----------
    model : Path or fitted estimator
        `KernelDescentRegressor` (or its path), `KernelRidgeRegressor`, `KernelFlowRegressor`,
        or a search over one of them.
        For a path, see `staged_degrees_of_freedom`, which also states the standard error.

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np
    >>> from bandfall import KernelDescentRegressor, KernelRidgeRegressor
    >>> from bandfall.theory import degrees_of_freedom
    >>> X = np.linspace(-1, 1, 20)[:, None]
    >>> y = np.sin(3 * X[:, 0])
    >>> round(degrees_of_freedom(KernelRidgeRegressor(bandwidth=0.5, penalty=1e-3).fit(X, y)), 2)
    7.57
    >>> degrees_of_freedom(KernelDescentRegressor().fit(X, y)) > 10
    True
    """
    model = best_model(model)
    smoother = getattr(model, "_smoother", None)
    if smoother is not None:  # a model of one bandwidth with coefficients g(K)(y − ȳ)
        total, weights, g = smoother()
        at = (total.X, total.kernel, float(total.bandwidths[0]))
        eigenvalues = kernel_eigenvalues(*at, weights=weights)
        return float(eigenvalues @ g(eigenvalues))
    return float(staged_degrees_of_freedom(as_path(model)).value[-1])


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
    equal rows.

    Parameters
    ----------
    X : array-like of shape (n, d)
    kernel : str, Kernel or callable
    bandwidth : float in [0, ∞]
    penalty : float or array-like, ≥ 0
        One decomposition serves all.
    weights : array-like of shape (n,), optional

    Returns
    -------
    ndarray of the shape of `penalty`

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

    At bandwidth ∞ it is 1 − e^{−tn}, at bandwidth 0 n(1 − e^{−t}).

    Parameters
    ----------
    X, kernel, bandwidth, weights
        As for `ridge_degrees_of_freedom`.
    time : float or array-like, in [0, ∞]

    Returns
    -------
    ndarray of the shape of `time`
    """
    eigenvalues = kernel_eigenvalues(X, kernel, bandwidth, weights=weights)
    times = non_negative(time, "time")
    return (eigenvalues @ flow_filter(eigenvalues, times.ravel())).reshape(times.shape)


def staged_degrees_of_freedom(
    path: PathSource, *, n_probes: int | None = None, random_state: int = 0
) -> StagedDegreesOfFreedom:
    """df = n − Tr(P_s ⋯ P₁) after each stage s of a path, its schedule held fixed.

    With the bandwidths fixed, training is linear in y: the residual is multiplied by
    (I − ΔtK)^m in a stage of m Euler steps and by e^{−tK} in one of exact flow.

    Parameters
    ----------
    path : Path or estimator with ``path_``
    n_probes : int, optional
        Estimate the trace from this number of random sign vectors (Hutchinson). By default it
        is exact up to 400 rows, and estimated from 32 probes above.
    random_state : int
        Seed of the probes.

    Returns
    -------
    StagedDegreesOfFreedom
    """
    path = trained_path(path)
    n = len(path.X)
    if n_probes is not None and (n_probes != int(n_probes) or n_probes < 2):
        raise ValueError(f"n_probes={n_probes!r} must be an integer of at least 2")
    exact = n_probes is None and n <= EXACT_ROWS
    shape = n, int(n_probes or 32)
    signs = np.random.default_rng(random_state)
    probes = np.eye(n) if exact else signs.choice([-1.0, 1.0], size=shape)
    traces, errors = [float(n)], [0.0]
    for image in _images(path, probes):
        forms = np.einsum("ij,ij->j", probes, image)
        traces.append(float(forms.sum() if exact else forms.mean()))
        errors.append(0.0 if exact else float(forms.std(ddof=1)) / np.sqrt(shape[1]))
    return StagedDegreesOfFreedom(np.append(0.0, path.ends), n - np.array(traces), np.array(errors))


def kernel_eigenvalues(
    X: ArrayLike,
    kernel: KernelLike = "gaussian",
    bandwidth: float = 1.0,
    *,
    weights: ArrayLike | None = None,
) -> np.ndarray:
    """All eigenvalues of K(σ) (of √w K √w with weights), rising; exact at bandwidth 0 and ∞.

    Parameters
    ----------
    X, kernel, bandwidth, weights
        As for `ridge_degrees_of_freedom`.

    Returns
    -------
    ndarray of shape (n,)
    """
    X, kernel = rows(X, "X"), get_kernel(kernel)
    w = row_weights(weights, len(X))
    if float(non_negative(bandwidth, "bandwidth")) in (0.0, np.inf):
        # K consists of blocks of ones: one eigenvalue per group of equal rows, its total weight.
        labels = group_rows(X)[0] if bandwidth == 0 else np.zeros(len(X), dtype=int)
        groups = np.bincount(labels, weights=w)
        return np.sort(np.append(np.zeros(len(X) - len(groups)), groups))
    check_dense_budget(len(X), np.dtype(np.float64), HOST.budget)
    with operator_for(X, kernel, None if weights is None else w) as operator:
        K = as_matrix(operator, float(bandwidth))
    values = linalg.eigh(K, eigvals_only=True, overwrite_a=True, check_finite=False)
    return np.maximum(values, 0.0)


def _images(path: Path, block: np.ndarray) -> Iterator[np.ndarray]:
    """P_s ⋯ P₁ block after each stage s, with P = (I − ΔtK)^m or e^{−tK}.

    With weights, in the coordinates √w r. A stage is one eigendecomposition if the block is wide,
    else Euler steps or Krylov spaces, as in training.
    """
    with path_operator(path) as operator:
        wide, block = block.shape[1] >= operator.n_rows, operator.array(block)
        for stage in path.stages:
            step_size, bandwidth = stage.step_size, stage.bandwidth
            n_steps = max(1, round(stage.duration / step_size)) if step_size else 0
            if wide and not 0 < n_steps <= _FEW_STEPS:
                spectrum = Spectrum(as_matrix(operator, bandwidth))
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
