"""What a report says about a model, as numbers: nothing here knows how it will look."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.metrics import mean_absolute_error, r2_score

from bandfall.report.model import Model, Moment

MAX_ROWS = 1000  # of those that are predicted again and again
N_SLICES = 6
SLICE_POINTS = 81
MAX_LEVELS = 12  # of a feature of text that a slice shows
N_REPEATS = 5
WORK = 1e10  # kernel entries that importances may cost: some ten seconds
N_OTHERS = 12  # further rows through which a slice is drawn
LEVEL = 0.9  # of intervals that are drawn
COVERAGES = np.linspace(0.05, 0.95, 19)  # that are checked


class Rows(NamedTuple):
    """Features (n, d), as a table or an array of numbers, and target (n,)."""

    X: Any
    y: np.ndarray

    @property
    def weights(self) -> None:
        """Reports count all rows alike."""
        return

    def as_table(self) -> Rows:
        """The same with the features in a DataFrame."""
        return self if isinstance(self.X, pd.DataFrame) else Rows(pd.DataFrame(self.X), self.y)

    def sample(self, n: int, seed: int) -> Rows:
        """At most `n` rows, chosen at random."""
        if len(self.y) <= n:
            return self
        rows = np.sort(np.random.default_rng(seed).permutation(len(self.y))[:n])
        return Rows(self.X.iloc[rows], self.y[rows])


class Stages(NamedTuple):
    """What happened along the path; arrays of equal length, one entry a stage.

    `gain` is the change of R² on scored rows during the stage, `moved` its share of the
    predictions' total movement.
    """

    bandwidth: np.ndarray
    time: np.ndarray
    train_r2: np.ndarray
    scored_r2: np.ndarray
    gain: np.ndarray
    moved: np.ndarray


class Film(NamedTuple):
    """Training R², R² on scored rows and bandwidth at the moments that slices show."""

    train_r2: np.ndarray
    scored_r2: np.ndarray
    bandwidth: np.ndarray
    moments: list[Moment]


class Slice(NamedTuple):
    """f along one feature, the others at a typical row; values (n_moments, n_points).

    `labels` are the values of a feature that is no number; `grid` then counts them. `others`
    (n_rows, n_points) are slices of the final model through other rows, `rug` places of rows.
    """

    feature: str
    grid: np.ndarray
    values: np.ndarray
    labels: list[str] | None
    others: np.ndarray
    rug: np.ndarray


class Intervals(NamedTuple):
    """How sure the model is of held-out rows.

    `coverages` and `shares` (c,) are what was promised and found; `lower` and `upper` (m,) the
    ends of intervals for `LEVEL`; `method` says what widths depend on, `n_rows` how many rows
    they were learned from.
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
    features : list of str
    train : Rows
    scored : Rows
        Held-out rows or, where there are none, training rows; `held_out` says which.
    predictions : ndarray
        Of the scored rows.
    importances : ndarray of shape (d, 2)
        Mean and standard deviation of the loss of R² when a feature is shuffled.
    path : Path or None
    stages : Stages or None
    film : Film or None
        The moments of training that slices show.
    slices : list of Slice
    intervals : Intervals or None
        Of a model that has them, where rows were held out.
    """

    features: list[str]
    train: Rows
    scored: Rows
    held_out: bool
    predictions: np.ndarray
    importances: np.ndarray
    path: Any = None
    stages: Stages | None = None
    film: Film | None = None
    slices: list[Slice] = field(default_factory=list)
    intervals: Intervals | None = None

    @property
    def r2(self) -> float:
        """R² on the rows that are scored."""
        return float(r2_score(self.scored.y, self.predictions))

    @property
    def mae(self) -> float:
        """Mean absolute error on the rows that are scored."""
        return float(mean_absolute_error(self.scored.y, self.predictions))

    @property
    def residuals(self) -> np.ndarray:
        """Target minus prediction of the scored rows."""
        return self.scored.y - self.predictions

    @property
    def half_width(self) -> float:
        """Nine in ten scored rows lie closer to their prediction than this."""
        return float(np.quantile(np.abs(self.residuals), LEVEL))


def study(
    estimator: Any, train: Rows, test: Rows | None, features: list[str], *, seed: int = 0
) -> Findings:
    """Look at a fitted model from all sides.

    Parameters
    ----------
    estimator : fitted estimator or pipeline with one target
    train, test : Rows
        `test` is None where no rows were held out.
    features : list of str
    seed : int
        Of samples and shuffles.
    """
    train, test = train.as_table(), None if test is None else test.as_table()
    model = Model(estimator, float(train.y.mean()))
    scored = train if test is None else test
    importances = _importances(model, scored, seed)
    order = np.argsort(-importances[:, 0])[:N_SLICES]
    stages = film = moments = None
    if model.tells_its_story:
        few, known = scored.sample(MAX_ROWS, seed), train.sample(MAX_ROWS, seed)
        stages = _stages(model, few, known)
        moments = model.moments(stages.train_r2)
        film = _film(model, moments, stages, few, known)
    return Findings(
        features=features,
        train=train,
        scored=scored,
        held_out=test is not None,
        predictions=model.predict(scored.X),
        importances=importances,
        path=model.path,
        stages=stages,
        film=film,
        slices=[_slice(model, train, int(j), features[int(j)], moments, seed) for j in order],
        intervals=None if test is None else _intervals(model, test),
    )


def _intervals(model: Model, rows: Rows) -> Intervals | None:
    """Intervals of held-out rows, and the share of them that they hold, for many coverages."""
    if model.interval_facts is None:
        return None
    ends = model.intervals(rows.X, [*COVERAGES, LEVEL])
    lower, upper, y = ends[:, 0], ends[:, 1], np.asarray(rows.y)[:, None]
    inside = (lower <= y) & (y <= upper)
    facts = model.interval_facts
    return Intervals(
        COVERAGES,
        inside[:, :-1].mean(axis=0),
        lower[:, -1],
        upper[:, -1],
        str(facts["method"]),
        int(facts["n_rows"]),
    )


def _importances(model: Model, rows: Rows, seed: int) -> np.ndarray:
    """Loss of R² when one feature is shuffled: mean and standard deviation over repeats."""
    model, n_entries = model.light()
    n_rows = int(WORK / (rows.X.shape[1] * N_REPEATS * n_entries))
    rows = rows.sample(min(max(n_rows, 50), MAX_ROWS), seed)
    random = np.random.default_rng(seed)
    base = r2_score(rows.y, model.predict(rows.X))
    losses = np.empty((rows.X.shape[1], N_REPEATS))
    for j in range(rows.X.shape[1]):
        predicted = model.predict(shuffled_along(rows.X, j, random)).reshape(N_REPEATS, -1)
        losses[j] = [base - r2_score(rows.y, p) for p in predicted]
    return np.stack([losses.mean(axis=1), losses.std(axis=1)], axis=1)


def shuffled_along(X: pd.DataFrame, j: int, random: np.random.Generator) -> pd.DataFrame:
    """`N_REPEATS` copies of the rows, one below the other, with column j shuffled in each."""
    shuffled = pd.concat([X] * N_REPEATS, ignore_index=True)
    orders = [random.permutation(len(X)) for _ in range(N_REPEATS)]
    shuffled.isetitem(j, X.iloc[np.concatenate(orders), j].reset_index(drop=True))
    return shuffled


def _stages(model: Model, rows: Rows, train: Rows) -> Stages:
    """The path's own log, and what its stages were worth on scored rows.

    A model of several paths may have more stages than the path it shows; they keep step.
    """
    staged = model.staged(rows.X)
    start = np.full((1, len(rows.y)), model.mean)
    steps = np.diff(np.concatenate([start, staged]), axis=0)
    moved = np.sqrt((steps**2).mean(axis=1))
    scored_r2 = np.array([r2_score(rows.y, p) for p in staged])
    path, n = model.path, len(staged)
    shown = -(-np.arange(1, n + 1) * len(path) // n) - 1
    return Stages(
        bandwidth=path.bandwidths[shown],
        time=path.ends[shown],
        train_r2=np.array([r2_score(train.y, p) for p in model.staged(train.X)]),
        scored_r2=scored_r2,
        gain=np.diff(np.append(r2_score(rows.y, start[0]), scored_r2)),
        moved=moved / (moved.sum() or 1.0),
    )


def _film(model: Model, moments: list[Moment], stages: Stages, rows: Rows, train: Rows) -> Film:
    train_r2, scored_r2 = (
        np.array([r2_score(part.y, p) for p in model.film(part.X, moments)])
        for part in (train, rows)
    )
    bandwidths = [
        stages.bandwidth[max(moment.stage, 0)] if moment.part is None else moment.part.bandwidths[0]
        for moment in moments
    ]
    return Film(train_r2, scored_r2, np.array(bandwidths), moments)


def _slice(
    model: Model, train: Rows, j: int, feature: str, moments: list[Moment] | None, seed: int
) -> Slice:
    """f along feature j through the most typical training row, and through some others."""
    grid, column, labels = points_along(train.X.iloc[:, j])
    X = moved_along(train.X, [typical_row(train.X)], j, column)
    values = model.predict(X)[None] if moments is None else model.film(X, moments)
    some = np.random.default_rng(seed).permutation(len(train.y))[:N_OTHERS]
    others = model.predict(moved_along(train.X, list(some), j, column))
    known = train.X.iloc[:, j]
    rug = known.dropna().to_numpy(dtype=float)[:MAX_ROWS] if labels is None else np.empty(0)
    return Slice(feature, grid, values, labels, others.reshape(len(some), -1), rug)


def moved_along(X: pd.DataFrame, rows: list[int], j: int, values: Any) -> pd.DataFrame:
    """Each of some rows with every one of these values in column j."""
    repeated = X.iloc[np.repeat(rows, len(values))].reset_index(drop=True)
    column = pd.Series(values)
    repeated.isetitem(j, pd.concat([column] * len(rows), ignore_index=True))
    return repeated


def typical_row(X: pd.DataFrame) -> int:
    """The row nearest to the medians of all numbers and to the most frequent other values."""
    distance = np.zeros(len(X))
    for j in range(X.shape[1]):
        column = X.iloc[:, j]
        if is_number(column):
            values = column.to_numpy(dtype=np.float64, na_value=np.nan)
            known = np.where(np.isnan(values), 0.0, values)
            spread = known.std() or 1.0
            centre = np.nanmedian(values) if not np.isnan(values).all() else 0.0
            distance += np.where(np.isnan(values), 1.0, ((known - centre) / spread) ** 2)
        else:
            modes = column.mode()
            # Before pandas 3 a comparison with a missing value is missing, not False.
            same = (
                (column == modes.iloc[0]).to_numpy(dtype=float, na_value=0.0) if len(modes) else 0.0
            )
            distance += 1.0 - same
    return int(np.argmin(distance))


def is_number(column: pd.Series) -> bool:
    """Whether a column holds numbers, of which there are more than two values."""
    return pd.api.types.is_numeric_dtype(column.dtype) and not pd.api.types.is_bool_dtype(
        column.dtype
    )


def points_along(column: pd.Series) -> tuple[np.ndarray, Any, list[str] | None]:
    """Where to ask along a column: places on an axis, values for the model, their labels."""
    known = column.dropna()
    if pd.api.types.is_datetime64_any_dtype(column.dtype) and len(known):
        moments = pd.date_range(known.min(), known.max(), periods=SLICE_POINTS)
        values = pd.Series(moments).astype(column.dtype)
        return np.arange(SLICE_POINTS), values, [f"{moment:%Y-%m-%d %H:%M}" for moment in values]
    if is_number(column):
        low, high = np.quantile(known, [0.01, 0.99]) if len(known) else (0.0, 0.0)
        if low == high:
            low, high = low - 0.5, high + 0.5
        grid = np.linspace(low, high, SLICE_POINTS)
        return grid, grid, None
    levels = list(known.value_counts().index[:MAX_LEVELS])
    values = pd.Series(levels or [None], dtype=column.dtype)
    return np.arange(len(values)), values, [str(level) for level in values]
