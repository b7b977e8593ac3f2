"""The numbers of a report about a model, without any layout."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from bandfall._targets import Classes, Target
from bandfall._targets.scores import Scores, unseen_words
from bandfall._typing import Estimator
from bandfall.descent import Path
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
N_REPEATS = 5
LEVEL = 0.9  # coverage of the drawn intervals
COVERAGES = np.linspace(0.05, 0.95, 19)  # coverages that are checked
# Progress before features are shuffled, after that, and before slices are computed.
_BEGIN, _SHUFFLED, _SLICES = 0.04, 0.66, 0.8


class Stages(NamedTuple):
    """The course of training: arrays with one entry per stage.

    Losses have one more entry, for the start. `scored_loss` is the loss on test rows, None without
    them. `moved` is the share of each stage in the total movement of the outputs.
    """

    bandwidth: np.ndarray
    time: np.ndarray
    train_loss: np.ndarray
    scored_loss: np.ndarray | None
    moved: np.ndarray

    @property
    def gain(self) -> np.ndarray | None:
        """Fall of the loss on test rows during each stage."""
        return None if self.scored_loss is None else -np.diff(self.scored_loss)


class Film(NamedTuple):
    """Losses of training and test rows, and the bandwidth, at the moments that slices show."""

    train_loss: np.ndarray
    scored_loss: np.ndarray | None
    bandwidth: np.ndarray
    moments: list[Moment]


class Slice(NamedTuple):
    """Outputs along one feature, with the others fixed at a typical row.

    `values` has shape (n_moments, n_points, k). `others` (n_rows, n_points, k) are slices of the
    final model through other rows. `missing` (k,) are outputs of the final model without a value of
    this feature, if there are such rows. `rug` has the values of some training rows.
    """

    feature: str
    points: Points
    values: np.ndarray
    others: np.ndarray
    missing: np.ndarray | None
    rug: np.ndarray


class Coverage(NamedTuple):
    """Intervals on test rows.

    `coverages` (c,) are the promised coverages and `shares` (c,) the observed ones. `lower` and
    `upper` (m,) are the ends of intervals for `LEVEL`. `method` says what widths depend on, and
    `n_rows` is the number of rows they were learned from.
    """

    coverages: np.ndarray
    shares: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    method: str
    n_rows: int


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
    stages : Stages or None
    film : Film or None
        The moments of training that slices show.
    slices : list of Slice
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
    stages: Stages | None = None
    film: Film | None = None
    slices: list[Slice] = field(default_factory=list)
    intervals: Coverage | None = None

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
    def probed(self) -> LabelledRows:
        """Rows for shuffles and stages: test rows or, without any, training rows."""
        return self.scored if self.tested else self.train

    @property
    def probed_name(self) -> str:
        """Name of these rows."""
        return "held-out rows" if self.tested else "training rows"

    @property
    def order(self) -> list[int]:
        """Columns of the features that the model uses, the most important first."""
        ranked = np.argsort(-self.importances[:, 0], kind="stable")
        return [int(j) for j in ranked if self.features[j] not in self.unused]

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
    features: list[str],
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
    features : list of str
    seed : int
        Seed for samples and shuffles.
    progress : callable (float) -> None
        Called with the share of work done, 0 to 1.
    """
    model, unseen = Model(estimator, train.y), ""
    train = _read(model, train)
    if test is None:
        scored, outputs, rows = _evidence(model, train)
    else:
        if isinstance(model.target, Classes):
            unseen = unseen_words(test.y, model.target.labels, "held-out rows")
        scored = _read(model, test)
        outputs, rows = model.predict(scored.X, warn=True), np.arange(len(scored.y))
    progress(_BEGIN)
    importances = _importances(model, train if test is None else scored, seed, progress)
    stages = film = None
    if model.staged_path is not None:
        parts = [
            rows.sample(MAX_ROWS, seed) for rows in (train, *([] if test is None else [scored]))
        ]
        stages, film = _training(model, model.staged_path, parts)
    progress(_SHUFFLED + 0.05)
    readings = () if model.schema is None else model.schema.readings
    findings = Findings(
        model=model,
        features=features,
        unused={name: r.dropped for name, r in zip(features, readings, strict=False) if r.dropped},
        train=train,
        scored=scored,
        outputs=outputs,
        row_numbers=rows + 1,
        tested=test is not None,
        held_out=test is not None or model.story.held_out_rows.size > 0,
        unseen=unseen,
        importances=importances,
        stages=stages,
        film=film,
        intervals=None if test is None else _intervals(model, scored),
    )
    shown = findings.order[:6]
    for i, j in enumerate(shown):
        progress(_SLICES + (1.0 - _SLICES) * i / len(shown))
        findings.slices.append(_slice(model, train, j, features[j], findings.film, seed))
    progress(1.0)
    return findings


