"""The interface of backends, and the NumPy backend."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol
from weakref import WeakKeyDictionary

import numpy as np

from bandfall._products.base import (
    DEFAULT_BUDGET,
    GIBIBYTE,
    KernelOperator,
    RepeatedRowsOperator,
    distinct_rows,
    vector_share,
)
from bandfall._products.blocked import BlockedOperator
from bandfall._products.cross import CrossOperator, cross_gradient, cross_product
from bandfall._products.kept import DenseOperator, SymmetricOperator, dense_bytes, symmetric_bytes
from bandfall._products.loops import Loops, loops_for_sums
from bandfall._threads import blas_threads_for
from bandfall._typing import DTypeLike
from bandfall.kernels._kernel import Kernel


class Sum(Protocol):
    """A kernel sum f(x) = offset + Σ_s k_{σ_s}(x, X) c_s, as backends see it."""

    @property
    def X(self) -> np.ndarray:
        """The centres."""

    @property
    def kernel(self) -> Kernel:
        """The kernel of every stage."""

    @property
    def bandwidths(self) -> np.ndarray:
        """Bandwidth of each stage."""

    @property
    def coefficients(self) -> np.ndarray:
        """Coefficients of shape (stages, centres, outputs)."""

    @property
    def offset(self) -> np.ndarray:
        """The constant term, shape (outputs,)."""


class CrossProduct(Protocol):
    """Products with K(σ) between new rows and training rows."""

    def product(self, bandwidth: float, block: np.ndarray) -> np.ndarray:
        """K_new(bandwidth) @ block, shape (m, k)."""


class Helpers(Protocol):
    """Workers that hold an object."""

    def call(self, calls: Sequence[tuple[str, tuple[object, ...]]]) -> list[Any]:
        """Results of calls, in order; a call is the name of a method and its arguments."""

    def threads(self) -> list[str]:
        """The worker of each available thread."""

    def close(self) -> None:
        """Remove the object from the workers."""


class Backend(ABC):
    """Computes with kernels on a device, inside a memory budget.

    Arguments and results are NumPy arrays; a backend may keep rows and coefficients on its device.
    """

    budget: int  # bytes for kernel matrices, temporaries and a solver's vectors together
    # If False, products and sums are compared at a few rows after training, to detect faulty
    # devices; see `fit_path`.
    trusted: ClassVar[bool] = False

    @abstractmethod
    def operator(
        self, X: np.ndarray, kernel: Kernel, dtype: DTypeLike = None, n_columns: int = 1
    ) -> KernelOperator:
        """Products with K(σ) over the rows of X, in their dtype unless another is given.

        Leaves room in the budget for the vectors of a solver, of `n_columns` targets each.
        """

    def release(self, operator: KernelOperator) -> None:  # noqa: B027
        """Release what an operator holds on a device; it cannot be used afterwards."""

    @abstractmethod
    def cross(self, X_new: np.ndarray, X: np.ndarray, kernel: Kernel) -> CrossProduct:
        """Products with K(σ) between new rows and those of X, in the dtype of X."""

    @abstractmethod
    def sums(self, model: Sum, X: np.ndarray, *, cumulative: bool = False) -> np.ndarray:
        """Σ_s k_{σ_s}(x, X) c_s at the rows of X, (m, k), or every partial sum, (S, m, k)."""

    @abstractmethod
    def gradient(self, model: Sum, X: np.ndarray) -> np.ndarray:
        """∂f/∂x at the rows of X, shape (m, d, k)."""

    def threads(self, n_rows: int) -> AbstractContextManager[None]:
        """A context that limits threads to what work on `n_rows` rows can use."""
        return blas_threads_for(n_rows)

    def helpers(self, holding: object) -> Helpers | None:
        """Workers with a copy of `holding`, for parallel calls; None if there are no workers."""
        return None


@contextmanager
def operator_over(
    backend: Backend, X: np.ndarray, kernel: Kernel, dtype: DTypeLike = None, n_columns: int = 1
) -> Iterator[KernelOperator]:
    """A context with an operator of the backend, which is released at the end."""
    operator = backend.operator(X, kernel, dtype, n_columns)
    try:
        yield operator
    finally:
        backend.release(operator)


@dataclass(frozen=True)
class NumpyBackend(Backend):
    """NumPy on the host: dense matrices while they fit the budget of bytes, blocks beyond."""

    budget: int = DEFAULT_BUDGET
    trusted: ClassVar[bool] = True

    def operator(
        self, X: np.ndarray, kernel: Kernel, dtype: DTypeLike = None, n_columns: int = 1
    ) -> KernelOperator:
        """Dense for few rows, a triangle while distances and K fit, blocked beyond.

        If many rows repeat, K is evaluated only over the distinct ones.
        """
        dtype = np.dtype(X.dtype if dtype is None else dtype)
        vectors = vector_share(self.budget, len(X), n_columns, dtype)
        matrices = self.budget - vectors
        if len(X) >= 500:  # below, looking for repeated rows costs more than they do
            first, labels = distinct_rows(X)
            if len(first) < 0.98 * len(X):
                operator = self.operator(X[first], kernel, dtype, n_columns)
                return RepeatedRowsOperator(operator, labels)
        # Up to here one product with a whole matrix is faster than several with strips. In float32,
        # compiled loops take all strips in one call.
        few = 399 if dtype == np.float32 else 600
        if len(X) <= few and dense_bytes(len(X), dtype) <= matrices:
            return DenseOperator(X, kernel, dtype, vectors)
        if symmetric_bytes(len(X), dtype) <= matrices:
            return SymmetricOperator(X, kernel, dtype, vectors)
        return BlockedOperator(X, kernel, dtype, matrices, vectors)

    def cross(self, X_new: np.ndarray, X: np.ndarray, kernel: Kernel) -> CrossProduct:
        return CrossOperator(X_new, X, kernel, self.budget)

    def gradient(self, model: Sum, X: np.ndarray) -> np.ndarray:
        parts = (X, model.X, model.kernel, model.bandwidths, model.coefficients)
        return cross_gradient(*parts, budget=self.budget)

    def sums(self, model: Sum, X: np.ndarray, *, cumulative: bool = False) -> np.ndarray:
        parts = (X, model.X, model.kernel, model.bandwidths, model.coefficients)
        loops = _loops.get(model)
        if loops is None:
            loops = loops_for_sums(model.X, model.kernel, model.coefficients.dtype)
            if model.X.size <= _KEPT_ENTRIES:
                _loops[model] = loops
        return cross_product(*parts, budget=self.budget, cumulative=cumulative, loops=loops)


HOST = NumpyBackend()
# Predictions of single rows would spend most of the time on preparing the training rows, so these
# are kept while the model exists, unless the copy is large.
_KEPT_ENTRIES = 1 << 20
_loops: WeakKeyDictionary[Sum, Loops] = WeakKeyDictionary()


def check_dense_budget(n_rows: int, dtype: np.dtype, budget: int) -> None:
    """Raise MemoryError if an n × n matrix exceeds the budget, before anything is allocated."""
    needed = dense_bytes(n_rows, dtype)
    if needed > budget:
        raise MemoryError(
            f"kernel matrices of {n_rows} rows need {needed / GIBIBYTE:.2f} GiB, over the "
            f"memory_budget of {budget / GIBIBYTE:.2f} GiB; raise memory_budget, use "
            "float32 features or fewer rows"
        )
