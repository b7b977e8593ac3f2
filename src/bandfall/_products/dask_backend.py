"""A Dask cluster: every worker holds the rows, and computes a share of every product.

The scheduler moves what a task needs to its worker, repeats the tasks of lost workers, and frees
what no client refers to any more.
"""

from __future__ import annotations

import threading
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import count, pairwise
from typing import Any, ClassVar

import dask
import numpy as np
from distributed import Client, Future, KilledWorker

from bandfall._products.backend import NumpyBackend
from bandfall._products.base import (
    KernelOperator,
    RepeatedRowsOperator,
    distinct_rows,
    vector_share,
)
from bandfall._products.blocked import LEAF_SIZE, Leaves, Tiles
from bandfall._products.device import ClusterError, check_device
from bandfall._threads import blas_threads_for, scratch
from bandfall._typing import DTypeLike
from bandfall.kernels._kernel import Kernel

_INLINE_BYTES = 1 << 20  # a larger argument of several calls is sent once
_WORKER_SECONDS = 60.0  # for the first worker to join
_connected: dict[str, Client] = {}


def connect(device: str, seconds: float = 10.0) -> Client:
    """The current client, or one for an address, which is kept until its connection is lost."""
    try:
        if device == "dask":
            return Client.current()
        client = _connected.get(device)
        if client is None or client.status != "running":
            client = _connected[device] = Client(device, set_as_default=False, timeout=seconds)
        return client
    except (OSError, ValueError) as error:
        raise ClusterError(
            f"device={device!r}: no scheduler answers ({error}). Start a client with `from "
            "distributed import Client; client = Client()`, or give the address of a scheduler, "
            "such as device='tcp://host:8786'"
        ) from error


@contextmanager
def _losses_explained(client: Client) -> Iterator[None]:
    try:
        yield
    except (KilledWorker, CancelledError, OSError) as error:
        raise ClusterError(
            f"the Dask cluster was lost ({error}); did its workers run out of memory? Start it "
            "again and fit again"
        ) from error


class Crew:
    """The workers of a cluster, which call methods of `holding`; each has a copy.

    Any worker can run any call, any number of times. A dashboard shows calls as bandfall-name.
    """

    def __init__(self, client: Client, holding: object, name: str = "product"):
        self.client, self._name = client, name
        self._turns = count()
        with _losses_explained(client):
            client.wait_for_workers(1, timeout=_WORKER_SECONDS)
            self._held = self._submit(_itself, holding)

    def close(self) -> None:
        """Remove the object from the workers."""
        self._held.release()

    def threads(self) -> list[str]:
        """The worker of each thread."""
        with _losses_explained(self.client):
            workers = self.client.nthreads()
        return [address for address, n_threads in workers.items() for _ in range(n_threads)]

    def call(
        self,
        calls: Sequence[tuple[str, tuple[object, ...]]],
        *shared: np.ndarray,
        workers: Sequence[str] = (),
    ) -> list[Any]:
        """Results of calls, in order; an error of a call is raised.

        A call is the name of a method and its arguments, after which the `shared` ones come. It
        runs on one of `workers` in turn if possible.
        """
        turns = deque(workers or self.threads() or [""])
        if not workers:
            turns.rotate(-next(self._turns))
        with _losses_explained(self.client), ExitStack() as released:

            def submit(function: Callable[..., object], *arguments: object, on: str = "") -> Future:
                future = self._submit(function, *arguments, worker=on)
                released.callback(future.release)  # an error may refer to it for a long time
                return future

            sent = [submit(_itself, one) if one.nbytes > _INLINE_BYTES else one for one in shared]
            futures = []
            for method, arguments in calls:
                futures.append(submit(_called, self._held, method, arguments, *sent, on=turns[0]))
                turns.rotate(-1)
            results: list[Any] = self.client.gather(futures)
        return results

    def _submit(
        self, function: Callable[..., object], *arguments: object, worker: str = ""
    ) -> Future:
        key = f"bandfall-{self._name}-{uuid.uuid4().hex}"
        where = {"workers": [worker], "allow_other_workers": True} if worker else {}
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 TiB"}):
            return self.client.submit(function, *arguments, key=key, pure=False, **where)


def _itself(argument: object) -> object:
    return argument


def _called(held: object, method: str, arguments: tuple[object, ...], *shared: object) -> object:
    return getattr(held, method)(*arguments, *shared)


@dataclass(frozen=True, kw_only=True)
class DaskBackend(NumpyBackend):
    """The workers of a Dask cluster.

    The borders of leaves depend only on the number of rows, so results are the same to the bit for
    any number of workers, and if workers die or join. Solver, schedule and stopping run in this
    process, as do sums at new rows. `budget` is for a solver's vectors here, and for kernel
    matrices on each worker.
    """

    device: str = "dask"  # the current client, or the address of a scheduler
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
        repeated = len(first) < len(X)
        X = X[first] if repeated else X
        operator = DaskOperator(self.client, X, kernel, dtype, self.budget, vectors)
        return RepeatedRowsOperator(operator, labels) if repeated else operator

    def release(self, operator: KernelOperator) -> None:
        own = operator.operator if isinstance(operator, RepeatedRowsOperator) else operator
        if isinstance(own, DaskOperator):
            own.close()

    def helpers(self, holding: object) -> Crew:
        return Crew(self.client, holding, "search")


