"""Recursive cuts of feature space into leaves, one sum of kernels in each, blended smoothly.

Every cut halves a region along one direction. Left and right share a band around the cut, in which
the weight moves from one side to the other as a smooth step, 3s² − 2s³. The weight of a leaf is the
product over the cuts that lead to it. The weights of all leaves sum to one everywhere and have
continuous first derivatives. So does every blend of smooth functions, one per leaf.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from bandfall._products import HOST, Backend
from bandfall.descent._sum import KernelSum
from bandfall.kernels._geometry import scaled
from bandfall.kernels._kernel import Kernel

OVERLAP = 0.1  # share of the rows of a region that lie in the band of its cut
_GROWTH = 1.35  # limit for the rows of all leaves together, over the number of rows
_MOST_COLUMNS = 200  # tables with more are cut along columns


@dataclass(frozen=True, eq=False)
class Partition:
    """A binary tree of cuts and leaves.

    A cut compares the product of a row and its direction, a unit vector, with its band: below it
    all weight goes left, above it all weight goes right.
    """

    directions: np.ndarray  # (c, d)
    lows: np.ndarray  # (c,), as are highs
    highs: np.ndarray
    children: np.ndarray  # (c, 2): left and right, the number of another cut, or ~leaf

    @property
    def n_leaves(self) -> int:
        """One more than there are cuts."""
        return len(self.lows) + 1

    def shares(self, X: np.ndarray) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """(leaf, indices of the rows of X with weight in it, weights), for leaves with rows."""
        for leaf, rows, weights, _ in self._walk(X, slopes=False):
            yield leaf, rows, weights

    def rows_of_leaves(self, X: np.ndarray) -> list[np.ndarray]:
        """Indices of the rows of X with weight in each leaf."""
        numbers = [np.zeros(0, dtype=int)] * self.n_leaves
        for leaf, rows, _ in self.shares(X):
            numbers[leaf] = rows
        return numbers

    def sloped_shares(
        self, X: np.ndarray
    ) -> Iterator[tuple[int, np.ndarray, np.ndarray, np.ndarray]]:
        """As `shares`, plus the gradients of the weights, shape (rows, d)."""
        yield from self._walk(X, slopes=True)

    def _walk(
        self, X: np.ndarray, *, slopes: bool
    ) -> Iterator[tuple[int, np.ndarray, np.ndarray, np.ndarray]]:
        start = 0 if len(self.lows) else ~0
        gradients = np.zeros((len(X) if slopes else 0, X.shape[1]))
        waiting = [(start, np.arange(len(X)), np.ones(len(X)), gradients)]
        while waiting:
            place, rows, weights, gradients = waiting.pop()
            if not len(rows):
                continue
            if place < 0:
                yield ~place, rows, weights, gradients
                continue
            low, width = self.lows[place], self.highs[place] - self.lows[place]
            along = projected(X[rows], self.directions[place])
            step = np.clip((along - low) / width, 0.0, 1.0)
            right = _smooth_step(step)
            rise = 6.0 * step * (1.0 - step) / width
            left, right_child = self.children[place]
            # The right child goes onto the stack first: leaves come out in order from the left.
            for child, share, slope in ((right_child, right, rise), (left, 1.0 - right, -rise)):
                kept = np.flatnonzero(share > 0.0)
                steeper = gradients
                if slopes:
                    own = (weights[kept] * slope[kept])[:, None] * self.directions[place]
                    steeper = gradients[kept] * share[kept, None] + own
                waiting.append((int(child), rows[kept], weights[kept] * share[kept], steeper))


def _smooth_step(step: np.ndarray) -> np.ndarray:
    """3s² − 2s³ for s in [0, 1]."""
    return step * step * (3.0 - 2.0 * step)


def partition_rows(
    X: np.ndarray, leaf_rows: int, *, axes: bool = False, overlap: float = OVERLAP
) -> Partition:
    """Cut at quantiles until no leaf has more than `leaf_rows` rows with weight in it.

    A cut goes along the direction in which the rows spread most: the leading principal direction,
    or the column. If values repeat, it lies between two values. A leaf stays larger if no cut
    divides it because its rows are nearly equal.

    X (n, d) is in the coordinates of the metric. With `axes`, cuts go along columns: for distances
    that depend on the axes. `overlap` is the share of the rows of a region that lie in the band of
    a cut; bands are narrower if a region is cut more often along one direction, and if there are
    many leaves: a row lies in 1.35 of them on average at most.
    """
    n_levels = max(1.0, math.log2(max(2.0, _GROWTH * len(X) / leaf_rows)))
    overlap = min(overlap, math.log(_GROWTH) / n_levels)
    directions: list[np.ndarray] = []
    bands: list[tuple[float, float]] = []
    children: list[list[int]] = []
    n_leaves = 0
    waiting = [(np.arange(len(X)), -1, 0)]
    while waiting:
        rows, parent, side = waiting.pop()
        cut = _cut(X[rows], leaf_rows, axes, overlap) if len(rows) > leaf_rows else None
        if cut is None:
            place, n_leaves = ~n_leaves, n_leaves + 1
        else:
            place = len(bands)
            direction, low, high, along = cut
            directions.append(direction)
            bands.append((low, high))
            children.append([0, 0])
            waiting.append((rows[along > low], place, 1))
            waiting.append((rows[along < high], place, 0))
        if parent >= 0:
            children[parent][side] = place
    lows, highs = np.array(bands, dtype=np.float64).reshape(-1, 2).T.copy()
    return Partition(
        np.array(directions, dtype=np.float64).reshape(len(bands), X.shape[1]),
        lows,
        highs,
        np.array(children, dtype=np.int64).reshape(-1, 2),
    )


def projected(X: np.ndarray, direction: np.ndarray) -> np.ndarray:
    """Products of rows and a direction, in float64."""
    used = np.flatnonzero(direction)
    if len(used) == 1 and direction[used[0]] == 1.0:
        return X[:, used[0]].astype(np.float64)
    return X.astype(np.float64) @ direction


def _cut(
    X: np.ndarray, leaf_rows: int, axes: bool, overlap: float
) -> tuple[np.ndarray, float, float, np.ndarray] | None:
    """Direction, both ends of the band, projected rows; None if no direction divides the rows."""
    sample = X[:: -(-len(X) // 5000)].astype(np.float64)
    n_parts = math.ceil(len(X) * (1.0 + overlap) / leaf_rows)
    # Parts are spread over several directions, so a region has fewer along each.
    extent = min(0.5, n_parts ** (-1.0 / _n_directions(sample)))
    band = 2.0 * overlap * extent
    fewest = max(1, leaf_rows // 4)  # rows on either side of a cut
    for direction in _directions(sample, axes):
        along = projected(X, direction)
        ends = _band(np.sort(along), (n_parts // 2) / n_parts, band, fewest)
        if ends is not None:
            return direction, *ends, along
    return None


def _directions(sample: np.ndarray, axes: bool) -> Iterator[np.ndarray]:
    """Candidates for a cut; the directions in which rows spread most come first."""
    n_columns = sample.shape[1]
    principal = 1 < n_columns <= _MOST_COLUMNS
    if principal and not axes:
        yield _principal(sample)
    spreads = np.mean(np.abs(sample - np.median(sample, axis=0)), axis=0)
    for column in np.argsort(-spreads, kind="stable"):
        direction = np.zeros(n_columns)
        direction[column] = 1.0
        yield direction
    if principal and axes:
        yield _principal(sample)


def _principal(sample: np.ndarray) -> np.ndarray:
    centred = sample - sample.mean(axis=0)
    direction = np.linalg.eigh(centred.T @ centred)[1][:, -1]
    return direction * np.sign(direction[np.argmax(np.abs(direction))])


def _n_directions(sample: np.ndarray) -> float:
    """Effective number of directions in which rows spread: (Σ λ)² / Σ λ² of their covariance."""
    centred = sample - sample.mean(axis=0)
    if sample.shape[1] > _MOST_COLUMNS:
        variances = np.mean(centred**2, axis=0)
        total, squares = variances.sum(), float(variances @ variances)
    else:
        covariance = centred.T @ centred / len(sample)
        total, squares = np.trace(covariance), float(np.sum(covariance**2))
    return float(total**2 / squares) if squares > 0 else 1.0


def _band(along: np.ndarray, share: float, band: float, fewest: int) -> tuple[float, float] | None:
    """A band around a quantile of sorted values; None if it does not divide them.

    At least `fewest` values lie at or below the band, and at least `fewest` at or above.
    """
    n = len(along)
    places = np.array([share - 0.5 * band, share + 0.5 * band]) * (n - 1)
    first, last = np.clip([math.floor(places[0]), math.ceil(places[1])], 0, n - 1)
    low, high = along[first], along[last]
    thinnest = 1e-3 * max(float(np.mean(np.abs(along - along[n // 2]))), 1e-300)
    if high - low > thinnest:
        options = [(low, high)]
    else:  # many equal values: the nearest others on either side
        above = np.searchsorted(along, low + thinnest, side="right")
        below = np.searchsorted(along, high - thinnest, side="left") - 1
        options = [(low, along[above])] if above < n else []
        options += [(along[below], high)] if below >= 0 else []
    best, most = None, fewest - 1
    for ends in options:
        beyond = np.searchsorted(along, ends[0], side="right")
        smaller = min(beyond, n - np.searchsorted(along, ends[1], side="left"))
        if smaller > most and ends[1] > ends[0]:
            best, most = (float(ends[0]), float(ends[1])), smaller
    return best


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
