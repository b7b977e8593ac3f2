"""Leaves: what dividing the rows costs in accuracy, and what it saves.

    python benchmarks/leaves.py accuracy --data FOLDER [--sets kin8nm power ...] [--share 0.25]
    python benchmarks/leaves.py scaling [--rows 25000 50000 100000 200000] [--out times.json]
    python benchmarks/leaves.py latency [--rows 100000]

`accuracy` fits the same search with one leaf and with `leaf_rows` a share of the training rows, and
prints the ratio of test RMSEs and of CPU seconds. `scaling` prints CPU seconds and peak memory of
whole fits of synthetic rows, each in a process of its own, beside XGBoost and LightGBM where they
are installed. `latency` times predictions of one row. Times are processor seconds, which a busy
machine hardly changes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

SETTINGS = {
    "device": None,
    "kernels": ("gaussian", "matern12"),
    "search_rows": 3000,
    "n_members": 2,
}


def synthetic(n, d=8, seed=0):
    """Rows of a smooth function of all features, with some noise."""
    random = np.random.default_rng(seed)
    X = random.uniform(-1, 1, size=(n, d))
    y = np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2] + np.abs(X[:, 3]) + 0.3 * X[:, 4:].sum(axis=1)
    return X, y + 0.2 * random.standard_normal(n)


def read(folder, name):
    """Features and target of a set: its last column, of numbers alone."""
    import pandas as pd

    file = next(Path(folder).rglob(f"{name}.csv*"))
    table = pd.read_csv(file).select_dtypes("number").dropna()
    first = name == "uktemp"  # its target comes first
    y = table.pop(table.columns[0 if first else -1])
    return table.to_numpy(float), y.to_numpy(float)


def fit(X, y, **settings):
    """A model and the CPU seconds that it took."""
    from bandfall import BandfallRegressor

    start = time.process_time()
    model = BandfallRegressor(**{**SETTINGS, **settings}).fit(X, y)
    return model, time.process_time() - start


def accuracy(options):
    print(
        f"{'set':<16} {'rows':>7} {'one leaf':>10} {'leaves':>7} {'ratio':>7} {'CPU':>6} coverage"
    )
    ratios = []
    for name in options.sets:
        X, y = read(options.data, name)
        order = np.random.default_rng(0).permutation(len(y))[: options.most]
        n = int(0.8 * len(order))
        train, test = order[:n], order[n:]
        errors, seconds, covered, model = [], [], [], None
        for leaf_rows in (n, int(options.share * n)):
            model, spent = fit(X[train], y[train], leaf_rows=leaf_rows)
            residual = model.predict(X[test]) - y[test]
            low, high = model.predict_interval(X[test], 0.9).T
            errors.append(float(np.sqrt(np.mean(residual**2))))
            covered.append(float(np.mean((low <= y[test]) & (y[test] <= high))))
            seconds.append(spent)
        ratios.append(errors[1] / errors[0])
        print(
            f"{name:<16} {n:>7,} {errors[0]:>10.4g} {model.path_.n_leaves:>7} {ratios[-1]:>7.3f} "
            f"{seconds[1] / seconds[0]:>6.2f} {covered[0]:.3f} {covered[1]:.3f}",
            flush=True,
        )
    mean = np.exp(np.mean(np.log(ratios)))
    print(f"{'geometric mean':<16} {'':>7} {'':>10} {'':>7} {mean:>7.3f}")


def one_fit(method, n):
    """CPU seconds, peak memory and test R² of one fit, as JSON: run in a process of its own."""
    import resource

    X, y = synthetic(n + 5000)
    start = time.process_time()
    if method == "bandfall":
        model, _ = fit(X[:n], y[:n], leaf_rows=options_leaf_rows())
    elif method == "xgboost":
        from xgboost import XGBRegressor

        model = XGBRegressor(n_jobs=1).fit(X[:n], y[:n])
    else:
        from lightgbm import LGBMRegressor

        model = LGBMRegressor(n_jobs=1, verbose=-1).fit(X[:n], y[:n])
    seconds = time.process_time() - start
    residual = np.asarray(model.predict(X[n:])) - y[n:]
    result = {
        "method": method,
        "rows": n,
        "seconds": seconds,
        "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "r2": 1.0 - float(np.mean(residual**2) / np.var(y[n:])),
    }
    print(json.dumps(result))


def options_leaf_rows():
    return int(os.environ.get("LEAF_ROWS", "10000"))


def scaling(options):
    results = []
    print(f"{'method':<10} {'rows':>9} {'CPU s':>8} {'ratio':>6} {'MB':>7} {'ratio':>6} {'R²':>7}")
    for method in options.methods:
        before = None
        for n in options.rows:
            command = [sys.executable, __file__, "one", method, str(n)]
            environment = {**os.environ, "LEAF_ROWS": str(options.leaf_rows)}
            done = subprocess.run(command, capture_output=True, text=True, env=environment)
            if done.returncode:
                print(f"{method:<10} {n:>9,} {done.stderr.strip().splitlines()[-1]}")
                break
            one = json.loads(done.stdout.splitlines()[-1])
            ratios = ["", ""]
            if before is not None:
                ratios = [f"{one[key] / before[key]:.2f}" for key in ("seconds", "megabytes")]
            print(
                f"{method:<10} {n:>9,} {one['seconds']:>8.1f} {ratios[0]:>6} "
                f"{one['megabytes']:>7.0f} {ratios[1]:>6} {one['r2']:>7.4f}",
                flush=True,
            )
            results.append(one)
            before = one
    if options.out:
        Path(options.out).write_text(json.dumps(results, indent=1))


def latency(options):
    X, y = synthetic(options.rows + 200)
    model, _ = fit(X[:-200], y[:-200], leaf_rows=options.leaf_rows, n_members=1)
    model.predict(X[-1:])
    times = []
    for row in X[-200:]:
        start = time.perf_counter()
        model.predict(row[None])
        times.append(1e3 * (time.perf_counter() - start))
    print(
        f"{options.rows:,} rows in {model.path_.n_leaves} leaves: one prediction takes "
        f"{np.median(times):.2f} ms (median), {np.min(times):.2f} ms (least)"
    )


def main():
    if sys.argv[1:2] == ["one"]:
        one_fit(sys.argv[2], int(sys.argv[3]))
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("accuracy")
    one.add_argument("--data", default=os.environ.get("BANDFALL_DATA"))
    one.add_argument("--sets", nargs="+", default=["kin8nm", "puma8NH", "ccpp", "house_8L"])
    one.add_argument("--share", type=float, default=0.25)
    one.add_argument("--most", type=int, default=10**9, help="rows of a set at most")
    one.set_defaults(run=accuracy)
    one = commands.add_parser("scaling")
    one.add_argument("--rows", nargs="+", type=int, default=[25_000, 50_000, 100_000, 200_000])
    one.add_argument("--methods", nargs="+", default=["bandfall", "xgboost", "lightgbm"])
    one.add_argument("--leaf-rows", type=int, default=10_000)
    one.add_argument("--out")
    one.set_defaults(run=scaling)
    one = commands.add_parser("latency")
    one.add_argument("--rows", type=int, default=100_000)
    one.add_argument("--leaf-rows", type=int, default=10_000)
    one.set_defaults(run=latency)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
