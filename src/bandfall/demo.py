"""The demonstration behind ``make demo``: one table and one picture, in well under a minute.

    python -m bandfall.demo --out out

Everything it needs ships inside: the sine data of the paper's Figure 1 and Friedman's function of
five features out of ten, made by code, and scikit-learn's diabetes data.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
import time
from typing import Any, NamedTuple

import numpy as np
from sklearn.compose import TransformedTargetRegressor
from sklearn.datasets import load_diabetes, make_friedman1
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from bandfall.datasets import make_sine
from bandfall.estimators import (
    BandfallRegressor,
    KernelDescentRegressor,
    KernelRidgeRegressor,
)
from bandfall.explore import render_playground

FLOORS = (1.0, 0.5, 0.1, 0.01)
VERDICTS = ("too simple", "good", "overfits", "interpolates well")
PENALTY, MAX_TIME = 1e-3, 1000.0  # penalty = 1/time (Appendix B, Figure 1)
DIABETES_SEEDS = (0, 1, 2)

# Okabe and Ito's palette, told apart by colour-blind readers too.
BLUE, ORANGE, GREY, BLACK = "#0072B2", "#D55E00", "#8C8C8C", "#222222"


class Score(NamedTuple):
    """One line of the table; R² and seconds are means over the splits."""

    data: str
    model: str
    r2: float
    seconds: float


def models() -> dict[str, Any]:
    """The models of the table, each ready for ``fit``."""
    grid = {
        "kernelridge__gamma": 0.5 / np.geomspace(0.03, 30.0, 10) ** 2,
        "kernelridge__alpha": np.geomspace(1e-5, 10.0, 7),
    }
    search = GridSearchCV(make_pipeline(StandardScaler(), KernelRidge(kernel="rbf")), grid, cv=5)
    stopped = KernelDescentRegressor(validation_fraction=0.2, random_state=0)
    return {
        "BandfallRegressor, tunes itself": BandfallRegressor(),
        "KGD-D, no tuning": make_pipeline(StandardScaler(), KernelDescentRegressor()),
        "KGD-D, stopped on held-out rows": make_pipeline(StandardScaler(), stopped),
        "KernelRidge, grid search (5 folds × 70)": TransformedTargetRegressor(
            search, transformer=StandardScaler()
        ),
    }


def splits() -> dict[str, list[tuple]]:
    """(X, X_test, y, y_test) of the sine, of Friedman's function, and of the diabetes data."""
    X, y, X_test, y_test = make_sine(random_state=8, test_points="grid", n_test=300)
    X_all, y_all = load_diabetes(return_X_y=True)
    return {
        "sine, 20 rows": [(X, X_test, y, y_test)],
        "Friedman, 200 rows": [
            train_test_split(*make_friedman1(1000, random_state=0), train_size=200, random_state=0)
        ],
        "diabetes, 331 rows": [
            train_test_split(X_all, y_all, random_state=seed) for seed in DIABETES_SEEDS
        ],
    }


def compare() -> list[Score]:
    """Fit every model to every split on one core, with progress on stderr."""
    scores = []
    for data, parts in splits().items():
        for name, model in models().items():
            report(f"{data}: {name}")
            r2, seconds = [], []
            for X, X_test, y, y_test in parts:
                start = time.perf_counter()
                model.fit(X, y)
                seconds.append(time.perf_counter() - start)
                r2.append(model.score(X_test, y_test))
            scores.append(Score(data, name, float(np.mean(r2)), float(np.mean(seconds))))
    return scores


def table(scores: list[Score]) -> str:
    """The scores as text, one block a data set."""
    lines = [f"{'data':<20}{'model':<42}{'test R²':>8}{'seconds':>10}", "─" * 80]
    previous = None
    for score in scores:
        data = score.data if score.data != previous else ""
        lines.append(f"{data:<20}{score.model:<42}{score.r2:>8.3f}{score.seconds:>10.2f}")
        previous = score.data
    return "\n".join(lines)


class FloorFit(NamedTuple):
    """KGD-D down to one floor, ridge regression at it, and the way there."""

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
        report(f"picture: floor {floor:g}")
        descent = KernelDescentRegressor(min_bandwidth=floor, max_time=MAX_TIME).fit(X, y)
        ridge = KernelRidgeRegressor(bandwidth=floor, penalty=PENALTY).fit(X, y)
        path = descent.path_
        times = np.geomspace(0.02, path.time, 50)
        cuts = [path.truncate(time=t) for t in times[:-1]] + [path]
        error = np.array([np.sum((c.evaluate(X_test)[:, 0] - y_test) ** 2) for c in cuts])
        test_r2 = 1.0 - error / np.sum((y_test - y_test.mean()) ** 2)
        fits.append(FloorFit(floor, descent, ridge, times, np.array([c.r2 for c in cuts]), test_r2))
    return fits


def draw(sine: tuple, fits: list[FloorFit]) -> Any:
    """The picture: fits above, what happened on the way below."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    style: Any = {
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
    with mpl.rc_context(style):
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
        title = "With a falling bandwidth, a model can interpolate and still generalise"
        figure.text(0.05, 0.95, title, fontsize=17, weight="bold", color=BLACK)
        key = (
            (0.05, "━  falling bandwidth, from wide down to the floor (KGD-D)", BLUE),
            (0.46, "━  constant bandwidth, at the floor (ridge)", ORANGE),
            (0.77, "━  true curve,  ●  training points", "#666666"),
        )
        for x, text, colour in key:
            figure.text(x, 0.905, text, color=colour, fontsize=11)
    return figure


def _draw_fit(axes: Any, sine: tuple, fit: FloorFit, verdict: str, labelled: bool) -> None:
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


def _draw_bandwidths(axes: Any, fits: list[FloorFit]) -> None:
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


def _draw_r2(axes: Any, fits: list[FloorFit]) -> None:
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


def _time_axis(axes: Any) -> None:
    ticks = (0.1, 1, 10, 100, 1000)
    axes.set_xticks(ticks, [f"{t:g}" for t in ticks])
    axes.minorticks_off()
    axes.set_xlabel("training time", color=BLACK)
    axes.grid(axis="y", color="#E6E6E6", linewidth=0.8)
    axes.set_axisbelow(True)


def report(message: str) -> None:
    """Progress, kept apart from the result."""
    print(f"  … {message}", file=sys.stderr, flush=True)


def main(argv: list[str] | None = None) -> int:
    """Print the table, write ``demo.png`` and ``playground.html``, say where they are."""
    parser = argparse.ArgumentParser(prog="python -m bandfall.demo", description=__doc__)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("out"), metavar="FOLDER")
    folder = parser.parse_args(argv).out
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        parser.error("the picture needs matplotlib: pip install 'bandfall[plot]'")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        parser.error(f"--out {folder}: {error.strerror}")
    # One core for everybody: fair seconds, and small solves do not wait for each other's threads.
    with threadpool_limits(limits=1):
        scores = compare()
        sine = splits()["sine, 20 rows"][0]
        figure = draw(sine, fit_floors(sine))
    figure.savefig(folder / "demo.png")
    print(table(scores))
    print(
        "\nHalf of Friedman's features are noise: BandfallRegressor learns which. Diabetes is\n"
        "mostly noise: a model that interpolates fits it too, unless held-out rows tell it to stop."
    )
    playground = folder / "playground.html"
    playground.write_text(render_playground(), encoding="utf-8")
    print(f"\nPicture: {folder / 'demo.png'}")
    print(f"To watch it learn, open {playground} in a browser (or type `bandfall explore`).")
    return 0


if __name__ == "__main__":
    sys.exit(main())
