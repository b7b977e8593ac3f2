"""Fits members leaf by leaf, locally or on workers, and joins the leaves to one path."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from bandfall._fitting.leaves import Divided, fit_leaf
from bandfall._fitting.logistic import as_codes, in_its_loss
from bandfall._fitting.paths import fit_member_path, needs_digits
from bandfall._models.member import FittedLeaf
from bandfall._models.metric import scaled
from bandfall._products import HOST, resolve_backend
from bandfall._search.averaging import Tuned
from bandfall._search.candidates import Trial
from bandfall._search.clock import FINAL_FITS, PATH, Clock
from bandfall._search.parts import Part
from bandfall._search.trainer import parallel_map
from bandfall.descent import Log, Path, Status
from bandfall.descent._partition import Partition
from bandfall.descent._partitioned import Leaf, PartitionedSum
from bandfall.descent._path import column_means, column_norms

CALLS_PER_THREAD = 4  # of workers, at a time: more workers may join


class Fitted(NamedTuple):
    """Metric and path of a member, and predictions (n, k) of its leaves for held-out rows."""

    root: np.ndarray
    path: Path
    held_out: np.ndarray | None = None


def fit_leaves(part: Part, trial: Trial, Z: np.ndarray, root: np.ndarray, clock: Clock) -> Fitted:
    """Fit metric and path to the training rows of a part, leaf by leaf, on workers if possible.

    After the clock, the remaining leaves are trained on some of their rows. After an interrupt,
    they are trained on very few rows, and the path has the status INTERRUPTED.
    """
    rows = part.rows
    divided = Divided.of(part, trial, scaled(Z, root))
    partition, leaves = divided.leaves(rows.leaf_rows)
    entries = PATH * rows.final_share(len(part)) * len(part) ** 2
    entries /= sum(len(numbers) ** 2 for numbers in leaves)
    after_an_interrupt = clock.interrupted  # leaves are then trained to the end
    helpers = rows.backend.helpers(LeafTrainer(rows.backend.budget))

    def interrupted() -> bool:
        return clock.interrupted and not after_an_interrupt

    def one(numbers: np.ndarray) -> FittedLeaf:
        share = entries * len(numbers) ** 2
        if clock.left <= 0.0:
            discarded = interrupted()
            most = 200 if discarded else rows.settings.smallest_leaf
            if len(numbers) > most and not discarded:
                clock.skip(f"some leaves were trained on at most {most:,} of their rows")
            numbers = numbers[:: -(-len(numbers) // most)]
        with clock.task(FINAL_FITS, share):
            leaf = divided.take(numbers)
            if helpers is None:
                return train_leaf(leaf, trial, interrupted)
            return helpers.call([("leaf", (replace(leaf, backend=HOST), trial))])[0]

    try:
        n_jobs = None if helpers is None else CALLS_PER_THREAD * max(1, len(helpers.threads()))
        fitted = parallel_map(
            one, leaves, n_rows=max(map(len, leaves)), n_jobs=n_jobs, stop=clock.end
        )
    finally:
        if helpers is not None:
            helpers.close()
    held_out = held_out_predictions(partition, divided.X, fitted)
    return Fitted(root, path_of_leaves(divided, partition, fitted, trial), held_out)


def train_leaf(
    leaf: Divided, trial: Trial, interrupted: Callable[[], bool] = lambda: False
) -> FittedLeaf:
    """Stop, metric and path of one leaf."""

    def fit(leaf: Divided, X: np.ndarray, trial: Trial) -> Path:
        rows, numbers = leaf.rows(X), np.arange(len(leaf))
        path = fit_member_path(rows, numbers, X, trial, lambda _: interrupted())
        if needs_digits(path, trial, leaf.settings):
            X = X.astype(np.float64)
            path = fit_member_path(rows, numbers, X, trial, lambda _: interrupted())
        return in_its_loss(path, trial, leaf.classes)

    return fit_leaf(leaf, trial, fit)


class LeafTrainer:
    """Trains leaves on a worker; each call brings its own rows."""

    def __init__(self, budget: int):
        self.budget = budget

    def leaf(self, leaf: Divided, trial: Trial) -> FittedLeaf:
        """Train one leaf."""
        backend = resolve_backend("auto", self.budget, len(leaf))
        return train_leaf(replace(leaf, backend=backend), trial)


def held_out_predictions(
    partition: Partition, X: np.ndarray, leaves: Sequence[FittedLeaf]
) -> np.ndarray:
    """Predictions of leaves for their held-out rows, (n, k); NaN for other rows."""
    total, known = np.zeros((len(X), leaves[0].predictions.shape[1])), np.zeros(len(X))
    for leaf, rows, shares in partition.shares(X):
        own = leaves[leaf]
        inside = np.isin(rows, own.held_out, assume_unique=True)
        places = np.searchsorted(own.held_out, rows[inside])
        total[rows[inside]] += shares[inside, None] * own.predictions[places]
        known[rows[inside]] += shares[inside]
    complete = known > 0.999  # total weight of the leaves
    return np.where(complete[:, None], total / np.where(complete, known, 1.0)[:, None], np.nan)


def with_evidence(tuned: Tuned, part: Part, held_out: Sequence[np.ndarray | None]) -> Tuned:
    """Replace the evidence by held-out rows of all leaves, if all members have leaves.

    The search trains paths on a sample of the rows; leaves are trained on all rows but the
    evidence. `held_out` has the `held_out_predictions` (n, k) of each member.
    """
    predictions = np.zeros((len(part), part.rows.y.shape[1]))
    for (_, weight), own in zip(tuned.members, held_out, strict=True):
        predictions += np.nan if own is None else weight * own
    known = np.flatnonzero(np.isfinite(predictions).all(axis=1))
    if not len(known) or len(known) < min(len(tuned.held_out), part.rows.settings.fewest_judging):
        return tuned
    return replace(tuned, held_out=part.train[known], predictions=predictions[known])


def path_of_leaves(
    divided: Divided, partition: Partition, leaves: Sequence[FittedLeaf], trial: Trial
) -> Path:
    """Join leaves to one path."""
    X, y, weights = divided.X, divided.y, divided.weights
    residual = np.zeros(y.shape)
    for leaf, rows, shares in partition.shares(X):
        own = leaves[leaf]
        numbers = np.concatenate([own.numbers, own.held_out])
        codes = as_codes(own.predictions, trial, divided.classes)
        missed = np.concatenate([own.path.residual, y[own.held_out] - codes])
        order = np.argsort(numbers, kind="stable")  # of duplicates, trained rows come first
        known = np.isin(rows, numbers, assume_unique=True)  # rounding may add rows at a border
        found = order[np.searchsorted(numbers, rows[known], sorter=order)]
        residual[rows[known]] += shares[known, None] * missed[found]
    models = [Leaf(leaf.path.undivided, leaf.root) for leaf in leaves]
    model = PartitionedSum(X, partition, tuple(models))
    paths = [leaf.path for leaf in leaves]
    spans = np.full(len(model), np.nan)
    path = Path(
        model=model,
        starts=spans,
        durations=spans,
        step_sizes=np.zeros(len(model)),
        scale=column_norms(y, column_means(y, weights), weights),
        residual=residual.astype(X.dtype),
        log=Log(*np.zeros((5, 0))),
        time=max(one.time for one in paths),
        r2=0.0,
        status=_worst([one.status for one in paths]),
        bandwidth=float(np.median([one.bandwidth for one in paths])),
        weights=weights,
        y=y.astype(X.dtype),
        n_products=sum(one.n_products for one in paths),
    )
    return replace(path, r2=path.r2_of(path.residual))


def _worst(statuses: Sequence[Status]) -> Status:
    """INTERRUPTED if one leaf was interrupted, otherwise the most frequent status."""
    if Status.INTERRUPTED in statuses:
        return Status.INTERRUPTED
    return max(statuses, key=lambda one: (statuses.count(one), one.value))