def _read(model: Model, rows: LabelledRows) -> LabelledRows:
    X, y = rows.as_table(model.schema)
    return LabelledRows(X, model.target.read(y))


def _evidence(model: Model, train: LabelledRows) -> tuple[LabelledRows, np.ndarray, np.ndarray]:
    """Held-out rows of the search with outputs and row numbers; all rows if none were held out."""
    rows, outputs = model.story.held_out_rows, model.story.held_out_answers
    if not len(rows) or outputs is None:
        return train, model.predict(train.X), np.arange(len(train.y))
    outputs = np.asarray(outputs, dtype=np.float64).reshape(len(rows), -1)
    if rows.max() >= len(train.y) or not _same_rows(model, train.y[rows], outputs):
        raise ValueError(
            "X and y are not the rows that the model was trained on; pass unseen rows as X_test "
            "and y_test"
        )
    return train.take(rows), outputs, rows


def _same_rows(model: Model, y: np.ndarray, outputs: np.ndarray) -> bool:
    """Whether these can be the targets of the search, judged by its residuals."""
    rounding = 1e-5  # relative difference up to which targets count as equal
    intervals = model.story.intervals
    if intervals is None:
        return bool(np.all(y >= 0))
    known = outputs[:, 0] + np.ravel(intervals.residuals)
    return bool(np.allclose(y, known, rtol=rounding, atol=rounding * np.abs(y).mean()))


def _intervals(model: Model, rows: LabelledRows) -> Coverage | None:
    """Intervals of test rows, and their observed coverage, for many promised coverages."""
    learned = model.story.intervals
    if learned is None:
        return None
    ends = model.intervals(rows.X, [*COVERAGES, LEVEL])
    lower, upper, y = ends[:, 0], ends[:, 1], rows.y[:, None]
    shares = ((lower <= y) & (y <= upper))[:, :-1].mean(axis=0)
    return Coverage(COVERAGES, shares, lower[:, -1], upper[:, -1], learned.method, learned.n_rows)


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


def _training(
    model: Model, path: Path, parts: list[LabelledRows]
) -> tuple[Stages | None, Film | None]:
    """The log of the path, and losses after each stage and at the moments of a film.

    `parts` are training rows and, if there are any, test rows. None if a loss is not defined.

    A model of several paths may have more stages than the path that is shown, whose stages are
    then repeated.
    """
    loss = model.target.loss
    courses = [model.course(rows.X) for rows in parts]
    train, *test = (
        np.array([loss(rows.y, outputs) for outputs in course])
        for rows, course in zip(parts, courses, strict=True)
    )
    if not np.all(np.isfinite([train, *test])):
        return None, None
    moved = np.sqrt((np.diff(courses[-1], axis=0) ** 2).mean(axis=(1, 2)))
    shown = in_step(len(path), len(moved))
    bandwidth = path.bandwidths[shown]
    share = moved / (moved.sum() or 1.0)
    stages = Stages(bandwidth, path.ends[shown], train, test[0] if test else None, share)
    moments = model.moments(1.0 - train[1:] / (train[0] or 1.0))
    bandwidths = [
        bandwidth[max(moment.stage, 0)] if moment.part is None else moment.part.bandwidths[0]
        for moment in moments
    ]
    train, *test = (
        np.array([loss(rows.y, outputs) for outputs in model.film(rows.X, moments, course)])
        for rows, course in zip(parts, courses, strict=True)
    )
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
