"""The fitted model of a large table: one sum of kernels per leaf, blended where leaves meet."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from bandfall._products import HOST, Backend
from bandfall.descent._partition import Partition
from bandfall.descent._sum import KernelSum
from bandfall.kernels._geometry import scaled
from bandfall.kernels._kernel import Kernel


@dataclass(frozen=True, eq=False)
class Leaf:
    """The kernel sum of one part of space."""

    model: KernelSum
    # (d, d) or (d,): of the leaf's own metric, applied after the metric that all leaves share
    root: np.ndarray | None = None

    def rows(self, X: np.ndarray) -> np.ndarray:
        """Rows in the coordinates of the leaf, with the dtype of its model."""
        rows = X if self.root is None else scaled(X, self.root)
        return rows.astype(self.model.X.dtype, copy=False)

    def gradient(self, X: np.ndarray, backend: Backend) -> np.ndarray:
        """∂f/∂x at rows X, shape (m, d, k)."""
        gradient = self.model.gradient(self.rows(X), backend=backend)
        if self.root is None:
            return gradient
        return scaled(gradient.swapaxes(1, 2), self.root).swapaxes(1, 2)


@dataclass(frozen=True, eq=False)
class PartitionedSum:
    """f(x) = Σ_l w_l(x) f_l(x): one `KernelSum` per leaf and a smooth partition of unity.

    It has the methods of a `KernelSum`. A row costs as much as the few leaves that have weight at
    it, whatever the number of leaves.

    X (n, d) has the training rows of all leaves, which are in the order of the partition.
    """

    X: np.ndarray
    partition: Partition
    leaves: tuple[Leaf, ...]

    def __post_init__(self) -> None:
        if len(self.leaves) != self.partition.n_leaves:
            raise ValueError(
                f"{len(self.leaves)} leaves do not fit a partition of {self.partition.n_leaves}"
            )

    def __len__(self) -> int:
        return max(len(leaf.model) for leaf in self.leaves)

    @property
    def kernel(self) -> Kernel:
        """The kernel of all leaves."""
        return self.leaves[0].model.kernel

    @property
    def n_outputs(self) -> int:
        """Number of targets k."""
        return self.leaves[0].model.n_outputs

    @property
    def nbytes(self) -> int:
        """Bytes of rows and coefficients."""
        return self.X.nbytes + sum(leaf.model.nbytes for leaf in self.leaves)

    @cached_property
    def bandwidths(self) -> np.ndarray:
        """The median bandwidth over leaves after each stage, shape (S,)."""
        trained = [leaf.model.bandwidths for leaf in self.leaves if len(leaf.model)]
        table = [own[in_step(len(own), len(self))] for own in trained]
        return np.median(table, axis=0) if table else np.zeros(0)

    def evaluate(self, X: np.ndarray, *, backend: Backend = HOST) -> np.ndarray:
        """f at the rows of X, shape (m, k), in float64."""
        out = np.zeros((len(X), self.n_outputs))
        for leaf, rows, weights in self._shares(X):
            out[rows] += weights[:, None] * leaf.model.evaluate(leaf.rows(X[rows]), backend=backend)
        return out

    def evaluate_staged(self, X: np.ndarray, *, backend: Backend = HOST) -> np.ndarray:
        """f along training, shape (S, m, k); S is that of the leaf with the most stages."""
        out = np.zeros((len(self), len(X), self.n_outputs))
        for leaf, rows, weights in self._shares(X):
            if len(leaf.model):
                staged = leaf.model.evaluate_staged(leaf.rows(X[rows]), backend=backend)
                staged = staged[in_step(len(staged), len(self))]
            else:
                staged = np.broadcast_to(leaf.model.offset, (len(rows), self.n_outputs))
            out[:, rows] += weights[:, None] * staged
        return out

    def gradient(self, X: np.ndarray, *, backend: Backend = HOST) -> np.ndarray:
        """∂f/∂x = Σ_l w_l ∂f_l/∂x + f_l ∂w_l/∂x at the rows of X, shape (m, d, k)."""
        out = np.zeros((len(X), X.shape[1], self.n_outputs))
        for number, rows, weights, slopes in self.partition.sloped_shares(X):
            leaf, some = self.leaves[number], X[rows]
            out[rows] += weights[:, None, None] * leaf.gradient(some, backend)
            blended = np.flatnonzero(weights < 1.0)
            if len(blended):
                values = leaf.model.evaluate(leaf.rows(some[blended]), backend=backend)
                out[rows[blended]] += slopes[blended, :, None] * values[:, None, :]
        return out

    def compress(
        self, tolerance: float, *, backend: Backend = HOST
    ) -> tuple[PartitionedSum, float]:
        """See `KernelSum.compress`: every leaf is compressed, and the largest change counts."""
        smaller = [leaf.model.compress(tolerance, backend=backend) for leaf in self.leaves]
        change = max(change for _, change in smaller)
        pairs = zip(self.leaves, smaller, strict=True)
        leaves = tuple(replace(leaf, model=model) for leaf, (model, _) in pairs)
        return (replace(self, leaves=leaves), change) if change else (self, 0.0)

    def _shares(self, X: np.ndarray) -> Iterator[tuple[Leaf, np.ndarray, np.ndarray]]:
        for number, rows, weights in self.partition.shares(X):
            yield self.leaves[number], rows, weights


AnySum = KernelSum | PartitionedSum


def in_step(n_own: int, n_stages: int) -> np.ndarray:
    """For each of `n_stages` stages, the index of the corresponding one of `n_own` stages."""
    return -(-np.arange(1, n_stages + 1) * n_own // n_stages) - 1
