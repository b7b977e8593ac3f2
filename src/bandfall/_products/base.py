"""The interface of operators, and functions of any operator."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from bandfall._typing import Array, DTypeLike
from bandfall.kernels._kernel import Kernel

GIBIBYTE = 2**30
DEFAULT_BUDGET = GIBIBYTE
BOUND_PRODUCTS = 4  # for a bound on the largest eigenvalue


def vector_share(budget: int, n_rows: int, n_columns: int, dtype: np.dtype) -> int:
    """The part of a budget that is reserved for a solver's vectors: one to four eighths.

    64 dimensions are enough for most Krylov spaces.
    """
    needed = 64 * n_rows * n_columns * np.dtype(dtype).itemsize
    return min(max(budget // 8, needed), budget // 2)


class KernelOperator(ABC):
    """Products with K(σ), K(σ)_ij = k(‖x_i − x_j‖/σ), over one set of n rows.

    Solvers access the data only through an operator. Its arguments and results are arrays of
    its own kind (here NumPy's), which `array` creates and `numpy` converts back.
    """

    def __init__(
        self,
        n_rows: int,
        kernel: Kernel,
        dtype: DTypeLike,
        vector_bytes: int,
        trace: float | None = None,
    ):
        self.kernel = kernel
        self.dtype = np.dtype(dtype)
        self.n_rows = n_rows
        # Σ k(0) over the rows (their weights): a free bound on λ_max.
        self.trace = float(n_rows) if trace is None else trace
        self.vector_bytes = vector_bytes  # the part of the memory budget for a solver's arrays

    @abstractmethod
    def product(self, bandwidth: float, block: Array) -> Array:
        """K(bandwidth) @ block for a block of shape (n, k); exact at bandwidth 0 and ∞."""

    @abstractmethod
    def max_distance(self) -> float:
        """Largest distance between two rows."""

    def array(self, values: np.ndarray) -> Array:
        """An array of the operator's kind and dtype with these values."""
        return np.array(values, dtype=self.dtype)

    def numpy(self, array: Array) -> np.ndarray:
        """Convert an array of the operator's kind to NumPy."""
        values: np.ndarray = array
        return values

    def zeros(self, shape: tuple[int, ...]) -> Array:
        """Zeros as an array of the operator's kind."""
        return np.zeros(shape, self.dtype)

    def matrix(self, bandwidth: float) -> np.ndarray:
        """K(bandwidth), (n, n); maybe a view that the next bandwidth overwrites."""
        return self.numpy(self.product(bandwidth, self.array(np.eye(self.n_rows))))

    def extends(self, bandwidth: float, n_columns: int) -> bool:
        """Whether `extend` is implemented for this number of columns at this bandwidth."""
        return False

    def extend(self, bandwidth: float, steps: LanczosSteps) -> None:
        """Take several Lanczos steps, faster than by single products."""
        raise NotImplementedError


@dataclass(frozen=True)
class LanczosSteps:
    """Arguments of several Lanczos steps, each of which adds a vector to k bases."""

    basis: Array  # (k, m, n): vectors up to number `first` are there, the next are written
    first: int
    alpha: np.ndarray  # (steps, k), float64: becomes the diagonal of T
    # (steps + 1, k), float64: row 0 is the last off-diagonal entry; the other rows are written.
    # Zero for vectors that vanish up to rounding.
    beta: np.ndarray
    negligible: float  # what counts as rounding, relative to the entries of T in the same row
    # The matrix is S E K Eᵀ S with S = diag(factors) and E_ig = [labels_i = g], both of shape (n,);
    # identities if not given.
    factors: Array = None
    labels: np.ndarray | None = None

    def of(self, columns: slice) -> LanczosSteps:
        """The steps of some of the bases; alpha and beta are copies."""
        alpha, beta = (np.ascontiguousarray(one[:, columns]) for one in (self.alpha, self.beta))
        return replace(self, basis=self.basis[columns], alpha=alpha, beta=beta)


class OperatorAround(KernelOperator):
    """Base class of operators that wrap another one."""

    def __init__(self, operator: KernelOperator, n_rows: int, trace: float):
        super().__init__(n_rows, operator.kernel, operator.dtype, operator.vector_bytes, trace)
        self.operator = operator
        for method in ("array", "numpy", "zeros"):
            setattr(self, method, getattr(operator, method))

    def max_distance(self) -> float:
        return self.operator.max_distance()

    def extends(self, bandwidth: float, n_columns: int) -> bool:
        return self.operator.extends(bandwidth, n_columns)


class WeightedOperator(OperatorAround):
    """S K(σ) S with S = diag(√w): gradient flow on the weighted squared error.

    Minimising Σ wᵢ (yᵢ − f(xᵢ))² gives r′ = −K W r; with s = S r this is the symmetric
    s′ = −(S K S) s. A row of weight w counts exactly like w equal rows.
    """

    def __init__(self, operator: KernelOperator, weights: np.ndarray):
        super().__init__(operator, operator.n_rows, float(weights.sum()))
        self._root = operator.array(np.sqrt(weights)[:, None])

    def product(self, bandwidth: float, block: Array) -> Array:
        """S K(bandwidth) S @ block."""
        return self._root * self.operator.product(bandwidth, self._root * block)

    def extend(self, bandwidth: float, steps: LanczosSteps) -> None:
        self.operator.extend(bandwidth, replace(steps, factors=self._root[:, 0]))

    def matrix(self, bandwidth: float) -> np.ndarray:
        root = self.operator.numpy(self._root)
        return root * self.operator.matrix(bandwidth) * root.T


class RepeatedRowsOperator(OperatorAround):
    """K(σ) over repeated rows, computed from the distinct ones: E K_u(σ) Eᵀ, E_ig = [i is g].

    `operator` is over the distinct rows, and `labels` (n,) has the distinct row of each row.
    """

    def __init__(self, operator: KernelOperator, labels: np.ndarray):
        super().__init__(operator, len(labels), float(len(labels)))
        self._labels = labels

    def product(self, bandwidth: float, block: Array) -> Array:
        sums = sums_by_group(self._labels, self.operator.n_rows, block)
        return self.operator.product(bandwidth, sums)[self._labels]

    def extend(self, bandwidth: float, steps: LanczosSteps) -> None:
        self.operator.extend(bandwidth, replace(steps, labels=self._labels))


def largest_eigenvalue(operator: KernelOperator, bandwidth: float) -> float:
    """An upper bound on λ_max of K(bandwidth), usually tight to a few percent.

    For a matrix with entries ≥ 0 and any x > 0, max_i (Kx)_i / x_i bounds λ_max
    (Collatz–Wielandt); power iteration from ones tightens it.
    """
    vector = operator.array(np.ones((operator.n_rows, 1)))
    bound = float(operator.n_rows)
    for _ in range(BOUND_PRODUCTS):
        image = operator.product(bandwidth, vector)
        if not float(image.min()) > 0.0:  # a zero weight: the ratio is not defined there
            return float(image.max() / vector.max()) if bound == operator.n_rows else bound
        bound = float((image / vector).max())
        vector = image / image.max()
    return bound


def group_rows(X: np.ndarray) -> tuple[np.ndarray, int]:
    """Labels (n,), equal for equal rows, and the number of distinct rows.

    Labels are sorted by the first column, then by the second, and so on.
    """
    rows = np.ascontiguousarray(X) + 0.0  # −0.0 and 0.0 are one value
    _, labels = np.unique(rows, axis=0, return_inverse=True)
    labels = labels.reshape(-1)
    return labels, int(labels.max()) + 1


def distinct_rows(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Indices of distinct rows, and for each row the position of its own among them, (n,).

    Unsorted, and several times faster than `group_rows` for many columns.
    """
    rows = np.ascontiguousarray(X) + 0.0
    _, first, labels = np.unique(_fingerprints(rows), return_index=True, return_inverse=True)
    labels = labels.reshape(-1)
    if len(first) < len(rows) and not np.array_equal(rows[first][labels], rows):
        # Distinct rows with equal fingerprints are very rare.
        _, first, labels = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    return first, labels.reshape(-1)


def _fingerprints(rows: np.ndarray) -> np.ndarray:
    """A number for each row that depends on every bit of it, shape (n,)."""
    bits = rows.view(np.dtype(f"u{rows.itemsize}")).astype(np.uint64)
    bits *= _odd_factors(rows.shape[1])  # odd: no bit is lost, and sums wrap around
    bits ^= bits >> np.uint64(29)
    return bits.sum(axis=1, dtype=np.uint64)


@lru_cache
def _odd_factors(n_columns: int) -> np.ndarray:
    return 2 * np.random.RandomState(0).randint(0, 2**63, n_columns, dtype=np.uint64) + 1


def product_of_equal_rows(first: np.ndarray, labels: np.ndarray, block: np.ndarray) -> np.ndarray:
    """K(0) @ block for these `distinct_rows`; K(0) is one for equal rows, and zero otherwise."""
    if len(first) == len(labels):
        return block.copy()
    return sums_by_group(labels, len(first), block)[labels]


def sums_by_group(labels: np.ndarray, n_groups: int, block: np.ndarray) -> np.ndarray:
    """Sums over the rows of each group, shape (n_groups, k)."""
    columns = [np.bincount(labels, weights=column, minlength=n_groups) for column in block.T]
    return np.stack(columns, axis=1).astype(block.dtype, copy=False)
