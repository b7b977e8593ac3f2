"""From trained leaves to one path, and to what they predict for rows that are kept apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from bandfall.centring import column_means, column_norms
from bandfall.descent import Log, Path, Status
from bandfall.metric import scaled
from bandfall.partition import Partition
from bandfall.partitioned import Leaf, PartitionedSum
from bandfall.selection.leaves import FittedLeaf
from bandfall.selection.parts import Part
from bandfall.selection.tuning import Tuned, mean_r2

_FEWEST = 50  # rows to judge by, if the search has others
_COMPLETE = 0.999  # weight of the leaves that have predicted a row


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

    Paths of the search are trained on some of the rows; those of leaves, on all but the evidence.

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
    if not len(known) or len(known) < min(len(tuned.held_out), _FEWEST):
        return tuned
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
    partition = partition.for_columns(places)
    residual = np.zeros(y.shape)
    for leaf, rows, shares in partition.shares(X):
        own = leaves[leaf]
        numbers = np.concatenate([own.numbers, own.held_out])
        missed = np.concatenate([own.path.residual, y[own.held_out] - own.predictions])
        order = np.argsort(numbers, kind="stable")  # rows that are there twice: trained on first
        known = np.isin(rows, numbers, assume_unique=True)  # rounding may add one at a border
        found = order[np.searchsorted(numbers, rows[known], sorter=order)]
        residual[rows[known]] += shares[known, None] * missed[found]
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


def root_for_columns(root: np.ndarray, places: np.ndarray) -> np.ndarray:
    """A metric for columns that stand at `places` of those it was learned for."""
    return root[places] if root.ndim == 1 else root[np.ix_(places, places)]


def _in_places(X: np.ndarray, leaf: FittedLeaf, places: np.ndarray) -> Leaf:
    """A leaf over the rows X, in another order of columns."""
    model, rows, root = leaf.path.undivided, X[leaf.numbers], leaf.root
    if root is not None:
        root = root_for_columns(root, places)
        rows = scaled(rows, root)
    return Leaf(replace(model, X=rows.astype(model.X.dtype)), root)


def _worst(statuses: Sequence[Status]) -> Status:
    """How leaves ended: interrupted if one was, otherwise as most of them."""
    if Status.INTERRUPTED in statuses:
        return Status.INTERRUPTED
    return max(statuses, key=lambda one: (statuses.count(one), one.value))
