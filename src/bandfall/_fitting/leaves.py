"""Training one leaf of a large table: its stop, its metric and its path."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np

from bandfall._fitting.logistic import ClassTarget, log_loss_target
from bandfall._models.member import FittedLeaf, MetricKey
from bandfall._models.metric import learned_root, scaled
from bandfall._products import HOST, Backend
from bandfall._search.candidates import Request, Trial, beyond
from bandfall._search.metrics import likely_roots
from bandfall._search.parts import Part, run_parts
from bandfall._search.rows import Encoded, Rows
from bandfall._search.settings import Settings
from bandfall._search.splits import shuffled_groups
from bandfall._targets.losses import Judge, PowerLoss
from bandfall._typing import Weights
from bandfall.descent import Path
from bandfall.descent._partition import Partition, partition_rows
from bandfall.descent._sum import KernelSum


@dataclass(frozen=True)
class Divided:
    """The rows of a table or of one of its leaves, with everything that training needs."""

    X: np.ndarray  # (n, d): in the coordinates of the metric
    y: np.ndarray  # (n, k)
    weights: Weights  # (n,)
    numbers: np.ndarray  # (n,): row numbers in the whole table
    evidence: np.ndarray  # (n,) of bool: rows for scores and intervals, not trained on at first
    # (n,) of bool: about a third of the other rows, for choosing stop and metric.
    judging: np.ndarray
    again: bool  # whether leaves are trained again, with the evidence
    variance: float  # of y over all rows, summed over targets
    mixes: bool  # whether the metric may mix columns
    judge: Judge
    classes: ClassTarget | None = None
    backend: Backend = HOST
    settings: Settings = field(default_factory=Settings)

    @classmethod
    def of(cls, part: Part, trial: Trial, X: np.ndarray) -> Divided:
        """The training rows of a part, scaled, for the leaves of a trial."""
        rows, y = part.rows, part.rows.y[part.train]
        evidence, judging = held_out_rows(rows)
        return cls(
            X,
            y,
            None if rows.weights is None else rows.weights[part.train],
            np.arange(len(part)),
            evidence[part.train],
            judging[part.train],
            len(rows) < rows.settings.again_rows,
            float(y.var(axis=0).sum()),
            trial.candidate.kernel.geometry.rotates,
            PowerLoss() if rows.strata is None else PowerLoss(2.0),  # proper for shares of classes
            None if rows.strata is None else log_loss_target(rows, part.train),
            rows.backend,
            rows.settings,
        )

    def __len__(self) -> int:
        return len(self.X)

    def leaves(self, leaf_rows: int) -> tuple[Partition, list[np.ndarray]]:
        """The partition, and the indices of the rows of each leaf."""
        partition = partition_rows(self.X, leaf_rows, axes=not self.mixes)
        return partition, partition.rows_of_leaves(self.X)

    def take(self, rows: np.ndarray) -> Divided:
        """Some of the rows."""
        weights = None if self.weights is None else self.weights[rows]
        classes = self.classes
        if classes is not None:
            classes = replace(classes, labels=classes.labels[rows], weights=weights)
        return replace(
            self,
            X=self.X[rows],
            y=self.y[rows],
            weights=weights,
            numbers=self.numbers[rows],
            evidence=self.evidence[rows],
            judging=self.judging[rows],
            classes=classes,
        )

    def rows(self, X: np.ndarray) -> Rows:
        """`Rows` with these targets and the columns X, for training a path."""
        return Rows(
            {"leaf": Encoded(X)},
            self.y,
            np.arange(len(X)),
            self.weights,
            self.backend,
            settings=self.settings,
        )


# Trains a path on the rows of a leaf, in any coordinates X, up to the stop of a trial.
Fit: TypeAlias = Callable[[Divided, np.ndarray, Trial], Path]


def held_out_rows(rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    """`Divided.evidence` and `Divided.judging`; deterministic, and groups stay together."""
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
        return evidence[rows.groups], judging[rows.groups]
    evidence[order[:: -(-len(rows) // n_evidence)]] = True
    judging[order[~evidence[order]][:: settings.judging]] = True
    return evidence[rows.groups], judging[rows.groups]


@dataclass(frozen=True)
class _Judged:
    """A path over most rows of a leaf, at the stop that predicts the other rows best."""

    model: KernelSum
    scale: np.ndarray
    stop: float
    loss: float
    predictions: np.ndarray


def fit_leaf(leaf: Divided, trial: Trial, fit: Fit) -> FittedLeaf:
    """Choose stop and metric with some of the rows, train on all, and predict the evidence.

    A leaf has about the same noise as the whole table but a smaller variance, so the training R²
    of the `trial` is converted. One more round of the metric, and scales by likelihood, are kept
    if they lower the loss.
    """
    aside = leaf.evidence if not leaf.evidence.all() else np.zeros(len(leaf), dtype=bool)
    train, new = leaf.take(np.flatnonzero(~aside)), leaf.take(np.flatnonzero(aside))
    trial, root = _chosen(train, _in_leaf(train, trial))
    X, X_new = train.X, new.X
    if root is not None:
        X, X_new = scaled(X, root), scaled(X_new, root)
    path = fit(train, X, trial)
    predictions = path.evaluate(X_new.astype(path.X.dtype), backend=leaf.backend)
    if leaf.again and len(new):
        train = leaf
        path = fit(leaf, leaf.X if root is None else scaled(leaf.X, root), trial)
    return FittedLeaf(train.numbers, root, path, new.numbers, predictions)


def _chosen(leaf: Divided, trial: Trial) -> tuple[Trial, np.ndarray | None]:
    """The trial with the stop of the leaf, and the leaf's own metric if it lowers the loss."""
    if trial.candidate.width:  # one stage, whose metric comes from log-odds
        return trial, None
    judging, y = leaf.judging, leaf.y
    n_fewer = min(np.count_nonzero(judging), np.count_nonzero(~judging))
    if n_fewer < leaf.settings.fewest_judging or not np.ptp(y, axis=0).any():
        return trial, None
    best, root = _judged(leaf, leaf.X, trial), None
    few_columns = 1 < leaf.X.shape[1] <= leaf.settings.likelihood_columns
    for learned_by in (_slopes, _likelihood) if few_columns else (_slopes,):
        learned = learned_by(leaf, best, root)
        other = _judged(leaf, scaled(leaf.X, learned), trial)
        if other.loss < best.loss:
            best, root = other, learned
    errors, varies = best.predictions - y[judging], y[judging] - y[judging].mean(axis=0)
    score = 1.0 - float(np.mean(errors**2) / np.mean(varies**2))
    return replace(trial, max_r2=best.stop, train_r2=best.stop, score=score), root


