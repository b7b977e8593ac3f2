"""What a report says about a model, as numbers: nothing here knows how it will look."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.metrics import mean_absolute_error, r2_score
from sklearn.pipeline import Pipeline

MAX_ROWS = 1000  # of those that are predicted again and again
MAX_FRAMES = 30
N_SLICES = 6
SLICE_POINTS = 81
MAX_LEVELS = 12  # of a feature of text that a slice shows
N_REPEATS = 5
WORK = 1e10  # kernel entries that importances may cost: some ten seconds
LIGHT_TOLERANCE = 1e-2


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


class Slice(NamedTuple):
    """f along one feature, the others at a typical row; values (n_frames, n_points).

    `labels` are the values of a feature that is no number; `grid` then counts them.
    """

    feature: str
    grid: np.ndarray
    values: np.ndarray
    labels: list[str] | None = None


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
    frames : ndarray or None
        Stages that the film of training shows.
    slices : list of Slice
    """

    features: list[str]
    train: Rows
    scored: Rows
    held_out: bool
    predictions: np.ndarray
    importances: np.ndarray
    path: Any = None
    stages: Stages | None = None
    frames: np.ndarray | None = None
    slices: list[Slice] = field(default_factory=list)

    @property
    def r2(self) -> float:
        return float(r2_score(self.scored.y, self.predictions))

    @property
    def mae(self) -> float:
        return float(mean_absolute_error(self.scored.y, self.predictions))

    @property
    def residuals(self) -> np.ndarray:
        """Target minus prediction of the scored rows."""
        return self.scored.y - self.predictions


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
    model = _Model(estimator)
    train, test = train.as_table(), None if test is None else test.as_table()
    scored = train if test is None else test
    few = scored.sample(MAX_ROWS, seed)
    importances = _importances(model, scored, seed)
    frames = model.frames()
    stages = None if frames is None else _stages(model, few, float(np.mean(train.y)))
    order = np.argsort(-importances[:, 0])[:N_SLICES]
    slices = [_slice(model, train, int(j), features[int(j)], frames) for j in order]
    return Findings(
        features=features,
        train=train,
        scored=scored,
        held_out=test is not None,
        predictions=model.predict(scored.X),
        importances=importances,
        path=model.path,
        stages=stages,
        frames=frames,
        slices=slices,
    )


