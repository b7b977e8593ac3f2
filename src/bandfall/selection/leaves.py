"""Members of many rows: leaf by leaf, each in a metric of its own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from bandfall.backends import HOST, Backend
from bandfall.descent import Log, Path, Status
from bandfall.metric import learned_root, scaled
from bandfall.model import KernelSum
from bandfall.partition import Partition, partition_rows
from bandfall.partitioned import Leaf, PartitionedSum
from bandfall.selection.candidates import MAX_R2, Judge, PowerLoss, Request, Trial
from bandfall.selection.held_out import run_parts
from bandfall.selection.parts import Part, Rows
from bandfall.selection.tuning import Tuned, mean_r2
from bandfall.selection.views import Encoded
from bandfall.targets import column_means, column_norms

_FEWEST = 50  # rows to choose by
# Half of the rows train to this R² at least, or until so little is left of what the search left.
_FARTHEST, _BEYOND = 0.9, 0.1
_MOST_EVIDENCE = 10_000  # held-out rows of all leaves that are kept
_COMPLETE = 0.999  # weight of the leaves that have predicted a row


class Fit(Protocol):
    """Trains a path on rows in any coordinates, which have these numbers."""

    def __call__(self, X: np.ndarray, numbers: np.ndarray, trial: Trial) -> Path:
        """As far as the trial says."""
        ...


@dataclass(frozen=True)
class Divided:
    """Rows to divide into leaves.

    Attributes
    ----------
    X : ndarray of shape (n, d)
        In the coordinates in which distances are measured.
    y : ndarray of shape (n, k)
    weights : ndarray of shape (n,) or None
    held_out : ndarray of bool, shape (n,)
        About half of the rows: what a leaf chooses is judged by these, by paths over the others.
    mixes : bool
        Whether directions other than those of the columns make sense.
    judge : Judge
    backend : Backend
    """

    X: np.ndarray
    y: np.ndarray
    weights: np.ndarray | None
    held_out: np.ndarray
    mixes: bool
    judge: Judge
    backend: Backend = HOST

    @classmethod
    def of(cls, part: Part, trial: Trial, X: np.ndarray) -> Divided:
        """The training rows of a part, scaled, for the leaves of a trial."""
        rows = part.rows
        return cls(
            X,
            rows.y[part.train],
            None if rows.weights is None else rows.weights[part.train],
            rows.half()[part.train],
            trial.candidate.kernel.geometry.rotates,
            PowerLoss() if rows.strata is None else PowerLoss(2.0),  # proper for shares of classes
            rows.backend,
        )

    def leaves(self, leaf_rows: int) -> tuple[Partition, list[np.ndarray]]:
        """The partition, and the numbers of the rows of each leaf."""
        partition = partition_rows(self.X, leaf_rows, axes=not self.mixes)
        numbers = [np.zeros(0, dtype=int)] * partition.n_leaves
        for leaf, rows, _ in partition.shares(self.X):
            numbers[leaf] = rows
        return partition, numbers


@dataclass(frozen=True)
class FittedLeaf:
    """What was trained on the rows of one leaf.

    Attributes
    ----------
    numbers : ndarray of int
        Of its rows among those that were divided.
    root : ndarray of shape (d, d) or (d,), or None
        The metric of the leaf, beyond the one that all leaves share.
    path : Path
        Over rows scaled by both.
    held_out : ndarray of int
        Numbers of the rows that its choices were judged by.
    predictions : ndarray of shape (len(held_out), k)
        For these, by a path over the other rows of the leaf.
    """

    numbers: np.ndarray
    root: np.ndarray | None
    path: Path
    held_out: np.ndarray
    predictions: np.ndarray


@dataclass(frozen=True)
class _Half:
    """A path over half of the rows of a leaf, at the stop that is best for the other half."""

    model: KernelSum
    scale: np.ndarray
    stop: float
    loss: float
    predictions: np.ndarray


def fit_leaf(divided: Divided, numbers: np.ndarray, trial: Trial, fit: Fit) -> FittedLeaf:
    """Choose stop and metric of one leaf by half of its rows, and train on all of them.

    The noise of a leaf is that of all rows, but not its variance: a training R² that is right for
    all rows is not for a leaf. One more round of the metric is kept if it lowers the loss.

    Parameters
    ----------
    divided : Divided
    numbers : ndarray of int
        Of the rows of the leaf.
    trial : Trial
        Where the search stopped.
    fit : Fit
    """
    X = divided.X[numbers]
    trial = _in_leaf(divided, numbers, trial)
    held_out = divided.held_out[numbers]
    few = min(np.count_nonzero(held_out), np.count_nonzero(~held_out)) < _FEWEST
    if few or not np.ptp(divided.y[numbers], axis=0).any():
        nothing = np.zeros((0, divided.y.shape[1]))
        return FittedLeaf(numbers, None, fit(X, numbers, trial), numbers[:0], nothing)
    best, root = _half(divided, numbers, X, trial), None
    with divided.backend.threads(len(X)):
        learned = learned_root(
            best.model,
            best.scale,
            np.ones(X.shape[1]),
            diagonal=not divided.mixes,
            backend=divided.backend,
        )
    other = _half(divided, numbers, scaled(X, learned), trial)
    if other.loss < best.loss:
        best, root = other, learned
    y = divided.y[numbers[held_out]]
    score = 1.0 - float(np.mean((best.predictions - y) ** 2) / np.mean((y - y.mean(axis=0)) ** 2))
    trial = replace(trial, max_r2=best.stop, train_r2=best.stop, score=score)
    path = fit(X if root is None else scaled(X, root), numbers, trial)
    return FittedLeaf(numbers, root, path, numbers[held_out], best.predictions)


def _in_leaf(divided: Divided, numbers: np.ndarray, trial: Trial) -> Trial:
    """The trial with stop and score of the same residuals, relative to the variance of a leaf."""
    variance, own = divided.y.var(axis=0).sum(), divided.y[numbers].var(axis=0).sum()
    growth = float(variance / own) if own > 0 else 1.0
    r2 = trial.max_r2 if math.isnan(trial.train_r2) else trial.train_r2
    stop = min(max(1.0 - (1.0 - r2) * growth, 1e-3), MAX_R2)
    return replace(
        trial, max_r2=stop, train_r2=stop, score=max(1.0 - (1.0 - trial.score) * growth, 0.0)
    )


def _half(divided: Divided, numbers: np.ndarray, X: np.ndarray, trial: Trial) -> _Half:
    """Train on the rows of a leaf that are not held out, as long as the others get better."""
    weights = None if divided.weights is None else divided.weights[numbers]
    rows = Rows(
        {"leaf": Encoded(X)},
        divided.y[numbers],
        np.arange(len(X)),
        weights,
        divided.backend,
    )
    held_out = divided.held_out[numbers]
    part = Part(rows, np.flatnonzero(~held_out), np.flatnonzero(held_out))
    candidate = trial.candidate
    limit = max(_FARTHEST, 1.0 - _BEYOND * (1.0 - trial.max_r2))
    request = Request("leaf", 0, candidate.kernel, [candidate.min_speed], min(limit, MAX_R2))
    (outcome,) = run_parts([part], request, divided.judge)
    weights = np.ones(len(part.y)) if part.weights is None else part.weights
    losses = np.average(outcome.losses[:, :, 0], axis=1, weights=weights)
    best = int(np.argmin(losses))
    bandwidths, coefficients = outcome.ladder.until(0, best)
    return _Half(
        KernelSum(X[part.train], candidate.kernel, bandwidths, coefficients, part.offset),
        part.scale,
        float(np.clip(outcome.ladder.r2[best, 0], 1e-3, MAX_R2)),
        float(losses[best]),
        outcome.predictions[best][:, 0],
    )


def held_out_predictions(
    partition: Partition, X: np.ndarray, leaves: Sequence[FittedLeaf]
) -> np.ndarray:
    """What leaves predicted for rows that they had not seen, (n, k); NaN for other rows."""
    total, known = np.zeros((len(X), leaves[0].predictions.shape[1])), np.zeros(len(X))
    for leaf, rows, shares in partition.shares(X):
        own = leaves[leaf]
        inside = np.isin(rows, own.held_out, assume_unique=True)
        places = np.searchsorted(own.held_out, rows[inside])
        total[rows[inside]] += shares[inside, None] * own.predictions[places]
        known[rows[inside]] += shares[inside]
    complete = known > _COMPLETE
    return np.where(complete[:, None], total / np.where(complete, known, 1.0)[:, None], np.nan)


def with_evidence(tuned: Tuned, part: Part, held_out: Sequence[np.ndarray | None]) -> Tuned:
    """The same with held-out rows of all leaves as evidence, if all members have leaves.

    Paths of the search are trained on some of the rows; those of leaves, on half of all.

    Parameters
    ----------
    tuned : Tuned
    part : Part
        What members were trained on.
    held_out : sequence of ndarray of shape (n, k), or None
        For each member, its `held_out_predictions`.
    """
    predictions = np.zeros((len(part), part.rows.y.shape[1]))
    for (_, weight), own in zip(tuned.members, held_out, strict=True):
        predictions += np.nan if own is None else weight * own
    known = np.flatnonzero(np.isfinite(predictions).all(axis=1))
    if len(known) <= len(tuned.held_out):
        return tuned
    if len(known) > _MOST_EVIDENCE:
        known = np.sort(np.random.RandomState(0).permutation(known)[:_MOST_EVIDENCE])
    numbers, rows = part.train[known], part.rows
    weights = None if rows.weights is None else rows.evidence[numbers]
    score = mean_r2(predictions[known], rows.y[numbers], weights)
    return replace(tuned, held_out=numbers, predictions=predictions[known], score=score)


def path_of_leaves(
    X: np.ndarray,
    y: np.ndarray,
    weights: np.ndarray | None,
    partition: Partition,
    leaves: Sequence[FittedLeaf],
    places: np.ndarray,
) -> Path:
    """One path of all leaves, for columns that stand at `places` of those that were trained on.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Scaled rows that were divided, their columns in the new order already: stages of bandwidth
        zero find rows by their bits.
    y : ndarray of shape (n, k)
    weights : ndarray of shape (n,) or None
    partition : Partition
    leaves : sequence of FittedLeaf
    places : ndarray of int, shape (d,)
    """
    partition = replace(partition, directions=partition.directions[:, places])
    residual = np.zeros(y.shape)
    for leaf, rows, shares in partition.shares(X):
        own = leaves[leaf]
        known = np.isin(rows, own.numbers, assume_unique=True)  # rounding may add one at a border
        found = np.searchsorted(own.numbers, rows[known])
        residual[rows[known]] += shares[known, None] * own.path.residual[found]
    models = [_in_places(X, leaf, places) for leaf in leaves]
    model = PartitionedSum(X, partition, tuple(models))
    paths = [leaf.path for leaf in leaves]
    spans, nothing = np.full(len(model), np.nan), np.zeros(0)
    path = Path(
        model=model,
        starts=spans,
        durations=spans,
        step_sizes=np.zeros(len(model)),
        scale=column_norms(y, column_means(y, weights), weights),
        residual=residual.astype(X.dtype),
        log=Log(nothing, nothing, nothing, nothing, nothing),
        time=max(one.time for one in paths),
        r2=0.0,
        status=_worst([one.status for one in paths]),
        bandwidth=float(np.median([one.bandwidth for one in paths])),
        weights=weights,
        y=y.astype(X.dtype),
        n_products=sum(one.n_products for one in paths),
        n_evaluations=sum(one.n_evaluations for one in paths),
    )
    return replace(path, r2=path.r2_of(path.residual))


def _in_places(X: np.ndarray, leaf: FittedLeaf, places: np.ndarray) -> Leaf:
    """A leaf over the rows X, in another order of columns."""
    model, rows, root = leaf.path.undivided, X[leaf.numbers], leaf.root
    if root is not None:
        root = root[places] if root.ndim == 1 else root[np.ix_(places, places)]
        rows = scaled(rows, root)
    return Leaf(replace(model, X=rows.astype(model.X.dtype)), root)


def _worst(statuses: Sequence[Status]) -> Status:
    """How leaves ended: interrupted if one was, otherwise as most of them."""
    if Status.INTERRUPTED in statuses:
        return Status.INTERRUPTED
    return max(statuses, key=lambda one: (statuses.count(one), one.value))
