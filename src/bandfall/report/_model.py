"""A fitted estimator for a report: predictions at the end and at earlier moments of training."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

import numpy as np
import pandas as pd
from sklearn.pipeline import Pipeline

from bandfall._estimators.view import feature_names_of, last_step, steps_before, story_of
from bandfall._typing import ArrayLike, Estimator, TableLike
from bandfall.descent import Path
from bandfall.report._columns import is_number
from bandfall.tables import Schema


@dataclass(frozen=True)
class Moment:
    """A moment of training in a film."""

    stage: int  # the last complete stage; −1 is the start
    part: Path | None = None  # the completed part of the next stage


class Model:
    """A fitted estimator or pipeline with one target, used through its public methods.

    Outputs have shape (m, k): a prediction, or the probabilities of k classes. Before training, the
    mean of the training target y is predicted.
    """

    def __init__(self, estimator: Estimator, y: ArrayLike):
        self._estimator = estimator
        self._names = feature_names_of(estimator)
        self.last, self._before = last_step(estimator), steps_before(estimator)
        self.story = story_of(estimator)
        path = self.story.path
        self.path = path if path is not None and len(path) else None
        self.target = self.story.target
        self._y = y
        self.start = self.target.start(self.target.read(y))
        self._method = "predict_proba" if self.target.classes else "predict"

    @property
    def schema(self) -> Schema | None:
        """The schema of the columns, if the model takes raw tables."""
        if self._before is not None or not self.story.encoders:
            return None
        return next(iter(self.story.encoders.values())).schema

    @property
    def staged_path(self) -> Path | None:
        """The path, if the model can predict after each stage; a compressed path cannot."""
        return None if self.path is None or np.isnan(self.path.starts[0]) else self.path

    def predict(self, X: pd.DataFrame, *, warn: bool = False) -> np.ndarray:
        """Outputs, shape (m, k)."""
        with nullcontext() if warn else _no_warnings():
            outputs = getattr(self._estimator, self._method)(self._named(X))
        return np.asarray(outputs, dtype=np.float64).reshape(len(X), -1)

    def course(self, X: pd.DataFrame) -> np.ndarray:
        """Outputs before training and after every stage, (n_stages + 1, m, k)."""
        start = np.tile(self.start, (len(X), 1))
        with _no_warnings():
            stages = getattr(self.last, f"staged_{self._method}")(self._inner(X))
            return np.stack([start, *(np.reshape(one, start.shape) for one in stages)])

    def intervals(self, X: pd.DataFrame, coverages: list[float]) -> np.ndarray:
        """Both ends for every coverage, (m, 2, c); infinite if there were too few rows."""
        with _no_warnings():
            ends = self.last.predict_interval(self._inner(X), coverages)
        return np.asarray(ends).reshape(len(X), 2, -1)

    def moments(self, learned: np.ndarray, most: int = 30) -> list[Moment]:
        """Moments that are about evenly spaced in the share of the training loss removed.

        `learned` is that share after every stage. If no stage ends near a level, the path is cut
        there if possible.
        """
        ends = np.append(0.0, learned)
        levels = np.linspace(0.0, float(learned[-1]), most)
        nearest = np.abs(ends[:, None] - levels).argmin(axis=0)
        ended, whole = {-1, len(learned) - 1}, self._cuttable_path
        cuts = []
        for level, end in zip(levels[1:-1], nearest[1:-1], strict=True):
            if abs(ends[end] - level) > 0.5 * levels[1] and whole is not None:
                cuts.append(_cut(whole, float(level)))
            else:
                ended.add(int(end) - 1)
        moments = [*cuts, *(Moment(stage) for stage in ended)]
        return sorted(moments, key=lambda one: (one.stage, one.part.r2 if one.part else 0.0))

    def film(
        self, X: pd.DataFrame, moments: list[Moment], course: np.ndarray | None = None
    ) -> np.ndarray:
        """Outputs at every moment, (n_moments, m, k); `course` is that of these rows, if known."""
        with _no_warnings():
            rows = self._inner(X)
        course = self.course(X) if course is None else course
        outputs = course[[moment.stage + 1 for moment in moments]]
        for values, moment in zip(outputs, moments, strict=True):
            if moment.part is not None:
                values += moment.part.evaluate(np.asarray(rows, dtype=moment.part.X.dtype))
        return outputs

    def light(self) -> tuple[Model, int]:
        """A compressed copy of the model, and the kernel entries of one prediction."""
        if self.path is None:
            return self, 100_000  # a usual number, as they cannot be counted
        last = self.last._compressed(1e-2)
        pipeline = self._before is not None
        estimator = Pipeline([*self._before.steps, ("last", last)]) if pipeline else last
        return Model(estimator, self._y), sum(
            len(path) * len(path.X) for path in story_of(last).paths
        )

    @property
    def _cuttable_path(self) -> Path | None:
        """The path, if it may be cut between its stages and has few rows."""
        path = self.path if self.story.cuttable else None
        small = path is not None and path.solver is not None and len(path.X) <= 1000
        return path if small else None

    def _inner(self, X: pd.DataFrame) -> TableLike:
        """Rows as input of the last step of a pipeline."""
        rows = self._named(X)
        return rows if self._before is None else self._before.transform(rows)

    def _named(self, X: pd.DataFrame) -> TableLike:
        """The table, or its values for a model that was trained without names."""
        if self._names is not None:
            return X
        numbers = all(is_number(X.iloc[:, j]) for j in range(X.shape[1]))
        return X.to_numpy(dtype=np.float64 if numbers else object, na_value=np.nan)


@contextmanager
def _no_warnings() -> Iterator[None]:
    """Ignore warnings about rows: the first prediction of the scored rows has given them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _cut(path: Path, r2: float) -> Moment:
    """The moment at which training R² reached a level."""
    cut = path.truncate(r2=r2)
    last = cut.stages[-1]
    part = cut.replace(stages=(last,), offset=np.zeros_like(cut.offset))
    return Moment(len(cut) - 2, part)
