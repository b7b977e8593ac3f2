"""The pictures of the demonstration: fits with a falling bandwidth, and errors on yacht hulls."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from bandfall._estimators import BandfallRegressor
from bandfall.demo._small import MAX_TIME, VERDICTS, FloorFit
from bandfall.demo._yacht import YACHT, Score, Split, split_hulls

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.typing import RcKeyType

# Okabe and Ito's palette, suitable for colour-blind readers.
BLUE, ORANGE, GREY, BLACK = "#0072B2", "#D55E00", "#8C8C8C", "#222222"
INTERVAL = 0.9
_STYLE: dict[RcKeyType, object] = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "xtick.color": BLACK,
    "ytick.color": BLACK,
    "mathtext.default": "regular",
}


def draw_falling(sine: tuple, fits: list[FloorFit]) -> Figure:
    """Fits at the top, bandwidth and R² during training at the bottom."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(12, 7.4), dpi=110, facecolor="white")
        grid = figure.add_gridspec(
            2, 12, hspace=0.42, wspace=0.9, left=0.05, right=0.985, top=0.8, bottom=0.08
        )
        first = None
        for i, fit in enumerate(fits):
            axes = figure.add_subplot(grid[0, 3 * i : 3 * i + 3], sharey=first, sharex=first)
            first = first or axes
            _draw_fit(axes, sine, fit, VERDICTS[i], labelled=i == 0)
        _draw_bandwidths(figure.add_subplot(grid[1, :6]), fits)
        _draw_r2(figure.add_subplot(grid[1, 6:]), fits)
        title = "The bandwidth falls: the model interpolates and still generalises"
        figure.text(0.05, 0.95, title, fontsize=17, weight="bold", color=BLACK)
        key = (
            (0.05, "━  falling bandwidth, from wide down to the floor (KGD-D)", BLUE),
            (0.46, "━  constant bandwidth, at the floor (ridge)", ORANGE),
            (0.77, "━  true curve,  ●  training points", "#666666"),
        )
        for x, text, colour in key:
            figure.text(x, 0.905, text, color=colour, fontsize=11)
    return figure


def _draw_fit(axes: Axes, sine: tuple, fit: FloorFit, verdict: str, labelled: bool) -> None:
    X, X_test, y, y_test = sine
    x_fine = np.linspace(-1.0, 1.0, 2001)[:, None]  # narrow kernels need a fine grid
    x_fine = np.sort(np.concatenate([x_fine, X]), axis=0)
    axes.plot(X_test, y_test, color=GREY, linewidth=1.0, zorder=1)
    axes.plot(x_fine, fit.ridge.predict(x_fine), color=ORANGE, linewidth=2.8, zorder=2)
    axes.plot(x_fine, fit.descent.predict(x_fine), color=BLUE, linewidth=1.6, zorder=3)
    axes.plot(X, y, "o", color=BLACK, markersize=4.2, markeredgecolor="white", zorder=4)
    axes.set(ylim=(-2.5, 2.2), xlim=(-1.05, 1.05), xticks=(-1, 0, 1), yticks=(-2, -1, 0, 1, 2))
    axes.set_title(f"Floor {fit.floor:g}: {verdict}", weight="bold", pad=21)
    axes.tick_params(labelleft=labelled)
    scores = fit.descent.score(X_test, y_test), fit.ridge.score(X_test, y_test)
    for x, score, colour in zip((0.0, 0.43), scores, (BLUE, ORANGE), strict=True):
        text = f"test R² {score:.2f}"
        axes.text(x, 1.035, text, color=colour, transform=axes.transAxes)


def _draw_bandwidths(axes: Axes, fits: list[FloorFit]) -> None:
    for fit in fits:
        log, end = fit.descent.path_.log, fit.descent.path_.time
        times = np.concatenate([[0.02], log.time[1:], [end]])
        bandwidths = np.append(log.bandwidth, log.bandwidth[-1])
        axes.step(times, bandwidths, where="post", color=BLUE, linewidth=1.8)
        axes.plot(end, bandwidths[-1], "o", color=BLUE, markersize=5)
        label = f"floor {fit.floor:g}" + (": training R² 0.999, done" if end < MAX_TIME else "")
        place = (end, bandwidths[-1])
        axes.annotate(label, place, (8, 0), textcoords="offset points", va="center", color=BLUE)
    axes.set(xscale="log", yscale="log", xlim=(0.02, 6000), ylim=(6e-3, 4))
    axes.set_yticks([0.01, 0.1, 1.0], ["0.01", "0.1", "1"])
    _time_axis(axes)
    axes.set_title("Bandwidth: one trajectory, four floors", weight="bold")


def _draw_r2(axes: Axes, fits: list[FloorFit]) -> None:
    # Labels in points from the end of their curve, clear of each other.
    offsets = {1.0: (8, -14), 0.5: (8, -4), 0.1: (8, 6), 0.01: (-84, -2)}
    for fit in fits:
        axes.plot(fit.times, fit.train_r2, color=GREY, linewidth=1.2, linestyle=(0, (4, 2)))
        axes.plot(fit.times, fit.test_r2, color=BLUE, linewidth=1.8)
        axes.plot(fit.times[-1], fit.test_r2[-1], "o", color=BLUE, markersize=5)
        axes.annotate(
            f"floor {fit.floor:g}",
            (fit.times[-1], fit.test_r2[-1]),
            offsets[fit.floor],
            textcoords="offset points",
            color=BLUE,
        )
    axes.set(xscale="log", xlim=(0.02, 6000), ylim=(-0.05, 1.08), yticks=(0, 0.5, 1))
    _time_axis(axes)
    axes.set_title("R²: test points (solid), training points (dashed)", weight="bold")


def _time_axis(axes: Axes) -> None:
    ticks = (0.1, 1, 10, 100, 1000)
    axes.set_xticks(ticks, [f"{t:g}" for t in ticks])
    axes.minorticks_off()
    axes.set_xlabel("training time", color=BLACK)
    axes.grid(axis="y", color="#E6E6E6", linewidth=0.8)
    axes.set_axisbelow(True)


def draw_yachts(scores: list[Score]) -> Figure:
    """Mean errors of all models, and predictions for the hulls held out by the first split."""
    scores = [one for one in scores if one.data == YACHT]
    names = dict.fromkeys(one.name for one in scores)
    errors = {n: float(np.mean([one.rmse for one in scores if one.name == n])) for n in names}
    model, split = scores[0].model, split_hulls(0)
    with mpl.rc_context(_STYLE):
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
