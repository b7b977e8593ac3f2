"""Krylov spaces for the exact flow at constant bandwidth: e^{−tK} r and ∫₀ᵗ e^{−sK} r ds.

R² and speed are sums of decaying exponentials (`Decay`), known at every time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from bandfall._closed_form import flow_filter
from bandfall._products import KernelOperator
from bandfall._products.base import LanczosSteps
from bandfall._products.loops import orthogonalised
from bandfall._typing import Array, Times
from bandfall.descent._stopping import HORIZON

_MIN_DIMENSION = 4  # with smaller spaces, restarts would cost more than they save
_BESIDE = 8  # temporary vectors in addition to the basis
_ROUNDING = 10.0  # a vector of this size, in rounding units of T's entries, counts as zero
_UNRESOLVED = 10.0  # an eigenvalue below this, in rounding units of the largest, may be zero
_MAX_PASS_ERROR = 0.1  # relative to the residual
_HALVINGS = 100  # of a time that the space does not cover: errors go to zero with the time
_BISECTIONS = 3
_MAX_STEPS = 200  # Newton steps; a scale of rates takes a few
_LAST_STEP = 2e-13  # smallest Newton step, relative to the time
_COARSE = 1e-4  # the last of many steps at once: the one before left its square


@dataclass(frozen=True)
class Decay:
    """f(t) = Σ weights · e^{−t·rates}, for non-negative weights and rates of shape (m,).

    Or V sums at once: weights and rates of shape (V, m).
    """

    rates: np.ndarray
    weights: np.ndarray

    def at(self, time: Times) -> Times:
        """f at one time or several times; of V sums, each at its own time."""
        if self.rates.ndim > 1:
            return (self.weights * np.exp(-np.reshape(time, (-1, 1)) * self.rates)).sum(axis=1)
        return np.exp(-np.multiply.outer(time, self.rates)) @ self.weights

    def first_below(self, level: Times, limit: Times) -> Times:
        """The first time at which f falls to `level`; ∞ if not before `limit`.

        By Newton's method on log f − log level: log f is convex, so steps from the left approach
        the root without passing it. For V sums, levels, limits and times have shape (V,).
        """
        if self.rates.ndim > 1:
            return self._all_first_below(np.asarray(level), np.asarray(limit))
        # In Python floats: with arrays, fits of few rows take a fifth longer.
        value = float(self.weights.sum())
        if value <= level:
            return 0.0
        if level <= 0.0 or self.at(limit) > level:
            return math.inf
        time = 0.0
        terms = self.weights
        for _ in range(_MAX_STEPS):
            slope = float(self.rates @ terms)
            if slope <= 0.0:  # no term falls any more: f is at the level up to rounding
                break
            step = math.log(value / level) * value / slope
            time += step
            if step <= _LAST_STEP * time:
                break
            terms = self.weights * np.exp(-time * self.rates)
            value = float(terms.sum())
            if value <= level:
                break
        return min(time * (1.0 + _LAST_STEP), limit)  # from the far side

    def _all_first_below(self, levels: np.ndarray, limits: np.ndarray) -> np.ndarray:
        """`first_below` of V sums, to a relative accuracy of about 1e-8."""
        start = self.weights.sum(axis=1)
        levels, limits = (np.broadcast_to(given, start.shape) for given in (levels, limits))
        times = np.where(start <= levels, 0.0, math.inf)
        falling = (start > levels) & (levels > 0.0) & (self.at(limits) <= levels)
        if not falling.any():
            return times
        given = (self.rates, self.weights, levels, start, limits)
        rates, weights, levels, values, limits = (array[falling] for array in given)
        terms, roots = weights, np.zeros(len(levels))
        for _ in range(_MAX_STEPS):
            slopes = (rates * terms).sum(axis=1)
            slopes[slopes <= 0.0] = math.inf  # no step
            steps = np.log(values / levels) * values / slopes
            roots += steps
            if np.all(steps <= _COARSE * roots):
                break
            terms = weights * np.exp(-roots[:, None] * rates)
            values = terms.sum(axis=1)
        times[falling] = np.minimum(roots, limits)
        return times


def never() -> bool:
    """Training goes on."""
    return False


class KrylovSpace:
    """span{r, Kr, …, K^{m−1}r} by Lanczos with full reorthogonalisation, one per column of r.

    With K Q = Q T + β q eᵀ and r = ‖r‖ Q e₁, the flow inside the space is
    r(t) = ‖r‖ Q e^{−tT} e₁. Its defect r′ + K r = ‖r‖ β (e_mᵀ e^{−tT} e₁) q is known, and
    because e^{−tK} never expands, the integral of the defect's norm bounds the error of r(t).
    T has positive off-diagonal entries, so e_mᵀ e^{−tT} e₁ keeps its sign (−1)^{m−1} for
    all t, and the integral of its absolute value has a closed form.

    `velocity` is K(bandwidth) r, the first product. The columns belong to one path, or to `n_paths`
    with equally many neighbouring columns each: then times and errors have shape (V,).
    """

    def __init__(
        self,
        operator: KernelOperator,
        bandwidth: float,
        residual: Array,
        velocity: Array,
        max_dimension: int,
        n_paths: int | None = None,
    ):
        self._operator = operator
        self._bandwidth = bandwidth
        self._paths = () if n_paths is None else (n_paths,)
        self._n_outputs = residual.shape[1] // (n_paths or 1)
        self.max_dimension = _dimension_limit(operator, residual.shape, max_dimension)
        self._norms = operator.numpy((residual * residual).sum(0) ** 0.5).astype(np.float64)
        inverse = operator.array(_reciprocal(self._norms))
        self._newest = (residual * inverse).T  # vectors as rows: each (k, n)
        n_columns, n_rows = self._newest.shape
        self._matrix = operator.zeros((n_columns, self.max_dimension + 1, n_rows))
        self._alpha = np.zeros((self.max_dimension, n_columns))
        self._beta = np.zeros((self.max_dimension + 1, n_columns))  # after a first row of zeros
        self._eps = float(np.finfo(operator.dtype).eps)
        self._extends = operator.extends(bandwidth, n_columns)
        self.dimension = 0  # number of basis vectors per column that T covers
        self._absorb((velocity * inverse).T)

    @property
    def exhausted(self) -> bool:
        """Whether the space is invariant under K: its flow is exact for all time."""
        return not self._beta[self.dimension].any()

    def expand(self, n_steps: int = 1) -> None:
        """Take steps of one product and one dimension each, up to the largest dimension."""
        first, last = self.dimension, min(self.dimension + n_steps, self.max_dimension)
        if self._extends:
            alpha, beta = self._alpha[first:last], self._beta[first : last + 1]
            self._matrix[:, first] = self._newest
            steps = LanczosSteps(self._matrix, first, alpha, beta, _ROUNDING * self._eps)
            self._operator.extend(self._bandwidth, steps)
            self._newest, self.dimension = self._matrix[:, last], last
        while self.dimension < last:
            image = self._operator.product(self._bandwidth, self._newest.T)
            self._absorb(image.T)

    def _absorb(self, image: Array) -> None:
        """Orthogonalise K q_m against the basis, twice; record T's new row."""
        self._matrix[:, self.dimension] = self._newest
        vector, overlaps, squares = orthogonalised(self._matrix, self.dimension + 1, image)
        alpha = self._operator.numpy(overlaps).astype(np.float64)
        beta = self._operator.numpy(squares**0.5).astype(np.float64)
        scale = np.abs(alpha) + self._beta[self.dimension]
        beta = np.where(beta > _ROUNDING * self._eps * scale, beta, 0.0)
        self._alpha[self.dimension], self._beta[self.dimension + 1] = alpha, beta
        self._newest = vector * self._operator.array(_reciprocal(beta)[:, None])
        self.dimension += 1

    def diagonalise(self) -> None:
        """Eigenvalues and vectors of T; call this before using the flow in the space."""
        m = self.dimension
        T = np.zeros((len(self._norms), m, m))
        index = np.arange(m)
        T[:, index, index] = self._alpha[:m].T
        T[:, index[1:], index[:-1]] = self._beta[1:m].T  # eigh reads the lower triangle
        eigenvalues, self._vectors = np.linalg.eigh(T)
        self.eigenvalues = np.maximum(eigenvalues, 0.0)  # (k, m)
        self._rates = 2.0 * self._by_path(self.eigenvalues)
        # Weights of e^{−2tλ} in ‖r(t)‖² and of e^{−tλ} in the defect.
        self.weights = (self._norms[:, None] * self._vectors[:, 0, :]) ** 2
        self._defects = (self._norms * self._beta[m])[:, None] * (
            self._vectors[:, -1, :] * self._vectors[:, 0, :]
        )

    def lowest(self) -> tuple[float, float]:
        """The smallest Ritz value of the first column, and a bound on its distance to λ."""
        residual = self._beta[self.dimension, 0] * abs(self._vectors[0, -1, 0])
        return float(self.eigenvalues[0, 0]), float(residual)

    def grow(
        self, first_check: int = 0, growth: float = 0.0, ended: Callable[[], bool] = never
    ) -> Iterator[None]:
        """Expand the space and yield for a check of its errors, until it is full or `ended`.

        Between two checks, the dimension grows by one and by this share of it.
        """
        while True:
            full = self.exhausted or self.dimension >= self.max_dimension or ended()
            if full or self.dimension >= first_check:
                self.diagonalise()
                yield
                if full:
                    return
            self.expand(max(first_check - self.dimension, 1 + int(growth * self.dimension)))

    @property
    def squared_norm(self) -> Decay:
        """‖r(t)‖² of each path."""
        return self._decay(self.weights)

    @property
    def speed(self) -> Decay:
        """∂R²/∂t = 2 r(t)ᵀ K r(t) of each path."""
        return self._decay(2.0 * self.weights * self.eigenvalues)

    def standstill(self, goal: float) -> Times:
        """The time from which only rounding trains; ∞ if the goal for ‖r‖² is in reach.

        Directions without a clearly positive eigenvalue, such as differences of targets at repeated
        rows, look trainable only by rounding.
        """
        smallest = _UNRESOLVED * self._eps * self.eigenvalues[:, -1:]
        gain = self._decay(self.weights * (self.eigenvalues > smallest))
        out_of_reach = self.squared_norm.at(0.0) - gain.at(0.0) > goal
        return np.where(out_of_reach, gain.first_below(self._eps, HORIZON), math.inf)

    def _decay(self, weights: np.ndarray) -> Decay:
        return Decay(self._rates, self._by_path(weights))

    def _by_path(self, columns: np.ndarray) -> np.ndarray:
        """Values of all columns, (k,) or (k, m), with one last axis for all those of a path."""
        return columns.reshape(*self._paths, -1)

    def _by_column(self, times: Times) -> np.ndarray:
        """Times of all paths as times of all columns, shape (k,)."""
        n = self._n_outputs
        return np.repeat(times, n) if self._paths else np.full(n, times)

    def allowed_errors(self, tolerance: float) -> Times:
        """Largest error of a pass: `tolerance`, but small relative to the residual."""
        left = _MAX_PASS_ERROR * np.sqrt(self._by_path(self._norms**2).sum(axis=-1))
        return np.maximum(np.minimum(tolerance, left), 20.0 * self._eps)

    def errors(self, times: Times) -> Times:
        """Bound on the error of the residual of each path after its own time.

        ∫₀ᵗ ‖defect‖ ds = ‖r‖ β |e_mᵀ (∫₀ᵗ e^{−sT} ds) e₁|, before and after `advance`.
        """
        integral = flow_filter(self.eigenvalues, self._by_column(times), paired=True)
        errors = (integral * self._defects).sum(axis=1)
        return np.sqrt(self._by_path(errors * errors).sum(axis=-1))

    def rounding(self, time: float) -> float:
        """Bound on the rounding difference between r − K c and the residual of `advance`.

        Products are rounded relative to the largest eigenvalue, and basis vectors along
        it, which hardly contribute to c, have weights up to t‖r‖.
        """
        return self._eps * time * float((self._norms * self.eigenvalues[:, -1]).max())

    def longest_accurate(self, times: Times, allowed: Times) -> Times:
        """The longest times, up to the given ones, after which errors are still allowed."""
        high = low = np.asarray(times, dtype=float)
        for _ in range(_HALVINGS):
            accurate = self.errors(low) <= allowed
            if accurate.all():
                break
            high = np.where(accurate, high, low)
            low = np.where(accurate, low, 0.5 * low)
        for _ in range(_BISECTIONS if np.any(low < high) else 0):
            middle = 0.5 * (low + high)
            accurate = self.errors(middle) <= allowed
            low, high = np.where(accurate, middle, low), np.where(accurate, high, middle)
        return low

    def advance(self, times: Times) -> tuple[Array, Array]:
        """c = ∫₀ᵗ r ds and the residual r − K c that it leaves, both of shape (n, k).

        r − K c differs from ‖r‖ Q e^{−tT} e₁ by the known defect, a multiple of the next basis
        vector q; adding it keeps residual and coefficients consistent to rounding.
        """
        m = self.dimension
        times = self._by_column(times)
        decay = np.exp(-times[:, None] * self.eigenvalues)
        integral = flow_filter(self.eigenvalues, times, paired=True)
        start = self._norms[:, None] * self._vectors[:, 0, :]
        small = np.zeros((len(self._norms), 2, m + 1))
        small[:, :, :m] = np.einsum(
            "kij,fkj->kfi", self._vectors, np.stack([integral, decay]) * start
        )
        small[:, 1, m] = -self._beta[m] * small[:, 0, m - 1]
        self._matrix[:, m] = self._newest
        combined = self._operator.array(small) @ self._matrix[:, : m + 1]  # (k, 2, n)
        return combined[:, 0].T, combined[:, 1].T


def _dimension_limit(operator: KernelOperator, shape: tuple[int, ...], wanted: int) -> int:
    """Maximum number of basis vectors of this shape, by memory and number of rows."""
    room = operator.vector_bytes // (math.prod(shape) * operator.dtype.itemsize)
    return min(wanted, operator.n_rows, max(_MIN_DIMENSION, room - _BESIDE))


def _reciprocal(values: np.ndarray) -> np.ndarray:
    """1/values, and 0 where a value is 0."""
    return np.divide(1.0, values, out=np.zeros_like(values), where=values > 0)
