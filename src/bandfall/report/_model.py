"""A fitted estimator for a report: predictions at the end and after every stage."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import numpy as np
import pandas as pd
from sklearn.pipeline import Pipeline

from bandfall._estimators import view
from bandfall._typing import ArrayLike, Estimator, TableLike
from bandfall.descent import Path
from bandfall.report._columns import kind_of
from bandfall.tables import Schema


class Model:
    """A fitted estimator or pipeline with one target, used through its public methods.

    Outputs have shape (m, k): a prediction, or the probabilities of k classes. Before training, the
    mean of the training target y is predicted.
    """

    def __init__(self, estimator: Estimator, y: ArrayLike):
        self._estimator, self._y = estimator, y
        self._named = view.feature_names_of(estimator) is not None
        self.last, self._before = view.last_step(estimator), view.steps_before(estimator)
        self.story = view.story_of(estimator)
        self.path = self.story.path or None  # None if it took no step
        self.target = self.story.target
        self.start = self.target.start(self.target.read(y))
        self._method = "predict_proba" if self.target.classes else "predict"

    @property
    def details(self) -> dict[str, str]:
        """Steps, parameters and what was skipped, in words."""
        parameters = self.last.get_params(deep=False).items()
        return {
            "estimator": " → ".join(type(step).__name__ for step in view.steps_of(self._estimator)),
            "parameters": ", ".join(f"{name}={value!r}" for name, value in parameters),
            "skipped": "; ".join(self.story.skipped),
        }

    @property
    def schema(self) -> Schema | None:
        """The schema of the columns, if the model takes raw tables."""
        encoders = [] if self._before is not None else list(self.story.encoders.values())
        return encoders[0].schema if encoders else None

    @property
    def staged_path(self) -> Path | None:
        """The path, if the model can predict after each stage; a compressed path cannot."""
        return None if self.path is None or np.isnan(self.path.starts[0]) else self.path

    def predict(self, X: pd.DataFrame, *, warn: bool = False) -> np.ndarray:
        """Outputs, shape (m, k)."""
        with nullcontext() if warn else _no_warnings():
            outputs = getattr(self._estimator, self._method)(self._input(X))
        return np.asarray(outputs, dtype=np.float64).reshape(len(X), -1)

    def course(self, X: pd.DataFrame) -> np.ndarray:
        """Outputs before training and after every stage, (n_stages + 1, m, k)."""
        start = np.tile(self.start, (len(X), 1))
        stages = getattr(self.last, f"staged_{self._method}")(self._inner(X))
        with _no_warnings():
            return np.stack([start, *(np.reshape(one, start.shape) for one in stages)])

    def intervals(self, X: pd.DataFrame, coverages: list[float]) -> np.ndarray:
        """Both ends for every coverage, (m, 2, c); infinite if there were too few rows."""
        rows = self._inner(X)
        with _no_warnings():
            return np.reshape(self.last.predict_interval(rows, coverages), (len(X), 2, -1))

    def light(self) -> tuple[Model, int]:
        """A compressed copy of the model, and the kernel entries of one prediction."""
        if self.path is None:
            return self, 100_000  # a usual number, as they cannot be counted
        last = self.last._compressed(1e-2)
        steps = [] if self._before is None else self._before.steps
        model = Model(Pipeline([*steps, ("last", last)]) if steps else last, self._y)
        return model, sum(len(path) * len(path.X) for path in model.story.paths)

    def _inner(self, X: pd.DataFrame) -> TableLike:
        """Rows as input of the last step of a pipeline."""
        with _no_warnings():
            rows = self._input(X)
            return rows if self._before is None else self._before.transform(rows)

    def _input(self, X: pd.DataFrame) -> TableLike:
        """The table, or its values for a model that was trained without names."""
        if self._named:
            return X
        numbers = all(kind_of(X.iloc[:, j]) == "number" for j in range(X.shape[1]))
        return X.to_numpy(dtype=np.float64 if numbers else object, na_value=np.nan)


@contextmanager
def _no_warnings() -> Iterator[None]:
    """Ignore warnings about rows: the first prediction of the scored rows has given them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
