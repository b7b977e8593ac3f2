"""Krylov spaces for the exact flow at constant bandwidth: e^{−tK} r and ∫₀ᵗ e^{−sK} r ds."""

from __future__ import annotations

import math

import numpy as np

from bandfall._closed_form import flow_filter
from bandfall._products import KernelOperator
from bandfall._products.base import BasisOperator, LanczosSteps
from bandfall._products.loops import orthogonalised
from bandfall._typing import Array
from bandfall.descent._decay import Decay

_MIN_DIMENSION = 4  # with smaller spaces, restarts would cost more than they save
_BESIDE = 8  # temporary vectors in addition to the basis
_ROUNDING = 10.0  # a vector of this size, in rounding units of T's entries, counts as zero
_UNRESOLVED = 10.0  # an eigenvalue below this, in rounding units of the largest, may be zero


class KrylovSpace:
    """span{r, Kr, …, K^{m−1}r} by Lanczos with full reorthogonalisation, one per column of r.

    With K Q = Q T + β q eᵀ and r = ‖r‖ Q e₁, the flow inside the space is
    r(t) = ‖r‖ Q e^{−tT} e₁. Its defect r′ + K r = ‖r‖ β (e_mᵀ e^{−tT} e₁) q is known, and
    because e^{−tK} never expands, the integral of the defect's norm bounds the error of r(t).
    T has positive off-diagonal entries, so e_mᵀ e^{−tT} e₁ keeps its sign (−1)^{m−1} for
    all t, and the integral of its absolute value has a closed form.

    R² and speed at *every* t are sums of m exponentials, so events are located in the small
    space without further products. `velocity` is K(bandwidth) r, the first product.
    """

    def __init__(
        self,
        operator: KernelOperator,
        bandwidth: float,
        residual: Array,
        velocity: Array,
        max_dimension: int,
    ):
        self._operator = operator
        self._bandwidth = bandwidth
        self.max_dimension = _dimension_limit(operator, residual.shape, max_dimension)
        self._norms = operator.numpy((residual * residual).sum(0) ** 0.5).astype(np.float64)
        inverse = operator.array(_reciprocal(self._norms))
        self._newest = (residual * inverse).T  # vectors as rows: each (k, n)
        n_columns, n_rows = self._newest.shape
        self._matrix = operator.zeros((n_columns, self.max_dimension + 1, n_rows))
        self._alpha = np.zeros((self.max_dimension, n_columns))
        self._beta = np.zeros((self.max_dimension + 1, n_columns))  # after a first row of zeros
        self._eps = float(np.finfo(operator.dtype).eps)
        self._extender: BasisOperator | None = None
        if isinstance(operator, BasisOperator) and operator.extends(bandwidth, n_columns):
            self._extender = operator
        self.dimension = 0  # number of basis vectors per column that T covers
        self._absorb((velocity * inverse).T)

    @property
    def exhausted(self) -> bool:
        """Whether the space is invariant under K: its flow is exact for all time."""
        return not self._beta[self.dimension].any()

    def expand(self, n_steps: int = 1) -> None:
        """Take steps of one product and one dimension each, up to the largest dimension."""
        first, last = self.dimension, min(self.dimension + n_steps, self.max_dimension)
        if self._extender is not None:
            alpha, beta = self._alpha[first:last], self._beta[first : last + 1]
            self._matrix[:, first] = self._newest
            steps = LanczosSteps(self._matrix, first, alpha, beta, _ROUNDING * self._eps)
            self._extender.extend(self._bandwidth, steps)
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

    def _stacked(self) -> Array:
        """The basis, including the newest vector, as one (k, m, n) array."""
        m = self.dimension
        self._matrix[:, m] = self._newest
        return self._matrix[:, : m + 1]

    def diagonalise(self) -> None:
        """Eigenvalues and vectors of T; call this before using the flow in the space."""
        m = self.dimension
        T = np.zeros((len(self._norms), m, m))
        index = np.arange(m)
        T[:, index, index] = self._alpha[:m].T
        if m > 1:
            off_diagonal = self._beta[1:m].T
            T[:, index[1:], index[:-1]] = off_diagonal
            T[:, index[:-1], index[1:]] = off_diagonal
        eigenvalues, self._vectors = np.linalg.eigh(T)
        self.eigenvalues = np.maximum(eigenvalues, 0.0)  # (k, m)
        # Weights of e^{−2tλ} in ‖r(t)‖² and of e^{−tλ} in the defect.
        self.weights = (self._norms[:, None] * self._vectors[:, 0, :]) ** 2
        self._defects = (self._norms * self._beta[m])[:, None] * (
            self._vectors[:, -1, :] * self._vectors[:, 0, :]
        )

    def lowest(self) -> tuple[float, float]:
        """The smallest Ritz value of the first column, and a bound on its distance to λ."""
        self.diagonalise()
        residual = self._beta[self.dimension, 0] * abs(self._vectors[0, -1, 0])
        return float(self.eigenvalues[0, 0]), float(residual)

    @property
    def squared_norm(self) -> Decay:
        """‖r(t)‖² summed over columns."""
        return self._decay(self.weights)

    @property
    def speed(self) -> Decay:
        """∂R²/∂t = 2 r(t)ᵀ K r(t)."""
        return self._decay(2.0 * self.weights * self.eigenvalues)

    @property
    def gain(self) -> Decay:
        """The remaining gain of R² from directions with clearly positive eigenvalues.

        Other directions, such as differences of targets at repeated rows, look trainable only by
        rounding, with times and coefficients as large as its inverse.
        """
        smallest = _UNRESOLVED * self._eps * self.eigenvalues[:, -1:]
        return self._decay(self.weights * (self.eigenvalues > smallest))

    def _decay(self, weights: np.ndarray) -> Decay:
        return Decay(2.0 * self.eigenvalues.reshape(-1), weights.reshape(-1))

    def errors(self, times: np.ndarray) -> np.ndarray:
        """Bound on the error of each column after its own time, shape (k,).

        ∫₀ᵗ ‖defect‖ ds = ‖r‖ β |e_mᵀ (∫₀ᵗ e^{−sT} ds) e₁|, before and after `advance`.
        """
        integral = flow_filter(self.eigenvalues, times, paired=True)
        return np.abs((integral * self._defects).sum(axis=1))

    def error(self, time: float) -> float:
        """Bound on the error of r(time), all columns together."""
        if time == 0.0 or self.exhausted:
            return 0.0
        return float(np.linalg.norm(self.errors(np.full(len(self._norms), time))))

    def rounding(self, time: float) -> float:
        """Bound on the rounding difference between r − K c and the residual of `advance`.

        Products are rounded relative to the largest eigenvalue, and basis vectors along
        it, which hardly contribute to c, have weights up to t‖r‖.
        """
        return self._eps * time * float((self._norms * self.eigenvalues[:, -1]).max())

    def longest_accurate(self, time: float, tolerance: float) -> float:
        """The longest time up to `time` whose error stays below `tolerance`."""
        low = time
        while self.error(low) > tolerance:  # the error goes to zero with the time
            low *= 0.25
        high = min(4.0 * low, time)
        for _ in range(8):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if self.error(middle) <= tolerance else (low, middle)
        return low

    def advance(self, time: float | np.ndarray) -> tuple[Array, Array]:
        """c = ∫₀ᵗ r ds and the residual r − K c that it leaves, both of shape (n, k).

        r − K c differs from ‖r‖ Q e^{−tT} e₁ by the known defect, a multiple of the next basis
        vector q; adding it keeps residual and coefficients consistent to rounding. The time is the
        same for all columns, or one for each, shape (k,).
        """
        m = self.dimension
        times = np.broadcast_to(np.asarray(time, dtype=float), self._norms.shape)
        decay = np.exp(-times[:, None] * self.eigenvalues)
        integral = flow_filter(self.eigenvalues, times, paired=True)
        start = self._norms[:, None] * self._vectors[:, 0, :]
        small = np.zeros((len(self._norms), 2, m + 1))
        small[:, :, :m] = np.einsum(
            "kij,fkj->kfi", self._vectors, np.stack([integral, decay]) * start
        )
        small[:, 1, m] = -self._beta[m] * small[:, 0, m - 1]
        combined = self._operator.array(small) @ self._stacked()  # (k, 2, n)
        return combined[:, 0].T, combined[:, 1].T


def _dimension_limit(operator: KernelOperator, shape: tuple[int, ...], wanted: int) -> int:
    """Maximum number of basis vectors of this shape, by memory and number of rows."""
    room = operator.vector_bytes // (math.prod(shape) * operator.dtype.itemsize)
    return min(wanted, operator.n_rows, max(_MIN_DIMENSION, room - _BESIDE))


def _reciprocal(values: np.ndarray) -> np.ndarray:
    """1/values, and 0 where a value is 0."""
    return np.divide(1.0, values, out=np.zeros_like(values), where=values > 0)
