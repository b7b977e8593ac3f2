"""Constant bandwidth in closed form: ridge and gradient flow from one eigendecomposition.

Both estimates are K_new c with coefficients c = U g(λ) Uᵀy, where K = U diag(λ) Uᵀ and g is
a *filter*: 1/(λ + penalty) for ridge (Equation 4), (1 − e^{−tλ})/λ for flow (Equation 3),
(1 − (1 − ηλ)^m)/λ for m Euler steps (Equation 1). No filter inverts K.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from scipy import linalg

from bandfall._threads import decomposition_threads_for

SpectralFilter: TypeAlias = Callable[[np.ndarray], np.ndarray]  # g(λ)


def ridge_filter(eigenvalues: np.ndarray, penalty: float | np.ndarray) -> np.ndarray:
    """1/(λ + penalty), or 0 at rounding level, shape (..., n); (..., n, P) for P penalties."""
    eigenvalues, penalty, rounding = _as_table(eigenvalues, penalty)
    shifted = eigenvalues + penalty
    known = shifted > rounding
    return known / np.where(known, shifted, 1.0)


def flow_filter(
    eigenvalues: np.ndarray, time: float | np.ndarray, *, paired: bool = False
) -> np.ndarray:
    """(1 − e^{−tλ})/λ = t φ₁(−tλ), with its limit t at λ = 0.

    Zero where λ and 1/t are both at rounding level. Shape (..., n), or (..., n, T) for T times;
    if `paired`, spectrum i of k goes with time i of k: shape (k, n).
    """
    if paired:
        time = np.asarray(time, dtype=eigenvalues.dtype)[:, None]
        rounding = _rounding(eigenvalues)
    else:
        eigenvalues, time, rounding = _as_table(eigenvalues, time)
    limits = np.finfo(eigenvalues.dtype)
    time = np.minimum(time, np.sqrt(limits.max))
    x = time * eigenvalues
    flow = np.full(x.shape, time)  # the limit, kept where x is zero
    np.divide(np.expm1(-x), -eigenvalues, out=flow, where=x > limits.tiny)
    lost = time * rounding >= 1.0
    if lost.any():
        flow[lost & (eigenvalues <= rounding)] = 0.0
    return flow


def _as_table(
    eigenvalues: np.ndarray, values: float | np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Eigenvalues, values and the threshold below which λ counts as zero, ready to broadcast."""
    values = np.asarray(values, dtype=eigenvalues.dtype)
    rounding = _rounding(eigenvalues)
    if values.ndim == 0:
        return eigenvalues, values, rounding
    return eigenvalues[..., None], values, rounding[..., None]


def _rounding(eigenvalues: np.ndarray) -> np.ndarray:
    eps = np.finfo(eigenvalues.dtype).eps
    return eigenvalues.shape[-1] * eps * eigenvalues.max(axis=-1, keepdims=True, initial=0.0)


def euler_filter(eigenvalues: np.ndarray, step_size: float, n_steps: int) -> np.ndarray:
    """(1 − (1 − ηλ)^m)/λ, with its limit m η at λ = 0."""
    x = step_size * eigenvalues
    small = np.abs(x) * n_steps < 1e-8
    safe = np.where(small, 1.0, x)
    with np.errstate(divide="ignore", invalid="ignore"):
        # 1 − (1−x)^m = −expm1(m log1p(−x)) keeps small x accurate; x ≥ 1 cannot cancel.
        accurate = -np.expm1(n_steps * np.log1p(-np.minimum(safe, 0.5)))
        power = np.where(safe < 0.5, accurate, 1.0 - (1.0 - safe) ** n_steps)
    return step_size * np.where(small, n_steps * (1.0 - 0.5 * (n_steps - 1) * x), power / safe)


class Spectrum:
    """K = U diag(λ) Uᵀ for a symmetric positive semi-definite K, tiny negative λ set to zero.

    K has shape (n, n), or (..., n, n) for a stack. One decomposition serves every penalty and time.
    """

    def __init__(self, K: np.ndarray):
        with decomposition_threads_for(K.shape[-1]):
            self.eigenvalues, self.eigenvectors = np.linalg.eigh(K)
        _check_positive(self.eigenvalues)
        np.maximum(self.eigenvalues, 0.0, out=self.eigenvalues)

    def coefficients(self, y: np.ndarray, filters: np.ndarray) -> np.ndarray:
        """U g(λ) Uᵀ y, shape of `y`, for one filter of shape (n,)."""
        return self.eigenvectors @ ((self.eigenvectors.T @ y).T * filters).T


def _check_positive(eigenvalues: np.ndarray) -> None:
    """Raise ValueError if an eigenvalue is negative beyond rounding."""
    smallest, largest = float(eigenvalues.min()), float(eigenvalues.max())
    eps = float(np.finfo(eigenvalues.dtype).eps)
    if not smallest >= -100.0 * eigenvalues.shape[-1] * eps * max(largest, 0.0):
        raise ValueError(
            "the kernel matrix is not positive semi-definite: its eigenvalues go from "
            f"{smallest:.3g} to {largest:.3g}; use a positive definite kernel"
        )


def ridge_coefficients(K: np.ndarray, y: np.ndarray, penalty: float) -> np.ndarray:
    """(K + penalty·I)⁻¹ y (Equation 4), by Cholesky, or by pseudo-inverse if K is singular."""
    if penalty > len(K) * np.finfo(K.dtype).eps * np.trace(K):
        shifted = K.copy()
        shifted.flat[:: len(K) + 1] += penalty
        try:
            with decomposition_threads_for(len(K)):
                factor = linalg.cho_factor(
                    shifted, lower=True, overwrite_a=True, check_finite=False
                )
                return linalg.cho_solve(factor, y, check_finite=False)
        except linalg.LinAlgError:
            pass  # the penalty drowns in rounding: fall through to the spectrum
    spectrum = Spectrum(K)
    return spectrum.coefficients(y, ridge_filter(spectrum.eigenvalues, penalty))
