"""Kernel logistic regression in the kernel of a path.

Training for a time t at one bandwidth acts like ridge regression with penalty 1/t. So a path that
spends the time τ_s at bandwidth σ_s corresponds to the kernel K = Σ_s τ_s K(σ_s). In this kernel

    J(α) = −Σᵢ wᵢ log p(yᵢ | xᵢ) + (penalty / 2) tr(αᵀKα),   p ∝ π exp(g),  g = Kα

is minimised, where π is the prior and g are the outputs of all classes. The model remains a sum
over the path's bandwidths, with coefficients τ_s α.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike
from scipy import linalg

from bandfall._products.loops import loops_over
from bandfall._targets.links import LEAST, PLAIN, LogLoss, all_columns, class_codes
from bandfall._threads import CACHE_ENTRIES, FEW_ROWS, for_each_block, rows_within
from bandfall.descent import Path
from bandfall.descent._sum import KernelSum

_MAX_STEPS = 100
_MEMORY = 8  # number of steps for the estimate of the curvature
_RENEWED = 16  # number of steps after which the estimate restarts
_FLATTEST = 1e-3  # smallest curvature of a row, because rows may change sides
_LIGHTEST = 1e-6  # smallest weight of a row relative to the heaviest
_ENOUGH = 5e-4  # training ends when a step gains less than this share of J
_SUFFICIENT = 1e-4  # share of the predicted gain that a step must achieve
_MAX_HALVINGS = 30
# First shift of a Cholesky factor, relative to the mean diagonal in float64 and to a bound on the
# eigenvalues in float32; larger shifts are tried if it fails.
_ROUNDING, _ROUNDING_32 = 1e-10, 1e-6
# Longest training of a path whose kernel may be rounded to float32.
_LONGEST_32 = 1e3


@dataclass(frozen=True)
class ClassTarget:
    """Class labels of rows, with prior and weights."""

    labels: np.ndarray  # (n,)
    prior: np.ndarray  # (c,)
    weights: np.ndarray | None = None  # (n,)

    @property
    def n_outputs(self) -> int:
        """Number of trained columns; one for two classes."""
        return 1 if len(self.prior) == 2 else len(self.prior)

    @property
    def log_odds(self) -> np.ndarray:
        """Outputs for the shares of the classes, with one more row from the prior, shape (k,)."""
        weights = np.ones(len(self.labels)) if self.weights is None else self.weights
        shares = np.bincount(self.labels, weights, len(self.prior)) + self.prior
        logs = np.log(np.maximum(shares / shares.sum(), LEAST) / np.maximum(self.prior, LEAST))
        return 0.5 * np.diff(logs) if self.n_outputs == 1 else logs

    def log_probabilities(self, outputs: np.ndarray) -> np.ndarray:
        """Log-probabilities for outputs (n, k), shape (n, c)."""
        return PLAIN.log_probabilities(all_columns(outputs, len(self.prior)), self.prior)

    def loss(self, outputs: np.ndarray) -> tuple[float, np.ndarray]:
        """−Σ w log p of the true classes, and its gradient in the outputs, shape (n, k)."""
        logs = self.log_probabilities(outputs)
        losses = -np.take_along_axis(logs, self.labels[:, None], axis=1)[:, 0]
        gradient = np.exp(logs)
        gradient[np.arange(len(gradient)), self.labels] -= 1.0
        if self.n_outputs == 1:  # outputs are (−g, g)
            gradient = gradient[:, 1:] - gradient[:, :1]
        if self.weights is None:
            return float(losses.sum()), gradient
        return float(self.weights @ losses), self.weights[:, None] * gradient

    def curvatures(self, outputs: np.ndarray) -> np.ndarray:
        """Curvature of the loss in the outputs of each row, for the steepest class, shape (n,)."""
        p = np.exp(self.log_probabilities(outputs))
        steepest = np.maximum((p * (1.0 - p)).max(axis=1), _FLATTEST)
        if self.n_outputs == 1:  # outputs are (−g, g)
            steepest *= 4.0
        if self.weights is None:
            return steepest
        return np.maximum(self.weights, _LIGHTEST * self.weights.max()) * steepest


def path_kernel(
    model: KernelSum,
    durations: np.ndarray,
    X_new: np.ndarray | None = None,
    dtype: DTypeLike = np.float64,
) -> np.ndarray:
    """Σ_s τ_s k_{σ_s} between new rows (the training rows by default) and training rows.

    They have the precision of X, but not less than long training needs.
    """
    X = model.X.astype(np.float64) if np.sum(durations) > _LONGEST_32 else model.X
    loops = loops_over(X, model.kernel, X.dtype, len(X) ** 2)
    rows = loops.own if X_new is None else loops.placed(X_new.astype(X.dtype))
    total = np.empty((len(rows), len(X)), dtype=dtype)

    def fill(block: slice) -> None:
        D, K = np.empty((2, len(rows[block]), len(X)), loops.dtype)
        loops.distances(rows[block], slice(0, len(X)), D)
        part = np.zeros(D.shape, dtype=dtype)
        for bandwidth, duration in zip(model.bandwidths, durations, strict=True):
            part += loops.evaluate(D, float(bandwidth), K) * np.asarray(duration, K.dtype)
        total[block] = part

    height = rows_within(CACHE_ENTRIES, len(X))
    for_each_block(fill, len(rows), height, parallel=len(rows) > FEW_ROWS)
    return total


def fit_logistic(
    K: np.ndarray, target: ClassTarget, penalty: float, start: np.ndarray | None = None
) -> np.ndarray:
    """The α that minimises J for a positive semidefinite K, shape (n, k).

    L-BFGS in the inner product ⟨a, b⟩ = aᵀKb, in which the gradient of J is −(y − p) + penalty · α
    and the Hessian is W K + penalty, where W is the curvature of the loss in the outputs. The
    first estimate is the inverse with one weight per row for all classes. Every vector a comes with
    its image Ka, (2, n, k), so that sums need no new product.
    """
    alpha = np.zeros((len(K), target.n_outputs)) if start is None else start
    point = np.stack([alpha, _image(K, alpha)])
    loss, residual = target.loss(point[1])
    value = loss + 0.5 * penalty * _dot(point, point)
    gradient = np.stack([residual, _image(K, residual)]) + penalty * point
    steps: deque[tuple[np.ndarray, np.ndarray]] = deque(maxlen=_MEMORY)
    for number in range(_MAX_STEPS):
        if number % _RENEWED == 0:
            inverse = _inverse_hessian(K, target.curvatures(point[1]), penalty)
            steps.clear()
        direction = -_times_inverse_hessian(gradient, steps, inverse)
        slope = _dot(gradient, direction)
        if not slope < -_ENOUGH * value:
            break
        size = 1.0
        for _ in range(_MAX_HALVINGS):
            new = point + size * direction
            loss, residual = target.loss(new[1])
            new_value = loss + 0.5 * penalty * _dot(new, new)
            if new_value <= value + _SUFFICIENT * size * slope:
                break
            size *= 0.5
        else:
            break
        step, before = new - point, gradient
        point, value = new, new_value
        gradient = np.stack([residual, _image(K, residual)]) + penalty * point
        change = gradient - before
        if _dot(step, change) > 0.0:
            steps.append((step, change))
    return point[0]


def _dot(pair: np.ndarray, other: np.ndarray) -> float:
    """⟨a, b⟩ = aᵀKb."""
    return float(np.vdot(pair[1], other[0]))


def _image(K: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """K @ vector in the precision of K, as float64."""
    return (K @ vector.astype(K.dtype, copy=False)).astype(np.float64, copy=False)


def _inverse_hessian(
    K: np.ndarray, curvatures: np.ndarray, penalty: float
) -> Callable[[np.ndarray], np.ndarray]:
    """v ↦ (W K + penalty)⁻¹ v = (v − W^½ B⁻¹ W^½ K v) / penalty, B = W^½ K W^½ + penalty.

    Its image under K is W^-½ B⁻¹ W^½ K v. In float32 this is not accurate enough, so the image
    takes another product. If rounding makes B indefinite, a larger penalty is used; steps still
    go downhill.
    """
    roots = np.sqrt(curvatures)[:, None]
    exact = K.dtype == np.float64
    rounding = _ROUNDING if exact else _ROUNDING_32
    while True:
        B = K * roots.astype(K.dtype)
        B *= roots[:, 0].astype(K.dtype)
        scale = np.trace(B) / len(K) if exact else B.sum(axis=1).max()
        shift = penalty + rounding * float(scale)
        B.flat[:: len(K) + 1] += shift
        try:
            factor = linalg.cho_factor(B, lower=True, overwrite_a=True, check_finite=False)
            break
        except linalg.LinAlgError:
            if rounding > len(K):  # rounding is not the reason
                raise
            rounding *= 10.0

    def product(pair: np.ndarray) -> np.ndarray:
        right = (roots * pair[1]).astype(K.dtype, copy=False)
        inside = linalg.cho_solve(factor, right, overwrite_b=True, check_finite=False)
        vector = (pair[0] - roots * inside) / shift
        return np.stack([vector, inside / roots if exact else _image(K, vector)])

    return product


def _times_inverse_hessian(
    gradient: np.ndarray,
    steps: deque[tuple[np.ndarray, np.ndarray]],
    inverse: Callable[[np.ndarray], np.ndarray],
) -> np.ndarray:
    """The two loops of L-BFGS (Nocedal and Wright, 2006, Algorithm 7.4), in ⟨a, b⟩ = aᵀKb."""
    pair, shares = gradient, []
    for step, change in reversed(steps):
        scale = 1.0 / _dot(step, change)
        shares.append((scale, scale * _dot(step, pair)))
        pair = pair - shares[-1][1] * change
    pair = inverse(pair)
    for (step, change), (scale, share) in zip(steps, reversed(shares), strict=True):
        pair = pair + (share - scale * _dot(change, pair)) * step
    return pair


def with_log_loss(
    path: Path, target: ClassTarget, penalty: float, dtype: DTypeLike = np.float64
) -> Path:
    """The path with coefficients that minimise J in its own kernel; it cannot be trained further.

    Its stages keep the spans of training that K is made of; its residual is that of probabilities.
    """
    K = path_kernel(path.undivided, path.durations, dtype=dtype)
    alpha = fit_logistic(K, target, penalty)
    truth = class_codes(target.labels, target.prior)
    residual = (truth - LogLoss(target.prior).codes(_image(K, alpha))).astype(path.residual.dtype)
    return path.replace(
        coefficients=(path.durations[:, None, None] * alpha).astype(path.coefficients.dtype),
        offset=np.zeros(target.n_outputs),
        residual=residual,
        r2=max(0.0, path.r2_of(residual)),
        solver=None,
    )
