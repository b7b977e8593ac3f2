"""Two real tables, one smooth and one noisy, and a picture of results on the first.

Yacht Hydrodynamics: J. Gerritsma, R. Onnink and A. Versluis (1981), UCI Machine Learning
Repository, https://doi.org/10.24432/C5XG7R, CC BY 4.0. The resistance of 22 hulls, each towed at 14
speeds. Whole hulls are held out: models predict hulls that they have not seen.
"""

from __future__ import annotations

import re
import time
from contextlib import suppress
from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.ensemble import GradientBoostingRegressor, HistGradientBoostingRegressor
from sklearn.model_selection import GroupShuffleSplit, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bandfall._estimators import BandfallRegressor, KernelDescentRegressor, KernelRidgeCV
from bandfall._typing import Estimator
from bandfall.demo._style import BLACK, BLUE, GREY, ORANGE, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CREDIT = "Yacht data: Gerritsma, Onnink and Versluis, UCI, doi 10.24432/C5XG7R, CC BY 4.0."
INTERVAL = 0.9
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
    with suppress(ImportError):
        from catboost import CatBoostRegressor

        all_models["CatBoost"] = CatBoostRegressor(
            verbose=False, allow_writing_files=False, thread_count=1
        )
    with suppress(ImportError):
        from xgboost import XGBRegressor

        all_models["XGBoost"] = XGBRegressor(n_jobs=1)
    with suppress(ImportError):
        from lightgbm import LGBMRegressor

        all_models["LightGBM"] = LGBMRegressor(n_jobs=1, verbose=-1)
    all_models["ridge, cross-validated (KRR-CV)"] = make_pipeline(StandardScaler(), KernelRidgeCV())
    scaled = make_pipeline(StandardScaler(), KernelDescentRegressor())
    all_models["KGD-D: one fit, nothing chosen"] = scaled
    return all_models


def cases(yacht: int = 8, diabetes: int = 4) -> list[tuple[str, str, int]]:
    """All models on this many splits of both tables."""
    counts = {YACHT: yacht, DIABETES: diabetes}
    return [
        (data, name, seed) for data in counts for name in models() for seed in range(counts[data])
    ]


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


def draw(scores: list[Score]) -> Figure:
    """Mean errors of all models, and predictions for the hulls held out by the first split."""
    from matplotlib.figure import Figure

    scores = [one for one in scores if one.data == YACHT]
    names = dict.fromkeys(one.name for one in scores)
    errors = {n: float(np.mean([one.rmse for one in scores if one.name == n])) for n in names}
    model, split = scores[0].model, split_hulls(0)
    with styled():
        figure = Figure(figsize=(12, 4.4), dpi=110, facecolor="white")
        grid = figure.add_gridspec(
            1, 3, width_ratios=(1.0, 1.25, 1.4), left=0.145, right=0.985, top=0.76, bottom=0.14
        )
        title = "Predictions for six yacht hulls that the model has not seen"
        figure.text(0.02, 0.92, title, fontsize=17, weight="bold")
        figure.text(
            0.02,
            0.85,
            "Trained on 16 hulls with BandfallRegressor().fit(X, y, groups=hulls). "
            "Errors: mean over eight divisions of the 22 hulls",
            color="#555555",
            fontsize=11,
        )
        _draw_errors(figure.add_subplot(grid[0]), errors)
        _draw_predictions(figure.add_subplot(grid[1]), model, split)
        _draw_hull(figure.add_subplot(grid[2]), model, split)
    return figure


def _draw_errors(axes: Axes, errors: dict[str, float]) -> None:
    names = [re.split(r"[,:(]", name)[0].strip() for name in errors]
    places = np.arange(len(errors))[::-1]
    colours = [BLUE] + [GREY] * (len(names) - 1)
    axes.barh(places, list(errors.values()), color=colours, height=0.6)
    for place, error in zip(places, errors.values(), strict=True):
        axes.text(error, place, f" {error:.2f}", va="center", color=BLACK)
    axes.set_yticks(places, names)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set(xlim=(0, 1.15 * max(errors.values())), xlabel="error (RMSE), less is better")
    axes.set_title("Error on new hulls", weight="bold")


def _draw_predictions(axes: Axes, model: BandfallRegressor, split: Split) -> None:
    predicted = model.predict(split.X_test)
    low, high = model.predict_interval(split.X_test, INTERVAL).T
    inside = (low <= split.y_test) & (split.y_test <= high)
    heights = np.maximum([predicted - low, high - predicted], 0.0)
    limits = (-2.0, 1.08 * float(split.y_test.max()))
    axes.plot(limits, limits, color=GREY, linewidth=1.0, zorder=1)
    for rows, colour in ((inside, BLUE), (~inside, ORANGE)):
        axes.errorbar(
            split.y_test[rows],
            predicted[rows],
            heights[:, rows],
            fmt="o",
            color=colour,
            markersize=3.5,
            elinewidth=1.2,
            alpha=0.8,
        )
    axes.set(xlim=limits, ylim=limits, xlabel="measured resistance", ylabel="predicted")
    axes.set_title(f"{INTERVAL:.0%} bands: {inside.sum()} of {len(inside)} hold", weight="bold")


def _draw_hull(axes: Axes, model: BandfallRegressor, split: Split) -> None:
    hull = split.test_hulls == split.test_hulls[0]
    rows, y = split.X_test[hull], split.y_test[hull]
    speeds = rows[:, 5]
    low, high = model.predict_interval(rows, INTERVAL).T
    axes.fill_between(speeds, low, high, color=BLUE, alpha=0.2, linewidth=0)
    axes.plot(speeds, model.predict(rows), color=BLUE, linewidth=1.8)
    axes.plot(speeds, y, "o", color=BLACK, markersize=4.5)
    key = (("━  predicted, with its band", BLUE), ("●  measured", BLACK))
    for place, (text, colour) in enumerate(key):
        axes.text(0.04, 0.92 - 0.08 * place, text, color=colour, transform=axes.transAxes)
    axes.set(xlabel="speed (Froude number)", ylabel="resistance")
    axes.set_title("One of the new hulls", weight="bold")
