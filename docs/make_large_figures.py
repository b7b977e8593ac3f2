"""Draws the figures of large.md: python docs/make_large_figures.py [times.json].

The times have the form that ``python benchmarks/large.py scaling --out times.json`` writes.
"""

import json
import sys
from pathlib import Path

import matplotlib

matplotlib.use("agg")

import numpy as np
from matplotlib import pyplot

from bandfall import BandfallRegressor

IMAGES = Path(__file__).parent / "images"
BLUE, VERMILION, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#999999"
SETTINGS = {"kernels": ("gaussian",), "n_members": 1, "device": None}


def leaf_weights(model, X):
    """Weights of all leaves at rows, shape (m, leaves)."""
    partition = model.path_.model.partition
    weights = np.zeros((len(X), partition.n_leaves))
    for leaf, rows, share in partition.shares(model._model_rows(X)):
        weights[rows, leaf] = share
    return weights


def draw_curve():
    """A curve in leaves: the weights, and the function that is blended from them."""
    random = np.random.default_rng(0)
    x = np.sort(random.uniform(0, 10, 6000))
    y = np.sin(x * (0.5 + 0.25 * x)) + 0.1 * random.standard_normal(len(x))
    model = BandfallRegressor(leaf_rows=1600, max_rounds=0, **SETTINGS).fit(x[:, None], y)
    grid = np.linspace(0, 10, 1000)[:, None]
    figure, (top, bottom) = pyplot.subplots(
        2, 1, figsize=(8.0, 4.2), sharex=True, height_ratios=(3, 1), layout="constrained"
    )
    top.scatter(x, y, s=1, color=GREY, linewidths=0)
    top.plot(grid[:, 0], model.predict(grid), color=VERMILION, linewidth=1.5)
    weights = leaf_weights(model, grid)
    for number, weight in enumerate(weights.T):
        colour = (BLUE, GREEN)[number % 2]
        bottom.plot(grid[:, 0], weight, color=colour, linewidth=1.2)
        bottom.fill_between(grid[:, 0], weight, color=colour, alpha=0.15, linewidth=0)
    for axes in (top, bottom):
        axes.spines[["top", "right"]].set_visible(False)
    top.set(ylabel="y", title=f"6,000 rows in {weights.shape[1]} leaves")
    bottom.set(xlabel="x", ylabel="weight of a leaf", ylim=(0, 1.05))
    figure.savefig(IMAGES / "leaves_curve.png", dpi=100)


def draw_plane():
    """Leaves of a plane: their bands, and the blended function."""
    random = np.random.default_rng(0)
    X = random.standard_normal((3000, 2)) @ np.array([[1.0, 0.6], [0.0, 0.8]])
    y = np.sin(2 * X[:, 0]) * np.cos(2 * X[:, 1]) + 0.1 * random.standard_normal(len(X))
    model = BandfallRegressor(leaf_rows=500, max_rounds=1, search_rows=1000, **SETTINGS).fit(X, y)
    axis = np.linspace(-3, 3, 200)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    weights = leaf_weights(model, grid)
    largest = weights.max(axis=1).reshape(200, 200)
    values = model.predict(grid).reshape(200, 200)
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(8.0, 3.9), layout="constrained")
    owner = weights.argmax(axis=1).reshape(200, 200)
    left.contourf(axis, axis, largest, levels=np.linspace(0.2, 1.0, 9), cmap="Greys_r")
    left.scatter(*X.T, s=1, color=BLUE, linewidths=0, alpha=0.5)
    left.set_title(f"3,000 rows in {weights.shape[1]} leaves; bands are dark")
    right.contourf(axis, axis, values, levels=24, cmap="viridis")
    right.contour(axis, axis, owner, levels=np.arange(weights.shape[1]) + 0.5, colors="white",
                  linewidths=0.6)  # fmt: skip
    right.set_title("the blended function, borders in white")
    for axes in (left, right):
        axes.set(xlim=(-3, 3), ylim=(-3, 3), xlabel="x₁", ylabel="x₂", aspect="equal")
    figure.savefig(IMAGES / "leaves_plane.png", dpi=100)


def draw_times(file):
    """CPU seconds against rows, on logarithmic axes."""
    results = json.loads(Path(file).read_text())
    figure, axes = pyplot.subplots(figsize=(6.4, 3.6), layout="constrained")
    names = {
        "bandfall": "Bandfall, final fit of one model",
        "xgboost": "XGBoost",
        "lightgbm": "LightGBM",
    }
    for (method, name), colour in zip(names.items(), (VERMILION, BLUE, GREEN), strict=True):
        points = [(one["rows"], one["seconds"]) for one in results if one["method"] == method]
        if points:
            axes.loglog(*np.transpose(points), "o-", color=colour, label=name)
    ticks = sorted({one["rows"] for one in results})
    seconds = [1, 2, 5, 10, 20, 50, 100]
    axes.minorticks_off()
    axes.set_yticks(seconds, [str(one) for one in seconds])
    axes.set_ylim(1, 2 * max(one["seconds"] for one in results))
    axes.set(
        xlabel="rows",
        ylabel="CPU seconds",
        title="synthetic rows, 8 features",
        xticks=ticks,
        xticklabels=[f"{n:,}" for n in ticks],
    )
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    figure.savefig(IMAGES / "leaves_times.png", dpi=100)


if __name__ == "__main__":
    draw_curve()
    draw_plane()
    for name in sys.argv[1:]:
        draw_times(name)
