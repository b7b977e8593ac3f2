"""The interface of operators, and functions of any operator."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import numpy as np

from bandfall._typing import Array, DTypeLike
from bandfall.kernels._kernel import Kernel

GIBIBYTE = 2**30
DEFAULT_BUDGET = GIBIBYTE


def vector_share(budget: int, n_rows: int, n_columns: int, dtype: np.dtype) -> int:
    """The part of a budget that is reserved for a solver's vectors: one to four eighths.

    64 dimensions are enough for most Krylov spaces.
    """
    needed = 64 * n_rows * n_columns * np.dtype(dtype).itemsize
    return min(max(budget // 8, needed), budget // 2)


class KernelOperator(Protocol):
    """Products with K(σ), K(σ)_ij = k(‖x_i − x_j‖/σ), over one set of n rows.

    Solvers access the data only through an operator. Its arguments and results are arrays of
    its own kind (NumPy, torch), which `array` creates and `numpy` converts back.
    """

    kernel: Kernel
    n_rows: int
    dtype: np.dtype
    trace: float  # Σ k(0) over the rows (their weights): a free bound on λ_max
    vector_bytes: int  # the part of the memory budget for a solver's arrays

    @property
    def n_evaluations(self) -> int:
        """Kernel entries evaluated so far."""

    def array(self, values: np.ndarray) -> Array:
        """An array of the operator's kind with these values."""

    def numpy(self, array: Array) -> np.ndarray:
        """Convert an array of the operator's kind to NumPy."""

    def zeros(self, shape: tuple[int, ...]) -> Array:
        """Zeros as an array of the operator's kind."""

    def product(self, bandwidth: float, block: Array) -> Array:
        """K(bandwidth) @ block for a block of shape (n, k); exact at bandwidth 0 and ∞."""

    def max_distance(self) -> float:
        """Largest distance between two rows."""


class HostArraysMixin:
    """Base class of operators on NumPy arrays; `vector_bytes` are for a solver's own arrays."""

    def __init__(self, n_rows: int, kernel: Kernel, dtype: DTypeLike, vector_bytes: int):
        self.kernel = kernel
        self.dtype = np.dtype(dtype)
        self.n_rows = n_rows
        self.trace = float(n_rows)
        self.vector_bytes = vector_bytes

    def array(self, values: np.ndarray) -> np.ndarray:
        """`values` in the operator's dtype."""
        return np.array(values, dtype=self.dtype)

    def numpy(self, array: np.ndarray) -> np.ndarray:
        """`array` itself."""
        return array

    def zeros(self, shape: tuple[int, ...]) -> np.ndarray:
        """Zeros in the operator's dtype."""
        return np.zeros(shape, self.dtype)


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


class BasisOperator(ABC):
    """An operator that takes several Lanczos steps faster than by single products."""

    @abstractmethod
    def extends(self, bandwidth: float, n_columns: int) -> bool:
        """Whether it can for this number of columns at this bandwidth."""

    @abstractmethod
    def extend(self, bandwidth: float, steps: LanczosSteps) -> None:
        """Take the steps."""


class OperatorAround(BasisOperator):
    """Base class of operators that wrap another one."""

    def __init__(self, operator: KernelOperator, n_rows: int, trace: float):
        self.operator = operator
        self.kernel = operator.kernel
        self.n_rows = n_rows
        self.dtype = operator.dtype
        self.array = operator.array
        self.numpy = operator.numpy
        self.zeros = operator.zeros
        self.max_distance = operator.max_distance
        self.trace = trace
        self.vector_bytes = operator.vector_bytes

    @property
    def n_evaluations(self) -> int:
        """Evaluations of the wrapped operator."""
        return self.operator.n_evaluations

    def extends(self, bandwidth: float, n_columns: int) -> bool:
        inside = self.operator
        return isinstance(inside, BasisOperator) and inside.extends(bandwidth, n_columns)


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
        assert isinstance(self.operator, BasisOperator)
        self.operator.extend(bandwidth, replace(steps, factors=self._root[:, 0]))

    def matrix(self, bandwidth: float) -> np.ndarray:
        """S K(bandwidth) S."""
        root = self.operator.numpy(self._root)
        return root * as_matrix(self.operator, bandwidth) * root.T


