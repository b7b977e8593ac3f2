"""Draws the picture of distance.md: python docs/make_distance_figure.py."""

from pathlib import Path

import matplotlib

matplotlib.use("agg")

import matplotlib.pyplot as plt
import numpy as np

from bandfall import KernelRidgeCV

NORMS = (1.0, 1.25, 1.5, 1.75, 2.0)
SEEDS = range(5)
COLOURS = {1.0: "#d55e00", 1.5: "#0072b2", 2.0: "#555555"}


def additive(n, random):
    X = random.uniform(size=(n, 5))
    y = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2
    return X, y + 10 * X[:, 3] + 5 * X[:, 4] + random.normal(size=n)


def radial(n, random):
    X = random.normal(size=(n, 4))
    return X, np.sin(2 * np.linalg.norm(X, axis=1)) + 0.1 * random.normal(size=n)


def errors(problem):
    """RMSE on new rows over that of p = 2, by norm, one row a seed."""
    rows = []
    for seed in SEEDS:
        random = np.random.default_rng(seed)
        (X, y), (X_new, y_new) = problem(400, random), problem(2000, random)
        models = [KernelRidgeCV(kernel=f"laplace-{p:g}").fit(X, y) for p in NORMS]
        rows.append([np.sqrt(np.mean((model.predict(X_new) - y_new) ** 2)) for model in models])
    return np.array(rows) / np.array(rows)[:, -1:]


def balls(ax):
    t = np.linspace(0, 2 * np.pi, 801)
    for p, colour in COLOURS.items():
        radius = (np.abs(np.cos(t)) ** p + np.abs(np.sin(t)) ** p) ** (-1 / p)
        ax.plot(radius * np.cos(t), radius * np.sin(t), color=colour, label=f"p = {p:g}")
    ax.set(title="all points at distance 1", aspect="equal", xlabel="first feature")
    ax.set_ylabel("second feature")
    ax.legend(frameon=False, fontsize=8, loc="center")


def curve(ax, problem, title):
    ratios = errors(problem)
    ax.plot(NORMS, ratios.T, color="#bbbbbb", linewidth=0.8)
    ax.plot(NORMS, ratios.mean(axis=0), color="#0072b2", marker="o")
    ax.axhline(1.0, color="#555555", linewidth=0.8, linestyle=":")
    ax.set(title=title, xlabel="p of the norm", ylabel="error, relative to p = 2", xticks=NORMS)


if __name__ == "__main__":
    figure, axes = plt.subplots(1, 3, figsize=(10, 3.3), layout="constrained")
    balls(axes[0])
    curve(axes[1], additive, "features act on their own")
    curve(axes[2], radial, "directions are alike")
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(Path(__file__).parent / "images" / "distance.png", dpi=100)
