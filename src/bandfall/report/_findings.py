"""The numbers of a report about a model, without any layout."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pandas as pd

from bandfall._estimators.view import feature_names_of
from bandfall._targets import Classes, Target
from bandfall._targets.scores import Scores, unseen_words
from bandfall._typing import Estimator
from bandfall.descent._partition import in_step
from bandfall.report._columns import (
    LabelledRows,
    Points,
    moved_along,
    places,
    points_along,
    shuffled_along,
    typical_row,
)
from bandfall.report._model import Model

MAX_ROWS = 1000  # for computations that predict rows many times
N_REPEATS, N_SLICES = 5, 6
MAX_MOMENTS = 30
ROUNDING = 1e-5  # relative difference up to which targets are the same
LEVEL = 0.9  # coverage of the drawn intervals
COVERAGES = np.linspace(0.05, 0.95, 19)  # coverages that are checked


class Stages(NamedTuple):
    """The course of training, by stage; losses have one more entry, for the start."""

    bandwidth: np.ndarray
    time: np.ndarray
    train_loss: np.ndarray
    scored_loss: np.ndarray | None  # on test rows, if there are any
    moments: np.ndarray  # entries of the losses that the film of the slices shows


class Slice(NamedTuple):
    """Outputs along one feature, with the others fixed at a typical row."""

    feature: str
    points: Points
    values: np.ndarray  # (n_moments, n_points, k)
    rug: np.ndarray  # values of some training rows


class Coverage(NamedTuple):
    """Promised and observed coverages on test rows, and ends of the intervals for `LEVEL`."""

    coverages: np.ndarray
    shares: np.ndarray
    lower: np.ndarray
    upper: np.ndarray


@dataclass(frozen=True)
class Findings:
    """All numbers of a report.

    Targets are numbers, or positions among the classes (−1 for unknown classes). The scored rows
    are test rows if there are any, else training rows that the search held out, else all training
    rows.
    """

    model: Model
    features: list[str]
    unused: dict[str, str]  # features that the model does not use, and why
    train: LabelledRows
    scored: LabelledRows
    outputs: np.ndarray  # (m, k): for the scored rows; if `held_out`, by models without them
    row_numbers: np.ndarray  # (m,): of the scored rows in their table, from 1
    tested: bool  # whether test rows were given
    held_out: bool  # whether the scored rows were not trained on
    unseen: str  # a message about rows of unknown classes
    # (d, 2): mean and standard deviation of the rise of the loss when a feature is shuffled, on
    # test rows or, without any, training rows.
    importances: np.ndarray
    order: list[int]  # columns of the features that the model uses, the most important first
    stages: Stages | None
    slices: list[Slice]  # along the most important features
    intervals: Coverage | None  # if the model has intervals and test rows were given

    @property
    def target(self) -> Target:
        """The target, which defines scores."""
        return self.model.target

    @cached_property
    def scores(self) -> Scores:
        """Scores of the scored rows, by name."""
        return self.target.scores(self.scored.y, self.outputs)

    @cached_property
    def baseline(self) -> Scores:
        """Scores of the mean of the training target, or of the shares of its classes."""
        start = np.tile(self.model.start, (len(self.scored.y), 1))
        return self.target.scores(self.scored.y, start)

    @property
    def loss(self) -> float:
        """Loss on the scored rows; NaN if it is not defined, as R² of equal targets."""
        if np.isnan(self.scores.get("r2", 0.0)):
            return np.nan
        return self.target.loss(self.scored.y, self.outputs)

    @property
    def rows_name(self) -> str:
        """Name of the scored rows."""
        return "held-out rows" if self.held_out else "training rows"

    @property
    def predictions(self) -> np.ndarray:
        """Predictions of a numeric target, shape (m,)."""
        return self.outputs[:, 0]

    @property
    def residuals(self) -> np.ndarray:
        """Target minus prediction of the scored rows."""
        return self.scored.y - self.predictions

    @property
    def half_width(self) -> float:
        """The 90 % quantile of absolute errors on the scored rows."""
        return float(np.quantile(np.abs(self.residuals), LEVEL))


def study(
    estimator: Estimator,
    train: LabelledRows,
    test: LabelledRows | None,
    features: list[str] | None = None,
    *,
    seed: int = 0,
    progress: Callable[[float], None] = lambda share: None,
) -> Findings:
    """Compute all numbers of a report about a fitted model with one target.

    `test` are unseen rows; without them, the model is scored on the training rows that its search
    held out, if there are any. `features` are names for the columns, `seed` is for samples and
    shuffles, and `progress` is called with the share of work done.
    """
    model, unseen = Model(estimator, train.y), ""

    def read(rows: LabelledRows) -> LabelledRows:
        X, y = rows.as_table(model.schema)
        return LabelledRows(X, model.target.read(y))

    train = read(train)
    features = features or _names(estimator, train.X.columns)
    if test is None:
        scored, outputs, rows = _held_out(model, train)
    else:
        if isinstance(model.target, Classes):
            unseen = unseen_words(test.y, model.target.labels, "held-out rows")
        scored = read(test)
        outputs, rows = model.predict(scored.X, warn=True), np.arange(len(scored.y))
    tests = [] if test is None else [scored]
    importances = _importances(model, [train, *tests][-1], seed, progress)
    stages = _training(model, [one.sample(MAX_ROWS, seed) for one in (train, *tests)])
    readings = () if model.schema is None else model.schema.readings
    unused = {name: r.dropped for name, r in zip(features, readings, strict=False) if r.dropped}
    ranked = np.argsort(-importances[:, 0], kind="stable")
    order = [int(j) for j in ranked if features[j] not in unused]
    slices = [_slice(model, train, j, features[j], stages, seed) for j in order[:N_SLICES]]
    progress(1.0)
    return Findings(
        model=model,
        features=features,
        unused=unused,
        train=train,
        scored=scored,
        outputs=outputs,
        row_numbers=rows + 1,
        tested=test is not None,
        held_out=test is not None or model.story.held_out_rows.size > 0,
        unseen=unseen,
        importances=importances,
        order=order,
        stages=stages,
        slices=slices,
        intervals=None if test is None else _intervals(model, scored),
    )


def _names(estimator: Estimator, columns: pd.Index) -> list[str]:
    """Names of the features: those of the table, those of the model, or numbers."""
    if isinstance(columns, pd.RangeIndex):
        return feature_names_of(estimator) or [f"feature {j + 1}" for j in columns]
    return [str(name) for name in columns]


def _held_out(model: Model, train: LabelledRows) -> tuple[LabelledRows, np.ndarray, np.ndarray]:
    """Held-out rows of the search with outputs and row numbers; all rows if none were held out."""
    rows, answers = model.story.held_out_rows, model.story.held_out_answers
    if not len(rows) or answers is None:
        return train, model.predict(train.X), np.arange(len(train.y))
    outputs = np.asarray(answers, dtype=np.float64).reshape(len(rows), -1)
    same, intervals = rows.max() < len(train.y), model.story.intervals
    if same and intervals is None:
        same = np.all(train.y[rows] >= 0)
    elif same and intervals is not None:
        y, known = train.y[rows], outputs[:, 0] + np.ravel(intervals.residuals)
        same = np.allclose(y, known, rtol=ROUNDING, atol=ROUNDING * np.abs(y).mean())
    if not same:
        raise ValueError(
            "X and y are not the rows that the model was trained on; pass unseen rows as X_test "
            "and y_test"
        )
    return train.take(rows), outputs, rows


def _intervals(model: Model, rows: LabelledRows) -> Coverage | None:
    """Intervals of test rows, and their observed coverage, for many promised coverages."""
    if model.story.intervals is None:
        return None
    ends = model.intervals(rows.X, [*COVERAGES, LEVEL])
    lower, upper, y = ends[:, 0], ends[:, 1], rows.y[:, None]
    shares = ((lower <= y) & (y <= upper))[:, :-1].mean(axis=0)
    return Coverage(COVERAGES, shares, lower[:, -1], upper[:, -1])


def _importances(
    model: Model, rows: LabelledRows, seed: int, progress: Callable[[float], None]
) -> np.ndarray:
    """Rise of the loss when one feature is shuffled: mean and standard deviation over repeats.

    The number of rows is such that this takes about ten seconds at most: 1e10 kernel entries.
    """
    light, n_entries = model.light()
    n_rows = int(1e10 / (rows.X.shape[1] * N_REPEATS * n_entries))
    rows = rows.sample(min(max(n_rows, 50), MAX_ROWS), seed)
    random = np.random.default_rng(seed)
    base = model.target.loss(rows.y, light.predict(rows.X))
    if np.isnan(base):
        return np.zeros((rows.X.shape[1], 2))
    rises = np.empty((rows.X.shape[1], N_REPEATS))
    for j in range(rows.X.shape[1]):
        outputs = light.predict(shuffled_along(rows.X, j, N_REPEATS, random))
        parts = np.split(outputs, N_REPEATS)
        rises[j] = [model.target.loss(rows.y, part) - base for part in parts]
        progress(0.8 * (j + 1) / len(rises))
    return np.stack([rises.mean(axis=1), rises.std(axis=1)], axis=1)


def _training(model: Model, parts: list[LabelledRows]) -> Stages | None:
    """Bandwidths and losses after each stage.

    `parts` are training rows and, if there are any, test rows. None if there is no path, or if a
    loss is not defined. A model of several paths may have more stages than the path that is shown,
    whose stages are then repeated.
    """
    path = model.staged_path
    if path is None:
        return None
    train, *test = (
        np.array([model.target.loss(rows.y, outputs) for outputs in model.course(rows.X)])
        for rows in parts
    )
    if not np.all(np.isfinite([train, *test])):
        return None
    shown = in_step(len(path), len(train) - 1)
    moments = np.arange(len(train))
    if len(train) > MAX_MOMENTS:  # about evenly spaced in the training loss
        levels = np.linspace(train[0], train[-1], MAX_MOMENTS)
        nearest = np.abs(train[:, None] - levels).argmin(axis=0)
        moments = np.unique([0, *nearest, len(train) - 1])
    scored = test[0] if test else None
    return Stages(path.bandwidths[shown], path.ends[shown], train, scored, moments)


def _slice(
    model: Model, train: LabelledRows, j: int, feature: str, stages: Stages | None, seed: int
) -> Slice:
    """Outputs along feature j through the most typical training row."""
    column = train.X.iloc[:, j]
    points, known = points_along(column), places(column)
    X = moved_along(train.X, [typical_row(train.X)], j, points.values)
    values = model.predict(X)[None] if stages is None else model.course(X)[stages.moments]
    random = np.random.default_rng(seed)
    rug = np.zeros(0) if known is None else random.permutation(known[~np.isnan(known)])[:MAX_ROWS]
    return Slice(feature, points, values[:, : len(points.grid)], rug)
