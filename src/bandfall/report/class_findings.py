"""What a report says about a classifier, as numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from bandfall.estimators._reading import last_step, steps_before
from bandfall.report.class_scores import (
    ClassScores,
    positions,
    row_losses,
    score_classes,
    unseen_words,
)
from bandfall.report.findings import (
    MAX_ROWS,
    N_REPEATS,
    N_SLICES,
    Rows,
    moved_along,
    points_along,
    shuffled_along,
    typical_row,
)


class ClassStages(NamedTuple):
    """Log-loss along training, one entry a stage, and the bandwidth of the heaviest member."""

    bandwidth: np.ndarray
    train_loss: np.ndarray
    scored_loss: np.ndarray


class ClassSlice(NamedTuple):
    """Probabilities (n_points, c) along one feature, the others at a typical row.

    `labels` are the values of a feature that is no number; `grid` then counts them.
    """

    feature: str
    grid: np.ndarray
    probabilities: np.ndarray
    labels: list[str] | None


@dataclass(frozen=True)
class ClassFindings:
    """All numbers of a report about a classifier.

    Attributes
    ----------
    features, classes : list of str
    prior : ndarray of shape (c,)
        Shares of the classes in the training rows.
    train, scored : Rows
        The latter are held-out rows or, where there are none, training rows; `held_out` says
        which.
    labels : ndarray of shape (m,)
        Classes of the scored rows, as positions; −1 for one that is not among them.
    probabilities : ndarray of shape (m, c)
    scores : ClassScores
    unseen : str
        What they make of held-out rows whose class the model does not know; "" without such rows.
    importances : ndarray of shape (d, 2)
        Mean and standard deviation of the rise of log-loss when a feature is shuffled.
    stages : ClassStages or None
    slices : list of ClassSlice
    """

    features: list[str]
    classes: list[str]
    prior: np.ndarray
    train: Rows
    scored: Rows
    held_out: bool
    labels: np.ndarray
    probabilities: np.ndarray
    scores: ClassScores
    unseen: str
    importances: np.ndarray
    stages: ClassStages | None = None
    slices: list[ClassSlice] = field(default_factory=list)


class _Classifier:
    """A fitted classifier or pipeline, asked with tables."""

    def __init__(self, estimator: Any):
        self._estimator = estimator
        self.last, self._before = last_step(estimator), steps_before(estimator)
        self._names = getattr(estimator, "feature_names_in_", None)

    def probabilities(self, X: pd.DataFrame) -> np.ndarray:
        return np.asarray(self._estimator.predict_proba(self._named(X)), dtype=np.float64)

    def losses(self, rows: Rows) -> np.ndarray:
        """Log-loss after every stage, over rows of known classes."""
        labels = positions(rows.y, self.last.classes_)
        known = labels >= 0
        inner = self._named(rows.X[known])
        if self._before is not None:
            inner = self._before.transform(inner)
        staged = self.last.staged_predict_proba(inner)
        return np.array([row_losses(np.asarray(p), labels[known]).mean() for p in staged])

    def _named(self, X: pd.DataFrame) -> Any:
        return X.to_numpy(dtype=np.float64) if self._names is None else X


def study_classes(
    estimator: Any, train: Rows, test: Rows | None, features: list[str], *, seed: int = 0
) -> ClassFindings:
    """Look at a fitted `BandfallClassifier`, or a pipeline that ends in one, from all sides.

    Parameters
    ----------
    estimator : fitted classifier or pipeline
    train, test : Rows
        With labels in place of numbers; `test` is None where no rows were held out.
    features : list of str
    seed : int
        Of samples and shuffles.
    """
    train, test = train.as_table(), None if test is None else test.as_table()
    model, scored = _Classifier(estimator), train if test is None else test
    labels = positions(scored.y, model.last.classes_)
    probabilities = model.probabilities(scored.X)
    importances = _importances(model, scored.sample(MAX_ROWS, seed), seed)
    order = np.argsort(-importances[:, 0])[:N_SLICES]
    return ClassFindings(
        features=features,
        classes=[str(one) for one in model.last.classes_],
        prior=model.last.prior_,
        train=train,
        scored=scored,
        held_out=test is not None,
        labels=labels,
        probabilities=probabilities,
        scores=score_classes(probabilities, labels),
        unseen=unseen_words(scored.y, model.last.classes_, "held-out rows"),
        importances=importances,
        stages=_stages(model, train.sample(MAX_ROWS, seed), scored.sample(MAX_ROWS, seed)),
        slices=[_slice(model, train.X, int(j), features[int(j)]) for j in order],
    )


def _importances(model: _Classifier, rows: Rows, seed: int) -> np.ndarray:
    """Rise of log-loss when one feature is shuffled: mean and deviation over repeats."""
    labels = positions(rows.y, model.last.classes_)
    rows, labels = Rows(rows.X[labels >= 0], rows.y[labels >= 0]), labels[labels >= 0]
    if not len(labels):
        return np.zeros((rows.X.shape[1], 2))
    base = row_losses(model.probabilities(rows.X), labels).mean()
    random = np.random.default_rng(seed)
    rises = np.empty((rows.X.shape[1], N_REPEATS))
    for j in range(rows.X.shape[1]):
        shuffled = shuffled_along(rows.X, j, random)
        losses = row_losses(model.probabilities(shuffled), np.tile(labels, N_REPEATS))
        rises[j] = losses.reshape(N_REPEATS, -1).mean(axis=1) - base
    return np.stack([rises.mean(axis=1), rises.std(axis=1)], axis=1)


def _stages(model: _Classifier, train: Rows, scored: Rows) -> ClassStages | None:
    """Along training, as far as there is any; members keep step."""
    if not np.any(positions(scored.y, model.last.classes_) >= 0):
        return None
    path = model.last.path_
    losses = [model.losses(rows) for rows in (train, scored)]
    n = len(losses[0])
    if n < 2 or not np.all(np.isfinite(losses)):
        return None
    shown = -(-np.arange(1, n + 1) * len(path) // n) - 1
    return ClassStages(path.bandwidths[shown], *losses)


def _slice(model: _Classifier, X: pd.DataFrame, j: int, feature: str) -> ClassSlice:
    grid, column, labels = points_along(X.iloc[:, j])
    moved = moved_along(X, [typical_row(X)], j, column)
    return ClassSlice(feature, grid, model.probabilities(moved), labels)
