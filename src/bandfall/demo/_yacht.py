"""A real table that is included in the package, and a picture of results on it.

Yacht Hydrodynamics: J. Gerritsma, R. Onnink and A. Versluis (1981), UCI Machine Learning
Repository, https://doi.org/10.24432/C5XG7R, CC BY 4.0. The resistance of 22 hulls, each towed at 14
speeds. Whole hulls are held out: models predict hulls that they have not seen.
"""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from sklearn.model_selection import GroupShuffleSplit

from bandfall._estimators import BandfallRegressor
from bandfall.demo._style import BLACK, BLUE, GREY, ORANGE, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CREDIT = "Yacht data: Gerritsma, Onnink and Versluis, UCI, doi 10.24432/C5XG7R, CC BY 4.0."
INTERVAL = 0.9


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


def draw(model: BandfallRegressor, split: Split, errors: dict[str, float]) -> Figure:
    """Draw errors of all models, predictions for held-out hulls, and one of these hulls.

    `errors` has the root mean squared error on held-out hulls by model; ours is the first.
    """
    from matplotlib.figure import Figure

    with styled():
        figure = Figure(figsize=(12, 4.4), dpi=110, facecolor="white")
        grid = figure.add_gridspec(
            1, 3, width_ratios=(1.0, 1.25, 1.4), left=0.145, right=0.985, top=0.76, bottom=0.14
        )
        figure.text(0.02, 0.92, "Accurate, with an honest band", fontsize=17, weight="bold")
        figure.text(
            0.02,
            0.85,
            "Resistance of yacht hulls that the model has not seen: trained on 16 hulls with "
            "BandfallRegressor().fit(X, y, groups=hulls), tested on 6 others",
            color="#555555",
            fontsize=11,
        )
        _draw_errors(figure.add_subplot(grid[0]), errors)
        _draw_predictions(figure.add_subplot(grid[1]), model, split)
        _draw_hull(figure.add_subplot(grid[2]), model, split)
    return figure


def _draw_errors(axes: Axes, errors: dict[str, float]) -> None:
    names, places = list(errors), np.arange(len(errors))[::-1]
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
