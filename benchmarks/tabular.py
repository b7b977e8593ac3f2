"""BandfallRegressor against its rivals on tables, with no set-specific setting anywhere.

    python benchmarks/tabular.py --data DIR [--rows 80 1000 5000 0] [--seeds 3] [--out DIR]

A fifth of each set is held out (at most 5,000 rows are scored); --rows says how many of the others
train, 0 for all. Boosters run with their defaults, and tuned for as long as BandfallRegressor took
on the same rows. Every fit has a process of its own. Rivals that are not installed are left out
and named. Prints test R², seconds, memory and mean ranks as Markdown; writes OUT/tabular.json,
from which an interrupted run goes on, and OUT/tabular.png.
"""

from __future__ import annotations

import argparse
import importlib
import json
import multiprocessing
import os
import platform
import resource
import time
import warnings
from collections import defaultdict
from functools import partial
from pathlib import Path

import numpy as np
from scipy.stats import loguniform, randint, studentized_range, uniform
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.datasets import load_diabetes, make_friedman1, make_friedman2, make_friedman3
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.model_selection import ParameterSampler, cross_val_score, train_test_split
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


def gaussian_process():
    kernel = ConstantKernel() * RBF() + WhiteKernel()
    return scaled(GaussianProcessRegressor(kernel, normalize_y=True))


class XRFM(RegressorMixin, BaseEstimator):
    """xRFM with its defaults, behind a StandardScaler of rows and targets; a fifth validates."""

    def fit(self, X, y):
        from xrfm import xRFM

        self.scale_ = y.mean(), y.std() or 1.0
        y = ((y - self.scale_[0]) / self.scale_[1])[:, None]
        parts = train_test_split(X.astype("f"), y.astype("f"), test_size=0.2, random_state=0)
        X, X_validation, y, y_validation = parts
        self.model_ = xRFM(device="cpu", random_state=0, verbose=False)
        self.model_.fit(X, y, X_validation, y_validation)
        return self

    def predict(self, X):
        prediction = np.asarray(self.model_.predict(X.astype("f"))).ravel()
        return self.scale_[0] + self.scale_[1] * prediction


class Tuned(RegressorMixin, BaseEstimator):
    """The best of random configurations, defaults first, by cross-validation within a time."""

    def __init__(self, model, space, seconds):
        self.model, self.space, self.seconds = model, space, seconds

    def fit(self, X, y):
        start, best = time.perf_counter(), -np.inf
        for parameters in [{}, *ParameterSampler(self.space, 500, random_state=0)]:
            model = clone(self.model).set_params(**parameters)
            score = cross_val_score(model, X, y, cv=5 if len(X) < 1500 else 3).mean()
            if score > best:
                best, self.model_ = score, model
            if time.perf_counter() - start > self.seconds:
                break
        self.model_.fit(X, y)
        return self

    def predict(self, X):
        return self.model_.predict(X)


def optional(module, name, **parameters):
    """A rival from a package that may be missing."""
    return lambda: getattr(importlib.import_module(module), name)(**parameters)


BOOSTERS = {
    "HistGB": (
        lambda: HistGradientBoostingRegressor(random_state=0),
        {
            "learning_rate": loguniform(0.02, 0.3),
            "max_iter": randint(100, 1000),
            "max_leaf_nodes": randint(8, 128),
            "min_samples_leaf": randint(2, 40),
            "l2_regularization": loguniform(1e-3, 10),
        },
    ),
    "LightGBM": (
        optional("lightgbm", "LGBMRegressor", verbose=-1),
        {
            "learning_rate": loguniform(0.02, 0.3),
            "n_estimators": randint(100, 1000),
            "num_leaves": randint(8, 128),
            "min_child_samples": randint(2, 40),
            "subsample": uniform(0.5, 0.5),
            "subsample_freq": [1],
            "colsample_bytree": uniform(0.5, 0.5),
            "reg_lambda": loguniform(1e-3, 10),
        },
    ),
    "XGBoost": (
        optional("xgboost", "XGBRegressor"),
        {
            "learning_rate": loguniform(0.02, 0.3),
            "n_estimators": randint(100, 1000),
            "max_depth": randint(3, 10),
            "min_child_weight": loguniform(1, 20),
            "subsample": uniform(0.5, 0.5),
            "colsample_bytree": uniform(0.5, 0.5),
            "reg_lambda": loguniform(1e-3, 10),
        },
    ),
    "CatBoost": (
        optional("catboost", "CatBoostRegressor", verbose=0, allow_writing_files=False),
        {
            "learning_rate": loguniform(0.02, 0.3),
            "iterations": randint(200, 1500),
            "depth": randint(4, 9),
            "l2_leaf_reg": loguniform(0.5, 20),
        },
    ),
}