class DaskOperator(KernelOperator):
    """Products with K(σ) on a cluster, for distinct rows; `budget` bytes are for each worker."""

    def __init__(
        self,
        client: Client,
        X: np.ndarray,
        kernel: Kernel,
        dtype: np.dtype,
        budget: int,
        vector_bytes: int,
    ):
        super().__init__(len(X), kernel, dtype, vector_bytes)
        self._X = np.asarray(X, dtype=np.float64)
        # Borders depend only on the number of rows; shares begin at leaves.
        self._leaves = Leaves(self._X, max(16, min(LEAF_SIZE, len(X) // 32)))
        self._crew = Crew(client, WorkerRows(X, self._leaves, kernel, dtype, budget))
        self.close = self._crew.close  # removes the rows from the workers
        self._bandwidth = np.nan
        self._threads: list[str] = []

    def max_distance(self) -> float:
        return self.kernel.geometry.diameter(self._X, LEAF_SIZE)

    def product(self, bandwidth: float, block: np.ndarray) -> np.ndarray:
        if bandwidth == 0.0:
            return block.copy()
        if bandwidth != self._bandwidth:
            self._threads, self._bandwidth = self._crew.threads(), bandwidth
        # Any division into shares gives the same bits. Workers are not equally fast, so long
        # products are divided into more shares than threads. A share costs scheduler and client
        # some 2 ms.
        n_shares = (2 if self.n_rows**2 > 1 << 30 else 1) * len(self._threads)
        n_leaves = len(self._leaves.slices)
        borders = np.linspace(0, n_leaves, min(n_leaves, max(1, n_shares)) + 1).astype(int)
        shares = [("product", (bandwidth, *share)) for share in pairwise(borders.tolist())]
        vector = np.ascontiguousarray(block[self._leaves.order])
        result = np.empty_like(block)
        result[self._leaves.order] = np.concatenate(
            self._crew.call(shares, vector, workers=self._threads)
        )
        return result


@dataclass
class WorkerRows:
    """The rows of one fit on a worker: products with K(σ) for some of their leaves.

    Results depend only on the rows and the leaf, to the bit: not on the worker (of one kind), its
    threads or its memory, nor on which leaves are requested together. `budget` bytes are for
    entries of K(σ) that are kept for the next product at the same bandwidth.
    """

    X: np.ndarray
    leaves: Leaves
    kernel: Kernel
    dtype: np.dtype
    budget: int

    def __reduce__(self) -> tuple[object, ...]:  # a worker sends a copy to another
        return WorkerRows, (self.X, self.leaves, self.kernel, self.dtype, self.budget)

    def product(self, bandwidth: float, first: int, last: int, vector: np.ndarray) -> np.ndarray:
        """Rows of K(bandwidth) @ vector in leaves first … last − 1.

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
    """Products tile by tile with NumPy; as many tiles of one bandwidth are kept as fit the budget.

    A call of an earlier bandwidth may still run; it fills tiles of its own.
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

    def product(self, bandwidth: float, leaves: range, vector: np.ndarray) -> np.ndarray:
        """See `WorkerRows.product`."""
        with self._lock:
            if bandwidth != self._bandwidth:
                self._kept, self._bandwidth = {}, bandwidth
            kept = self._kept
        slices, reach = self._leaves.slices, self._tiles.reach(bandwidth)
        first = slices[leaves.start].start
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
                        if keep:
                            kept[i, j] = K
                    total[rows] += K @ vector[slices[j]]
        return total.astype(vector.dtype)


class DeviceProducts:
    """Products on the worker's first GPU (dask-cuda assigns one GPU to each worker).

    Raises ValueError if the kernel cannot be evaluated there.
    """

    def __init__(self, held: WorkerRows, device: str = "cuda"):
        from bandfall._products import torch_backend

        rows = held.X[held.leaves.order]
        if rows.dtype != held.dtype:  # centre before rounding
            rows = rows - rows.mean(axis=0)
        self._held, self._lock = held, threading.Lock()
        self._rows = torch_backend.upload(rows, device, held.dtype)
        torch_backend.check_profile(held.kernel, self._rows)
        self._torch = torch_backend

    def product(self, bandwidth: float, leaves: range, vector: np.ndarray) -> np.ndarray:
        """See `WorkerRows.product`."""
        held, slices = self._held, self._held.leaves.slices
        part = self._rows[slices[leaves.start].start : slices[leaves.stop - 1].stop]
        block = self._rows.new_tensor(vector)[None]
        model = held.kernel, [bandwidth], block, held.budget
        # Beyond these rows, a fused product is faster, even if it must be compiled first.
        fuse = len(self._rows) > 8192
        with self._lock:  # one device, one call at a time
            return self._torch.sums(part, self._rows, *model, cumulative=False, fuse=fuse)
