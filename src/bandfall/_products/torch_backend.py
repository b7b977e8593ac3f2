"""torch, on the host or a GPU: rows and coefficients are uploaded once per fitted model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

from bandfall._products.backend import Backend, CrossProduct, Sum
from bandfall._products.base import (
    DEFAULT_BUDGET,
    KernelOperator,
    LanczosSteps,
    vector_share,
)
from bandfall._products.cross import check_columns
from bandfall._products.fused import FusedCross, FusedProduct, fused_available
from bandfall._products.kept import KeptMatrix
from bandfall._products.loops import gradient_block, usable_bandwidths
from bandfall._threads import blas_threads_for, row_blocks, rows_within
from bandfall._typing import DTypeLike, Values
from bandfall.kernels._kernel import Kernel, kernel_matrix


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

    def threads(self, n_rows: int) -> AbstractContextManager[None]:
        return blas_threads_for(0)  # the host has small matrices only

    def sums(self, model: Sum, X: np.ndarray, *, cumulative: bool = False) -> np.ndarray:
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


# Rows up to which a kept K is multiplied faster than a fused one is evaluated, and nothing
# needs to be compiled first: those of a leaf.
_KEPT_ROWS = 10_240
# Kernel entries from which on sums at new rows are worth fusing (and compiling).
_FUSED_ENTRIES = 1 << 33
# float64 distances, their comparison mask, the cast copy, the kernel block and its scratch, and the
# distances before.
_BYTES_PER_ENTRY = 48


class TorchOperator(KernelOperator):
    """Products with K(σ) on a torch device.

    Distances and one K(σ) are kept for few rows. For many, distance, profile and sum are one
    fused pass on a GPU, and nothing n² is stored; without Triton, on the host, or for a user's
    own profile, both are kept while they fit the budget, and rows are taken in chunks beyond.
    K is evaluated over distinct rows only. `budget` bytes are for temporaries and kept matrices.
    """

    def __init__(
        self,
        X: np.ndarray,
        kernel: Kernel,
        dtype: DTypeLike = np.float64,
        device: str = "cpu",
        budget: int = DEFAULT_BUDGET,
        vector_bytes: int = DEFAULT_BUDGET // 8,
    ):
        super().__init__(len(X), kernel, dtype, vector_bytes)
        self.device = torch.device(device)
        # Rows are centred before they are rounded; others are exact without centring.
        rows = self.array(X if X.dtype == self.dtype else X - X.mean(axis=0))
        self._zero = rows.new_zeros(())
        check_profile(kernel, self._zero)
        distinct, self._labels = torch.unique(rows + 0.0, dim=0, return_inverse=True)
        self._n_distinct = len(distinct)
        if self._n_distinct == self.n_rows:
            distinct = rows
        self._engine = _engine(distinct, kernel, budget)

    def array(self, values: np.ndarray) -> Tensor:
        return torch.as_tensor(np.array(values, dtype=self.dtype), device=self.device)

    def numpy(self, array: Tensor) -> np.ndarray:
        return array.cpu().numpy()

    def zeros(self, shape: tuple[int, ...]) -> Tensor:
        return self._zero.new_zeros(shape)

    def product(self, bandwidth: float, block: Tensor) -> Tensor:
        if self._n_distinct == self.n_rows:
            return block.clone() if bandwidth == 0.0 else self._engine.product(bandwidth, block)
        # In float64 the order in which a GPU adds does not show.
        sums = block.new_zeros((self._n_distinct, block.shape[1]), dtype=torch.float64)
        sums = sums.index_add_(0, self._labels, block.double()).to(block.dtype)
        if bandwidth > 0.0:
            sums = self._engine.product(bandwidth, sums)
        return sums[self._labels]

    def extends(self, bandwidth: float, n_columns: int) -> bool:
        return True

    def extend(self, bandwidth: float, steps: LanczosSteps) -> None:
        # The overhead of a call exceeds its computation, and reading a number waits for all earlier
        # calls. So a step is seven calls, and all numbers are read after the last step.
        assert steps.labels is None  # `product` handles repeated rows itself
        basis, first = steps.basis[:, :, : self.n_rows], steps.first
        vectors, overlaps, norms = basis.unbind(1), [], []
        for number in range(first, first + len(steps.alpha)):
            Q = basis[:, : number + 1]
            image = self._weighted(bandwidth, vectors[number].mT, steps.factors)
            image = image.mT.unsqueeze(1)  # (k, 1, n)
            overlaps.append(image @ Q.mT)
            image = torch.baddbmm(image, overlaps[-1], Q, alpha=-1)
            image = torch.baddbmm(image, image @ Q.mT, Q, alpha=-1).squeeze(1)
            norms.append(torch.linalg.vector_norm(image, dim=1, keepdim=True))
            torch.div(image, norms[-1], out=vectors[number + 1])
        steps.alpha[:] = torch.cat([one[:, 0, -1:] for one in overlaps], dim=1).T.cpu()
        steps.beta[1:] = torch.cat(norms, dim=1).T.cpu()
        _forget_rounding(steps)

    def _weighted(self, bandwidth: float, block: Tensor, factors: Tensor | None) -> Tensor:
        """S K(bandwidth) S @ block with S = diag(factors)."""
        if factors is None:
            return self.product(bandwidth, block)
        return factors[:, None] * self.product(bandwidth, factors[:, None] * block)

    def max_distance(self) -> float:
        return self._engine.max_distance()


def _forget_rounding(steps: LanczosSteps) -> None:
    """Set vectors that vanish up to rounding, and all later ones, to zero."""
    scale = np.abs(steps.alpha) + steps.beta[:-1]
    gone = np.logical_or.accumulate(~(steps.beta[1:] > steps.negligible * scale), axis=0)
    if gone.any():
        steps.beta[1:][gone] = 0.0
        steps.alpha[1:][gone[:-1]] = 0.0
        number, column = map(torch.as_tensor, np.nonzero(gone))
        steps.basis[column, steps.first + 1 + number] = 0.0


def _engine(rows: Tensor, kernel: Kernel, budget: int) -> _Entries | FusedProduct:
    """The engine for products with K over distinct rows."""
    fits = 2 * len(rows) ** 2 * rows.element_size() <= budget
    if not (fits and len(rows) <= _KEPT_ROWS) and fused_available(kernel, rows.device):
        return FusedProduct(rows, kernel, budget)
    return _Entries(rows, rows, kernel, budget, keep=fits)


class _Entries:
    """Distances between two sets of rows and K(σ), kept or evaluated for some rows at a time."""

    def __init__(self, new: Tensor, train: Tensor, kernel: Kernel, budget: int, keep: bool = False):
        self.kernel = kernel
        self.new, self.train = new, train
        if kernel.geometry.rotates:  # by a matrix product, which cancels; differences do not
            centre = train.mean(0, dtype=torch.float64)
            self.train = train.double() - centre
            self.new = self.train if new is train else new.double() - centre
        self._dtype = train.dtype
        self._blocks = row_blocks(len(new), rows_within(budget, _BYTES_PER_ENTRY * len(train)))
        self._kept: KeptMatrix | None = None
        if keep:
            distances = train.new_empty((len(new), len(train)))
            for rows, block in self.distances():
                distances[rows] = block
            evaluate = partial(_evaluate, kernel)
            self._kept = KeptMatrix(distances, torch.empty_like(distances), evaluate)

    def distances(self) -> Iterator[tuple[slice, Tensor]]:
        """Consecutive new rows, and their distances to all training rows."""
        geometry, power = self.kernel.geometry, self.kernel.power
        for rows in self._blocks:
            block = geometry.block(self.new[rows], self.train, power, torch)
            yield rows, block.to(self._dtype)

    def product(self, bandwidth: float, block: Tensor) -> Tensor:
        """K(bandwidth) @ block."""
        if self._kept is not None:
            return self._kept.at(bandwidth) @ block
        result = block.new_empty((len(self.new), block.shape[1]))
        for rows, distances in self.distances():
            result[rows] = kernel_matrix(self.kernel, distances, bandwidth, torch) @ block
        return result

    def max_distance(self) -> float:
        """Largest distance."""
        largest = max(float(block.max()) for _, block in self.distances())
        return largest ** (1.0 / self.kernel.power)


def _evaluate(kernel: Kernel, distances: Tensor, bandwidth: float, out: Tensor) -> None:
    kernel_matrix(kernel, distances, bandwidth, torch, out=out)


class TorchCross:
    """See `bandfall._products.cross.CrossOperator`: the same on a torch device."""

    def __init__(self, X_new: np.ndarray, X: np.ndarray, kernel: Kernel, device: str, budget: int):
        self._new, self._train = (upload(a, device, X.dtype) for a in (X_new, X))
        self._kernel = kernel
        self._budget = budget
        self._kept: _Entries | None = None
        if 2 * len(X_new) * len(X) * X.dtype.itemsize <= budget // 4:
            self._kept = _Entries(self._new, self._train, kernel, budget, keep=True)

    def product(self, bandwidth: float, block: np.ndarray) -> np.ndarray:
        """K_new(bandwidth) @ block, shape (m, k)."""
        weights = torch.as_tensor(block, device=self._train.device)
        if self._kept is None:
            parts = (self._new, self._train, self._kernel, [bandwidth], weights[None])
            return sums(*parts, self._budget, cumulative=False)
        return self._kept.product(bandwidth, weights).cpu().numpy()


def upload(array: np.ndarray, device: str, dtype: np.dtype) -> Tensor:
    """A tensor on the device with these values."""
    return torch.as_tensor(np.array(array, dtype=dtype), device=device)


def sums(
    new: Tensor,
    train: Tensor,
    kernel: Kernel,
    bandwidths: Values,
    weights: Tensor,
    budget: int,
    *,
    cumulative: bool,
    fuse: bool = False,
) -> np.ndarray:
    """Σ_s K_new(σ_s) C_s, or every partial sum, of what is on the device already.

    Few entries are fused only if `fuse`.
    """
    check_profile(kernel, train)
    check_columns(new, train)
    n_stages, _, n_outputs = weights.shape
    total = weights.new_zeros((n_stages if cumulative else 1, len(new), n_outputs))
    many = len(new) * len(train) * n_stages >= _FUSED_ENTRIES
    if (fuse or many) and fused_available(kernel, train.device):
        fused = FusedCross(new, train, kernel, budget)
        step = 1 if cumulative else max(1, n_stages)
        for s in range(0, n_stages, step):
            part = slice(s, s + step)
            total[s if cumulative else 0] += fused.product(bandwidths[part], weights[part])
    else:
        for rows, distances in _Entries(new, train, kernel, budget).distances():
            K = torch.empty_like(distances)
            for s, bandwidth in enumerate(bandwidths):
                kernel_matrix(kernel, distances, bandwidth, torch, out=K)
                total[s if cumulative else 0, rows] += K @ weights[s]
    return (total.cumsum(0) if cumulative else total[0]).cpu().numpy()


def gradients(
    new: Tensor, train: Tensor, kernel: Kernel, bandwidths: Values, weights: Tensor, budget: int
) -> np.ndarray:
    """∂/∂x Σ_s k_{σ_s}(x, X) c_s at each new row, of what is on the device already."""
    check_columns(new, train)
    gradient = weights.new_zeros((len(new), train.shape[1], weights.shape[2]))
    many = len(new) * len(train) * len(weights) >= _FUSED_ENTRIES
    if many and fused_available(kernel, train.device):
        used = usable_bandwidths(bandwidths, torch.finfo(weights.dtype))
        if len(used):
            fused = FusedCross(new, train, kernel, budget)
            gradient = fused.gradient(np.asarray(bandwidths)[used], weights[used])
        return gradient.cpu().numpy()
    entries = _Entries(new, train, kernel, budget)
    new, train = entries.new.to(weights.dtype), entries.train.to(weights.dtype)
    for rows, distances in entries.distances():
        gradient[rows] = gradient_block(
            new[rows], train, distances, kernel, bandwidths, weights, torch
        )
    return gradient.cpu().numpy()


def check_profile(kernel: Kernel, like: Tensor) -> None:
    """Refuse a user's profile that works with NumPy only, before any work."""
    try:
        value = kernel.profile(like.new_zeros((1,)), torch)
        if isinstance(value, torch.Tensor) and value.device == like.device:
            return
    except (TypeError, RuntimeError, AttributeError):
        pass
    raise ValueError(
        f"kernel {kernel.name!r} cannot be evaluated on torch tensors on {like.device}; write it "
        "with operators and methods that both NumPy and torch offer, or use device=None"
    )
