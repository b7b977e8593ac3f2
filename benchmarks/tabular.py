"""BandfallRegressor against its rivals on tables, with no set-specific setting anywhere.

    python benchmarks/tabular.py --data DIR [--rows 80 1000 5000 0] [--seeds 3] [--out DIR]

A fifth of each set is held out (at most 5,000 rows are scored); --rows says how many of the others
train, 0 for all. Rivals that are not installed are left out and named. Prints test R², seconds and
mean ranks as Markdown and writes OUT/tabular.json and OUT/tabular.png.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import time
import warnings
from collections import defaultdict
from functools import partial
from pathlib import Path

import numpy as np
from sklearn.datasets import load_diabetes, make_friedman1, make_friedman2, make_friedman3
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bandfall import BandfallRegressor, KernelDescentRegressor, KernelRidgeCV
from bandfall.datasets import load_cpu, load_power, load_superconductors, load_uk_temperature

REAL = {
    "U.K. temperature": load_uk_temperature,
    "power": load_power,
    "superconductors": load_superconductors,
    "CPU run time": load_cpu,
}


def read(load, data):
    """A real set from the directory `data`."""
    return load(data_home=data, return_X_y=True)


def friedman(make, n=3000):
    """A Friedman generator with noise of a tenth of the signal's deviation."""
    X, y = make(n, random_state=0)
    return X, y + 0.1 * y.std() * np.random.default_rng(0).normal(size=n)


SETS = {
    **{name: partial(read, load) for name, load in REAL.items()},
    "diabetes": lambda data: load_diabetes(return_X_y=True),
    "Friedman 1": lambda data: friedman(make_friedman1),
    "Friedman 2": lambda data: friedman(make_friedman2),
    "Friedman 3": lambda data: friedman(make_friedman3),
}


def scaled(model):
    return make_pipeline(StandardScaler(), model)


def gaussian_process(n):
    kernel = ConstantKernel() * RBF() + WhiteKernel()
    return scaled(GaussianProcessRegressor(kernel, normalize_y=True)) if n <= 1000 else None


def optional(module, name, **parameters):
    """A rival from a package that may be missing."""
    return lambda n: getattr(importlib.import_module(module), name)(**parameters)


METHODS = {
    "Bandfall": lambda n: BandfallRegressor(),
    "KGD-D, 0.1": lambda n: scaled(KernelDescentRegressor()) if n <= 20000 else None,
    "KRR-CV": lambda n: scaled(KernelRidgeCV()) if n <= 1000 else None,
    "GP": gaussian_process,
    "HistGB": lambda n: HistGradientBoostingRegressor(random_state=0),
    "LightGBM": optional("lightgbm", "LGBMRegressor", verbose=-1),
    "XGBoost": optional("xgboost", "XGBRegressor"),
    "CatBoost": optional("catboost", "CatBoostRegressor", verbose=0),
    "xRFM": optional("xrfm", "xRFM"),
    "MLP": lambda n: scaled(MLPRegressor(max_iter=500, early_stopping=n >= 500, random_state=0)),
}


def split(X, y, n_train, seed):
    order = np.random.default_rng(seed).permutation(len(X))
    n_test = -(-len(X) // 5)
    test, train = order[:n_test][:5000], order[n_test:]
    train = train[: n_train or len(train)]
    return X[train], y[train], X[test], y[test]


def run(arguments):
    """All scores: {(set, rows): {method: [(R², seconds) …]}}."""
    results, missing = defaultdict(lambda: defaultdict(list)), set()
    for name in arguments.sets or SETS:
        X, y = SETS[name](arguments.data)
        X, y = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)
        for n in arguments.rows:
            if n and n > 0.8 * len(X):
                continue
            for seed in range(arguments.seeds):
                train_X, train_y, test_X, test_y = split(X, y, n, seed)
                for method, make in METHODS.items():
                    try:
                        model = make(len(train_X))
                    except ImportError:
                        missing.add(method)
                        continue
                    if model is None:
                        continue
                    start = time.perf_counter()
                    model.fit(train_X, train_y)
                    seconds = time.perf_counter() - start
                    prediction = np.asarray(model.predict(test_X)).reshape(len(test_y))
                    r2 = 1 - np.mean((prediction - test_y) ** 2) / np.var(test_y)
                    results[name, n or len(train_X)][method].append((float(r2), seconds))
                    print(f"# {name} {n} {seed} {method} {r2:.4f} {seconds:.1f} s", flush=True)
    return results, missing


def table(results):
    """Markdown: mean R² and rank of each method on each set and size."""
    methods = [m for m in METHODS if any(m in scores for scores in results.values())]
    lines = ["| set | rows | " + " | ".join(methods) + " |", "| --- " * (len(methods) + 2) + "|"]
    ranks = defaultdict(list)
    for (name, n), scores in results.items():
        means = {m: np.mean([r2 for r2, _ in scores[m]]) for m in methods if m in scores}
        order = sorted(means, key=lambda m: -means[m])
        for place, method in enumerate(order, start=1):
            ranks[n, method].append(place)
        cells = [
            (f"**{means[m]:.3f}**" if m == order[0] else f"{means[m]:.3f}") if m in means else "–"
            for m in methods
        ]
        lines.append(f"| {name} | {n} | " + " | ".join(cells) + " |")
    for n in dict.fromkeys(n for _, n in results):
        cells = [f"{np.mean(ranks[n, m]):.1f}" if (n, m) in ranks else "–" for m in methods]
        lines.append(f"| mean rank | {n} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def draw(results, path):
    """Mean rank of each method, one row of dots a method."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot as plt

    ranks = defaultdict(list)
    for scores in results.values():
        means = {m: np.mean([r2 for r2, _ in values]) for m, values in scores.items()}
        for place, method in enumerate(sorted(means, key=lambda m: -means[m]), start=1):
            ranks[method].append(place)
    order = sorted(ranks, key=lambda m: np.mean(ranks[m]), reverse=True)
    figure, ax = plt.subplots(figsize=(6.5, 0.4 * len(order) + 1), layout="constrained")
    for height, method in enumerate(order):
        places = np.array(ranks[method])
        jitter = np.linspace(-0.15, 0.15, len(places))
        ax.plot(places, height + jitter, "o", color="#0072B2", alpha=0.25, markersize=4)
        ax.plot(places.mean(), height, "D", color="#D55E00")
        ax.annotate(f"{places.mean():.1f}", (places.mean(), height + 0.22), ha="center", fontsize=8)
    ax.set_yticks(range(len(order)), order)
    ax.set(xlabel="rank by test R² (diamond: mean; dots: sets and sizes)")
    ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=100)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=os.environ.get("BANDFALL_DATA"))
    parser.add_argument("--rows", nargs="+", type=int, default=[80, 1000, 5000])
    parser.add_argument("--sets", nargs="+", choices=SETS)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", default="out")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    results, missing = run(arguments)
    print(f"{platform.machine()}, {len(os.sched_getaffinity(0))} cores")
    if missing:
        print("not installed, left out: " + ", ".join(sorted(missing)))
    print(table(results))
    out = Path(arguments.out)
    out.mkdir(parents=True, exist_ok=True)
    record = {f"{name}, {n}": scores for (name, n), scores in results.items()}
    (out / "tabular.json").write_text(json.dumps(record, indent=1))
    draw(results, out / "tabular.png")
