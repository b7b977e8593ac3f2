"""Small fits: Algorithm 1 as the library runs it, against the naive loop of the tests.

    python benchmarks/small.py

80 training and 20 test rows, 7 features, speed 0.1, one core: the size of the paper's tables.
Both sides train and predict the test rows. Prints milliseconds per fit and the ratio.
"""

import os

# Before NumPy is imported: BLAS reads these once.
for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse
import pathlib
import sys
import time

import numpy as np

from bandfall import KernelDescentRegressor

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests"))
from reference import kgdd_transductive

MIN_SPEED = 0.1


def make_split(seed, n_train=80, n_test=20, n_features=7):
    """Standardised features, a smooth target and some noise."""
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(n_train + n_test, n_features))
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + X[:, 3:].sum(axis=1)
    y += 0.2 * generator.normal(size=len(y))
    return X[:n_train], y[:n_train], X[n_train:]


def naive(X, y, X_test):
    return kgdd_transductive(X, y, X_test, min_speed=MIN_SPEED)[1]


def with_solver(solver):
    def fit(X, y, X_test):
        return KernelDescentRegressor(min_speed=MIN_SPEED, solver=solver).fit(X, y).predict(X_test)

    return fit


def milliseconds(function, split, n_repeats):
    """The fastest of some runs: what the code needs when nothing else is running."""
    best = np.inf
    for _ in range(n_repeats):
        start = time.perf_counter()
        function(*split)
        best = min(best, time.perf_counter() - start)
    return 1e3 * best


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    ways = {"naive loop": naive, "euler": with_solver("euler"), "flow": with_solver("flow")}
    splits = [make_split(seed) for seed in range(arguments.splits)]
    expected = [naive(*split) for split in splits]
    times = {
        name: np.median([milliseconds(way, split, arguments.repeats) for split in splits])
        for name, way in ways.items()
    }
    print(f"{'':<12}{'ms per fit':>12}{'naive / this':>14}{'largest difference':>22}")
    for name, way in ways.items():
        difference = max(
            np.abs(way(*split) - truth).max() / np.std(truth)
            for split, truth in zip(splits, expected, strict=True)
        )
        print(f"{name:<12}{times[name]:>12.1f}{times['naive loop'] / times[name]:>14.1f}", end="")
        print(f"{difference:>22.1e}")


if __name__ == "__main__":
    main()
