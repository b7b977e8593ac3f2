"""Rows to train on and rows to judge by."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from bandfall._models.member import MetricKey
from bandfall._models.metric import learned_root, mean_root, scaled
from bandfall._products import (
    HOST,
    Backend,
    CrossProduct,
    KernelOperator,
    WeightedOperator,
    operator_over,
)
from bandfall._search.candidates import Budget, Request, Trial
from bandfall._search.ladder import Ladder, Watch, train_ladders
from bandfall._search.views import View
from bandfall._targets.weights import evidence_weights
from bandfall.descent._centring import column_means, column_norms, column_units
from bandfall.descent._sum import KernelSum
from bandfall.kernels._kernel import Kernel

SHRINK = 0.5  # of the bandwidth from stage to stage
TOLERANCE = 1e-2  # of the flow, a stage: held-out rows do not see the difference
MAX_DIMENSION = 32
_KEPT_BYTES = 2**24  # of rows in the metric of the last round, for each metric
_Pair = tuple[np.ndarray, np.ndarray]
_GROWTH = 1.5  # of training rows, from stage to stage
_OVERLAPPING = 1.3  # rows of all leaves together, relative to those that are divided
_LEAF_PATHS = 1.9  # over all rows of a leaf: its own, and two over two thirds of them
# Below this number of rows, leaves are trained again with the rows kept apart as evidence: tables
# whose rows repeat miss even few of them.
AGAIN_ROWS = 20_000


@dataclass(frozen=True)
class Rows:
    """All training rows as the search sees them.

    Attributes
    ----------
    views : dict of str to View
        By name of the encoding.
    y : ndarray of shape (n, k), float64
        Of zero mean and unit variance.
    weights : ndarray of shape (n,) or None
        In training; of mean one unless single rows outweigh all others.
    groups : ndarray of shape (n,)
        The group of each row, 0, 1, …: rows of a group are held out together.
    backend : Backend
    strata : ndarray of int, shape (n,), or None
        Classes of rows: every part gets its share of each, as far as groups allow.
    leaf_rows : int
        Most rows that a final fit trains on at a time: more are divided into leaves.
    """

    views: Mapping[str, View]
    y: np.ndarray
    groups: np.ndarray
    weights: np.ndarray | None = None
    backend: Backend = HOST
    strata: np.ndarray | None = None
    leaf_rows: int = sys.maxsize

    def shuffled_groups(self, random: np.random.RandomState) -> np.ndarray:
        """Numbers of all groups in random order, every stretch with its share of each class.

        Groups of a class are spread evenly: the j-th of n at a random place in [j/n, (j + 1)/n).
        """
        order = random.permutation(int(self.groups.max()) + 1)
        if self.strata is None:
            return order
        classes = np.empty(len(order), dtype=int)
        classes[self.groups] = self.strata
        places = np.empty(len(order))
        for label in np.unique(classes):
            members = order[classes[order] == label]
            places[members] = (np.arange(len(members)) + random.uniform()) / len(members)
        return np.argsort(places, kind="stable")

    @cached_property
    def evidence(self) -> np.ndarray:
        """How much rows count where they are held out, shape (n,)."""
        return np.ones(len(self)) if self.weights is None else evidence_weights(self.weights)

    def final_share(self, n_rows: int) -> float:
        """Kernel entries of a final fit to `n_rows` rows, relative to those of one leaf."""
        if n_rows <= self.leaf_rows:
            return 1.0
        n_paths = _LEAF_PATHS + float(n_rows < AGAIN_ROWS)
        return n_paths * min(1.0, _OVERLAPPING * self.leaf_rows / n_rows)

    def __len__(self) -> int:
        return len(self.y)


class Part:
    """Some rows to train on, others to judge by; remembers the metrics it has learned.

    Parameters
    ----------
    rows : Rows
    train, held_out : ndarray of int
        Row numbers.
    """

    def __init__(self, rows: Rows, train: np.ndarray, held_out: np.ndarray):
        self.train = train
        self.held_out = held_out
        self.y = rows.y[held_out]
        self._rows = rows
        self._weights = None if rows.weights is None else rows.weights[train]
        self.weights = None if rows.weights is None else rows.evidence[held_out]
        y = rows.y[train]
        self.offset = column_means(y, self._weights)
        self.scale = column_norms(y, self.offset, self._weights)
        varies = self.scale > 0  # rounding in constant columns is no target
        self._units = np.where(varies, column_units(self.scale), 0.0)
        root = 1.0 if self._weights is None else np.sqrt(self._weights)[:, None]
        inverse = np.divide(1.0, self._units, out=np.zeros_like(self._units), where=varies)
        self.target = root * (y - self.offset) * inverse  # of unit norm in all
        self.roots: dict[MetricKey, np.ndarray] = {}
        self._scaled: dict[MetricKey, tuple[MetricKey, np.ndarray, _Pair]] = {}

    def __len__(self) -> int:
        return len(self.train)

    @property
    def rows(self) -> Rows:
        """All rows, of which these are some."""
        return self._rows

    @property
    def backend(self) -> Backend:
        """Where it is computed."""
        return self._rows.backend

    @contextmanager
    def operator(self, request: Request) -> Iterator[KernelOperator]:
        """Products over the training rows."""
        X, _ = self.scaled_rows(request.metric)
        n_columns = len(request.speeds) * self.y.shape[1]
        with operator_over(self.backend, X, request.kernel, n_columns=n_columns) as operator:
            if self._weights is None:
                yield operator
            else:
                yield WeightedOperator(operator, self._weights.astype(X.dtype))

    def cross(self, request: Request) -> CrossProduct:
        """Products between held-out and training rows."""
        X, X_new = self.scaled_rows(request.metric)
        return self.backend.cross(X_new, X, request.kernel)

    def in_units(self, ladder: Ladder) -> Ladder:
        """Trained paths in the units of y."""
        coefficients = ladder.coefficients * self.to_units(ladder.coefficients.dtype)
        return replace(ladder, coefficients=coefficients)

    def learn(
        self,
        scout: Trial,
        ladder: Ladder,
        speed: int,
        ended: Callable[[], bool] = lambda: False,
    ) -> None:
        """The metric of one more round, from the gradients of the scout's path at its stop."""
        kernel, key = scout.candidate.kernel, scout.candidate.metric
        X, _ = self.scaled_rows(key)
        n_stops = ladder.reached(speed, scout.max_r2)
        path = _kernel_sum(X, kernel, *ladder.until(speed, n_stops))
        with self.backend.threads(len(X)):
            root = learned_root(
                path,
                self.scale,
                self.root(key),
                diagonal=not key.mixes,
                backend=self.backend,
                ended=ended,
            )
        self.roots[key.after(key.n_rounds + 1)] = root

    def root(self, key: MetricKey) -> np.ndarray:
        """A metric that has been learned; that of no round leaves columns as they are."""
        if not key.learned:
            return np.ones(self._encoded(key.encoding)[0].shape[1])
        return self.roots[key]

    def scaled_rows(self, key: MetricKey) -> tuple[np.ndarray, np.ndarray]:
        """Training rows and held-out rows in a metric; those of its last round are kept."""
        root = self.root(key)
        kept = self._scaled.get(key.after(0))
        if kept is not None and kept[0] == key and (kept[1] is root or not key.learned):
            return kept[2]
        X, X_new = self._encoded(key.encoding)
        rows = scaled(X, root), scaled(X_new, root)
        if rows[0].nbytes + rows[1].nbytes <= _KEPT_BYTES:
            self._scaled[key.after(0)] = key, root, rows
        return rows

    def _encoded(self, encoding: str) -> tuple[np.ndarray, np.ndarray]:
        return self._rows.views[encoding].columns(self.train, self.held_out)

    def to_units(self, dtype: np.dtype) -> np.ndarray:
        """From coefficients of the scaled, weighted target to those of y, shape (n, 1, k)."""
        weights = np.ones(len(self.train)) if self._weights is None else np.sqrt(self._weights)
        return (weights[:, None, None] * self._units).astype(dtype)