class _Model:
    """A fitted estimator that is asked with tables, now and at earlier stages."""

    def __init__(self, estimator: Any):
        self._estimator = estimator
        self._names = getattr(estimator, "feature_names_in_", None)
        pipeline = isinstance(estimator, Pipeline)
        self.last = estimator[-1] if pipeline else estimator
        self._before: Any = estimator[:-1] if pipeline and len(estimator) > 1 else None
        path = getattr(self.last, "path_", None)
        self.path: Any = path if path is not None and len(path) else None

    def predict(self, X: pd.DataFrame) -> np.ndarray:
        return np.ravel(self._estimator.predict(self._named(X)))

    def staged(self, X: pd.DataFrame) -> np.ndarray:
        """Predictions after every stage, (n_stages, m)."""
        rows = self._named(X)
        if self._before is not None:
            rows = self._before.transform(rows)
        staged = np.array([np.ravel(p) for p in self.last.staged_predict(rows)])
        # An average goes on as long as its longest member, its main path perhaps not.
        ends = np.arange(1, len(self.path) + 1) * len(staged)
        return staged[-(-ends // len(self.path)) - 1]

    def frames(self) -> np.ndarray | None:
        """Stages that a film of training shows, evenly spread, the last always among them."""
        if self.path is None or not hasattr(self.last, "staged_predict"):
            return None
        n = len(self.path)
        if np.isnan(self.path.stages[0].time):  # compressed: stages tell no story
            return None
        return np.unique(np.round(np.linspace(0, n - 1, min(n, MAX_FRAMES))).astype(int))

    def light(self) -> tuple[_Model, int]:
        """Nearly the same model with few bandwidths, and the entries one prediction takes."""
        if self.path is None:
            return self, len(getattr(self.last, "X_fit_", [0] * 1000))
        last = copy.copy(self.last)
        last.path_ = self.path.compress(LIGHT_TOLERANCE)
        paths = [last.path_]
        if hasattr(last, "members_"):  # an average
            last.members_ = [
                replace(member, path=member.path.compress(LIGHT_TOLERANCE))
                for member in self.last.members_
            ]
            paths = [member.path for member in last.members_]
        pipeline = self._before is not None
        estimator = Pipeline([*self._before.steps, ("last", last)]) if pipeline else last
        return _Model(estimator), sum(len(path) * len(path.X) for path in paths)

    def _named(self, X: pd.DataFrame) -> Any:
        """The table, or its numbers for a model that was trained without names."""
        return X.to_numpy(dtype=np.float64) if self._names is None else X


def _importances(model: _Model, rows: Rows, seed: int) -> np.ndarray:
    """Loss of R² when one feature is shuffled: mean and standard deviation over repeats."""
    model, n_entries = model.light()
    n_rows = int(WORK / (rows.X.shape[1] * N_REPEATS * n_entries))
    rows = rows.sample(min(max(n_rows, 50), MAX_ROWS), seed)
    random = np.random.default_rng(seed)
    base = r2_score(rows.y, model.predict(rows.X))
    losses = np.empty((rows.X.shape[1], N_REPEATS))
    for j in range(rows.X.shape[1]):
        shuffled = pd.concat([rows.X] * N_REPEATS, ignore_index=True)
        orders = [random.permutation(len(rows.y)) for _ in range(N_REPEATS)]
        column = rows.X.iloc[np.concatenate(orders), j].reset_index(drop=True)
        shuffled.isetitem(j, column)
        predicted = model.predict(shuffled).reshape(N_REPEATS, -1)
        losses[j] = [base - r2_score(rows.y, p) for p in predicted]
    return np.stack([losses.mean(axis=1), losses.std(axis=1)], axis=1)


def _stages(model: _Model, rows: Rows, mean: float) -> Stages:
    """The story of a path whose predictions start from the mean target."""
    path = model.path
    staged = model.staged(rows.X)
    start = np.full((1, len(rows.y)), mean)
    steps = np.diff(np.concatenate([start, staged]), axis=0)
    moved = np.sqrt((steps**2).mean(axis=1))
    scored_r2 = np.array([r2_score(rows.y, p) for p in staged])
    before = r2_score(rows.y, start[0])
    ends = np.array([stage.time + stage.duration for stage in path.stages])
    log_ends = np.append(path.log.time[1:], path.time)
    log_r2 = np.append(path.log.r2[1:], path.r2)
    return Stages(
        bandwidth=path.bandwidths,
        time=ends,
        train_r2=np.interp(ends, log_ends, log_r2),
        scored_r2=scored_r2,
        gain=np.diff(np.append(before, scored_r2)),
        moved=moved / (moved.sum() or 1.0),
    )


def _slice(model: _Model, train: Rows, j: int, feature: str, frames: np.ndarray | None) -> Slice:
    """f along feature j through the most typical training row."""
    grid, column, labels = _points(train.X.iloc[:, j])
    X = train.X.iloc[[typical_row(train.X)] * len(grid)].reset_index(drop=True)
    X.isetitem(j, column)
    values = model.predict(X)[None] if frames is None else model.staged(X)[frames]
    return Slice(feature, grid, values, labels)


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
            distance += 1.0 - (column == modes.iloc[0]).to_numpy(dtype=float) if len(modes) else 1.0
    return int(np.argmin(distance))


def is_number(column: pd.Series) -> bool:
    """Whether a column holds numbers, of which there are more than two values."""
    return pd.api.types.is_numeric_dtype(column.dtype) and not pd.api.types.is_bool_dtype(
        column.dtype
    )


def _points(column: pd.Series) -> tuple[np.ndarray, Any, list[str] | None]:
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
