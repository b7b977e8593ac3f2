"""Bounds on the gradient of a fitted function (Appendix A, Proposition 4)."""

from __future__ import annotations

import math

import numpy as np

from bandfall._typing import ArrayLike
from bandfall.kernels._geometry import Euclidean, Minkowski
from bandfall.kernels._kernel import Kernel, KernelLike, get_kernel
from bandfall.theory._inputs import PathSource, as_path, non_negative, rows
from bandfall.theory._spectrum import smallest_eigenvalue


def gradient_bound(
    X: ArrayLike,
    y: ArrayLike,
    kernel: KernelLike = "gaussian",
    bandwidth: ArrayLike = 1.0,
    penalty: float = 1e-3,
) -> np.ndarray:
    """Bound on ‖∂f̂/∂x‖ of kernel ridge regression, anywhere (Proposition 4).

        (1/σ) · 1/max(λ, s_min(K)) · ‖y‖ · k′_max · √n · d^(1/p − 1/2)

    It also holds for gradient flow with λ = 1/t: there the largest eigenvalue of
    K⁻¹(I − e^{−tK}) is at most min(t, 1/s_min).

    ‖∂f̂/∂x‖ is Euclidean, whatever norm the kernel measures distances in. The last factor, 1 for
    p = 2, comes from that norm: the gradient of ‖z‖_p has the dual norm ‖·‖_{p/(p−1)} = 1, and
    ‖g‖₂ ≤ d^(1/2 − 1/r) ‖g‖_r for r = p/(p − 1) ≥ 2, where 1/2 − 1/r = 1/p − 1/2. Equality holds
    if all coordinates of z are equal. Kernels with an exponent below 1 are infinitely steep
    at u = 0, so their bound is ∞.

    Parameters
    ----------
    X : array-like of shape (n, d)
    y : array-like of shape (n,) or (n, k)
        Centre it first for the bound of a model with an intercept.
    kernel : str or Kernel
        Its largest derivative must be known.
    bandwidth : float or array-like, in [0, ∞]
        The bound is ∞ at 0 and 0 at ∞.
    penalty : float ≥ 0

    Returns
    -------
    ndarray of shape bandwidth.shape, or bandwidth.shape + (k,)

    Examples
    --------
    >>> import numpy as np
    >>> from bandfall.theory import gradient_bound
    >>> X = np.linspace(-1, 1, 20)[:, None]
    >>> gradient_bound(X, np.sin(3 * X[:, 0]), bandwidth=[1.0, 2.0], penalty=0.1).round(1)
    array([85.6, 42.8])
    """
    X, kernel = rows(X, "X"), get_kernel(kernel)
    target = np.asarray(y, dtype=np.float64)
    if target.ndim not in (1, 2) or len(target) != len(X) or not np.isfinite(target).all():
        raise ValueError(f"y must be finite, of shape ({len(X)},) or ({len(X)}, k)")
    bandwidths = non_negative(bandwidth, "bandwidth")
    floor = non_negative(penalty, "penalty")
    norm = np.linalg.norm(target, axis=0)
    lowest = smallest_eigenvalue(X, kernel, bandwidths)
    with np.errstate(divide="ignore"):
        amplification = 1.0 / np.maximum(floor, lowest)
        steepness = _largest_slope(kernel, X.shape, bandwidths) * amplification
    with np.errstate(invalid="ignore"):  # 0·∞: a constant kernel or a constant target is flat
        return np.nan_to_num(np.multiply.outer(steepness, norm), nan=0.0, posinf=np.inf)


def path_gradient_bound(path: PathSource) -> np.ndarray:
    """Bound on ‖∂f̂/∂x‖ of a fitted path, anywhere: Σ_s (1/σ_s) ‖c_s‖ k′_max √n d^(1/p − 1/2).

    The derivative is with respect to the path's own columns; if an estimator encodes features,
    these are the encoded columns.

    This applies the bound on ∂k/∂x in the proof of Proposition 4 to each stage, with its fitted
    coefficients. Stages of bandwidth 0 are flat almost everywhere and are left out, as in
    ``path.gradient``.

    Parameters
    ----------
    path : Path or estimator with ``path_``

    Returns
    -------
    ndarray of shape (k,)
        One bound per target.
    """
    path = as_path(path)
    used = [stage for stage in path.stages if stage.bandwidth > 0]
    if not used:
        return np.zeros(len(path.scale))
    slopes = _largest_slope(path.kernel, path.X.shape, np.array([s.bandwidth for s in used]))
    norms = np.array([np.linalg.norm(s.coefficients.astype(np.float64), axis=0) for s in used])
    with np.errstate(invalid="ignore"):  # ∞·0: a stage without coefficients is flat
        return np.nan_to_num(slopes[:, None] * norms, nan=0.0, posinf=np.inf).sum(axis=0)


def _largest_slope(kernel: Kernel, shape: tuple[int, ...], bandwidths: np.ndarray) -> np.ndarray:
    """k′_max √n d^(1/p − 1/2) / σ, a bound on the spectral norm of ∂k(x, X)/∂x."""
    if not isinstance(kernel.geometry, Euclidean | Minkowski):
        raise ValueError(
            f"kernel {kernel.name!r} measures distances in {kernel.geometry!r}; this bound holds "
            "for p-norms"
        )
    if math.isnan(kernel.max_derivative):
        raise ValueError(
            f"the largest derivative of kernel {kernel.name!r} is unknown; give it as "
            "Kernel(..., max_derivative=...)"
        )
    n_rows, n_features = shape
    steepest = kernel.max_derivative * n_features ** (1.0 / kernel.geometry.p - 0.5)
    with np.errstate(divide="ignore", invalid="ignore"):  # ∞/∞: a constant kernel is flat
        return np.nan_to_num(
            steepest * math.sqrt(n_rows) / np.asarray(bandwidths), nan=0.0, posinf=np.inf
        )
