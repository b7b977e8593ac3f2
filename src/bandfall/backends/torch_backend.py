"""torch, on the host or a GPU: rows and coefficients are uploaded once per fitted model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from bandfall.backends.base import CrossProduct, Sum, with_offset
from bandfall.backends.torch_operator import TorchCross, TorchOperator, gradients, sums, upload
from bandfall.kernels import Kernel
from bandfall.operators import KernelOperator
from bandfall.operators.base import DEFAULT_BUDGET, vector_share
from bandfall.operators.threads import FEW_ROWS, blas_threads_for

Tensor = Any


class TorchBackend:
    """torch on one device.

    Parameters
    ----------
    device : str
        What torch calls it.
    budget : int
        Bytes there, for temporaries, kept matrices and a solver's vectors.
    """

    # A GPU on which something went wrong is caught at a few rows; see `resume_path`.
    trusted = False

    def __init__(self, device: str = "cpu", budget: int = DEFAULT_BUDGET):
        self.device = device
        self.budget = budget
        self._uploads: WeakKeyDictionary[Any, tuple[Tensor, Tensor]] = WeakKeyDictionary()

    def __repr__(self) -> str:
        return f"TorchBackend(device={self.device!r}, budget={self.budget})"

    def operator(
        self,
        X: np.ndarray,
        kernel: Kernel,
        dtype: np.dtype | type | None = None,
        n_columns: int = 1,
    ) -> KernelOperator:
        """See `Backend.operator`."""
        dtype = np.dtype(X.dtype if dtype is None else dtype)
        vectors = vector_share(self.budget, len(X), n_columns, dtype)
        return TorchOperator(X, kernel, dtype, self.device, self.budget - vectors, vectors)

    def release(self, operator: KernelOperator) -> None:
        """See `Backend.release`: what is on the device goes with the operator."""

    def cross(self, X_new: np.ndarray, X: np.ndarray, kernel: Kernel) -> CrossProduct:
        """See `Backend.cross`."""
        return TorchCross(X_new, X, kernel, self.device, self.budget)

    def evaluate(self, model: Sum, X: np.ndarray) -> np.ndarray:
        """See `Backend.evaluate`."""
        return with_offset(self._sums(model, X, cumulative=False), model.offset)

    def staged(self, model: Sum, X: np.ndarray) -> np.ndarray:
        """See `Backend.staged`."""
        return with_offset(self._sums(model, X, cumulative=True), model.offset)

    def gradient(self, model: Sum, X: np.ndarray) -> np.ndarray:
        """See `Backend.gradient`."""
        train, coefficients = self._uploaded(model)
        return gradients(
            self._rows(model, X), train, model.kernel, model.bandwidths, coefficients, self.budget
        )

    @contextmanager
    def threads(self, n_rows: int) -> Iterator[None]:
        """See `Backend.threads`; torch's own threads on the host wait for each other as well."""
        import torch

        before = torch.get_num_threads()
        with blas_threads_for(n_rows):
            if self.device == "cpu" and n_rows <= FEW_ROWS:
                torch.set_num_threads(1)
            try:
                yield
            finally:
                torch.set_num_threads(before)

    def helpers(self, holding: Any) -> None:
        """See `Backend.helpers`: there are none."""

    def _sums(self, model: Sum, X: np.ndarray, *, cumulative: bool) -> np.ndarray:
        train, coefficients = self._uploaded(model)
        return sums(
            self._rows(model, X),
            train,
            model.kernel,
            model.bandwidths,
            coefficients,
            self.budget,
            cumulative=cumulative,
        )

    def _rows(self, model: Sum, X: np.ndarray) -> Tensor:
        return upload(X, self.device, model.coefficients.dtype)

    def _uploaded(self, model: Sum) -> tuple[Tensor, Tensor]:
        """Rows and coefficients on the device, for as long as the model lives."""
        held = self._uploads.get(model)
        if held is None:
            dtype = model.coefficients.dtype
            held = tuple(upload(a, self.device, dtype) for a in (model.X, model.coefficients))
            self._uploads[model] = held
        return held
