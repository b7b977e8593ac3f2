"""A Dask cluster: every worker holds the rows, and computes a share of every product."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import cycle, pairwise
from typing import ClassVar

import numpy as np
from distributed import Client

from bandfall._products.backend import Holding, NumpyBackend, Sum
from bandfall._products.base import (
    GIBIBYTE,
    HostArraysMixin,
    KernelOperator,
    RepeatedRowsOperator,
    group_rows,
    group_sums,
    vector_share,
)
from bandfall._products.blocked import LEAF_SIZE, Leaves
from bandfall._products.dask_cluster import connect, log
from bandfall._products.dask_crew import Call, Crew
from bandfall._products.dask_workers import WorkerRows, WorkerSum
from bandfall._typing import DTypeLike
from bandfall.kernels._kernel import Kernel


@dataclass(frozen=True, kw_only=True)
class DaskBackend(NumpyBackend):
    """The workers of a Dask cluster.

    Every worker holds the training rows and computes a share of their leaves in each product. The
    borders of leaves depend only on the number of rows, so results are the same to the bit for any
    number of workers, and if workers die or join. Solver, schedule and stopping run in this
    process. `budget` is for a solver's vectors here, and for kernel matrices on each worker.
    """

    device: str = "dask"  # the current client, or the address of a scheduler
    # Kernel entries of a prediction; smaller ones are computed in this process.
    worth_sending: int = field(default=1 << 30, repr=False)
    trusted: ClassVar[bool] = False

    @cached_property
    def client(self) -> Client:
        """The client, connected on first use."""
        return connect(self.device)

    def operator(
        self, X: np.ndarray, kernel: Kernel, dtype: DTypeLike = None, n_columns: int = 1
    ) -> KernelOperator:
        dtype = np.dtype(X.dtype if dtype is None else dtype)
        vectors = vector_share(self.budget, len(X), n_columns, dtype)
        labels, n_distinct = group_rows(X)
        if n_distinct == len(X):
            return DaskOperator(self.client, X, kernel, dtype, self.budget, vectors)
        distinct = np.empty((n_distinct, X.shape[1]), X.dtype)
        distinct[labels] = X
        operator = DaskOperator(self.client, distinct, kernel, dtype, self.budget, vectors)
        return RepeatedRowsOperator(operator, labels)

    def release(self, operator: KernelOperator) -> None:
        own = operator.operator if isinstance(operator, RepeatedRowsOperator) else operator
        if isinstance(own, DaskOperator):
            own.close()

    def sums(self, model: Sum, X: np.ndarray, *, cumulative: bool = False) -> np.ndarray:
        if self._few(model, X):
            return super().sums(model, X, cumulative=cumulative)
        return self._at_rows(model, X, "sums", cumulative=cumulative, axis=int(cumulative))

    def gradient(self, model: Sum, X: np.ndarray) -> np.ndarray:
        if self._few(model, X):
            return super().gradient(model, X)
        return self._at_rows(model, X, "gradient")

    def helpers(self, holding: Holding) -> Crew:
        # Patient, because the calls of a search differ in length.
        return Crew(self.client, holding, "bandfall-search", patience=60.0)

    def _few(self, model: Sum, X: np.ndarray) -> bool:
        n_entries = len(X) * len(model.X) * len(model.bandwidths)
        return not len(X) or n_entries < self.worth_sending

    def _at_rows(
        self, model: Sum, X: np.ndarray, method: str, axis: int = 0, **options: bool
    ) -> np.ndarray:
        """A method of the workers' backends at new rows, in shares."""
        crew = Crew(self.client, WorkerSum(model, self.budget), "bandfall-sum")
        try:
            parts = np.array_split(X, min(len(X), 64))
            values = crew.run([Call("at", (method, part, options)) for part in parts])
        finally:
            crew.close()
        return np.concatenate(values, axis=axis)


class DaskOperator(HostArraysMixin):
    """Products with K(σ) on a cluster, for distinct rows.

    `budget` bytes are for kernel matrices on each worker, `vector_bytes` for a solver's arrays
    here; see `Crew` for `inline_bytes`.
    """

    def __init__(
        self,
        client: Client,
        X: np.ndarray,
        kernel: Kernel,
        dtype: np.dtype,
        budget: int,
        vector_bytes: int,
        inline_bytes: int = 1 << 20,
    ):
        super().__init__(len(X), kernel, dtype, vector_bytes)
        self.n_evaluations = 0
        self._X = X
        self._leaves = Leaves(np.asarray(X, dtype=np.float64), _leaf_size(len(X)))
        held = WorkerRows(X, self._leaves, kernel, dtype, budget)
        log.info(
            "%d rows on every worker: %.3f GiB, and up to %.3f GiB of kernel entries",
            len(X),
            held.nbytes / GIBIBYTE,
            budget / GIBIBYTE,
        )
        self._crew = Crew(client, held, inline_bytes=inline_bytes)
        self._bandwidth = np.nan
        self._shares: list[Call] = []

    def close(self) -> None:
        """Remove the rows from the workers."""
        self._crew.close()

    def max_distance(self) -> float:
        """Largest distance between two rows."""
        return self.kernel.geometry.diameter(np.asarray(self._X, dtype=np.float64), LEAF_SIZE)

    def product(self, bandwidth: float, block: np.ndarray) -> np.ndarray:
        """K(bandwidth) @ block."""
        if bandwidth == 0.0:
            return group_sums(np.arange(self.n_rows), self.n_rows, block)
        if bandwidth != self._bandwidth:
            self._shares, self._bandwidth = self._divided(bandwidth), bandwidth
        answers = self._crew.run(self._shares, np.ascontiguousarray(block[self._leaves.order]))
        result = np.empty_like(block)
        result[self._leaves.order] = np.concatenate([rows for rows, _ in answers])
        self.n_evaluations += sum(n_evaluated for _, n_evaluated in answers)
        return result

    def _divided(self, bandwidth: float) -> list[Call]:
        """Divide leaves into shares for all threads; any division gives the same bits."""
        threads, n_leaves = self._crew.threads(), len(self._leaves.slices)
        # Workers are not equally fast, so long products are divided into more shares than threads.
        # A share costs scheduler and client some 2 ms.
        per_thread = 2 if self.n_rows**2 > 1 << 30 else 1
        n_shares = min(n_leaves, max(1, per_thread * len(threads)))
        borders = np.linspace(0, n_leaves, n_shares + 1).astype(int).tolist()
        workers = cycle(threads or [None])
        return [
            Call("product", (bandwidth, first, last), worker)
            for (first, last), worker in zip(pairwise(borders), workers, strict=False)
        ]


def _leaf_size(n_rows: int) -> int:
    """Rows per leaf, which depends only on the number of rows; shares begin at leaves."""
    return max(16, min(LEAF_SIZE, n_rows // 32))
