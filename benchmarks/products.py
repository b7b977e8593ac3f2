"""Distances, kernels, products and gradients: compiled loops against NumPy's, in one run.

    python benchmarks/products.py

Both forms are timed in turns, the shortest of several times counts, and ratios are what to look
at: the machine may be busy. Times are CPU seconds of all threads by default, which other processes
hardly change, over the number of threads; `--wall` takes the clock's.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time

import numpy as np

from bandfall._products import BlockedOperator, cross_gradient, cross_product
from bandfall._products import loops as inner
from bandfall._threads import for_each_block, n_threads
from bandfall.kernels import get_kernel

FIRST_FIT = """
import time
start = time.perf_counter()
import numpy as np
from bandfall import BandfallRegressor
random = np.random.default_rng(0)
X = random.normal(size=(80, 4))
BandfallRegressor().fit(X, X[:, 0] + np.sin(X[:, 1]))
print(time.perf_counter() - start)
"""


class Clock:
    """Seconds of the shortest of several calls, of two forms in turns."""

    def __init__(self, wall, repeats):
        self._repeats, self._wall = repeats, wall
        self._now = time.perf_counter if wall else time.process_time
        self._can_compile = inner.can_compile

    def seconds(self, function, compiled=True):
        inner.can_compile = self._can_compile if compiled else lambda: False
        try:
            start = self._now()
            function()
            return (self._now() - start) / (1 if self._wall else n_threads())
        finally:
            inner.can_compile = self._can_compile

    def both(self, new, old=None):
        """Of compiled loops, and of NumPy's on the same or another task."""
        old = old or new
        self.seconds(new)
        self.seconds(old, compiled=False)
        times = [
            (self.seconds(new), self.seconds(old, compiled=False)) for _ in range(self._repeats)
        ]
        return tuple(map(min, zip(*times, strict=True)))


def show(name, new, old, entries, aim):
    ratio = f"{old / new:6.2f} x" if old else 8 * " "
    text = f"{1e9 * old / entries:9.3f}" if old else 9 * " "
    print(f"{name:<58} {1e9 * new / entries:9.3f} {text} {ratio}   {aim}", flush=True)


def rows(n, d, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d)).astype(np.float32)


def measure_distances(X, name):
    """All distances, blocks of rows over threads."""
    kernel = get_kernel(name)
    out = np.empty((len(X), len(X)), np.float32)

    def work():
        loops = inner.loops_over(X, kernel, X.dtype, len(X) ** 2)

        def measure(part):
            loops.distances(loops.own[part], slice(0, len(X)), out[part])

        for_each_block(measure, len(X), 64, parallel=True)

    return work


def measure_evaluation(n, name):
    kernel, X = get_kernel(name), rows(600, 2)
    distances = np.random.default_rng(0).random(n).astype(np.float32)
    out = np.empty_like(distances)

    def work():
        loops = inner.loops_over(X, kernel, X.dtype, 600**2)

        def evaluate(part):
            loops.evaluate(distances[part], 0.3, out[part])

        for_each_block(evaluate, n, 1 << 18, parallel=True)

    return work


def measure_product(X, name):
    """A product for which every tile must be evaluated: what a new bandwidth costs."""
    V = np.ones((len(X), 1), np.float32)
    kernel, operators = get_kernel(name), {}

    def work():
        compiled = inner.can_compile()
        if compiled not in operators:
            operators[compiled] = BlockedOperator(X, kernel, np.float32, budget=1 << 24)
        operators[compiled].product(3.0 + time.perf_counter() % 1e-3, V)

    return work


def measure_path(X_new, X, name, of):
    kernel, bandwidths = get_kernel(name), np.geomspace(5.0, 0.2, 8)
    C = np.random.default_rng(1).normal(size=(8, len(X), 1)).astype(np.float32)
    return lambda: of(X_new, X, kernel, bandwidths, C)


def first_fit():
    """A fit of 80 rows in a fresh process that has nothing compiled."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", FIRST_FIT],
            env={**os.environ, "NUMBA_CACHE_DIR": folder},
            capture_output=True,
            text=True,
            check=True,
        )
    return float(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--wall", action="store_true")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--rows", type=int, default=20_000)
    arguments = parser.parse_args()
    clock = Clock(arguments.wall, arguments.repeats)
    measured = "wall clock" if arguments.wall else "CPU time over threads"
    print(f"{n_threads()} threads, {measured}, load {os.getloadavg()[0]:.1f}")
    print(f"{'':<58} {'ns/entry':>9} {'NumPy':>9} {'ratio':>8}   aim")

    X = rows(4000, 8)
    aims = {"gaussian": "<= 0.25 ns", "laplace-1": "<= 0.25 ns", "laplace-1.5": "<= 0.5 ns"}
    for name in ("gaussian", "matern12", "laplace-1", "laplace-1.5", "laplace-1.25", "laplace-1.4"):
        times = clock.both(measure_distances(X, name), measure_distances(X, name))
        show(f"distances 4,000², d = 8, {name}", *times, 4000**2, aims.get(name, ""))
    for d in (2, 32, 64, 128, 200):
        times = clock.both(measure_distances(rows(4000, d), "gaussian"))
        show(f"distances 4,000², d = {d}, gaussian", *times, 4000**2, "")
    for name in ("gaussian", "matern32", "cauchy"):
        show(
            f"K from kept distances, {name}",
            *clock.both(measure_evaluation(1 << 23, name)),
            1 << 23,
            "",
        )

    X = rows(arguments.rows, 8)
    old = measure_product(X, "gaussian")
    for name, aim in (
        ("gaussian", ">= 1.3 x"),
        ("laplace-1.5", ">= 0.5 x NumPy's gaussian"),
        ("laplace-1", ""),
    ):
        times = clock.both(measure_product(X, name), old)
        show(f"product, {len(X):,} rows, d = 8, {name}", *times, len(X) ** 2 / 2, aim)

    X_new, X = rows(2000, 8, seed=1), rows(5000, 8)
    entries = len(X_new) * len(X) * 8
    for name in ("gaussian", "matern12", "laplace-1.5"):
        times = clock.both(measure_path(X_new, X, name, cross_gradient))
        show(f"gradient of 8 bandwidths, 2,000 x 5,000, {name}", *times, entries, ">= 3 x")
        times = clock.both(measure_path(X_new, X, name, cross_product))
        show(f"sum of 8 bandwidths, 2,000 x 5,000, {name}", *times, entries, "")
    print(f"first fit of 80 rows in a fresh process: {first_fit():.2f} s   aim <= 2 s")


if __name__ == "__main__":
    main()