def _kernel_sum(
    X: np.ndarray, kernel: Kernel, bandwidths: np.ndarray, coefficients: np.ndarray
) -> KernelSum:
    """Paths side by side as one sum of as many targets."""
    n_stops, n_rows, *targets = coefficients.shape  # no stop at all: -1 would not do
    columns = coefficients.reshape(n_stops, n_rows, math.prod(targets))
    return KernelSum(X, kernel, bandwidths, columns, np.zeros(columns.shape[2]))


def train_parts(
    parts: Sequence[Part],
    request: Request,
    watch: Watch | None = None,
    ended: Callable[[], bool] = lambda: False,
) -> list[Ladder]:
    """Train at several speeds on every part, side by side; their metrics must be known."""
    with parts[0].backend.threads(max(map(len, parts))), ExitStack() as held:
        held.enter_context(np.errstate(invalid="ignore"))  # see `resume_path`
        ladders = train_ladders(
            [held.enter_context(part.operator(request)) for part in parts],
            [part.target for part in parts],
            request.speeds,
            shrink=SHRINK,
            max_r2=request.max_r2,
            tolerance=TOLERANCE,
            max_dimension=MAX_DIMENSION,
            watch=watch,
            ended=ended,
        )
        return [part.in_units(ladder) for part, ladder in zip(parts, ladders, strict=True)]


