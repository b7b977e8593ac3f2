"""Products for some of the rows on a worker that has a GPU."""

from __future__ import annotations

import threading

import numpy as np

from bandfall.backends.held import HeldRows
from bandfall.backends.torch_operator import sums, upload


class DeviceProducts:
    """Rows on the worker's first GPU (dask-cuda gives every worker one of its own).

    Parameters
    ----------
    held : HeldRows
    """

    def __init__(self, held: HeldRows, device: str = "cuda"):
        rows = held.X[held.leaves.order]
        if rows.dtype != held.dtype:  # what is to be rounded is centred first
            rows = rows - rows.mean(axis=0)
        self._device, self._held = device, held
        self._rows = upload(rows, device, held.dtype)
        self._lock = threading.Lock()
        sums(
            self._rows[:1],
            self._rows[:1],
            held.kernel,
            [1.0],
            self._rows.new_ones((1, 1, 1)),
            held.budget,
            cumulative=False,
        )

    def product(
        self, bandwidth: float, leaves: range, vector: np.ndarray
    ) -> tuple[np.ndarray, int]:
        """See `HeldRows.product`."""
        slices = self._held.leaves.slices
        rows = slice(slices[leaves.start].start, slices[leaves.stop - 1].stop)
        with self._lock:  # one device, one call at a time
            block = upload(vector, self._device, self._held.dtype)
            part = self._rows[rows]
            found = sums(
                part,
                self._rows,
                self._held.kernel,
                [bandwidth],
                block[None],
                self._held.budget,
                cumulative=False,
            )
        return found, len(found) * len(self._rows)
