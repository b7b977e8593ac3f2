"""Other models to compare with, each with its usual settings."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, nullcontext

import numpy as np
import pandas as pd
from sklearn.base import is_classifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.multioutput import MultiOutputRegressor
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from bandfall._cli.rows import Dataset
from bandfall._cli.terminal import Bar, InputError
from bandfall._cli.training import fit_arguments
from bandfall._estimators import BandfallClassifier, BandfallRegressor, KernelRidgeCV
from bandfall._estimators.view import last_step
from bandfall._search.clock import observed_by
from bandfall._targets import Classes, Numbers, Target
from bandfall._typing import Estimator
from bandfall.report import LabelledRows, RivalScore
from bandfall.tables import TableEncoder

# Cross-validated kernel ridge regression costs n³ per bandwidth.
MAX_KERNEL_RIDGE_ROWS = 1000
_BANDWIDTHS = np.geomspace(0.1, 100.0, 13)  # tables with many features need wide ones
_WORTH_THREADS = 1_000_000  # cells
ScoredRows = LabelledRows | Dataset  # features, targets, weights
FOLDS = 5  # of Platt's scaling, which needs as many rows in each class


def rivals(seed: int = 0) -> dict[str, Estimator]:
    """Name and estimator, from simple to strong."""
    return {
        "mean of the target": DummyRegressor(),
        "linear (ridge, CV)": make_pipeline(StandardScaler(), RidgeCV(np.geomspace(1e-3, 1e3, 7))),
        "nearest neighbours (k = 5)": make_pipeline(StandardScaler(), KNeighborsRegressor()),
        "random forest": RandomForestRegressor(n_estimators=100, random_state=seed),
        "gradient boosting": HistGradientBoostingRegressor(random_state=seed),
        "kernel ridge (CV)": make_pipeline(
            StandardScaler(), KernelRidgeCV(bandwidths=_BANDWIDTHS, cv="loo")
        ),
    }


def class_rivals(y: np.ndarray, seed: int = 0) -> dict[str, Estimator]:
    """Name and classifier, from simple to strong, for these training labels."""
    linear = LogisticRegression(max_iter=1000)
    models = {
        "shares of the classes": DummyClassifier(strategy="prior"),
        "linear (logistic)": make_pipeline(StandardScaler(), linear),
        "nearest neighbours (k = 5)": make_pipeline(StandardScaler(), KNeighborsClassifier()),
        "random forest": RandomForestClassifier(n_estimators=100, random_state=seed),
        "gradient boosting": HistGradientBoostingClassifier(random_state=seed),
    }
    if np.unique(y, return_counts=True)[1].min() >= FOLDS:
        scaled = CalibratedClassifierCV(SVC(random_state=seed), cv=FOLDS)
        models["support vectors (Platt)"] = make_pipeline(StandardScaler(), scaled)
    return models


def score_rivals(
    models: dict[str, Estimator],
    train: ScoredRows,
    test: ScoredRows,
    *,
    seed: int = 0,
    groups: np.ndarray | None = None,
    kernel_ridge_rows: int = MAX_KERNEL_RIDGE_ROWS,
) -> list[RivalScore]:
    """Fit every model on the same rows and score it on the same held-out rows.

    Self-tuning models hold out whole `groups` of training rows.
    """
    results: list[RivalScore] = []
    tables = pd.DataFrame(train.X), pd.DataFrame(test.X)
    plain = plain_numbers(*tables)
    with Bar("compare") as bar, observed_by(bar.follow):
        for i, (name, model) in enumerate(models.items(), 1):
            bar.describe(f"compare: {name} ({i} of {len(models)})")
            last = last_step(model)
            takes_tables = isinstance(last, BandfallRegressor | BandfallClassifier)
            X, X_test = tables if takes_tables else plain
            rows = np.arange(len(train.y))
            if isinstance(last, KernelRidgeCV) and len(rows) > kernel_ridge_rows:
                rows = np.random.default_rng(seed).permutation(len(rows))[:kernel_ridge_rows]
            extra = [None if one is None else one[rows] for one in (train.weights, groups)]
            y = train.y[rows]
            several = y.ndim == 2 and isinstance(model, HistGradientBoostingRegressor)
            fitted = MultiOutputRegressor(model) if several else model  # one for each target
            start = time.monotonic()
            target: Target = Numbers.plain()
            with threads_for(plain[0]):
                fit_rival(fitted, X.iloc[rows], y, *extra)
                seconds = time.monotonic() - start
                if is_classifier(last):
                    target, answers = Classes.plain(fitted.classes_), fitted.predict_proba(X_test)
                else:
                    answers = fitted.predict(X_test)
            answers = np.asarray(answers, dtype=np.float64).reshape(len(test.y), -1)
            results.append(
                RivalScore.of(
                    name,
                    answers,
                    test.y,
                    target,
                    weights=test.weights,
                    seconds=seconds,
                    n_rows=len(y),
                )
            )
    return results


def plain_numbers(train: pd.DataFrame, test: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Numeric tables without missing values; the encoding is learned from the first table."""
    encoder = TableEncoder()
    encoded = encoder.fit_transform(train, warn=False), encoder.transform(test, warn=False)
    if not encoder.width:  # all columns are constant, but models need at least one
        encoded = np.zeros((len(train), 1)), np.zeros((len(test), 1))
    return pd.DataFrame(encoded[0]), pd.DataFrame(encoded[1])


def fit_rival(model: Estimator, X: pd.DataFrame, y: np.ndarray, *extra: np.ndarray | None) -> None:
    """Fit, with weights and groups if there are any; errors become an InputError."""
    try:
        model.fit(X, y, **fit_arguments(model, *extra))
    except ValueError as error:  # names the column that is wrong
        raise InputError(str(error)) from error


def threads_for(X: pd.DataFrame) -> AbstractContextManager[object]:
    """One OpenMP thread for small tables, for which several threads are slower."""
    return threadpool_limits(1, "openmp") if X.size < _WORTH_THREADS else nullcontext()
