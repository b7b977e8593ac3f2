"""Draws the figures of intervals.md and classes.md: python docs/make_interval_figures.py."""

from pathlib import Path

import matplotlib

matplotlib.use("agg")

import numpy as np
from matplotlib import pyplot
from matplotlib.colors import LinearSegmentedColormap
from sklearn.datasets import make_moons

from bandfall import BandfallClassifier, BandfallRegressor
from bandfall.plotting import IntervalDisplay

IMAGES = Path(__file__).parent / "images"
BLUE, VERMILION = "#0072B2", "#D55E00"


def noisy_curve(n, seed):
    """A curve whose noise grows to the right, with a gap in the middle."""
    random = np.random.default_rng(seed)
    x = np.sort(random.uniform(0, 10, n))
    x = x[(x < 4) | (x > 5.5)]
    return x[:, None], np.sin(x) + (0.05 + 0.08 * x) * random.standard_normal(len(x))


def draw_band():
    X, y = noisy_curve(500, 0)
    model = BandfallRegressor().fit(X, y)
    grid = np.linspace(-0.5, 10.5, 400)[:, None]
    ends = model.predict_interval(grid, [0.5, 0.9])
    figure, ax = pyplot.subplots(figsize=(8.0, 3.4), layout="constrained")
    for number, alpha in ((1, 0.18), (0, 0.35)):
        ax.fill_between(grid[:, 0], *ends[:, :, number].T, color=BLUE, alpha=alpha, linewidth=0)
    ax.scatter(X[:, 0], y, s=5, color="#333333", linewidths=0)
    ax.plot(grid[:, 0], model.predict(grid), color=VERMILION, linewidth=1.5)
    ax.set(xlabel="x", ylabel="y", ylim=(-4, 4), title="90 % and 50 % intervals, 500 rows")
    ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(IMAGES / "interval_band.png", dpi=100)
    display = IntervalDisplay.from_estimator(model, *noisy_curve(3000, 1))
    display.figure_.savefig(IMAGES / "interval_display.png", dpi=100)


def draw_boundaries():
    """The paper's story for classes: simple first, finer as the bandwidth falls."""
    X, y = make_moons(300, noise=0.25, random_state=0)
    model = BandfallClassifier(kernels="gaussian", n_members=1).fit(X, y)
    values = [
        np.linspace(low - 0.4, high + 0.4, 120)
        for low, high in zip(X.min(0), X.max(0), strict=True)
    ]
    grid = np.stack(np.meshgrid(*values), axis=-1).reshape(-1, 2)
    colours = LinearSegmentedColormap.from_list("classes", [BLUE, "white", VERMILION])
    stages = list(model.staged_predict_proba(grid))
    shown = np.linspace(0, len(stages) - 1, 4).astype(int)
    figure, axes = pyplot.subplots(1, 4, figsize=(11.2, 3.0), sharey=True, layout="constrained")
    for ax, stage in zip(axes, shown, strict=True):
        share = stages[stage][:, 1].reshape(120, 120)
        extent = [*values[0][[0, -1]], *values[1][[0, -1]]]
        looks = {"cmap": colours, "vmin": 0, "vmax": 1, "alpha": 0.6, "aspect": "auto"}
        ax.imshow(share, origin="lower", extent=extent, interpolation="bilinear", **looks)
        ax.contour(*values, share, levels=[0.5], colors="black", linewidths=1.1)
        ax.scatter(*X.T, c=y, s=12, cmap=colours, edgecolors="white", linewidths=0.4)
        bandwidth = model.path_.bandwidths[stage]
        title = f"stage {stage + 1} of {len(stages)}, bandwidth {bandwidth:.2g}"
        ax.set_title(title, fontsize=9)
    figure.savefig(IMAGES / "class_stages.png", dpi=100)


if __name__ == "__main__":
    draw_band()
    draw_boundaries()
