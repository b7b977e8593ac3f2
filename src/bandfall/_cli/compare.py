"""``bandfall compare``: other models, each with its usual settings, on the same held-out rows."""

from __future__ import annotations

import time
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import partial
from importlib import import_module

import numpy as np
import pandas as pd
from rich.text import Text
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
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from bandfall._cli.options import Choices, command
from bandfall._cli.rows import Dataset, load_table, split_table
from bandfall._cli.terminal import Bar, InputError, print_json, print_table
from bandfall._cli.training import fit_arguments, make_estimator
from bandfall._estimators import BandfallClassifier, BandfallRegressor, KernelRidgeCV
from bandfall._estimators.view import last_step
from bandfall._progress import observed_by
from bandfall._targets import Classes, Numbers, Target
from bandfall._typing import Estimator
from bandfall.report._columns import LabelledRows
from bandfall.report._score import RivalScore
from bandfall.tables import TableEncoder
from bandfall.tables._text import usual_style

ScoredRows = LabelledRows | Dataset  # features, targets, weights
_BOOSTERS = {
    "LightGBM": ("lightgbm", "LGBM", {"verbosity": -1}),
    "XGBoost": ("xgboost", "XGB", {"verbosity": 0}),
    "CatBoost": ("catboost", "CatBoost", {"verbose": 0, "allow_writing_files": False}),
}
MAX_ROWS = 10_000  # by default, sampled at random


@command(required="targets", without="model max_seconds")
def compare(data: str, *, choices: Choices, json: bool = False) -> None:
    """Score bandfall and its rivals on the same held-out rows.

    Every model is trained with its usual settings on the same rows, at most 10,000 unless
    --max-rows says otherwise. Only cross-validated kernel ridge regression, whose cost grows with
    the cube of the rows, gets at most 1,000 of them. For the rivals, text, dates and missing values
    are encoded as numbers in the usual way. Classes are compared by log-loss, AUC, accuracy and
    calibration error.
    """
    if len(choices.targets) > 1:
        raise InputError("models are compared on one --target")
    choices = replace(choices, max_rows=choices.max_rows or MAX_ROWS)
    rows, held_out = split_table(load_table(data, choices))
    if held_out is None:
        raise InputError("--test-fraction must be above 0: models are compared on those rows")
    results = _scored(rows, held_out, choices)
    if json:
        result = {"target": choices.target, "n_train": len(rows), "n_test": len(held_out)}
        if rows.has_classes:  # held-out rows of classes without training rows
            result["n_unseen"] = int(np.sum(~np.isin(held_out.y, rows.y)))
        print_json({**result, "models": [one.as_numbers() for one in results]})
        return
    held = f"{len(held_out):,} held-out rows ({choices.split_words})"
    cells = []
    for one in results:
        bold = "bold" if one.name.startswith("bandfall") else ""
        sample = "" if one.n_rows == len(rows) else f" ({one.n_rows:,} rows)"
        line = (one.name + sample, *one.cells().values(), f"{one.seconds:.2f} s")
        cells.append([Text(content, bold) for content in line])
    title = f"trained on {len(rows):,} rows, scored on {held}"
    print_table(title, ("model", *results[0].cells(), "fit time"), cells)


def _scored(rows: Dataset, held_out: Dataset, choices: Choices) -> list[RivalScore]:
    """All models, best first: by log-loss for classes, else by R²."""
    classes = rows.has_classes
    if classes and len(np.unique(rows.y)) < 2:
        raise InputError("all training rows have the same class: there is nothing to compare")
    models = rivals_for(rows.y, classes, choices.seed)
    if not classes:
        models["bandfall (KGD-D)"] = make_estimator(replace(choices, model="kgdd"))
    models["bandfall (self-tuning)"] = make_estimator(choices, classes=classes)
    with usual_style(rows.style):
        scored = score_rivals(models, rows, held_out, seed=choices.seed, groups=rows.group)
    return sorted(scored, key=lambda one: one.rank)


