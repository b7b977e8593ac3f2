"""A fitted estimator as a report asks it: with tables, now and at earlier moments of training."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.pipeline import Pipeline

from bandfall.estimators._reading import last_step, steps_before, story_of

MAX_MOMENTS = 30
MAX_CUT_ROWS = 1000  # training rows up to which a path is cut between its stages
LIGHT_TOLERANCE = 1e-2
USUAL_ENTRIES = 100_000  # kernel entries of one prediction where they cannot be counted


@dataclass(frozen=True)
class Moment:
    """A moment of training that a film shows.

    Attributes
    ----------
    stage : int
        The last stage that is complete; −1 is the start, the mean of the target.
    part : Path or None
        What a further stage had added by then.
    """

    stage: int
    part: Any = None


class Model:
    """A fitted estimator or pipeline with one target, asked through its public methods.

    Parameters
    ----------
    estimator : fitted estimator or pipeline
    mean : float
        Of the training target: what is predicted before training.
    """

    def __init__(self, estimator: Any, mean: float):
        self._estimator, self.mean = estimator, mean
        self._names = getattr(estimator, "feature_names_in_", None)
        self.last, self._before = last_step(estimator), steps_before(estimator)
        self.story = story_of(estimator)
        path = self.story.path
        self.path: Any = path if path is not None and len(path) else None

    @property
    def tells_its_story(self) -> bool:
        """Whether earlier stages of training can be asked; those of a compressed path cannot."""
        known = self.path is not None and hasattr(self.last, "staged_predict")
        return known and not np.isnan(self.path.stages[0].time)

    def predict(self, X: pd.DataFrame) -> np.ndarray:
        """Predictions, shape (m,)."""
        return np.ravel(self._estimator.predict(self._named(X)))

    def staged(self, X: pd.DataFrame) -> np.ndarray:
        """Predictions after every stage, (n_stages, m)."""
        return np.array([np.ravel(p) for p in self.last.staged_predict(self._inner(X))])

    @property
    def interval_facts(self) -> dict[str, Any] | None:
        """How intervals were learned; None for models without them."""
        return self.story.interval

    def intervals(self, X: pd.DataFrame, coverages: list[float]) -> np.ndarray:
        """Both ends for every coverage, (m, 2, c); infinite where rows were too few for one."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of odd values the predictions told already
            ends = self.last.predict_interval(self._inner(X), coverages)
        return np.asarray(ends).reshape(len(X), 2, -1)

    def moments(self, train_r2: np.ndarray) -> list[Moment]:
        """Moments about evenly apart in training R², given R² after every stage.

        Where no stage ends near enough, the path is cut there, if it can be.
        """
        ends = np.append(0.0, train_r2)
        levels = np.linspace(0.0, float(train_r2[-1]), MAX_MOMENTS)
        nearest = np.abs(ends[:, None] - levels).argmin(axis=0)
        ended = {-1, len(train_r2) - 1}
        cuts = []
        for level, end in zip(levels[1:-1], nearest[1:-1], strict=True):
            if abs(ends[end] - level) > 0.5 * levels[1] and self._can_be_cut:
                cuts.append(self._cut(float(level)))
            else:
                ended.add(int(end) - 1)
        moments = [*cuts, *(Moment(stage) for stage in ended)]
        return sorted(moments, key=lambda one: (one.stage, one.part.r2 if one.part else 0.0))

    def _cut(self, r2: float) -> Moment:
        """Where training R² reached a level."""
        cut = self.path.truncate(r2=r2)
        last = cut.stages[-1]
        part = cut.replace(stages=(last,), offset=np.zeros_like(cut.offset))
        return Moment(len(cut) - 2, part)

    def film(self, X: pd.DataFrame, moments: list[Moment]) -> np.ndarray:
        """Predictions at every moment, (n_moments, m)."""
        rows = self._inner(X)
        start = np.full((1, len(X)), self.mean)
        staged = np.concatenate([start, self.staged(X)])
        predictions = staged[[moment.stage + 1 for moment in moments]]
        for values, moment in zip(predictions, moments, strict=True):
            if moment.part is not None:
                values += moment.part.evaluate(np.asarray(rows, dtype=moment.part.X.dtype))[:, 0]
        return predictions

    def light(self) -> tuple[Model, int]:
        """Nearly the same model with few bandwidths, and the entries one prediction takes."""
        if self.path is None:
            return self, USUAL_ENTRIES
        last = self.last._compressed(LIGHT_TOLERANCE)
        pipeline = self._before is not None
        estimator = Pipeline([*self._before.steps, ("last", last)]) if pipeline else last
        return Model(estimator, self.mean), sum(
            len(path) * len(path.X) for path in story_of(last).paths
        )

    @property
    def _can_be_cut(self) -> bool:
        return (
            self.story.cuttable
            and self.path.solver is not None
            and len(self.path.X) <= MAX_CUT_ROWS
        )

    def _inner(self, X: pd.DataFrame) -> Any:
        """Rows as the last step of a pipeline sees them."""
        rows = self._named(X)
        return rows if self._before is None else self._before.transform(rows)

    def _named(self, X: pd.DataFrame) -> Any:
        """The table, or its numbers for a model that was trained without names."""
        return X.to_numpy(dtype=np.float64) if self._names is None else X
