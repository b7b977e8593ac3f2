"""Two real tables, one smooth and one noisy, and a picture of results on the first.

Yacht Hydrodynamics: J. Gerritsma, R. Onnink and A. Versluis (1981), UCI Machine Learning
Repository, https://doi.org/10.24432/C5XG7R, CC BY 4.0. The resistance of 22 hulls, each towed at 14
speeds. Whole hulls are held out: models predict hulls that they have not seen.
"""

from __future__ import annotations

import time
from contextlib import suppress
from importlib import import_module
from importlib.resources import files
from typing import NamedTuple

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.ensemble import GradientBoostingRegressor, HistGradientBoostingRegressor
from sklearn.model_selection import GroupShuffleSplit, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bandfall._estimators import BandfallRegressor, KernelDescentRegressor, KernelRidgeCV
from bandfall._typing import Estimator

CREDIT = "Yacht data: Gerritsma, Onnink and Versluis, UCI, doi 10.24432/C5XG7R, CC BY 4.0."
OURS = "BandfallRegressor, tunes itself"
YACHT, DIABETES = "yacht", "diabetes"


class Split(NamedTuple):
    """Rows of some hulls for training, and all rows of the other hulls for testing."""

    X: np.ndarray
    X_test: np.ndarray
    y: np.ndarray
    y_test: np.ndarray
    hulls: np.ndarray
    test_hulls: np.ndarray


def load_yacht() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features (308, 6), the last one the speed as a Froude number; resistance; hull numbers."""
    text = files("bandfall.demo").joinpath("yacht.csv").read_text(encoding="utf-8")
    rows = np.array([line.split(",") for line in text.split()[1:]], dtype=np.float64)
    hulls = np.unique(rows[:, :5], axis=0, return_inverse=True)[1].reshape(-1)
    return rows[:, :6], rows[:, 6], hulls


def split_hulls(seed: int) -> Split:
    """A quarter of the hulls held out."""
    X, y, hulls = load_yacht()
    splitter = GroupShuffleSplit(1, test_size=0.25, random_state=seed)
    train, test = next(splitter.split(X, y, hulls))
    return Split(X[train], X[test], y[train], y[test], hulls[train], hulls[test])


def models() -> dict[str, Estimator]:
    """The models of the table, each ready for ``fit``; boosters of other packages if installed."""
    all_models = {
        OURS: BandfallRegressor(),
        "gradient boosting (scikit-learn)": GradientBoostingRegressor(random_state=0),
        "histogram boosting (scikit-learn)": HistGradientBoostingRegressor(random_state=0),
    }
    for name, cls, options in (
        ("CatBoost", "CatBoost", {"verbose": 0, "allow_writing_files": False, "thread_count": 1}),
        ("XGBoost", "XGB", {"n_jobs": 1}),
        ("LightGBM", "LGBM", {"verbose": -1, "n_jobs": 1}),
    ):
        with suppress(ImportError):
            all_models[name] = getattr(import_module(name.lower()), f"{cls}Regressor")(**options)
    all_models["ridge, cross-validated (KRR-CV)"] = make_pipeline(StandardScaler(), KernelRidgeCV())
    scaled = make_pipeline(StandardScaler(), KernelDescentRegressor())
    all_models["KGD-D: one fit, nothing chosen"] = scaled
    return all_models


def cases() -> list[tuple[str, str, int]]:
    """All models on eight splits of the yachts, and four of the patients."""
    counts = ((YACHT, 8), (DIABETES, 4))
    return [(data, name, seed) for data, n in counts for name in models() for seed in range(n)]


class Score(NamedTuple):
    """A model's errors and seconds on one split."""

    data: str
    name: str
    rmse: float
    r2: float
    seconds: float
    model: Estimator


def score(data: str, name: str, seed: int) -> Score:
    """Fit a model to three quarters of the hulls, or of the patients, and predict the others."""
    model, groups = models()[name], {}
    if data == YACHT:
        part = split_hulls(seed)
        X, X_test, y, y_test = part[:4]
        groups = {"groups": part.hulls} if name == OURS else {}
    else:
        X, X_test, y, y_test = train_test_split(*load_diabetes(return_X_y=True), random_state=seed)
    start = time.perf_counter()
    model.fit(X, y, **groups)
    seconds = time.perf_counter() - start
    rmse = float(np.sqrt(np.mean((model.predict(X_test) - y_test) ** 2)))
    return Score(data, name, rmse, float(1.0 - rmse**2 / np.var(y_test)), seconds, model)


def table(scores: list[Score], data: str, title: str, explanation: str) -> str:
    """Means over the splits of one table as text."""
    scores = [one for one in scores if one.data == data]
    ours = [one.rmse for one in scores if one.name == OURS]
    head = f"{'':<44}{'RMSE':>8}{'R²':>8}{'ahead':>10}{'seconds':>10}"
    lines = ["", f"{title}, mean over {len(ours)} splits", "", head]
    for name in dict.fromkeys(one.name for one in scores):
        part = [one for one in scores if one.name == name]
        rmse, r2, seconds = np.mean([(one.rmse, one.r2, one.seconds) for one in part], axis=0)
        beaten = sum(a < b.rmse for a, b in zip(ours, part, strict=True))
        ahead = "" if name == OURS else f"{beaten} of {len(part)}"
        lines.append(f"  {name:<42}{rmse:>8.2f}{r2:>8.3f}{ahead:>10}{seconds:>10.2f}")
    return "\n".join([*lines, "", explanation])


def tables(scores: list[Score]) -> str:
    """Both tables as text."""
    yacht = table(
        scores,
        YACHT,
        "3. A smooth table: resistance of yacht hulls that no model has seen",
        "Ahead: splits on which BandfallRegressor has the smaller error. It weighs columns and "
        "chooses\nits kernel on held-out hulls; KGD-D and ridge use one bandwidth for all columns, "
        f"and lose.\n{CREDIT}",
    )
    diabetes = table(
        scores,
        DIABETES,
        "4. A noisy table: progress of diabetes, from scikit-learn",
        "Mostly noise. Ridge is as good as anything. KGD-D interpolates, so it fits the noise as "
        "well;\nKernelDescentRegressor(validation_fraction=0.2) stops earlier.",
    )
    return f"{yacht}\n{diabetes}"