# Most rows a method is given: beyond, it would take hours or more memory than there is.
LIMITS = {"KGD-D, 0.1": 20_000, "KRR-CV": 1_000, "GP": 1_000, "xRFM": 20_000}

METHODS = {
    "Bandfall": BandfallRegressor,
    "KGD-D, 0.1": lambda: scaled(KernelDescentRegressor()),
    "KRR-CV": lambda: scaled(KernelRidgeCV()),
    "GP": gaussian_process,
    **{name: make for name, (make, _) in BOOSTERS.items()},
    "xRFM": lambda: importlib.import_module("xrfm") and scaled(XRFM()),
    "MLP": lambda: TransformedTargetRegressor(
        scaled(MLPRegressor(max_iter=1000, random_state=0)), transformer=StandardScaler()
    ),
}
TUNED = {f"{name}, tuned": name for name in BOOSTERS}


def make(method, seconds):
    """A fresh model; `seconds` is what tuning may take."""
    if method in TUNED:
        build, space = BOOSTERS[TUNED[method]]
        return Tuned(build(), space, seconds)
    return METHODS[method]()


def split(X, y, n_train, seed):
    order = np.random.default_rng(seed).permutation(len(X))
    n_test = -(-len(X) // 5)
    test, train = order[:n_test][:5000], order[n_test:]
    train = train[: n_train or len(train)]
    return X[train], y[train], X[test], y[test]


def measure(method, seconds, train_X, train_y, test_X, test_y):
    """Test R², seconds of fitting, MiB it took on top."""
    warnings.simplefilter("ignore")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    model = make(method, seconds)
    start = time.perf_counter()
    model.fit(train_X, train_y)
    seconds = time.perf_counter() - start
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    prediction = np.asarray(model.predict(test_X)).reshape(len(test_y))
    r2 = 1 - np.mean((prediction - test_y) ** 2) / np.var(test_y)
    return float(r2), seconds, memory / 1024


def run(arguments, record):
    """Fill {"set, rows": {method: {seed: (R², seconds, MiB)}}}; the methods that are missing."""
    missing, fork = set(), multiprocessing.get_context("fork")
    cases = [
        (name, n, seed)
        for n in arguments.rows
        for name in arguments.sets or SETS
        for seed in range(arguments.seeds)
    ]
    for name, n, seed in cases:
        X, y = (np.asarray(a, dtype=np.float64) for a in SETS[name](arguments.data))
        if arguments.noise:
            noise = np.random.default_rng(1).normal(size=(len(X), arguments.noise))
            X, name = np.hstack([X, noise]), f"{name} + {arguments.noise} noise columns"
        if n > 0.8 * len(X):
            continue
        rows = split(X, y, n, seed)
        scores = record.setdefault(f"{name}, {n or len(rows[0])}", {})
        for method in arguments.methods or (*METHODS, *TUNED):
            known = scores.setdefault(method, {})
            seconds = scores.get("Bandfall", {}).get(str(seed), (0.0, 10.0))[1]
            if str(seed) in known or len(rows[0]) > LIMITS.get(method, np.inf):
                continue
            try:
                make(method, seconds)
            except ImportError:
                missing.add(method)
                continue
            with fork.Pool(1) as pool:
                known[str(seed)] = pool.apply(measure, (method, seconds, *rows))
            r2, seconds, mebibytes = known[str(seed)]
            print(
                f"# {name} {n} {seed} {method} {r2:.4f} {seconds:.1f} s {mebibytes:.0f} MiB",
                flush=True,
            )
            (arguments.out / "tabular.json").write_text(json.dumps(record, indent=1))
    return missing


def means(scores, index=0):
    """Mean over seeds of R² (0), seconds (1) or MiB (2) for each method."""
    return {m: np.mean([v[index] for v in seeds.values()]) for m, seeds in scores.items() if seeds}


def places(record, methods):
    """Ranks by mean R², {case: {method: rank}}, over these methods where all of them ran."""
    ranks = {}
    for case, scores in record.items():
        r2 = means(scores)
        if all(m in r2 for m in methods):
            order = sorted(methods, key=lambda m: -r2[m])
            ranks[case] = {m: 1 + place for place, m in enumerate(order)}
    return ranks


def table(record):
    """Markdown: mean R² on each set and size, mean rank, seconds and memory for each size."""
    methods = [m for m in (*METHODS, *TUNED) if any(s.get(m) for s in record.values())]
    lines = ["| set | rows | " + " | ".join(methods) + " |", "| --- " * (len(methods) + 2) + "|"]
    for case, scores in record.items():
        r2 = means(scores)
        best = max(r2.values())
        cells = [
            "–" if m not in r2 else f"**{r2[m]:.4f}**" if r2[m] == best else f"{r2[m]:.4f}"
            for m in methods
        ]
        lines.append("| " + " | ".join([*case.rsplit(", ", 1), *cells]) + " |")
    sizes = dict.fromkeys(case.rsplit(", ", 1)[1] for case in record)
    for n in sizes:
        part = {case: s for case, s in record.items() if case.endswith(f", {n}")}
        here = [m for m in methods if all(s.get(m) for s in part.values())]
        rows = {"mean rank": defaultdict(list), "seconds": defaultdict(list), "MiB": {}}
        for ranks in places(part, here).values():
            for m in here:
                rows["mean rank"][m].append(ranks[m])
        for index, label in ((1, "seconds"), (2, "MiB")):
            rows[label] = {m: [means(s, index)[m] for s in part.values()] for m in here}
        for label, values in rows.items():
            cells = [f"{np.mean(values[m]):.1f}" if m in here else "–" for m in methods]
            lines.append(f"| {label} | {n} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def draw(record, path):
    """Mean rank of each method with Nemenyi's critical difference, one panel a size."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot as plt

    sizes = list(dict.fromkeys(case.rsplit(", ", 1)[1] for case in record))
    figure, axes = plt.subplots(
        1, len(sizes), figsize=(4.2 * len(sizes), 4.4), layout="constrained", squeeze=False
    )
    for n, ax in zip(sizes, axes[0], strict=True):
        part = {case: s for case, s in record.items() if case.endswith(f", {n}")}
        methods = [m for m in (*METHODS, *TUNED) if all(s.get(m) for s in part.values())]
        ranks = places(part, methods).values()
        ranks = {m: [r[m] for r in ranks] for m in methods}
        order = sorted(methods, key=lambda m: np.mean(ranks[m]), reverse=True)
        k = len(methods)
        critical = studentized_range.ppf(0.95, k, 1000) * np.sqrt(k * (k + 1) / 12 / len(part))
        for height, method in enumerate(order):
            jitter = np.linspace(-0.18, 0.18, len(part))
            ax.plot(ranks[method], height + jitter, "o", color="#0072B2", alpha=0.3, markersize=4)
            ax.plot(np.mean(ranks[method]), height, "D", color="#D55E00")
        best = np.mean(ranks[order[-1]])
        ax.axvspan(best, best + critical, color="#D55E00", alpha=0.08, linewidth=0)
        ax.set_yticks(range(k), order)
        ax.set(xlabel="rank by test R²", title=f"{int(n):,} rows, {len(part)} sets")
        ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=100)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=os.environ.get("BANDFALL_DATA"))
    parser.add_argument("--rows", nargs="+", type=int, default=[80, 1000, 5000])
    parser.add_argument("--sets", nargs="+", choices=SETS)
    parser.add_argument("--methods", nargs="+", choices=(*METHODS, *TUNED))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--noise", type=int, default=0, help="columns of noise to add")
    parser.add_argument("--out", default="out", type=Path)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    saved = arguments.out / "tabular.json"
    record = json.loads(saved.read_text()) if saved.exists() else {}
    missing = run(arguments, record)
    print(f"{platform.machine()}, {len(os.sched_getaffinity(0))} cores")
    if missing:
        print("not installed, left out: " + ", ".join(sorted(missing)))
    print(table(record))
    draw(record, arguments.out / "tabular.png")
