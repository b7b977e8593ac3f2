"""Automatic relevance: a scale for each column by marginal likelihood, with its gradient.

Distances are measured between rows whose columns are multiplied by scales s_k > 0,

    u_ij = ‖s ∘ (x_i − x_j)‖_p,     A = k(u) + λ diag(1/w),     α = A⁻¹ y,

with weights w of rows, all one by default. Targets are y ~ N(0, a·A) with the best amplitude
a = yᵀα/n. With ℓ_k = log s_k, a normal prior of standard deviation τ around the mean of all ℓ, and
a mean over targets, the objective is

    L(ℓ, λ) = n/2 log a + ½ log det A + ½ Σ_k (ℓ_k − mean ℓ)² / τ²,
    ∂L/∂ℓ_k = ½ Σ_ij M_ij s_k^p |x_ik − x_jk|^p + (ℓ_k − mean ℓ) / τ²,
    M       = (A⁻¹ − ααᵀ/a) ∘ k′(u) u^(1−p).

For equal scales, the first two terms are half the evidence of `_evidence` with fitted amplitude,
but for a constant.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from scipy import optimize

from bandfall._products.scales import distances_to_p, symmetric_product, weighted_powers
from bandfall._typing import Weights
from bandfall.kernels._kernel import Kernel, KernelLike, get_kernel
from bandfall.rivals._evidence import half_inverse, slope_of

_PENALTY = math.exp(-3.0)  # at the start, where the mean of u^p over pairs is 1
_RANGE = (-8.0, 5.0)  # range of log scales, relative to their start
_PENALTIES = (1e-6, 1e2)
_ACCURACY = 0.02  # ends when L improves by less; differences of 0.02 in log likelihood mean nothing


@dataclass(frozen=True)
class Relevance:
    """Scales of columns, and what was found with them."""

    scales: np.ndarray  # (d,): 1/scale is the bandwidth of a column; 0 for constant columns
    penalty: float  # λ of ridge regression on scaled columns at bandwidth 1
    value: float  # L, without the terms of the prior: the smaller, the likelier
    n_evaluations: int  # of L and its gradient


class ScaledEvidence:
    """L(ℓ, λ) without its prior; y (n, k) is centred, and no column of it is zero."""

    def __init__(self, X: np.ndarray, y: np.ndarray, kernel: Kernel, weights: Weights = None):
        self._X = np.asarray(X, dtype=np.float64)
        self._y = np.asarray(y, dtype=np.float64)
        self._kernel, self._slope = kernel, slope_of(kernel)
        self._noise = np.ones(len(X)) if weights is None else 1.0 / np.asarray(weights, float)

    def __call__(self, log_scales: np.ndarray, log_penalty: float) -> tuple[float, np.ndarray]:
        """L and its gradient with respect to (ℓ, log λ), shape (d + 1,)."""
        kernel, p = self._kernel, self._kernel.geometry.p
        n_rows, n_targets = self._y.shape
        Z = self._X * np.exp(log_scales)
        q = distances_to_p(Z, p)  # u^p, and then u^power
        if kernel.power != p:
            q **= kernel.power / p
        noise = math.exp(log_penalty) * self._noise
        A = kernel.profile(q.copy(), np)
        A.flat[:: n_rows + 1] += noise
        solution = half_inverse(A)
        if solution is None:
            raise ValueError(
                f"kernel {kernel.name!r} is not positive definite for these rows: its matrix has "
                "an eigenvalue below minus the penalty"
            )
        inverse, log_det = solution
        alpha = symmetric_product(inverse, self._y)
        amplitudes = np.maximum((self._y * alpha).sum(0) / n_rows, np.finfo(float).tiny)
        inverse -= (alpha / (amplitudes * n_targets)) @ alpha.T
        noise_slope = 0.5 * (noise @ inverse.diagonal())
        inverse *= self._slope(q, np)
        slopes = 0.5 * weighted_powers(Z, p, inverse)
        value = 0.5 * (n_rows * float(np.log(amplitudes).mean()) + log_det)
        return value, np.append(slopes, noise_slope)


def relevance(
    X: np.ndarray,
    y: np.ndarray,
    kernel: KernelLike = "gaussian",
    *,
    prior: float = 1.5,
    units: np.ndarray | None = None,
    weights: Weights = None,
    max_rows: int = 1000,
    max_evaluations: int = 40,
    ended: Callable[[], bool] = lambda: False,
) -> Relevance:
    """Scale columns by marginal likelihood (automatic relevance determination).

    Minimises L with its prior by L-BFGS, from scales that are equal in `units`.

    Parameters
    ----------
    X, y : ndarray of shapes (n, d), and (n, k) or (n,)
    kernel : str or Kernel
        Any kernel with a derivative, in any norm.
    prior : float
        Standard deviation τ of the logarithms of scales around their mean; small for noise and many
        columns.
    units : ndarray of shape (d,), optional
        The prior is for columns divided by these, by default by their standard deviations.
    weights : ndarray of shape (n,), optional
        Rows of weight 0 are left out.
    max_rows, max_evaluations : int
        With more rows, a random choice of this many, always the same one, serves.
    ended : callable
        Once it returns True, the best scales so far are returned.

    Examples
    --------
    >>> import numpy as np
    >>> from bandfall.rivals import relevance
    >>> X = np.random.default_rng(0).uniform(size=(200, 3))
    >>> y = np.sin(10 * X[:, 0]) + 5 * X[:, 1]
    >>> scales = relevance(X, y).scales
    >>> bool(scales[0] > 3 * scales[1] > 9 * scales[2])
    True
    """
    kernel, y = get_kernel(kernel), np.asarray(y, dtype=np.float64).reshape(len(X), -1)
    weights = np.ones(len(y)) if weights is None else np.asarray(weights, dtype=np.float64)
    rows = np.flatnonzero(weights)
    if len(rows) > max_rows:
        rows = np.sort(np.random.RandomState(0).permutation(rows)[:max_rows])
    X, y, weights = np.asarray(X, dtype=np.float64)[rows], y[rows], weights[rows]
    used, y = _varying(X), y[:, _varying(y)]
    units = X.std(axis=0) if units is None else np.asarray(units, dtype=np.float64)
    scales = np.divide(1.0, units, out=np.zeros(X.shape[1]), where=used)
    if not y.shape[1] or not used.any():
        return Relevance(scales, _PENALTY, math.nan, 0)
    y = y - np.average(y, axis=0, weights=weights)
    y /= np.sqrt(np.average(y**2, axis=0, weights=weights))
    Z, p = (X[:, used] - X[:, used].mean(axis=0)) / units[used], kernel.geometry.p
    log_scales = np.full(Z.shape[1], -np.log(distances_to_p(Z, p).mean()) / p)
    evidence = ScaledEvidence(Z, y, kernel, weights / weights.mean())
    best, value, n_evaluations = _minimised(evidence, log_scales, prior, max_evaluations, ended)
    scales[used] *= np.exp(best[:-1])
    return Relevance(scales, math.exp(best[-1]), value, n_evaluations)


def _minimised(
    evidence: ScaledEvidence,
    log_scales: np.ndarray,
    prior: float,
    max_evaluations: int,
    ended: Callable[[], bool],
) -> tuple[np.ndarray, float, int]:
    """The best (ℓ, log λ) that L-BFGS meets, its L without the prior, and the evaluations of L."""
    start = np.append(log_scales, math.log(_PENALTY))
    best, least, value_there, n_evaluations = start, math.inf, math.inf, 0

    def objective(theta: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal best, least, value_there, n_evaluations
        if ended():
            raise StopIteration
        deviations = theta[:-1] - theta[:-1].mean()
        value, gradient = evidence(theta[:-1], theta[-1])
        n_evaluations += 1
        total = value + 0.5 * prior**-2.0 * float(deviations @ deviations)
        gradient[:-1] += prior**-2.0 * deviations
        if total < least:
            best, least, value_there = theta.copy(), total, value
        return total, gradient

    bounds = [(one + _RANGE[0], one + _RANGE[1]) for one in log_scales]
    bounds.append(tuple(np.log(_PENALTIES)))
    with suppress(StopIteration):
        size = max(1.0, abs(objective(start)[0]))
        options = {"maxfun": max_evaluations, "ftol": _ACCURACY / size, "gtol": 0.0}
        optimize.minimize(
            objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options
        )
    return best, value_there, n_evaluations


def _varying(columns: np.ndarray) -> np.ndarray:
    """Columns that vary by more than rounding."""
    return columns.std(axis=0) > 1e-12 * abs(columns).max(axis=0, initial=0.0)
