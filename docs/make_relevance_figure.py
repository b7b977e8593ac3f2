"""Draws the picture of selection.md and prints its table.

python docs/make_relevance_figure.py --data FOLDER: the folder of the paper's sets
"""

import argparse
import sys
from pathlib import Path

import matplotlib

matplotlib.use("agg")

import matplotlib.pyplot as plt
import numpy as np

from bandfall import KernelDescentRegressor, KernelRidgeMML
from bandfall._models.metric import slopes
from bandfall.datasets import load_uk_temperature
from bandfall.kernels._kernel import get_kernel
from bandfall.rivals import relevance
from bandfall.rivals._relevance import ScaledEvidence

SEEDS = range(3)
COLOURS = {"evidence": "#0072b2", "slopes": "#d55e00"}


def sine(random):
    X = random.uniform(size=(1200, 3))
    y = np.sin(10.0 * X[:, 0]) + 5.0 * X[:, 1] + 0.1 * random.normal(size=len(X))
    return X[:200], y[:200], X[200:], y[200:]


def temperatures(random, folder):
    X, y = load_uk_temperature(data_home=folder, return_X_y=True)
    rows = random.permutation(len(y))[:1400]
    X, y = X[rows], y[rows]
    return X[:400], y[:400], X[400:], y[400:]


def metrics(X, y):
    """Scales of standardised columns by evidence and by slopes of a fit, the largest 1."""
    fit = KernelDescentRegressor(min_speed=0.01).fit(X, y)
    by_slope = slopes(fit.path_, np.ones(1), np.ones(X.shape[1]))
    by_evidence = relevance(X, y).scales
    return {"evidence": by_evidence / by_evidence.max(), "slopes": by_slope / by_slope.max()}


def scores(problem):
    """Scales of the first draw, and test R² of a constant bandwidth by metric, one row a draw."""
    first, rows = {}, []
    for seed in SEEDS:
        X, y, X_new, y_new = problem(np.random.default_rng(seed))
        mean, deviation = X.mean(axis=0), X.std(axis=0)
        X, X_new = (X - mean) / deviation, (X_new - mean) / deviation
        known = metrics(X, y)
        first = first or known
        chosen = [
            KernelRidgeMML(fit_amplitude=True, n_starts=2)
            .fit(X * scale, y)
            .score(X_new * scale, y_new)
            for scale in (1.0, known["slopes"], known["evidence"])
        ]
        rows.append(chosen)
    return first, np.array(rows)


def evidence_panel(ax, X, y):
    """L of one bandwidth for all standardised columns, and of one for each."""
    X, y = (X - X.mean(axis=0)) / X.std(axis=0), (y - y.mean()) / y.std()
    evidence = ScaledEvidence(X, y[:, None], get_kernel("gaussian"))
    bandwidths = np.geomspace(0.1, 30.0, 40)
    penalties = np.geomspace(1e-6, 1.0, 25)
    values = [
        min(evidence(np.full(X.shape[1], -np.log(s)), np.log(p))[0] for p in penalties)
        for s in bandwidths
    ]
    ax.plot(bandwidths, values, color="#555555", label="one bandwidth")
    ax.axhline(relevance(X, y).value, color=COLOURS["evidence"], label="a scale for each column")
    ax.set(xscale="log", xlabel="bandwidth", ylabel="L, the smaller the likelier")
    ax.set_title("sin(10 x₁) + 5 x₂: evidence")
    ax.legend(frameon=False, fontsize=8)


def bars(ax, known, names, title):
    places = np.arange(len(names))
    for shift, (label, values) in zip((-0.2, 0.2), known.items(), strict=True):
        ax.bar(places + shift, values, 0.36, color=COLOURS[label], label=label)
    ax.set(title=title, xticks=places, xticklabels=names, ylabel="scale, the largest is 1")
    ax.legend(frameon=False, fontsize=8)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--data")
    folder = parser.parse_args().data
    names = load_uk_temperature(data_home=folder).feature_names
    figure, axes = plt.subplots(1, 3, figsize=(10, 3.3), layout="constrained")
    evidence_panel(axes[0], *sine(np.random.default_rng(0))[:2])
    problems = {
        "sin(10 x₁) + 5 x₂": (sine, ["x₁", "x₂", "useless"]),
        "U.K. temperatures": (lambda random: temperatures(random, folder), names),
    }
    for ax, (title, (problem, columns)) in zip(axes[1:], problems.items(), strict=True):
        known, r2 = scores(problem)
        bars(ax, known, columns, f"{title}: scales")
        sys.stdout.write(
            f"{title}: no metric, slopes, evidence {r2.mean(axis=0).round(3)}\n{known}\n"
        )
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(Path(__file__).parent / "images" / "relevance.png", dpi=100)
