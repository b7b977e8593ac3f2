"""Marginal likelihood of a Gaussian process over bandwidth and penalty, with its gradient.

With A = K(σ) + λI and targets y (n, k), the paper's experiments minimise, column by column,

    L(σ, λ) = yᵀ A⁻¹ y + log det A,                                           (unit amplitude)

minus twice the log likelihood of y ~ N(0, A) up to a constant, for targets of unit scale. Standard
evidence lets y ~ N(0, a·A); the best amplitude is a = yᵀA⁻¹y / n, and

    L(σ, λ) = n log(yᵀ A⁻¹ y / n) + n + log det A                           (fitted amplitude)

does not depend on the scale of y. For any parameter θ of A, with α = A⁻¹y,
∂/∂θ log det A = tr(A⁻¹ ∂A/∂θ) and ∂/∂θ yᵀA⁻¹y = −αᵀ(∂A/∂θ)α.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import numpy as np
from scipy import linalg, optimize

from bandfall._closed_form import Spectrum, ridge_filter
from bandfall._threads import decomposition_threads_for
from bandfall._typing import Array
from bandfall.kernels._kernel import Kernel, kernel_matrix
from bandfall.rivals._cross_validation import distance_powers

# Start points lie a little inside the bounds and are jittered (the paper's experiments).
_INSIDE = (1.1, 0.9)
_JITTER = (0.91, 1.09)


class Evidence:
    """L(σ, λ) for one data set and a kernel with a derivative; y (n, k) is centred."""

    def __init__(self, X: np.ndarray, y: np.ndarray, kernel: Kernel, fit_amplitude: bool = False):
        self.distances, self.y = distance_powers(X, kernel), np.asarray(y, dtype=np.float64)
        self.kernel, self.fit_amplitude = kernel, fit_amplitude
        self._slope = slope_of(kernel)

    def __call__(self, bandwidth: float, penalty: float) -> tuple[float, np.ndarray]:
        """L and its gradient with respect to (log σ, log λ)."""
        K = kernel_matrix(self.kernel, self.distances, bandwidth)
        inverse, log_det = _inverse_and_log_det(K, penalty)
        alpha = inverse @ self.y
        n, n_outputs = self.y.shape
        fits = (self.y * alpha).sum(0)
        slope = self._log_bandwidth_derivative(bandwidth)
        log_det_gradient = np.array([np.vdot(inverse, slope), penalty * np.trace(inverse)])
        fit_gradient = -np.stack([(alpha * (slope @ alpha)).sum(0), penalty * (alpha**2).sum(0)])
        if not self.fit_amplitude:
            value = fits.sum() + n_outputs * log_det
            return float(value), fit_gradient.sum(axis=1) + n_outputs * log_det_gradient
        fits = np.maximum(fits, np.finfo(np.float64).tiny)  # a constant column has no scale
        value = n * np.sum(np.log(fits / n) + 1.0) + n_outputs * log_det
        gradient = n * (fit_gradient / fits).sum(axis=1) + n_outputs * log_det_gradient
        return float(value), gradient

    def amplitude(self, bandwidth: float, penalty: float) -> np.ndarray:
        """The best amplitude yᵀA⁻¹y / n of each column, shape (k,)."""
        K = kernel_matrix(self.kernel, self.distances, bandwidth)
        inverse, _ = _inverse_and_log_det(K, penalty)
        return (self.y * (inverse @ self.y)).sum(0) / len(self.y)

    def _log_bandwidth_derivative(self, bandwidth: float) -> np.ndarray:
        """∂K/∂log σ = −k′(u) u, elementwise."""
        q = self.distances * bandwidth**-self.kernel.power
        # u^p = q^(p/power): slope · u^p = k′(u) u.
        ratio = self.kernel.geometry.p / self.kernel.power
        return -self._slope(q.copy(), np) * (q**ratio if ratio != 1.0 else q)


def slope_of(kernel: Kernel) -> Callable[[Array, ModuleType], Array]:
    """k′(u) u^(1−p) of a kernel; ValueError if it was given without a derivative."""
    if kernel.slope is None:
        raise ValueError(f"kernel {kernel.name!r} was given without a derivative")
    return kernel.slope


def maximise_evidence(
    evidence: Evidence,
    bandwidth_bounds: tuple[float, float],
    penalty_bounds: tuple[float, float],
    *,
    n_starts: int = 5,
    random_state: np.random.RandomState,
) -> np.ndarray:
    """Minimise L inside the bounds by L-BFGS-B in (log σ, log λ) from n_starts² points.

    The starts form a log-spaced, jittered grid: the surface has several local minima. Penalties
    below n²·eps, where K + λI is singular to rounding, are not tried. Returns an array
    (n_starts², 3): bandwidth, penalty and L at which each start ended, the smallest L first.
    """
    rounding = len(evidence.y) ** 2 * np.finfo(np.float64).eps
    bounds = np.log(np.stack([bandwidth_bounds, np.maximum(penalty_bounds, rounding)]))
    inside = bounds + np.log(_INSIDE)
    inside = np.where((inside[:, 0] <= inside[:, 1])[:, None], inside, bounds)  # a narrow interval
    axes = [np.linspace(low, high, n_starts) for low, high in inside]
    starts = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
    starts = starts + np.log(random_state.uniform(*_JITTER, size=starts.shape))
    with decomposition_threads_for(len(evidence.y)):
        how = {"jac": True, "method": "L-BFGS-B", "bounds": bounds}
        ends = [
            optimize.minimize(lambda theta: evidence(*np.exp(theta)), start, **how)
            for start in np.clip(starts, bounds[:, 0], bounds[:, 1])
        ]
    optima = np.array([[*np.exp(end.x), end.fun] for end in ends])
    return optima[np.argsort(optima[:, 2], kind="stable")]


def _inverse_and_log_det(K: np.ndarray, penalty: float) -> tuple[np.ndarray, float]:
    """(K + penalty·I)⁻¹ and log det(K + penalty·I), by Cholesky, or by spectrum if that fails."""
    shifted = K.copy()
    shifted.flat[:: len(K) + 1] += penalty
    result = half_inverse(shifted)
    if result is not None:
        inverse = np.tril(result[0])
        inverse += np.tril(inverse, -1).T
        return inverse, result[1]
    spectrum = Spectrum(K)
    filters = ridge_filter(spectrum.eigenvalues, penalty)
    inverse = (spectrum.eigenvectors * filters) @ spectrum.eigenvectors.T
    return inverse, float(np.log(spectrum.eigenvalues + penalty).sum())


def half_inverse(A: np.ndarray) -> tuple[np.ndarray, float] | None:
    """A⁻¹, of which only the lower half is right, and log det A; None if A is not positive.

    A is symmetric and may be overwritten.
    """
    factor, info = linalg.lapack.dpotrf(A.T, lower=0, overwrite_a=1)  # Fortran's upper half
    if info != 0:
        return None
    log_det = 2.0 * float(np.log(np.diagonal(factor)).sum())
    inverse, _ = linalg.lapack.dpotri(factor, lower=0, overwrite_c=1)
    return inverse.T, log_det