def learn_metrics(
    parts: Sequence[Part],
    key: MetricKey,
    scouts: Mapping[MetricKey, Trial],
    train: Callable[..., list[Ladder]] = train_parts,
) -> None:
    """Learn the metrics of all rounds up to this one, each with its scout, where not known.

    `train` is called as `train_parts` is.
    """
    for number in range(key.n_rounds):
        known = {key.after(number + 1), key}  # the last alone is enough
        wanted = [part for part in parts if not known & part.roots.keys()]
        if wanted:
            scout = scouts[key.after(number)]
            request = scout.request([scout.candidate.min_speed], scout.max_r2)
            for part, ladder in zip(wanted, train(wanted, request), strict=True):
                part.learn(scout, ladder, 0)


def common_root(parts: Sequence[Part], key: MetricKey) -> np.ndarray:
    """The metric of all rows: the mean of those that the parts have learned."""
    if len(parts) == 1:
        return parts[0].root(key)
    return mean_root([part.root(key) for part in parts])


def joined_weights(parts: Sequence[Part]) -> np.ndarray | None:
    """Of the held-out rows of all parts; None where all count alike."""
    weights = [part.weights for part in parts if part.weights is not None]
    return np.concatenate(weights) if weights else None


def search_stages(rows: Rows, budget: Budget, random: np.random.RandomState) -> list[list[Part]]:
    """Parts for the whole search, and for its finalists, stage by stage.

    If rows are few, later stages judge by more folds; otherwise they train on more rows, at least
    half as many again each.
    """
    n, groups = len(rows), rows.groups
    n_folds = folds_for(rows, budget)
    if n_folds:
        splits = split_rows(rows, random, n_folds)
        n_first = min(budget.race_folds, n_folds // 2)
        if n < budget.few_rows:  # one partition is a coin toss
            n_first = len(splits)
            splits += split_rows(rows, random, n_folds)
        parts = [Part(rows, *split) for split in splits]
        return [parts[:n_first], parts] if n_first < len(parts) else [parts]
    order = shuffled_rows(rows, random)
    border = max(n // 6, min(n // 3, budget.fewest_held_out))
    border = min(border, budget.held_out_rows)
    while border < n and groups[order[border]] == groups[order[border - 1]]:
        border += 1  # rows of a group are on one side
    if border == n:  # nearly all are of one group
        border = int(np.argmax(groups[order] == groups[order[-1]]))
    held_out, others = order[:border], order[border:]
    sizes = [min(len(others), budget.stage_rows[-1])]
    for size in reversed(budget.stage_rows[:-1]):
        if _GROWTH * size <= sizes[0]:
            sizes.insert(0, size)
    return [[Part(rows, others[:size], held_out)] for size in sizes]


def folds_for(rows: Rows, budget: Budget) -> int:
    """Number of folds in which each row is held out once; 0 if one part is held out."""
    n = len(rows)
    if n < budget.fold_rows:
        return budget.n_folds
    if rows.strata is None or n > min(budget.class_rows, budget.stage_rows[-1]):
        return 0
    n_rarer = n - int(np.bincount(rows.strata).max())
    return budget.n_folds if 2 * n_rarer < budget.fold_rows else budget.class_folds


def split_rows(
    rows: Rows, random: np.random.RandomState, n_folds: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    """(training rows, held-out rows) of one partition into folds; groups stay together."""
    order, groups = rows.shuffled_groups(random), rows.groups
    folds = np.array_split(order, max(2, min(n_folds, len(order) // 2)))
    numbers = np.empty(len(order), dtype=int)
    for number, fold in enumerate(folds):
        numbers[fold] = number
    return [
        (np.flatnonzero(numbers[groups] != number), np.flatnonzero(numbers[groups] == number))
        for number in range(len(folds))
    ]


def shuffled_rows(rows: Rows, random: np.random.RandomState) -> np.ndarray:
    """All rows in random order, those of a group one after the other."""
    order = rows.shuffled_groups(random)
    ranks = np.empty(len(order), dtype=int)
    ranks[order] = np.arange(len(order))
    return np.argsort(ranks[rows.groups], kind="stable")
