"""Members of many rows: each leaf has its own stop, metric and path; all are joined to one path."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from bandfall._fitting.paths import (
    Fitted,
    as_codes,
    log_loss_target,
    rounding_shows,
    train_path,
)
from bandfall._models.logistic import ClassTarget
from bandfall._models.member import MetricKey
from bandfall._models.metric import scaled
from bandfall._products import HOST, resolve_backend
from bandfall._search.clock import FINAL_FITS, PATH, Clock
from bandfall._search.metrics import likely_root, next_root
from bandfall._search.parts import Encoded, Part, Rows
from bandfall._search.splits import shuffled_groups
from bandfall._search.trials import Request, Trial, beyond, run_parts
from bandfall._targets.losses import Judge, PowerLoss
from bandfall._threads import parallel_map
from bandfall.descent import Log, Path
from bandfall.descent._ladder import Stages
from bandfall.descent._partition import Leaf, Partition, PartitionedSum, partition_rows
from bandfall.descent._path import column_means, column_norms

_CALLS_PER_THREAD = 4  # calls in flight per worker thread, in case workers join


@dataclass(frozen=True)
class LeafRows:
    """The rows of a table or of one of its leaves, with everything that training needs."""

    rows: Rows  # the columns "leaf" are in the coordinates of the common metric
    classes: ClassTarget | None
    numbers: np.ndarray  # (n,): row numbers in the whole table
    evidence: np.ndarray  # (n,) of bool: rows for scores and intervals, not trained on at first
    judging: np.ndarray  # (n,) of bool: one in three other rows, for choosing stop and metric
    again: bool  # whether leaves are trained again, with the evidence
    variance: float  # of y over all rows, summed over targets

    @classmethod
    def of(cls, part: Part, X: np.ndarray) -> LeafRows:
        """All training rows of a part."""
        train, whole = part.train, part.rows
        evidence, judging = held_out_rows(whole)
        return cls(
            _rows_of(whole, train, X),
            None if whole.strata is None else log_loss_target(whole, train),
            np.arange(len(train)),
            evidence[train],
            judging[train],
            len(whole) < whole.settings.again_rows,
            float(whole.y[train].var(axis=0).sum()),
        )

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def X(self) -> np.ndarray:
        """Rows in the coordinates of the common metric, (n, d)."""
        return self.rows.views["leaf"].Z

    def in_metric(self, root: np.ndarray | None) -> np.ndarray:
        """Rows in a metric of their own, (n, d)."""
        return self.X if root is None else scaled(self.X, root)

    def take(self, some: np.ndarray) -> LeafRows:
        """Some of the rows."""
        rows, classes = _rows_of(self.rows, some, self.X[some]), self.classes
        if classes is not None:
            classes = replace(classes, labels=classes.labels[some], weights=rows.weights)
        return replace(
            self,
            rows=rows,
            classes=classes,
            numbers=self.numbers[some],
            evidence=self.evidence[some],
            judging=self.judging[some],
        )


def _rows_of(rows: Rows, some: np.ndarray, X: np.ndarray) -> Rows:
    """Some of the rows, with the columns X."""
    weights = None if rows.weights is None else rows.weights[some]
    own = {"y": rows.y[some], "weights": weights, "groups": np.arange(len(some)), "strata": None}
    return replace(rows, views={"leaf": Encoded(X)}, **own)


class TrainedLeaf(NamedTuple):
    """A leaf after training."""

    numbers: np.ndarray  # row numbers of its training rows
    root: np.ndarray | None  # the leaf's own metric, applied after the one that all leaves share
    path: Path  # over rows scaled by both
    held_out: np.ndarray  # row numbers of its evidence
    predictions: np.ndarray  # (len(held_out), k): for the evidence, by a path over the other rows


def held_out_rows(rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    """`LeafRows.evidence` and `LeafRows.judging`; deterministic, and groups stay together."""
    settings = rows.settings
    fewest = min(len(rows) // 6, settings.few_evidence)
    n_evidence = max(len(rows) // settings.evidence, fewest)
    n_evidence = max(1, min(n_evidence, settings.most_evidence))
    order = shuffled_groups(rows, np.random.RandomState(0))
    evidence, judging = np.zeros((2, len(order)), dtype=bool)
    if rows.ordered:  # the last groups, and those before them
        border = -(-len(order) * n_evidence // len(rows))
        evidence[order[:border]] = True
        judging[order[border : border + (len(order) - border) // settings.judging]] = True
    else:
        evidence[order[:: -(-len(rows) // n_evidence)]] = True
        judging[order[~evidence[order]][:: settings.judging]] = True
    return evidence[rows.groups], judging[rows.groups]


def fit_leaves(part: Part, trial: Trial, root: np.ndarray, clock: Clock) -> Fitted:
    """Fit a member to the training rows of a part, leaf by leaf, on workers if possible.

    After the clock, the remaining leaves are trained on some of their rows. Ctrl-C ends those in
    training at once.
    """
    rows = part.rows
    everything = LeafRows.of(part, scaled(part.columns(trial.candidate.encoding)[0], root))
    axes = not trial.candidate.kernel.geometry.rotates
    partition = partition_rows(everything.X, rows.leaf_rows, axes=axes)
    leaves = partition.rows_of_leaves(everything.X)
    entries = PATH * rows.final_share(len(part)) * len(part) ** 2
    entries /= sum(len(numbers) ** 2 for numbers in leaves)
    after_an_interrupt = clock.interrupted  # leaves are then trained to the end
    helpers = rows.backend.helpers(LeafTrainer(rows.backend.budget))

    def interrupted() -> bool:
        return clock.interrupted and not after_an_interrupt

    def one(numbers: np.ndarray) -> TrainedLeaf:
        share = entries * len(numbers) ** 2
        if clock.over:
            most = rows.settings.smallest_leaf
            if len(numbers) > most:
                clock.skip(f"some leaves were trained on at most {most:,} of their rows")
            numbers = numbers[:: -(-len(numbers) // most)]
        with clock.task(FINAL_FITS, share):
            leaf = everything.take(numbers)
            if helpers is None:
                return train_leaf(leaf, trial, interrupted)
            leaf = replace(leaf, rows=replace(leaf.rows, backend=HOST))
            return helpers.call([("leaf", (leaf, trial))])[0]

    try:
        n_jobs = None if helpers is None else _CALLS_PER_THREAD * max(1, len(helpers.threads()))
        trained = parallel_map(
            one, leaves, n_rows=max(map(len, leaves)), n_jobs=n_jobs, stop=clock.end
        )
    finally:
        if helpers is not None:
            helpers.close()
    held_out = held_out_predictions(partition, everything.X, trained)
    return Fitted(root, joined(everything, partition, trained, trial), held_out)


class LeafTrainer:
    """Trains leaves on a worker; each call brings its own rows."""

    def __init__(self, budget: int):
        self.budget = budget

    def leaf(self, leaf: LeafRows, trial: Trial) -> TrainedLeaf:
        """Train one leaf."""
        backend = resolve_backend("auto", self.budget, len(leaf))
        return train_leaf(replace(leaf, rows=replace(leaf.rows, backend=backend)), trial)


def train_leaf(
    leaf: LeafRows, trial: Trial, interrupted: Callable[[], bool] = lambda: False
) -> TrainedLeaf:
    """Choose stop and metric with some of the rows, train on all, and predict the evidence."""

    def path_over(some: LeafRows, dtype: np.dtype) -> Path:
        Z, ones = some.in_metric(root).astype(dtype), np.ones(some.X.shape[1])
        rows, numbers = some.rows, np.arange(len(some))
        return train_path(rows, numbers, Z, ones, trial, some.classes, lambda _: interrupted())

    aside = leaf.evidence if not leaf.evidence.all() else np.zeros(len(leaf), dtype=bool)
    train, new = leaf.take(np.flatnonzero(~aside)), leaf.take(np.flatnonzero(aside))
    trial, root, dtype = _chosen(train, _in_leaf(train, trial))
    path = path_over(train, dtype)
    X_new = new.in_metric(root).astype(path.X.dtype)
    predictions = path.evaluate(X_new, backend=leaf.rows.backend)
    if leaf.again and len(new):
        train, path = leaf, path_over(leaf, path.X.dtype)
    return TrainedLeaf(train.numbers, root, path, new.numbers, predictions)


def _in_leaf(leaf: LeafRows, trial: Trial) -> Trial:
    """The trial with stop and score converted to the variance of the leaf.

    A leaf has about the same noise as the whole table but a smaller variance.
    """
    own, most = leaf.rows.y.var(axis=0).sum(), leaf.rows.settings.max_r2
    growth = float(leaf.variance / own) if own > 0 else 1.0
    r2 = trial.max_r2 if math.isnan(trial.train_r2) else trial.train_r2
    stop = min(max(1.0 - (1.0 - r2) * growth, 1e-3), most)
    score = max(1.0 - (1.0 - trial.score) * growth, 0.0)
    return replace(trial, max_r2=stop, train_r2=stop, score=score)


def _chosen(leaf: LeafRows, trial: Trial) -> tuple[Trial, np.ndarray | None, np.dtype]:
    """The trial with the stop of the leaf, its own metric if that lowers the loss, and the dtype.

    One more round of slopes is tried, and then scales by likelihood along its directions.
    """
    dtype = leaf.X.dtype
    if trial.candidate.width:  # one stage, whose metric comes from log-odds
        return trial, None, dtype
    judging, y, settings = leaf.judging, leaf.rows.y, leaf.rows.settings
    n_fewer = min(np.count_nonzero(judging), np.count_nonzero(~judging))
    if n_fewer < settings.fewest_judging or not np.ptp(y, axis=0).any():
        return trial, None, dtype
    part = Part(leaf.rows, np.flatnonzero(~judging), np.flatnonzero(judging))
    judge = PowerLoss() if leaf.classes is None else PowerLoss(2.0)  # proper for shares of classes
    scout = replace(trial, candidate=replace(trial.candidate, encoding="leaf"))
    ones = np.ones(leaf.X.shape[1])
    plain = _judged(part, ones, scout, judge)
    root = next_root(part, ones, scout, plain.stages)
    best = min(plain, _judged(part, root, scout, judge), key=lambda one: one.loss)
    if 1 < len(ones) <= settings.likelihood_columns:
        key = MetricKey("leaf", trial.candidate.kernel.geometry.rotates, 0)
        root = likely_root(part, best.root, key)
        best = min(best, _judged(part, root, scout, judge), key=lambda one: one.loss)
    errors, varies = best.predictions - part.y, part.y - part.y.mean(axis=0)
    score = 1.0 - float(np.mean(errors**2) / np.mean(varies**2))
    trial = replace(trial, max_r2=best.stop, train_r2=best.stop, score=score)
    if rounding_shows(best.stages[1], trial, settings):
        dtype = np.dtype(np.float64)
    return trial, None if best is plain else best.root, dtype


class _Judged(NamedTuple):
    """A path over most rows of a leaf, at the stop that predicts the other rows best."""

    root: np.ndarray
    stages: Stages
    stop: float
    loss: float
    predictions: np.ndarray


def _judged(part: Part, root: np.ndarray, trial: Trial, judge: Judge) -> _Judged:
    """Train in a metric while predictions for the held-out rows improve."""
    settings = part.rows.settings
    limit = min(settings.max_r2, max(settings.farthest, beyond(trial, settings)))
    request = Request(trial.candidate, [trial.candidate.min_speed], limit)
    (outcome,) = run_parts([part], request, [root], judge)
    losses = np.average(outcome.losses[:, :, 0], axis=1, weights=part.evidence)
    best = int(np.argmin(losses))
    stop = float(np.clip(outcome.ladder.r2[best, 0], 1e-3, settings.max_r2))
    predictions = outcome.predictions[best][:, 0]
    return _Judged(root, outcome.ladder.until(0, best), stop, float(losses[best]), predictions)


def held_out_predictions(
    partition: Partition, X: np.ndarray, leaves: Sequence[TrainedLeaf]
) -> np.ndarray:
    """Predictions of leaves for their held-out rows, (n, k); NaN for other rows."""
    pairs = [(leaf.held_out, leaf.predictions) for leaf in leaves]
    total, known = _blended(partition, X, pairs)
    complete = known > 0.999  # total weight of the leaves
    return np.where(complete[:, None], total / np.where(complete, known, 1.0)[:, None], np.nan)


def _blended(
    partition: Partition, X: np.ndarray, leaves: Sequence[tuple[np.ndarray, np.ndarray]]
) -> tuple[np.ndarray, np.ndarray]:
    """Blend what leaves have for some rows: their numbers and values, of which the first count.

    Sums (n, k) and the total weight (n,) of the leaves that have a value.
    """
    total, known = np.zeros((len(X), leaves[0][1].shape[1])), np.zeros(len(X))
    for leaf, rows, shares in partition.shares(X):
        numbers, values = leaves[leaf]
        order = np.argsort(numbers, kind="stable")
        inside = np.isin(rows, numbers, assume_unique=True)  # rounding may add rows at a border
        places = order[np.searchsorted(numbers, rows[inside], sorter=order)]
        total[rows[inside]] += shares[inside, None] * values[places]
        known[rows[inside]] += shares[inside]
    return total, known


def joined(
    everything: LeafRows, partition: Partition, leaves: Sequence[TrainedLeaf], trial: Trial
) -> Path:
    """One path of all leaves."""
    X, y, weights = everything.X, everything.rows.y, everything.rows.weights
    known = []
    for leaf in leaves:
        codes = as_codes(leaf.predictions, trial, everything.classes)
        numbers = np.concatenate([leaf.numbers, leaf.held_out])  # some are in both
        known.append((numbers, np.concatenate([leaf.path.residual, y[leaf.held_out] - codes])))
    residual, _ = _blended(partition, X, known)
    models = [Leaf(leaf.path.undivided, leaf.root) for leaf in leaves]
    model = PartitionedSum(X, partition, tuple(models))
    paths = [leaf.path for leaf in leaves]
    statuses = [path.status for path in paths]
    spans = np.full(len(model), np.nan)
    path = Path(
        model=model,
        starts=spans,
        durations=spans,
        step_sizes=np.zeros(len(model)),
        scale=column_norms(y, column_means(y, weights), weights),
        residual=residual.astype(X.dtype),
        log=Log(*np.zeros((5, 0))),
        time=max(path.time for path in paths),
        r2=0.0,
        status=max(statuses, key=lambda one: (statuses.count(one), one.value)),  # most frequent
        bandwidth=float(np.median([path.bandwidth for path in paths])),
        weights=weights,
        y=y.astype(X.dtype),
        n_products=sum(path.n_products for path in paths),
    )
    return replace(path, r2=path.r2_of(path.residual))
