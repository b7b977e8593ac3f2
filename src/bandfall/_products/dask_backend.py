"""A Dask cluster: every worker holds the rows, and computes a share of every product."""

from __future__ import annotations

import threading
from contextlib import closing
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
    distinct_rows,
    vector_share,
)
from bandfall._products.blocked import LEAF_SIZE, Leaves, Tiles
from bandfall._products.dask_cluster import connect, log
from bandfall._products.dask_tasks import Call, Crew
from bandfall._products.device import check_device, resolve_backend
from bandfall._threads import blas_threads_for, scratch
from bandfall._typing import DTypeLike, State
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
        first, labels = distinct_rows(X)
        operator = DaskOperator(self.client, X[first], kernel, dtype, self.budget, vectors)
        return operator if len(first) == len(X) else RepeatedRowsOperator(operator, labels)

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
        return Crew(self.client, holding, "search")

    def _few(self, model: Sum, X: np.ndarray) -> bool:
        n_entries = len(X) * len(model.X) * len(model.bandwidths)
        return not len(X) or n_entries < self.worth_sending

    def _at_rows(
        self, model: Sum, X: np.ndarray, method: str, axis: int = 0, **options: bool
    ) -> np.ndarray:
        """A method of the workers' backends at new rows, in shares."""
        parts = np.array_split(X, min(len(X), 64))
        with closing(Crew(self.client, WorkerSum(model, self.budget), "sum")) as crew:
            return np.concatenate(crew.call([("at", (method, p, options)) for p in parts]), axis)