def _slopes(leaf: Divided, best: _Judged, root: np.ndarray | None) -> np.ndarray:
    """The root after a round of slopes in the common metric."""
    assert root is None
    with leaf.backend.threads(len(leaf)):
        return learned_root(
            best.model,
            best.scale,
            np.ones(leaf.X.shape[1]),
            diagonal=not leaf.mixes,
            backend=leaf.backend,
        )


def _likelihood(leaf: Divided, _: _Judged, root: np.ndarray | None) -> np.ndarray:
    """The root with scales by marginal likelihood along its directions."""
    part = Part(leaf.rows(leaf.X), np.flatnonzero(~leaf.judging), np.arange(0))
    root = np.ones(leaf.X.shape[1]) if root is None else root
    return likely_roots([part], (root,), MetricKey("leaf", leaf.mixes, 0))[0]


def _in_leaf(leaf: Divided, trial: Trial) -> Trial:
    """The trial with stop and score converted to the variance of the leaf."""
    own = leaf.y.var(axis=0).sum()
    growth = float(leaf.variance / own) if own > 0 else 1.0
    r2 = trial.max_r2 if math.isnan(trial.train_r2) else trial.train_r2
    stop = min(max(1.0 - (1.0 - r2) * growth, 1e-3), leaf.settings.max_r2)
    return replace(
        trial, max_r2=stop, train_r2=stop, score=max(1.0 - (1.0 - trial.score) * growth, 0.0)
    )


def _judged(leaf: Divided, X: np.ndarray, trial: Trial) -> _Judged:
    """Train on most rows of a leaf while predictions for the others improve."""
    judging = leaf.judging
    part = Part(leaf.rows(X), np.flatnonzero(~judging), np.flatnonzero(judging))
    candidate = trial.candidate
    settings = leaf.settings
    limit = min(settings.max_r2, max(settings.farthest, beyond(trial, settings)))
    request = Request("leaf", 0, candidate.kernel, [candidate.min_speed], limit)
    (outcome,) = run_parts([part], request, [np.ones(X.shape[1])], leaf.judge)
    losses = np.average(outcome.losses[:, :, 0], axis=1, weights=part.evidence)
    best = int(np.argmin(losses))
    bandwidths, coefficients = outcome.ladder.until(0, best)
    return _Judged(
        KernelSum(X[part.train], candidate.kernel, bandwidths, coefficients, part.offset),
        part.scale,
        float(np.clip(outcome.ladder.r2[best, 0], 1e-3, settings.max_r2)),
        float(losses[best]),
        outcome.predictions[best][:, 0],
    )