def rivals_for(y: np.ndarray, classes: bool, seed: int = 0) -> dict[str, Estimator]:
    """Name and estimator, from simple to strong, for these training targets."""
    kind = "Classifier" if classes else "Regressor"
    boosters = {}
    for name, (package, prefix, silent) in _BOOSTERS.items():
        with suppress(ImportError):
            cls = getattr(import_module(package), prefix + kind)
            boosters[name] = cls(random_state=seed, **silent)
    if not classes:
        bandwidths = np.geomspace(0.1, 100.0, 13)  # tables with many features need wide ones
        return {
            "mean of the target": DummyRegressor(),
            "linear (ridge, CV)": _scaled(RidgeCV(np.geomspace(1e-3, 1e3, 7))),
            "nearest neighbours (k = 5)": _scaled(KNeighborsRegressor()),
            "random forest": RandomForestRegressor(n_estimators=100, random_state=seed),
            "gradient boosting": HistGradientBoostingRegressor(random_state=seed),
            **boosters,
            "kernel ridge (CV)": _scaled(KernelRidgeCV(bandwidths=bandwidths, cv="loo")),
        }
    models = {
        "shares of the classes": DummyClassifier(strategy="prior"),
        "linear (logistic)": _scaled(LogisticRegression(max_iter=1000)),
        "nearest neighbours (k = 5)": _scaled(KNeighborsClassifier()),
        "random forest": RandomForestClassifier(n_estimators=100, random_state=seed),
        "gradient boosting": HistGradientBoostingClassifier(random_state=seed),
        **boosters,
    }
    n_folds = 5  # for Platt's scaling, which needs this many rows in each class
    if np.unique(y, return_counts=True)[1].min() >= n_folds:
        platt = CalibratedClassifierCV(SVC(random_state=seed), cv=n_folds)
        models["support vectors (Platt)"] = _scaled(platt)
    return models


def _scaled(model: Estimator) -> Estimator:
    return make_pipeline(StandardScaler(), model)


def score_rivals(
    models: dict[str, Estimator],
    train: ScoredRows,
    test: ScoredRows,
    *,
    seed: int = 0,
    groups: np.ndarray | None = None,
    kernel_ridge_rows: int = 1000,
) -> list[RivalScore]:
    """Fit every model on the same rows and score it on the same held-out rows.

    Self-tuning models hold out whole `groups` of training rows. Cross-validated kernel ridge
    regression, which costs n³ per bandwidth, gets at most `kernel_ridge_rows`.
    """
    results: list[RivalScore] = []
    tables = pd.DataFrame(train.X), pd.DataFrame(test.X)
    plain = _plain_numbers(*tables)
    labels, codes = np.unique(train.y, return_inverse=True)  # XGBoost takes codes only
    few_cells = plain[0].size < 1_000_000  # for which several threads are slower
    with Bar("compare") as bar, observed_by(bar.follow):
        for i, (name, model) in enumerate(models.items(), 1):
            bar.describe(f"compare: {name} ({i} of {len(models)})")
            last, classes = last_step(model), is_classifier(model)
            ours = isinstance(last, BandfallRegressor | BandfallClassifier)
            X, X_test = tables if ours else plain
            y = codes if classes and not ours else train.y
            rows = np.arange(len(y))
            if isinstance(last, KernelRidgeCV):
                rows = np.sort(np.random.default_rng(seed).permutation(rows)[:kernel_ridge_rows])
            given = [None if one is None else one[rows] for one in (train.weights, groups)]
            extra = fit_arguments(model, given[0], given[1])
            start = time.monotonic()
            with threadpool_limits(1, "openmp") if few_cells else nullcontext():
                try:
                    model.fit(X.iloc[rows], y[rows], **extra)
                except ValueError as error:  # names the column that is wrong
                    raise InputError(str(error)) from error
                seconds = time.monotonic() - start
                answers = (model.predict_proba if classes else model.predict)(X_test)
            target: Target = Numbers.plain()
            if classes:
                target = Classes.plain(model.classes_ if ours else labels[model.classes_])
            answers = np.asarray(answers, dtype=np.float64).reshape(len(test.y), -1)
            score = partial(RivalScore.of, weights=test.weights, n_rows=len(rows), seconds=seconds)
            results.append(score(name, answers, test.y, target))
    return results


def _plain_numbers(train: pd.DataFrame, test: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Numeric tables without missing values; the encoding is learned from the first table."""
    encoder = TableEncoder()
    encoded = encoder.fit_transform(train, warn=False), encoder.transform(test, warn=False)
    if not encoder.width:  # all columns are constant, but models need at least one
        encoded = np.zeros((len(train), 1)), np.zeros((len(test), 1))
    return pd.DataFrame(encoded[0]), pd.DataFrame(encoded[1])
