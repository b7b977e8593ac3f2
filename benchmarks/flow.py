"""Exact flow against stable Euler, and its cost at whole data sets on a CPU.

Prints ratios measured in one run:

    python benchmarks/flow.py --data DIR [--part euler cpu power scaling compress] [--out DIR]

Parts: `euler` (n = 1,280: flow against Euler with stable steps), `cpu` (all training rows of
the CPU data, against one Cholesky fit), `power` (all training rows of the power data under a
memory budget), `scaling` (products and seconds against n, with a plot), `compress` (stages and
error of compressed paths on the four sets).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import resource
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.kernel_ridge import KernelRidge

from bandfall._products import NumpyBackend
from bandfall.datasets import load_cpu, load_power, load_superconductors, load_uk_temperature
from bandfall.descent import Euler, Flow, Stopping, fit_path
from bandfall.descent._schedules import MinimumSpeed
from bandfall.kernels import get_kernel

LOADERS = {
    "cpu": load_cpu,
    "power": load_power,
    "superconductors": load_superconductors,
    "uk_temperature": load_uk_temperature,
}
GAUSSIAN = get_kernel("gaussian")


def load(name, data, n_train=None, dtype=np.float64):
    """Standardised rows, a fifth held out: X, y, X_test, y_test."""
    X, y = LOADERS[name](data_home=data, return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    n_test = math.ceil(len(X) / 5)
    test, train = order[:n_test], order[n_test:][:n_train]
    mean, spread = X[train].mean(axis=0), X[train].std(axis=0)
    X = ((X - mean) / np.where(spread > 0, spread, 1.0)).astype(dtype)
    y = y.astype(dtype)
    return X[train], y[train], X[test], y[test]


def fit(X, y, solver, shrink, min_speed=0.1, budget=2**30):
    """A path, and the seconds it took."""
    start = time.perf_counter()
    path = fit_path(
        X,
        y[:, None],
        GAUSSIAN,
        solver=solver,
        schedule=MinimumSpeed(min_speed, shrink),
        stopping=Stopping(),
        backend=NumpyBackend(budget),
    )
    return path, time.perf_counter() - start


def r2(prediction, y):
    """Test R²."""
    return 1 - np.mean((prediction - y) ** 2) / np.var(y)


def euler(data, out):
    """n = 1,280 rows of the CPU data."""
    X, y, X_test, y_test = load("cpu", data, 1280)
    fit(X, y, Flow(), 0.5)  # starts threads and touches libraries, once for both
    flow, seconds = min((fit(X, y, Flow(), 0.1) for _ in range(3)), key=lambda f: f[1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        slow, slow_seconds = fit(X, y, Euler(0.01), 0.01)
    scores = [r2(path.evaluate(X_test)[:, 0], y_test) for path in (flow, slow)]
    print("n = 1,280 CPU rows, speed 0.1, float64")
    print(f"  flow   {seconds:8.2f} s  {flow.n_products:6d} products  R² {scores[0]:.4f}")
    print(
        f"  Euler  {slow_seconds:8.2f} s  {slow.n_products:6d} products  "
        f"{len(slow.log)} steps  R² {scores[1]:.4f}"
    )
    print(
        f"  ratios: seconds {slow_seconds / seconds:.1f}, "
        f"products {slow.n_products / flow.n_products:.1f}"
    )


def cpu(data, out):
    """All training rows of the CPU data, float32, against one Cholesky fit."""
    X, y, X_test, y_test = load("cpu", data, dtype=np.float32)
    path, seconds = fit(X, y, Flow(), 0.1)
    start = time.perf_counter()
    rival = KernelRidge(kernel="rbf", gamma=1 / 50, alpha=1e-2).fit(X, y - y.mean())
    rival_seconds = time.perf_counter() - start
    print(f"{len(X)} CPU rows x {X.shape[1]}, speed 0.1, float32")
    print(
        f"  flow {seconds:.1f} s, {path.n_products} products "
        f"({1e3 * seconds / path.n_products:.1f} ms each, all in all), {len(path)} stages, "
        f"test R² {r2(path.evaluate(X_test)[:, 0], y_test):.4f}"
    )
    print(
        f"  one scikit-learn KernelRidge fit (Cholesky) {rival_seconds:.1f} s, ratio "
        f"{seconds / rival_seconds:.1f}; test R² "
        f"{r2(rival.predict(X_test) + y.mean(), y_test):.4f}"
    )


def power(data, out):
    """All training rows of the power data, float32, memory budget 1 GiB."""
    X, y, X_test, y_test = load("power", data, dtype=np.float32)
    path, seconds = fit(X, y, Flow(), 0.1)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    per_product = seconds / path.n_products
    x = -np.random.default_rng(0).random(1 << 16, dtype=np.float32)
    buffer, start = np.empty_like(x), time.perf_counter()
    for _ in range(500):
        np.exp(x, out=buffer)
    exp_rate = 500 * x.size / (time.perf_counter() - start) * len(os.sched_getaffinity(0))
    print(f"{len(X)} power rows x {X.shape[1]}, speed 0.1, float32, memory budget 1 GiB")
    print(
        f"  {seconds:.0f} s, {path.n_products} products of {per_product:.3f} s, "
        f"{len(path)} stages, peak memory {peak:.2f} GiB, "
        f"test R² {r2(path.evaluate(X_test)[:, 0], y_test):.4f}"
    )
    print(
        f"  {len(X) ** 2 / per_product:.3g} entries/s of K, half of them evaluated: "
        f"{len(X) ** 2 / 2 / per_product / exp_rate:.2f} of this machine's rate of exp "
        f"({exp_rate:.3g}/s on all cores)"
    )


def scaling(data, out):
    """Products and seconds against n."""
    rows = []
    for n in (500, 1000, 2000, 5000, 10000, 20000):
        X, y, _, _ = load("power", data, n, np.float32)
        path, seconds = fit(X, y, Flow(), 0.1)
        rows.append((n, path.n_products, seconds, len(path)))
        print(f"  n = {n:6d}: {path.n_products:5d} products, {seconds:8.2f} s", flush=True)
    n, products, seconds, _ = np.array(rows).T
    growth = np.polyfit(np.log(n), np.log(products), 1)[0]
    print(f"  products grow like n^{growth:.2f}")
    Path(out).mkdir(parents=True, exist_ok=True)
    Path(out, "flow_scaling.json").write_text(json.dumps(rows))
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
    axes[0].loglog(n, products, "o-", color="#0072B2")
    axes[0].set(
        xlabel="training rows n", ylabel="kernel products", title=f"products ∝ n^{growth:.2f}"
    )
    axes[1].loglog(n, seconds, "o-", color="#0072B2", label="measured")
    axes[1].loglog(n, seconds[-1] * (n / n[-1]) ** 2, "--", color="0.6", label="∝ n²")
    axes[1].set(xlabel="training rows n", ylabel="seconds", title="one fit, speed 0.1")
    axes[1].legend(frameon=False)
    figure.savefig(Path(out, "flow_scaling.png"), dpi=110)


def compress(data, out):
    """Stages before and after, with the error at test rows."""
    for name in LOADERS:
        X, y, X_test, _ = load(name, data, 2000, np.float32)
        path, _ = fit(X, y, Flow(), 0.1)
        small = path.compress(1e-3)
        full, fewer = path.evaluate(X_test), small.evaluate(X_test)
        error = np.sqrt(np.mean((full - fewer) ** 2) / np.mean((full - path.offset) ** 2))
        start = time.perf_counter()
        for row in X_test[:200]:
            small.evaluate(row[None])
        latency = (time.perf_counter() - start) / 200
        print(
            f"  {name:16s} {len(path):3d} stages -> {len(small):3d}, error on training rows "
            f"{small.compression_error:.1e}, on test rows {error:.1e}, "
            f"one row of 2,000: {1e3 * latency:.2f} ms"
        )


PARTS = {"euler": euler, "cpu": cpu, "power": power, "scaling": scaling, "compress": compress}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=os.environ.get("BANDFALL_DATA"))
    parser.add_argument("--out", default="out")
    parser.add_argument("--part", nargs="+", choices=PARTS, default=list(PARTS))
    arguments = parser.parse_args()
    print(f"{platform.processor() or platform.machine()}, {len(os.sched_getaffinity(0))} cores")
    for part in arguments.part:
        print(f"== {part}", flush=True)
        PARTS[part](arguments.data, arguments.out)
