"""Other regressors to compare with, each with its usual settings."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import numpy as np
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import RidgeCV
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from bandfall.commands.terminal import Bar
from bandfall.commands.training import scores
from bandfall.estimators import KernelRidgeCV

# Cross-validated kernel ridge regression costs n³ per bandwidth.
MAX_KERNEL_RIDGE_ROWS = 1000
_WORTH_THREADS = 1_000_000


class RivalScore(NamedTuple):
    """One line of the comparison."""

    name: str
    r2: float
    mae: float
    rmse: float
    seconds: float
    n_rows: int


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
    train: tuple[np.ndarray, np.ndarray],
    test: tuple[np.ndarray, np.ndarray],
    *,
    seed: int = 0,
) -> list[RivalScore]:
    """Fit every model on the same rows and score it on the same held-out rows."""
    results = []
    with Bar("compare", len(models)) as bar:
        for i, (name, model) in enumerate(models.items()):
            bar.update(i)
            X, y = _sample(train, model, seed)
            start = time.monotonic()
            with _threads_for(X):
                model.fit(X, y)
            seconds = time.monotonic() - start
            measures = scores(test[1], model.predict(test[0]))
            results.append(RivalScore(name, **measures, seconds=seconds, n_rows=len(y)))
    return results


def _threads_for(X: np.ndarray) -> AbstractContextManager[Any]:
    """One OpenMP thread for small tables, where threads would wait for each other most."""
    return threadpool_limits(1, "openmp") if X.size < _WORTH_THREADS else nullcontext()


def _sample(
    train: tuple[np.ndarray, np.ndarray], model: Any, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """All rows, or as many as kernel ridge regression can bear."""
    X, y = train
    is_kernel_ridge = isinstance(getattr(model, "steps", [("", None)])[-1][1], KernelRidgeCV)
    if not is_kernel_ridge or len(y) <= MAX_KERNEL_RIDGE_ROWS:
        return X, y
    rows = np.random.default_rng(seed).permutation(len(y))[:MAX_KERNEL_RIDGE_ROWS]
    return X[rows], y[rows]
