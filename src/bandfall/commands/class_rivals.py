"""Other classifiers to compare with, each with its usual settings."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.calibration import CalibratedClassifierCV
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from bandfall.commands.rivals import Part, fit_rival, plain_numbers, threads_for
from bandfall.commands.terminal import Bar, InputError
from bandfall.estimators import BandfallClassifier
from bandfall.estimators._reading import last_step
from bandfall.report.scores import positions, row_losses, score_classes
from bandfall.selection.work import observed_by

FOLDS = 5  # of Platt's scaling; classes of fewer rows cannot be spread over them


class ClassRivalScore(NamedTuple):
    """One line of the comparison.

    `losses`, one a held-out row of a known class, tell whether two lines really differ.
    """

    name: str
    log_loss: float
    auc: float
    accuracy: float
    calibration_error: float
    seconds: float
    n_rows: int
    losses: np.ndarray

    @classmethod
    def of(
        cls, name: str, probabilities: np.ndarray, test: Part, classes: np.ndarray, **facts: Any
    ) -> ClassRivalScore:
        """Score probabilities, columns in the order of `classes`, on held-out rows."""
        labels = positions(test.y, classes)
        measures = score_classes(probabilities, labels, test.weights)
        known = labels >= 0
        losses = row_losses(probabilities[known], labels[known])
        return cls(name, *measures, **facts, losses=losses)

    def as_numbers(self) -> dict[str, Any]:
        """For machines, without the single losses; None where a score is not defined."""
        facts = {k: v for k, v in self._asdict().items() if k != "losses"}
        return {k: None if v != v else v for k, v in facts.items()}


def class_rivals(y: np.ndarray, seed: int = 0) -> dict[str, Any]:
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


def score_class_rivals(
    models: dict[str, Any], train: Part, test: Part, *, groups: np.ndarray | None = None
) -> list[ClassRivalScore]:
    """Fit every model on the same rows and score it on the same held-out rows."""
    if len(np.unique(train.y)) < 2:
        raise InputError("all training rows have the same class: there is nothing to compare")
    results = []
    tables = pd.DataFrame(train.X), pd.DataFrame(test.X)
    plain = plain_numbers(*tables)
    with Bar("compare") as bar, observed_by(bar.follow):
        for i, (name, model) in enumerate(models.items(), 1):
            bar.describe(f"compare: {name} ({i} of {len(models)})")
            X, X_test = tables if isinstance(last_step(model), BandfallClassifier) else plain
            start = time.monotonic()
            with threads_for(plain[0]):
                fit_rival(model, X, train.y, train.weights, groups)
            facts = {"seconds": time.monotonic() - start, "n_rows": len(train.y)}
            probabilities = np.asarray(model.predict_proba(X_test), dtype=np.float64)
            results.append(ClassRivalScore.of(name, probabilities, test, model.classes_, **facts))
    return results
