"""Other regressors to compare with, each with its usual settings."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple, Protocol

import numpy as np
import pandas as pd
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import RidgeCV
from sklearn.multioutput import MultiOutputRegressor
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from bandfall.commands.terminal import Bar, InputError
from bandfall.commands.training import fit_arguments, scores
from bandfall.encoding import TableEncoder
from bandfall.estimators import BandfallRegressor, KernelRidgeCV
from bandfall.estimators._reading import last_step
from bandfall.selection.work import observed_by

# Cross-validated kernel ridge regression costs n³ per bandwidth.
MAX_KERNEL_RIDGE_ROWS = 1000
_WORTH_THREADS = 1_000_000


class RivalScore(NamedTuple):
    """One line of the comparison.

    `squared_errors`, one a held-out row, tell whether two lines really differ.
    """

    name: str
    r2: float
    mae: float
    rmse: float
    seconds: float
    n_rows: int
    squared_errors: np.ndarray | None = None

    def as_numbers(self) -> dict[str, Any]:
        """For machines, without the single errors."""
        return {k: v for k, v in self._asdict().items() if k != "squared_errors"}


class Part(Protocol):
    """Rows to train or score on: features, targets, weights."""

    @property
    def X(self) -> Any:
        """The features."""
        ...

    @property
    def y(self) -> np.ndarray:
        """The targets."""
        ...

    @property
    def weights(self) -> np.ndarray | None:
        """How much each row counts, if not all alike."""
        ...


def rivals(seed: int = 0) -> dict[str, Any]:
    """Name and estimator, from simple to strong."""
    return {
        "mean of the target": DummyRegressor(),
        "linear (ridge, CV)": make_pipeline(StandardScaler(), RidgeCV(np.geomspace(1e-3, 1e3, 7))),
        "nearest neighbours (k = 5)": make_pipeline(StandardScaler(), KNeighborsRegressor()),
        "random forest": RandomForestRegressor(n_estimators=100, random_state=seed),
        "gradient boosting": HistGradientBoostingRegressor(random_state=seed),
        "kernel ridge (CV)": make_pipeline(StandardScaler(), KernelRidgeCV(cv=5)),
    }


def score_rivals(
    models: dict[str, Any],
    train: Part,
    test: Part,
    *,
    seed: int = 0,
    groups: np.ndarray | None = None,
) -> list[RivalScore]:
    """Fit every model on the same rows and score it on the same held-out rows.

    What tunes itself holds out whole `groups` of training rows.
    """
    results = []
    train_table, test_table = pd.DataFrame(train.X), pd.DataFrame(test.X)
    plain_train, plain_test = plain_numbers(train_table, test_table)
    with Bar("compare") as bar, observed_by(bar.follow):
        for i, (name, model) in enumerate(models.items(), 1):
            bar.describe(f"compare: {name} ({i} of {len(models)})")
            if isinstance(last_step(model), BandfallRegressor):
                X, X_test = train_table, test_table  # as they are
            else:
                X, X_test = plain_train, plain_test
            rows = _sample(len(train.y), model, seed)
            told = [None if one is None else one[rows] for one in (train.weights, groups)]
            y = train.y[rows]
            start = time.monotonic()
            with threads_for(plain_train):
                fitted = _for_targets(model, y)
                fit_rival(fitted, X.iloc[rows], y, *told)
            elapsed = time.monotonic() - start
            predictions = fitted.predict(X_test)
            measures = scores(test.y, predictions, test.weights)
            errors = None if test.y.ndim == 2 else (test.y - np.ravel(predictions)) ** 2
            results.append(
                RivalScore(name, **measures, seconds=elapsed, n_rows=len(y), squared_errors=errors)
            )
    return results


def plain_numbers(train: pd.DataFrame, test: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Tables without text, dates and missing values, encoded as learned from the first."""
    encoder = TableEncoder()
    encoded = encoder.fit_transform(train, warn=False), encoder.transform(test, warn=False)
    if not encoder.width:  # nothing varies: models want a column all the same
        encoded = np.zeros((len(train), 1)), np.zeros((len(test), 1))
    return pd.DataFrame(encoded[0]), pd.DataFrame(encoded[1])


def _for_targets(model: Any, y: np.ndarray) -> Any:
    """The model itself, or one a target where it predicts one only."""
    several = y.ndim == 2 and isinstance(model, HistGradientBoostingRegressor)
    return MultiOutputRegressor(model) if several else model


def fit_rival(model: Any, X: pd.DataFrame, y: np.ndarray, *told: np.ndarray | None) -> None:
    """Fit, with weights and groups if there are; what is wrong is told in one line."""
    try:
        model.fit(X, y, **fit_arguments(model, *told))
    except ValueError as error:  # what is wrong with a table, by column
        raise InputError(str(error)) from error


def threads_for(X: pd.DataFrame) -> AbstractContextManager[Any]:
    """One OpenMP thread for small tables, where threads would wait for each other most."""
    return threadpool_limits(1, "openmp") if X.size < _WORTH_THREADS else nullcontext()


def _sample(n_rows: int, model: Any, seed: int) -> np.ndarray:
    """All rows, or as many as kernel ridge regression can bear."""
    if not isinstance(last_step(model), KernelRidgeCV) or n_rows <= MAX_KERNEL_RIDGE_ROWS:
        return np.arange(n_rows)
    return np.random.default_rng(seed).permutation(n_rows)[:MAX_KERNEL_RIDGE_ROWS]
