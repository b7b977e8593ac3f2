"""Products for some of the rows on a worker that has a GPU."""

from __future__ import annotations

import threading

import numpy as np

from bandfall._products.dask_workers import WorkerRows
from bandfall._products.fused import FusedCross, fused_available
from bandfall._products.torch_operator import sums, upload

_FUSED_ROWS = 8192  # beyond, a fused product is the quicker, even if it is to be compiled first


class DeviceProducts:
    """Rows on the worker's first GPU (dask-cuda assigns one GPU to each worker).

    Raises ValueError if the kernel cannot be evaluated there.
    """

    def __init__(self, held: WorkerRows, device: str = "cuda"):
        rows = held.X[held.leaves.order]
        if rows.dtype != held.dtype:  # what is to be rounded is centred first
            rows = rows - rows.mean(axis=0)
        self._device, self._held = device, held
        self._rows = upload(rows, device, held.dtype)
        self._lock = threading.Lock()
        self._fused = len(rows) > _FUSED_ROWS and fused_available(held.kernel, self._rows.device)
        self._sums(slice(0, 1), 1.0, np.ones((len(rows), 1)))  # whether it can

    def product(
        self, bandwidth: float, leaves: range, vector: np.ndarray
    ) -> tuple[np.ndarray, int]:
        """See `WorkerRows.product`."""
        slices = self._held.leaves.slices
        rows = slice(slices[leaves.start].start, slices[leaves.stop - 1].stop)
        with self._lock:  # one device, one call at a time
            found = self._sums(rows, bandwidth, vector)
        return found, len(found) * len(self._rows)

    def _sums(self, rows: slice, bandwidth: float, vector: np.ndarray) -> np.ndarray:
        part, kernel, budget = self._rows[rows], self._held.kernel, self._held.budget
        block = upload(vector, self._device, self._held.dtype)[None]
        if self._fused:
            fused = FusedCross(part, self._rows, kernel, budget)
            return fused.product([bandwidth], block).cpu().numpy()
        return sums(part, self._rows, kernel, [bandwidth], block, budget, cumulative=False)
