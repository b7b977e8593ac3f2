"""torch, on the host or a GPU: rows and coefficients are uploaded once per fitted model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

import numpy as np
from torch import Tensor

from bandfall._products.backend import Backend, CrossProduct, Sum
from bandfall._products.base import DEFAULT_BUDGET, KernelOperator, vector_share
from bandfall._products.torch_operator import TorchCross, TorchOperator, gradients, sums, upload
from bandfall._threads import FEW_ROWS, blas_threads_for
from bandfall._typing import DTypeLike
from bandfall.kernels._kernel import Kernel


@dataclass(eq=False)
class TorchBackend(Backend):
    """torch on one device."""

    device: str = "cpu"  # what torch calls it
    budget: int = DEFAULT_BUDGET  # bytes on the device, a solver's vectors included
    _uploads: WeakKeyDictionary[Sum, tuple[Tensor, Tensor]] = field(
        default_factory=WeakKeyDictionary, init=False, repr=False
    )

    def operator(
        self, X: np.ndarray, kernel: Kernel, dtype: DTypeLike = None, n_columns: int = 1
    ) -> KernelOperator:
        dtype = np.dtype(X.dtype if dtype is None else dtype)
        vectors = vector_share(self.budget, len(X), n_columns, dtype)
        return TorchOperator(X, kernel, dtype, self.device, self.budget - vectors, vectors)

    def cross(self, X_new: np.ndarray, X: np.ndarray, kernel: Kernel) -> CrossProduct:
        return TorchCross(X_new, X, kernel, self.device, self.budget)

    def gradient(self, model: Sum, X: np.ndarray) -> np.ndarray:
        return gradients(*self._parts(model, X), self.budget)

    @contextmanager
    def threads(self, n_rows: int) -> Iterator[None]:
        """See `Backend.threads`; also limits the threads of torch on the host."""
        import torch

        before = torch.get_num_threads()
        n_host = n_rows if self.device == "cpu" else 0  # rows whose matrices the host multiplies
        with blas_threads_for(n_host):
            if self.device == "cpu" and n_rows <= FEW_ROWS:
                torch.set_num_threads(1)
            try:
                yield
            finally:
                torch.set_num_threads(before)

    def _sums(self, model: Sum, X: np.ndarray, *, cumulative: bool) -> np.ndarray:
        return sums(*self._parts(model, X), self.budget, cumulative=cumulative)

    def _parts(
        self, model: Sum, X: np.ndarray
    ) -> tuple[Tensor, Tensor, Kernel, np.ndarray, Tensor]:
        """New rows, and the model, which is cached on the device while it exists."""
        dtype, held = model.coefficients.dtype, self._uploads.get(model)
        if held is None:
            train, coefficients = (
                upload(a, self.device, dtype) for a in (model.X, model.coefficients)
            )
            held = self._uploads[model] = train, coefficients
        new = upload(X, self.device, dtype)
        return new, held[0], model.kernel, model.bandwidths, held[1]
