"""Selection and sweeps against the obvious loops: ratios measured in one run, n = 80.

    python benchmarks/selection.py [--floors 100] [--fits 10] [--cpu-time]

The best of several turns counts on either side. Of the separate fits that a sweep replaces
`--fits`, evenly spread over the floors, are timed; of the matrix exponentials a tenth. CPU time
is for busy machines and wants OMP_NUM_THREADS=1.
"""

import argparse
import time
from functools import partial

import numpy as np
from scipy.linalg import expm
from scipy.spatial.distance import cdist
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV

from bandfall import (
    KernelDescentRegressor,
    KernelFlowCV,
    KernelRidgeCV,
    KernelRidgeMML,
    floor_sweep,
)
from bandfall._paper.double_descent import FLOORS, floor_grid
from bandfall.descent import Euler, Flow
from bandfall.rivals import permutation_folds

BANDWIDTHS = np.geomspace(0.01, 10, 30)
PENALTIES = np.geomspace(1e-6, 1, 30)
PART = 10  # one in so many matrix exponentials is timed


def make_rows(n=80, d=7, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.2 * rng.normal(size=n)


def fold_kernels(X, folds):
    """(bandwidth number, rows, K, K_new) of every bandwidth and fold, distances shared."""
    distances = cdist(X, X, "sqeuclidean")
    for i, bandwidth in enumerate(BANDWIDTHS):
        K = np.exp(-distances / (2 * bandwidth**2))
        for train, held_out in folds:
            yield i, train, held_out, K[np.ix_(train, train)], K[np.ix_(held_out, train)]


def naive_ridge(X, y, folds):
    """One linear solve per cell; kernels are shared between penalties, to be fair."""
    mse = np.zeros((len(BANDWIDTHS), len(PENALTIES)))
    for i, train, held_out, K, K_new in fold_kernels(X, folds):
        offset = y[train].mean()
        for j, penalty in enumerate(PENALTIES):
            coefficients = np.linalg.solve(K + penalty * np.eye(len(K)), y[train] - offset)
            mse[i, j] += np.mean((K_new @ coefficients + offset - y[held_out]) ** 2) / len(folds)
    return mse


def naive_flow(X, y, folds):
    """One matrix exponential per cell (Equation 3), for a part of the cells."""
    for i, train, _, K, K_new in fold_kernels(X, folds):
        for training_time in 1 / PENALTIES[i % PART :: PART]:
            fitted = (np.eye(len(K)) - expm(-training_time * K)) @ y[train]
            K_new @ np.linalg.solve(K + 1e-12 * np.eye(len(K)), fitted)


clock = time.perf_counter


def seconds(function, turns):
    """The best of several turns."""
    best = np.inf
    for _ in range(turns):
        start = clock()
        function()
        best = min(best, clock() - start)
    return best


def report(name, ours, theirs=None, wanted=None):
    line = f"{name:<66} {ours * 1e3:8.1f} ms"
    if theirs is not None:
        line += f" {theirs * 1e3:10.0f} ms {theirs / ours:8.1f}x (at least {wanted}x)"
    print(line, flush=True)


def selection(X, y):
    folds = permutation_folds(len(X), seed=0)
    model = KernelRidgeCV(cv=folds)
    naive = np.inf
    ridge = np.inf
    for _ in range(5):  # in turns: a busy machine disturbs both alike
        ridge = min(ridge, seconds(partial(model.fit, X, y), 2))
        naive = min(naive, seconds(partial(naive_ridge, X, y, folds), 1))
    report("KernelRidgeCV / one solve per cell", ridge, naive, 8)
    search = GridSearchCV(
        KernelRidge(kernel="rbf"),
        {"gamma": 0.5 / BANDWIDTHS**2, "alpha": PENALTIES},
        cv=folds,
        scoring="neg_mean_squared_error",
    )
    report(
        "KernelRidgeCV / GridSearchCV(KernelRidge)",
        ridge,
        seconds(partial(search.fit, X, y - y.mean()), 1),
        5,
    )
    report("KernelRidgeCV(cv='loo')", seconds(partial(KernelRidgeCV(cv="loo").fit, X, y), 5))
    report(
        "KernelFlowCV / one matrix exponential per cell",
        seconds(partial(KernelFlowCV(cv=folds).fit, X, y), 3),
        PART * seconds(partial(naive_flow, X, y, folds), 1),
        50,
    )
    for amplitude in (False, True):
        model = KernelRidgeMML(fit_amplitude=amplitude)
        report(f"KernelRidgeMML(fit_amplitude={amplitude})", seconds(partial(model.fit, X, y), 3))


def sweeps(X, y, n_floors, n_fits):
    floors = floor_grid(*FLOORS["power"], n_floors)
    some = floors[:: max(1, n_floors // n_fits)]
    for solver, wanted in ((Euler(step_size=0.01), 100), (Flow(), 1)):
        options = {"solver": solver, "max_time": 1000.0}

        def fits(options=options):
            for floor in some:
                KernelDescentRegressor(min_bandwidth=floor, **options).fit(X, y)

        report(
            f"floor_sweep, {type(solver).__name__}, {n_floors} floors / fits ({len(some)} timed)",
            seconds(partial(floor_sweep, X, y, X[:20] + 0.1, floors, **options), 3),
            seconds(fits, 1) * n_floors / len(some),
            wanted,
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--floors", type=int, default=100)
    parser.add_argument("--fits", type=int, default=10)
    parser.add_argument("--cpu-time", action="store_true")
    arguments = parser.parse_args()
    if arguments.cpu_time:
        global clock
        clock = time.process_time
    X, y = make_rows()
    selection(X, y)
    sweeps(X, y, arguments.floors, arguments.fits)


if __name__ == "__main__":
    main()
