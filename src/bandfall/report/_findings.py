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
from bandfall.descent._partitioned import in_step
from bandfall.report._columns import (
    LabelledRows,
    Points,
    moved_along,
    places,
    points_along,
    shuffled_along,
    typical_row,
)
from bandfall.report._model import Model, Moment

MAX_ROWS = 1000  # for computations that predict rows many times
N_REPEATS, N_SLICES = 5, 6
ROUNDING = 1e-5  # relative difference up to which targets are the same
LEVEL = 0.9  # coverage of the drawn intervals
COVERAGES = np.linspace(0.05, 0.95, 19)  # coverages that are checked
# Progress before features are shuffled, after that, and before slices are computed.
_BEGIN, _SHUFFLED, _SLICES = 0.04, 0.66, 0.8


class Stages(NamedTuple):
    """The course of training, by stage; losses have one more entry, for the start."""

    bandwidth: np.ndarray
    time: np.ndarray
    train_loss: np.ndarray
    scored_loss: np.ndarray | None  # on test rows, if there are any
    moved: np.ndarray  # share of each stage in the total movement of the outputs

    @property
    def gain(self) -> np.ndarray | None:
        """Fall of the loss on test rows during each stage."""
        return None if self.scored_loss is None else -np.diff(self.scored_loss)


class Film(NamedTuple):
    """Losses and bandwidths at the moments that slices show."""

    train_loss: np.ndarray
    scored_loss: np.ndarray | None
    bandwidth: np.ndarray
    moments: list[Moment]


class Slice(NamedTuple):
    """Outputs along one feature, with the others fixed at a typical row."""

    feature: str
    points: Points
    values: np.ndarray  # (n_moments, n_points, k)
    others: np.ndarray  # (n_rows, n_points, k): the final model through other rows
    missing: np.ndarray | None  # (k,): the final model without a value, if there are such rows
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

    Attributes
    ----------
    model : Model
    features : list of str
    unused : dict of str to str
        Features that the model does not use, and why.
    train, scored : LabelledRows
        Targets are numbers, or positions among the classes (−1 for unknown classes). The scored
        rows are test rows if there are any, else training rows that the search held out, else all
        training rows.
    outputs : ndarray of shape (m, k)
        Predictions or probabilities for the scored rows; if `held_out`, by models that had not
        seen them.
    row_numbers : ndarray of shape (m,)
        Numbers of the scored rows in their table, from 1.
    tested, held_out : bool
        Whether test rows were given; whether the scored rows were not trained on.
    unseen : str
        A message about rows of unknown classes; "" if there are none.
    importances : ndarray of shape (d, 2)
        Mean and standard deviation of the rise of the loss when a feature is shuffled, on test
        rows or, without any, training rows.
    order : list of int
        Columns of the features that the model uses, the most important first.
    stages : Stages or None
    film : Film or None
        The moments of training that slices show.
    slices : list of Slice
        Along the six most important features.
    intervals : Coverage or None
        If the model has intervals and test rows were given.
    """

    model: Model
    features: list[str]
    unused: dict[str, str]
    train: LabelledRows
    scored: LabelledRows
    outputs: np.ndarray
    row_numbers: np.ndarray
    tested: bool
    held_out: bool
    unseen: str
    importances: np.ndarray
    order: list[int]
    stages: Stages | None
    film: Film | None
    slices: list[Slice]
    intervals: Coverage | None

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
    """Compute all numbers of a report about a fitted model.

    Parameters
    ----------
    estimator : fitted estimator or pipeline with one target
    train : LabelledRows
        The rows it was trained on, with numbers or labels as targets.
    test : LabelledRows or None
        Unseen rows. Without them, the model is scored on the training rows that its search held
        out, if there are any.
    features : list of str, optional
        Names of the columns. By default those of the table, of the model, or "feature 1", …
    seed : int
        Seed for samples and shuffles.
    progress : callable (float) -> None
        Called with the share of work done, 0 to 1.
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
    progress(_BEGIN)
    tests = [] if test is None else [scored]
    importances = _importances(model, [train, *tests][-1], seed, progress)
    stages, film = _training(model, [one.sample(MAX_ROWS, seed) for one in (train, *tests)])
    progress(_SHUFFLED + 0.05)
    readings = () if model.schema is None else model.schema.readings
    unused = {name: r.dropped for name, r in zip(features, readings, strict=False) if r.dropped}
    ranked = np.argsort(-importances[:, 0], kind="stable")
    order = [int(j) for j in ranked if features[j] not in unused]
    slices = []
    for i, j in enumerate(order[:N_SLICES]):
        progress(_SLICES + (1.0 - _SLICES) * i / N_SLICES)
        slices.append(_slice(model, train, j, features[j], film, seed))
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
        film=film,
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
        progress(_BEGIN + (_SHUFFLED - _BEGIN) * (j + 1) / len(rises))
    return np.stack([rises.mean(axis=1), rises.std(axis=1)], axis=1)


def _training(model: Model, parts: list[LabelledRows]) -> tuple[Stages | None, Film | None]:
    """The log of the path, and losses after each stage and at the moments of a film.

    `parts` are training rows and, if there are any, test rows. None if there is no path, or if a
    loss is not defined. A model of several paths may have more stages than the path that is shown,
    whose stages are then repeated.
    """
    path = model.staged_path
    if path is None:
        return None, None
    courses = [model.course(rows.X) for rows in parts]

    def losses(outputs: list[np.ndarray]) -> list[np.ndarray]:
        pairs = zip(parts, outputs, strict=True)
        return [np.array([model.target.loss(rows.y, one) for one in of]) for rows, of in pairs]

    train, *test = losses(courses)
    if not np.all(np.isfinite([train, *test])):
        return None, None
    moved = np.sqrt((np.diff(courses[-1], axis=0) ** 2).mean(axis=(1, 2)))
    shown = in_step(len(path), len(moved))
    bandwidth, share = path.bandwidths[shown], moved / (moved.sum() or 1.0)
    stages = Stages(bandwidth, path.ends[shown], train, test[0] if test else None, share)
    moments = model.moments(1.0 - train[1:] / (train[0] or 1.0))
    bandwidths = [
        bandwidth[max(moment.stage, 0)] if moment.part is None else moment.part.bandwidths[0]
        for moment in moments
    ]
    filmed = zip(parts, courses, strict=True)
    train, *test = losses([model.film(rows.X, moments, course) for rows, course in filmed])
    return stages, Film(train, test[0] if test else None, np.array(bandwidths), moments)


def _slice(
    model: Model, train: LabelledRows, j: int, feature: str, film: Film | None, seed: int
) -> Slice:
    """Outputs along feature j through the most typical training row, and through 12 others."""
    column = train.X.iloc[:, j]
    points, known = points_along(column), places(column)
    X = moved_along(train.X, [typical_row(train.X)], j, points.values)
    values = model.predict(X)[None] if film is None else model.film(X, film.moments)
    random = np.random.default_rng(seed)
    some = [int(i) for i in random.permutation(len(train.y))[:12]]
    others = model.predict(moved_along(train.X, some, j, points.values))
    others = others.reshape(len(some), len(points.values), -1)
    rug = np.zeros(0) if known is None else random.permutation(known[~np.isnan(known)])[:MAX_ROWS]
    n = len(points.grid)
    missing = values[-1, n] if points.missing else None
    return Slice(feature, points, values[:, :n], others[:, :n], missing, rug / points.unit[1])
