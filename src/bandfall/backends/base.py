"""What a backend offers, and the one that is always there."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol
from weakref import WeakKeyDictionary

import numpy as np

from bandfall.geometry import Prepared
from bandfall.kernels import Kernel
from bandfall.operators import KernelOperator, cross_gradient, cross_product, make_operator
from bandfall.operators.base import DEFAULT_BUDGET, GIBIBYTE
from bandfall.operators.cross import CrossOperator
from bandfall.operators.dense import dense_bytes
from bandfall.operators.threads import blas_threads_for


class Sum(Protocol):
    """f(x) = offset + Σ_s k_{σ_s}(x, X) c_s, as a backend reads it."""

    @property
    def X(self) -> np.ndarray:
        """The centres."""
        ...

    @property
    def kernel(self) -> Kernel:
        """The kernel of every stage."""
        ...

    @property
    def bandwidths(self) -> np.ndarray:
        """One for each stage."""
        ...

    @property
    def coefficients(self) -> np.ndarray:
        """Of shape (stages, centres, outputs)."""
        ...

    @property
    def offset(self) -> np.ndarray:
        """What is added at every point."""
        ...


class CrossProduct(Protocol):
    """Products with K(σ) between new rows and training rows."""

    def product(self, bandwidth: float, block: np.ndarray) -> np.ndarray:
        """K_new(bandwidth) @ block, shape (m, k)."""
        ...


class Holding(Protocol):
    """What workers hold: calls go to its methods."""

    budget: int  # bytes for kernel matrices; a worker lowers it to what it has

    @property
    def nbytes(self) -> int:
        """Memory that it takes itself."""
        ...


class Helpers(Protocol):
    """Workers that hold something."""

    def call(self, calls: Sequence[tuple[str, tuple[object, ...]]]) -> list[Any]:
        """What methods return, in order: calls are names of methods and their arguments."""
        ...

    def threads(self) -> list[str]:
        """The worker of each thread that there is."""
        ...

    def close(self) -> None:
        """Take back what they hold."""
        ...


class Backend(ABC):
    """Computes with kernels somewhere, inside a budget of memory.

    Arrays that come in and go out are NumPy's; what is kept elsewhere (rows and coefficients
    on a device) is up to the backend. A new one derives from this class and passes the contract
    suite of tests/backends/test_backends.py.
    """

    budget: int  # bytes for kernel matrices, temporaries and a solver's vectors together
    # Whether products and sums need not be checked against each other after training. A device on
    # which something went wrong is caught at a few rows; see `resume_path`.
    trusted: ClassVar[bool] = False

    @abstractmethod
    def operator(
        self,
        X: np.ndarray,
        kernel: Kernel,
        dtype: np.dtype | type | None = None,
        n_columns: int = 1,
    ) -> KernelOperator:
        """Products with K(σ) over the rows of X, in their dtype unless another is given.

        Leaves room in the budget for the vectors of a solver, of `n_columns` targets each.
        """

    def release(self, operator: KernelOperator) -> None:  # noqa: B027
        """Take back what an operator of `operator` holds elsewhere; it cannot be used after."""

    @abstractmethod
    def cross(self, X_new: np.ndarray, X: np.ndarray, kernel: Kernel) -> CrossProduct:
        """Products with K(σ) between new rows and those of X, in the dtype of X."""

    def evaluate(self, model: Sum, X: np.ndarray) -> np.ndarray:
        """f at the rows of X, shape (m, k)."""
        return with_offset(self._sums(model, X, cumulative=False), model.offset)

    def staged(self, model: Sum, X: np.ndarray) -> np.ndarray:
        """f after each bandwidth, shape (S, m, k)."""
        return with_offset(self._sums(model, X, cumulative=True), model.offset)

    @abstractmethod
    def gradient(self, model: Sum, X: np.ndarray) -> np.ndarray:
        """∂f/∂x at the rows of X, shape (m, d, k)."""

    def threads(self, n_rows: int) -> AbstractContextManager[None]:
        """Limits threads to what work on `n_rows` rows can use."""
        return blas_threads_for(n_rows)

    def helpers(self, holding: Holding) -> Helpers | None:
        """Workers with a copy of `holding`, to call its methods side by side; None: there are none.

        What they compute is for those who compute little at a time, such as a search.
        """
        return None

    @abstractmethod
    def _sums(self, model: Sum, X: np.ndarray, *, cumulative: bool) -> np.ndarray:
        """Σ_s k_{σ_s}(x, X) c_s at the rows of X, or every partial sum."""


@contextmanager
def operator_over(
    backend: Backend,
    X: np.ndarray,
    kernel: Kernel,
    dtype: np.dtype | type | None = None,
    n_columns: int = 1,
) -> Iterator[KernelOperator]:
    """An operator of the backend that is released in the end, also after errors."""
    operator = backend.operator(X, kernel, dtype, n_columns)
    try:
        yield operator
    finally:
        backend.release(operator)


@dataclass(frozen=True)
class NumpyBackend(Backend):
    """NumPy on the host: dense matrices while they fit, blocks of them beyond.

    Parameters
    ----------
    budget : int
        Bytes.

    Examples
    --------
    >>> from bandfall.backends import NumpyBackend
    >>> NumpyBackend(2**26)
    NumpyBackend(budget=67108864)
    """

    budget: int = DEFAULT_BUDGET
    trusted: ClassVar[bool] = True

    def operator(
        self,
        X: np.ndarray,
        kernel: Kernel,
        dtype: np.dtype | type | None = None,
        n_columns: int = 1,
    ) -> KernelOperator:
        """See `Backend.operator`."""
        dtype = X.dtype if dtype is None else dtype
        return make_operator(X, kernel, dtype, self.budget, n_columns=n_columns)

    def cross(self, X_new: np.ndarray, X: np.ndarray, kernel: Kernel) -> CrossProduct:
        """See `Backend.cross`."""
        return CrossOperator(X_new, X, kernel, self.budget)

    def gradient(self, model: Sum, X: np.ndarray) -> np.ndarray:
        """See `Backend.gradient`."""
        parts = (X, model.X, model.kernel, model.bandwidths, model.coefficients)
        return cross_gradient(*parts, budget=self.budget)

    def _sums(self, model: Sum, X: np.ndarray, *, cumulative: bool) -> np.ndarray:
        parts = (X, model.X, model.kernel, model.bandwidths, model.coefficients)
        centres = _kept_centres(model)
        return cross_product(*parts, budget=self.budget, cumulative=cumulative, centres=centres)


# What is predicted row by row would spend most of its time on preparing the training rows.
_KEPT_ENTRIES = 1 << 20  # of a model's training rows: beyond, the copy is large and its share small
_centres: WeakKeyDictionary[Sum, Prepared] = WeakKeyDictionary()


def _kept_centres(model: Sum) -> Prepared | None:
    """The training rows of a model, prepared once for as long as it lives; None for many."""
    if model.X.size > _KEPT_ENTRIES:
        return None
    kept = _centres.get(model)
    if kept is None:
        kept = _centres[model] = model.kernel.geometry.prepare(model.X)
    return kept


HOST = NumpyBackend()


def with_offset(sums: np.ndarray, offset: np.ndarray) -> np.ndarray:
    """sums + offset, in place where the dtype of `sums` holds it.

    Offsets are float64: with a large one, float32 sums would lose the digits that matter.
    """
    wide = sums.astype(np.result_type(sums, offset), copy=False)
    wide += offset
    return wide


def check_dense_budget(n_rows: int, dtype: np.dtype, budget: int) -> None:
    """Refuse n² memory over the budget before anything is allocated."""
    needed = dense_bytes(n_rows, dtype)
    if needed > budget:
        raise MemoryError(
            f"kernel matrices of {n_rows} rows need {needed / GIBIBYTE:.2f} GiB, over the "
            f"memory_budget of {budget / GIBIBYTE:.2f} GiB; raise memory_budget, use "
            "float32 features or fewer rows"
        )
