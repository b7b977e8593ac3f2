"""Bounds: Theorem 1 and Lemma 1 over a fitted path, Proposition 4 on gradients."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from bandfall._checks import check_choice
from bandfall._closed_form import flow_filter
from bandfall._typing import ArrayLike, TableLike
from bandfall.descent import Path
from bandfall.kernels._geometry import EUCLIDEAN
from bandfall.kernels._kernel import Kernel, KernelLike, get_kernel
from bandfall.theory._inputs import (
    PathSource,
    non_negative,
    path_rows,
    row_weights,
    rows,
    trained_path,
)
from bandfall.theory._shift import kernel_shift
from bandfall.theory._spectrum import smallest_eigenvalue, smallest_exponent
from bandfall.theory._trajectory import Trajectory


@dataclass(frozen=True)
class GeneralizationBound:
    """The terms of Equation 5 at T training times, for m new points.

    ``training`` is the first term, e^{−t s̄_min} ‖y‖/√n: the part that is still to be learned.
    ``shift`` is the second, Δk̄₂ ∫₀ᵗ e^{−τ s̄_min} dτ ‖y‖/√n: in- against out-of-sample.
    """

    time: np.ndarray  # (T,)
    training: np.ndarray  # (T,)
    shift: np.ndarray  # (T, m)
    constant: np.ndarray  # (m,): C; NaN if unknown
    mean_smallest_eigenvalue: np.ndarray  # (T,): s̄_min(t)
    mean_kernel_shift: np.ndarray  # (T, m): Δk̄₂(t), weighted by ‖y − f̂‖
    scale: float  # ‖y‖/√n; 1 for several targets, see `generalization_bound`

    @property
    def kernel_terms(self) -> np.ndarray:
        """Sum of the first and second term, shape (T, m): the part that depends on the kernel."""
        return self.training[:, None] + self.shift

    @property
    def total(self) -> np.ndarray:
        """The right-hand side of Equation 5, shape (T, m); NaN if C is unknown."""
        return self.kernel_terms + self.constant


def residual_bound(path: PathSource) -> tuple[np.ndarray, np.ndarray]:
    """e^{−∫₀ᵗ s_min dτ}, Lemma 1's bound on ‖y − f̂(t)‖ / ‖y‖ = √(1 − R²(t)).

    It holds for gradient flow, and for Euler steps as long as step·λ_max ≤ 1 + e^{−step·s_min},
    slightly below the limit of stability. Returns the starts of the M steps with the end, and the
    bound at each.
    """
    path = trained_path(path)
    trajectory = Trajectory.from_path(path)
    return trajectory.time, np.exp(-smallest_exponent(path, trajectory)[0])


def mean_kernel_shift(path: PathSource, X_new: TableLike) -> tuple[np.ndarray, np.ndarray]:
    """Δk̄₂(x*, t): Δk₂ averaged over training with weight ‖y − f̂‖ (Theorem 1).

    Returns T times and values of shape (T, m), at time 0 that of the first step. Arguments are
    those of `generalization_bound`.
    """
    path, new = trained_path(path), path_rows(path, X_new)
    trajectory = Trajectory.from_path(path)
    at = trajectory.thinned()
    return trajectory.time[at], _mean_shift(path, trajectory, at, new)


def generalization_bound(
    path: PathSource,
    X_new: TableLike,
    *,
    derivative_bound: float | None = None,
    noise: float | None = None,
    residual: str = "bound",
) -> GeneralizationBound:
    """Bound the error ``|f̂(x*, t) − f(x*)|`` over training time (Theorem 1, Equation 5).

        (e^{−t s̄_min} + Δk̄₂ ∫₀ᵗ e^{−τ s̄_min} dτ) ‖y‖/√n + C

    The text below Equation 5 prints ‖y‖² for the first term; the theorem and its proof have
    ‖y‖, which is used here. y is centred, as in training.

    Parameters
    ----------
    path : Path or estimator with ``path_``
    X_new : array-like of shape (m, d)
        The points x*: rows of features for an estimator, which encodes them as it did in
        training; rows in its own columns for a Path.
    derivative_bound : float, optional
        L with ‖∂f/∂x‖ ≤ L between x* and the training rows, per unit of the path's columns.
        Both norms here are Euclidean, whatever norm the kernel measures distances in.
    noise : float, optional
        E|ε|; for normal noise of standard deviation s it is s·√(2/π).
        With both given, C = L (1/n) Σ ‖x* − xᵢ‖ + E|ε|; otherwise C is NaN.
    residual : {"bound", "measured"}
        "bound" is Equation 5. "measured" uses the residual norm observed in training instead of
        Lemma 1's bound, for the smaller terms ‖r(t)‖/√n and Δk̄₂ ∫₀ᵗ ‖r‖ dτ/√n.

    Notes
    -----
    At most 1,000 times are reported, the first and the end among them. With weights, a row of
    weight w counts as w equal rows. With several targets, the bound is on the root mean square
    error over targets, each in units of its ‖y‖/√n; `noise` and `derivative_bound` are then in
    these units too.
    """
    path, new = trained_path(path), path_rows(path, X_new)
    check_choice("residual", residual, "bound", "measured")
    trajectory = Trajectory.from_path(path)
    at = trajectory.thinned()
    exponent, mean_smallest = smallest_exponent(path, trajectory)
    if residual == "measured":
        norm, integrals = trajectory.residual, trajectory.residual_integral
    else:
        norm = np.exp(-exponent)
        # ∫ e^{−s τ} dτ over one step is duration · φ₁(−s · duration).
        integrals = norm[:-1] * trajectory.duration * flow_filter(np.diff(exponent), 1.0)
    mean_shift = _mean_shift(path, trajectory, at, new)
    weights = row_weights(path.weights, len(path.X))
    # several targets have unit norm in training
    scale = 1.0 if len(path.scale) > 1 else float(path.scale[0]) / math.sqrt(weights.sum())
    constant = np.full(len(new), np.nan)
    if derivative_bound is not None and noise is not None:
        X = np.asarray(path.X, dtype=np.float64)
        centre = X.mean(axis=0)
        distance = EUCLIDEAN.block(new - centre, X - centre) @ weights / math.fsum(weights)
        slope = non_negative(derivative_bound, "derivative_bound")
        constant = slope * distance + non_negative(noise, "noise")
    return GeneralizationBound(
        time=trajectory.time[at],
        training=scale * norm[at],
        shift=scale * mean_shift * np.append(0.0, np.cumsum(integrals))[at, None],
        constant=constant,
        mean_smallest_eigenvalue=mean_smallest[at],
        mean_kernel_shift=mean_shift,
        scale=scale,
    )


def _mean_shift(path: Path, trajectory: Trajectory, at: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Δk̄₂ at the times `at`, shape (len(at), m)."""
    if len(trajectory.duration) == 0:  # a constant target: no step was taken
        return np.zeros((len(at), len(new)))
    shift = kernel_shift(path.X, new, path.kernel, trajectory.bandwidths, weights=path.weights)
    by_bandwidth = trajectory.integral_by_bandwidth(trajectory.residual_integral, at)
    by_bandwidth[0, trajectory.bandwidth_index[0]] = 1.0  # the limit of the mean at time 0
    return by_bandwidth @ shift / by_bandwidth.sum(axis=1, keepdims=True)


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
    K⁻¹(I − e^{−tK}) is at most min(t, 1/s_min). The bound has the shape of `bandwidth`, followed
    by that of the k targets if y has shape (n, k). It is ∞ at bandwidth 0 and 0 at ∞.
    For a model with an intercept, centre y first.

    ‖∂f̂/∂x‖ is Euclidean, whatever norm the kernel measures distances in. The last factor, 1 for
    p = 2, comes from that norm: the gradient of ‖z‖_p has the dual norm ‖·‖_{p/(p−1)} = 1, and
    ‖g‖₂ ≤ d^(1/2 − 1/r) ‖g‖_r for r = p/(p − 1) ≥ 2, where 1/2 − 1/r = 1/p − 1/2. Kernels with
    an exponent below 1 are infinitely steep at u = 0, so their bound is ∞.
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


def _largest_slope(kernel: Kernel, shape: tuple[int, ...], bandwidths: np.ndarray) -> np.ndarray:
    """k′_max √n d^(1/p − 1/2) / σ, a bound on the spectral norm of ∂k(x, X)/∂x."""
    if math.isnan(kernel.max_derivative):
        raise ValueError(
            f"the largest derivative of kernel {kernel.name!r} is unknown; give it as "
            "Kernel(..., max_derivative=...)"
        )
    steepest = kernel.max_derivative * shape[1] ** (1.0 / kernel.geometry.p - 0.5)
    with np.errstate(divide="ignore", invalid="ignore"):  # ∞/∞: a constant kernel is flat
        slopes = steepest * math.sqrt(shape[0]) / bandwidths
    return np.nan_to_num(slopes, nan=0.0, posinf=np.inf)