@dataclass
class WorkerSum:
    """A fitted model on a worker: sums and gradients at new rows, within `budget` bytes."""

    model: Sum
    budget: int

    @property
    def nbytes(self) -> int:
        """Bytes of centres and coefficients."""
        return self.model.X.nbytes + self.model.coefficients.nbytes

    def at(self, method: str, X: np.ndarray, options: State) -> np.ndarray:
        """The result of `sums` or `gradient` of this worker's backend."""
        backend = resolve_backend("auto", self.budget, len(self.model.X))
        values: np.ndarray = getattr(backend, method)(self.model, X, **options)
        return values


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
        # Borders depend only on the number of rows; shares begin at leaves.
        leaf_size = max(16, min(LEAF_SIZE, len(X) // 32))
        self._leaves = Leaves(np.asarray(X, dtype=np.float64), leaf_size)
        held = WorkerRows(X, self._leaves, kernel, dtype, budget)
        log.info(
            "%d rows on every worker: %.3f GiB, and up to %.3f GiB of kernel entries",
            len(X),
            held.nbytes / GIBIBYTE,
            budget / GIBIBYTE,
        )
        self._crew = Crew(client, held, inline_bytes=inline_bytes)
        self.close = self._crew.close  # removes the rows from the workers
        self._bandwidth = np.nan
        self._shares: list[Call] = []

    def max_distance(self) -> float:
        """Largest distance between two rows."""
        return self.kernel.geometry.diameter(np.asarray(self._X, dtype=np.float64), LEAF_SIZE)

    def product(self, bandwidth: float, block: np.ndarray) -> np.ndarray:
        """K(bandwidth) @ block."""
        if bandwidth == 0.0:
            return block.copy()
        if bandwidth != self._bandwidth:
            self._shares, self._bandwidth = self._divided(bandwidth), bandwidth
        answers = self._crew.call(self._shares, np.ascontiguousarray(block[self._leaves.order]))
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


@dataclass
class WorkerRows:
    """The rows of one fit on a worker: products with K(σ) for some of their leaves.

    Results depend only on the rows and the leaf, to the bit: not on the worker (of one kind), its
    threads or its memory, nor on which leaves are requested together. `budget` bytes are for tiles
    of K(σ) that are kept for the next product at the same bandwidth.
    """

    X: np.ndarray
    leaves: Leaves
    kernel: Kernel
    dtype: np.dtype
    budget: int

    @property
    def nbytes(self) -> int:
        """Bytes of the rows, in the given dtype, in float64 and as tiles."""
        n, d = self.X.shape
        tiles = (2 * d + 2) * self.dtype.itemsize
        return self.X.nbytes + n * (d * 8 + tiles) + self.leaves.order.nbytes

    def product(
        self, bandwidth: float, first: int, last: int, vector: np.ndarray
    ) -> tuple[np.ndarray, int]:
        """Rows of K(bandwidth) @ vector in leaves first … last − 1, and the entries evaluated.

        The vector and the result are in the order of the leaves.
        """
        return self.engine.product(bandwidth, range(first, last), vector)

    @cached_property
    def engine(self) -> TileProducts | DeviceProducts:
        """On a GPU if this worker has one and the kernel can be evaluated there."""
        if check_device("auto") is not None:
            try:
                return DeviceProducts(self)
            except ValueError:  # a kernel for NumPy only
                pass
        return TileProducts(self)


class TileProducts:
    """Products tile by tile with NumPy; as many tiles as the budget allows are kept.

    They are those of one bandwidth. A stale call, whose result is no longer needed, may still
    fill the tiles of an earlier one, which nobody else sees.
    """

    def __init__(self, held: WorkerRows):
        rows = np.asarray(held.X, dtype=np.float64)
        rows = rows - rows.mean(axis=0)
        self._leaves, slices = held.leaves, held.leaves.slices
        self._tiles = Tiles(rows[held.leaves.order], slices, held.kernel, held.dtype)
        side = max(leaf.stop - leaf.start for leaf in slices)
        self._most_kept = held.budget // (side * side * held.dtype.itemsize)
        self._kept: dict[tuple[int, int], np.ndarray] = {}
        self._bandwidth, self._lock = np.nan, threading.Lock()

    def product(
        self, bandwidth: float, leaves: range, vector: np.ndarray
    ) -> tuple[np.ndarray, int]:
        """See `WorkerRows.product`."""
        with self._lock:
            if bandwidth != self._bandwidth:
                self._kept, self._bandwidth = {}, bandwidth
            kept = self._kept
        slices, reach = self._leaves.slices, self._tiles.reach(bandwidth)
        first, n_evaluated = slices[leaves.start].start, 0
        total = np.zeros((slices[leaves.stop - 1].stop - first, vector.shape[1]))
        # Sums by several threads would depend on their number.
        with blas_threads_for(0):
            for i in leaves:
                rows = slice(slices[i].start - first, slices[i].stop - first)
                distances = self._leaves.distances_from(i, self._tiles.kernel.geometry)
                for j in np.flatnonzero(distances <= reach).tolist():
                    K = kept.get((i, j))
                    if K is None:
                        keep = len(kept) < self._most_kept
                        shape, dtype = self._tiles.shape(i, j), self._tiles.dtype
                        out = np.empty(shape, dtype) if keep else scratch("tile", shape, dtype)
                        K = self._tiles.evaluate(i, j, bandwidth, out)
                        n_evaluated += K.size
                        if keep:
                            kept[i, j] = K
                    total[rows] += K @ vector[slices[j]]
        return total.astype(vector.dtype), n_evaluated


class DeviceProducts:
    """Rows on the worker's first GPU (dask-cuda assigns one GPU to each worker).

    Raises ValueError if the kernel cannot be evaluated there.
    """

    def __init__(self, held: WorkerRows, device: str = "cuda"):
        from bandfall._products import fused, torch_backend

        rows = held.X[held.leaves.order]
        if rows.dtype != held.dtype:  # centre before rounding
            rows = rows - rows.mean(axis=0)
        self._held, self._lock = held, threading.Lock()
        self._torch, self._fused_cross = torch_backend, fused.FusedCross
        self._device, self._rows = device, torch_backend.upload(rows, device, held.dtype)
        # Beyond, a fused product is faster, even if it must be compiled first.
        many = len(rows) > 8192
        self._fused = many and fused.fused_available(held.kernel, self._rows.device)
        self._sums(slice(0, 1), 1.0, np.ones((len(rows), 1)))  # whether it can

    def product(
        self, bandwidth: float, leaves: range, vector: np.ndarray
    ) -> tuple[np.ndarray, int]:
        """See `WorkerRows.product`."""
        slices = self._held.leaves.slices
        rows = slice(slices[leaves.start].start, slices[leaves.stop - 1].stop)
        with self._lock:  # one device, one call at a time
            part = self._sums(rows, bandwidth, vector)
        return part, len(part) * len(self._rows)

    def _sums(self, rows: slice, bandwidth: float, vector: np.ndarray) -> np.ndarray:
        part, held = self._rows[rows], self._held
        block = self._torch.upload(vector, self._device, held.dtype)[None]
        if self._fused:
            fused = self._fused_cross(part, self._rows, held.kernel, held.budget)
            return fused.product([bandwidth], block).cpu().numpy()
        return self._torch.sums(
            part, self._rows, held.kernel, [bandwidth], block, held.budget, cumulative=False
        )
