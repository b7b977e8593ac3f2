"""Objects that workers of a cluster hold and compute with."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

import numpy as np

from bandfall._products.backend import Backend, Sum
from bandfall._products.blocked import Leaves, Tiles
from bandfall._products.device import check_device, resolve_backend
from bandfall._threads import blas_threads_for, scratch
from bandfall._typing import State
from bandfall.kernels._kernel import Kernel


class WorkerRows:
    """The rows of one fit: products with K(σ) for some of their leaves.

    Results depend only on the rows and the leaf, to the bit: not on the worker (of one kind), its
    threads or its memory, nor on which leaves are requested together. `budget` bytes are for tiles
    of K(σ) that are kept for the next product at the same bandwidth.
    """

    def __init__(self, X: np.ndarray, leaves: Leaves, kernel: Kernel, dtype: np.dtype, budget: int):
        self.X, self.leaves, self.kernel, self.dtype, self.budget = X, leaves, kernel, dtype, budget
        self._engine: _TileProducts | DeviceProducts | None = None
        self._lock = threading.Lock()

    def __getstate__(self) -> State:
        names = ("X", "leaves", "kernel", "dtype", "budget")
        return {name: getattr(self, name) for name in names}

    def __setstate__(self, state: State) -> None:
        self.__init__(**state)  # type: ignore[misc]

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
        with self._lock:
            if self._engine is None:
                self._engine = _engine(self)
        return self._engine.product(bandwidth, range(first, last), vector)


def _engine(held: WorkerRows) -> _TileProducts | DeviceProducts:
    if check_device("auto") is not None:
        try:
            return DeviceProducts(held)
        except ValueError:  # a kernel for NumPy only
            pass
    return _TileProducts(held)


class _TileProducts:
    """Products tile by tile with NumPy; as many tiles as the budget allows are kept.

    They are those of one bandwidth. A stale call, whose result is no longer needed, may still
    fill the tiles of an earlier one, which nobody else sees.
    """

    def __init__(self, held: WorkerRows):
        rows = np.asarray(held.X, dtype=np.float64)
        rows = rows - rows.mean(axis=0)
        self._leaves = held.leaves
        self._tiles = Tiles(rows[held.leaves.order], held.leaves.slices, held.kernel, held.dtype)
        self._n_entries = held.budget // held.dtype.itemsize
        self._kept, self._lock = _KeptTiles(np.nan), threading.Lock()

    def product(
        self, bandwidth: float, leaves: range, vector: np.ndarray
    ) -> tuple[np.ndarray, int]:
        """See `WorkerRows.product`."""
        with self._lock:
            if bandwidth != self._kept.bandwidth:
                self._kept = _KeptTiles(bandwidth)
            kept = self._kept
        slices, reach = self._leaves.slices, self._tiles.reach(bandwidth)
        first, n_evaluated = slices[leaves.start].start, 0
        n_rows = slices[leaves.stop - 1].stop - first
        total = np.zeros((n_rows, vector.shape[1]))
        # Sums by several threads would depend on their number.
        with blas_threads_for(0):
            for i in leaves:
                rows = slice(slices[i].start - first, slices[i].stop - first)
                distances = self._leaves.distances_from(i, self._tiles.kernel.geometry)
                for j in np.flatnonzero(distances <= reach).tolist():
                    K = kept.tiles.get((i, j))
                    if K is None:
                        K = self._evaluated(kept, i, j)
                        n_evaluated += K.size
                    total[rows] += K @ vector[slices[j]]
        return total.astype(vector.dtype), n_evaluated

    def _evaluated(self, kept: _KeptTiles, i: int, j: int) -> np.ndarray:
        """A tile, which is kept if there is room."""
        shape = self._tiles.shape(i, j)
        room = kept.n_entries + shape[0] * shape[1] <= self._n_entries
        out = np.empty(shape, self._tiles.dtype) if room else None
        if out is None:
            out = scratch("tile", shape, self._tiles.dtype)
        tile = self._tiles.evaluate(i, j, kept.bandwidth, out)
        if room:
            kept.n_entries += tile.size
            kept.tiles[i, j] = tile
        return tile


@dataclass
class _KeptTiles:
    """Tiles of K at one bandwidth, by their leaves."""

    bandwidth: float
    n_entries: int = 0
    tiles: dict[tuple[int, int], np.ndarray] = field(default_factory=dict)


def own_backend(budget: int, n_rows: int) -> Backend:
    """The best backend of this worker: a GPU if it has one."""
    return resolve_backend("auto", budget, n_rows)


class WorkerSum:
    """A fitted model: sums and gradients at new rows, within `budget` bytes."""

    def __init__(self, model: Sum, budget: int):
        self.model, self.budget = model, budget

    @property
    def nbytes(self) -> int:
        """Bytes of centres and coefficients."""
        return self.model.X.nbytes + self.model.coefficients.nbytes

    def at(self, method: str, X: np.ndarray, options: State, _: None) -> np.ndarray:
        """The result of `sums` or `gradient` of this worker's backend."""
        backend = own_backend(self.budget, len(self.model.X))
        values: np.ndarray = getattr(backend, method)(self.model, X, **options)
        return values


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