class RepeatedRowsOperator(OperatorAround):
    """K(σ) over repeated rows, computed from the distinct ones: E K_u(σ) Eᵀ, E_ig = [i is g].

    `operator` is over the distinct rows, and `labels` (n,) has the distinct row of each row.
    """

    def __init__(self, operator: KernelOperator, labels: np.ndarray):
        super().__init__(operator, len(labels), float(len(labels)))
        self._labels = labels

    def product(self, bandwidth: float, block: Array) -> Array:
        """K(bandwidth) @ block."""
        sums = sums_by_group(self._labels, self.operator.n_rows, block)
        return self.operator.product(bandwidth, sums)[self._labels]

    def extend(self, bandwidth: float, steps: LanczosSteps) -> None:
        assert isinstance(self.operator, BasisOperator)
        self.operator.extend(bandwidth, replace(steps, labels=self._labels))


@runtime_checkable
class HasMatrix(Protocol):
    """An operator that stores K(bandwidth)."""

    def matrix(self, bandwidth: float) -> np.ndarray:
        """K(bandwidth), of shape (n, n)."""


def as_matrix(operator: KernelOperator, bandwidth: float) -> np.ndarray:
    """K(bandwidth) as a new array of n² entries."""
    if isinstance(operator, HasMatrix):
        return operator.matrix(bandwidth).copy()
    return operator.numpy(operator.product(bandwidth, operator.array(np.eye(operator.n_rows))))


BOUND_PRODUCTS = 4


def largest_eigenvalue(
    operator: KernelOperator, bandwidth: float, n_products: int = BOUND_PRODUCTS
) -> float:
    """An upper bound on λ_max of K(bandwidth), usually tight to a few percent.

    For a matrix with entries ≥ 0 and any x > 0, max_i (Kx)_i / x_i bounds λ_max
    (Collatz–Wielandt); power iteration from ones tightens it.
    """
    vector = operator.array(np.ones((operator.n_rows, 1)))
    bound = float(operator.n_rows)
    for _ in range(n_products):
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


def distinct_rows(
    X: np.ndarray, fingerprints: Callable[[np.ndarray], np.ndarray] | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Indices of distinct rows, and for each row the position of its own among them, (n,).

    Like `group_rows`, but unsorted and several times faster for many columns: rows are
    compared by `fingerprints`, by default hashes of all their bits.
    """
    rows = np.ascontiguousarray(X) + 0.0
    if _all_differ(rows):
        return np.arange(len(rows)), np.arange(len(rows))
    numbers = (fingerprints or _fingerprints)(rows)
    _, first, labels = np.unique(numbers, return_index=True, return_inverse=True)
    labels = labels.reshape(-1)
    if len(first) == len(rows) or np.array_equal(rows[first][labels], rows):
        return first, labels
    # Distinct rows with equal fingerprints are very rare, and detected here.
    _, first, labels = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    return first, labels.reshape(-1)


def _all_differ(rows: np.ndarray) -> bool:
    """Whether all rows differ for sure: equal ones have equal sums."""
    weights = np.random.RandomState(0).uniform(0.5, 1.0, rows.shape[1])
    with np.errstate(over="ignore", invalid="ignore"):
        sums = np.sort((rows * weights).sum(axis=1))
    return bool(np.all(sums[1:] > sums[:-1]))


def _fingerprints(rows: np.ndarray) -> np.ndarray:
    """A number for each row that depends on every bit of it, shape (n,)."""
    bits = rows.view(np.dtype(f"u{rows.itemsize}")).astype(np.uint64)
    factors = np.random.RandomState(0).randint(0, 2**63, rows.shape[1], dtype=np.uint64)
    bits *= 2 * factors + 1  # odd: no bit is lost, and sums wrap around
    bits ^= bits >> np.uint64(29)
    return bits.sum(axis=1, dtype=np.uint64)


def group_sums(labels: np.ndarray, n_groups: int, block: np.ndarray) -> np.ndarray:
    """K(0) @ block; K(0) is one for equal rows, and zero otherwise."""
    if n_groups == len(labels):
        return block.copy()
    return sums_by_group(labels, n_groups, block)[labels]


def sums_by_group(labels: np.ndarray, n_groups: int, block: np.ndarray) -> np.ndarray:
    """Sums over the rows of each group, shape (n_groups, k)."""
    columns = [np.bincount(labels, weights=column, minlength=n_groups) for column in block.T]
    return np.stack(columns, axis=1).astype(block.dtype, copy=False)
