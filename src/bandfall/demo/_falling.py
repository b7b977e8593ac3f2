"""Figure 1 of the paper in small: a falling and a constant bandwidth on twenty points of a sine."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bandfall._estimators import KernelDescentRegressor, KernelRidgeRegressor
from bandfall._paper.double_descent import sweep_scores
from bandfall.datasets import Split, make_sine
from bandfall.demo._style import BLACK, BLUE, GREY, ORANGE, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FLOORS = (1.0, 0.5, 0.1, 0.01)
VERDICTS = ("too simple", "good", "overfits", "interpolates")
PENALTY, MAX_TIME = 1e-3, 1000.0  # penalty = 1/time (Appendix B, Figure 1)
SEED = 8  # of the paper's figure
DRAWS = [(seed,) for seed in range(10)]


def sine(seed: int = SEED) -> tuple:
    """(X, X_test, y, y_test): 20 noisy points, and the true curve on a grid."""
    X, y, X_test, y_test = make_sine(random_state=seed, test_points="grid", n_test=300)
    return X, X_test, y, y_test


def scores(seed: int) -> dict[str, list[float]]:
    """R² of KGD-D and ridge regression at the four floors, on one draw of the points."""
    return sweep_scores(Split(*make_sine(random_state=seed)), "gaussian", np.array(FLOORS))


def table(results: list[dict[str, list[float]]]) -> str:
    """Medians over the draws as text."""
    lines = [
        "",
        "1. Double descent: 20 noisy points of a sine, ten draws (Figure 1 of the paper in small)",
        "",
        f"{'smallest bandwidth':<32}{'falling bandwidth (KGD-D)':<32}constant bandwidth (ridge)",
        f"{'':<32}" + 2 * f"{'training R²':<14}{'test R²':<18}",
    ]
    names = ("descent_train", "descent_test", "ridge_train", "ridge_test")
    medians = np.median([[result[name] for name in names] for result in results], axis=0)
    for floor, verdict, numbers in zip(FLOORS, VERDICTS, medians.T, strict=True):
        cells = [f"{number:.2f}".replace("-", "−") for number in numbers]
        row = "".join(
            f"{cell:<{width}}" for cell, width in zip(cells, (14, 18, 14, 8), strict=True)
        )
        lines.append(f"{f'{floor:g}, {verdict}':<32}{row}".rstrip())
    return "\n".join([*lines, EXPLANATION])


EXPLANATION = """
Medians. Test R² rises, falls and rises again if the bandwidth falls from wide to the smallest one:
a second descent of the error. A constant bandwidth that small fits the points and nothing else."""


class FloorFit(NamedTuple):
    """KGD-D with one floor, ridge regression at that bandwidth, and R² during training."""

    floor: float
    descent: KernelDescentRegressor
    ridge: KernelRidgeRegressor
    times: np.ndarray
    train_r2: np.ndarray
    test_r2: np.ndarray


def fit_floors(sine: tuple) -> list[FloorFit]:
    """The four panels of Figure 1, and training and test R² at times along each path."""
    X, X_test, y, y_test = sine
    fits = []
    for floor in FLOORS:
        descent = KernelDescentRegressor(min_bandwidth=floor, max_time=MAX_TIME).fit(X, y)
        ridge = KernelRidgeRegressor(bandwidth=floor, penalty=PENALTY).fit(X, y)
        path = descent.path_
        times = np.geomspace(0.02, path.time, 50)
        cuts = [path.truncate(time=t) for t in times[:-1]] + [path]
        error = np.array([np.sum((c.evaluate(X_test)[:, 0] - y_test) ** 2) for c in cuts])
        test_r2 = 1.0 - error / np.sum((y_test - y_test.mean()) ** 2)
        fits.append(FloorFit(floor, descent, ridge, times, np.array([c.r2 for c in cuts]), test_r2))
    return fits


def draw(sine: tuple, fits: list[FloorFit]) -> Figure:
    """Draw fits at the top and R² during training at the bottom."""
    from matplotlib.figure import Figure

    with styled():
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
