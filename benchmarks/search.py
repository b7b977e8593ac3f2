"""What a search costs and finds, beside another version of the library in the same run.

    python benchmarks/search.py [--before OTHER/src] [--data DIR] [--rows 80 1000 5000] [--jobs N]

Every fit has a process of its own, which imports the library from this checkout or from the other
one; they take turns. Seconds are those of `fit` alone, after an import and a tiny search that
warms it up; memory is by how much the process grew at most. Products count columns (one product
with seven columns is seven), evaluations whole kernel matrices, both with the rows of their
operator. CPU time is what to compare on a busy machine, with OMP_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from sklearn.datasets import make_friedman1

OURS = Path(__file__).resolve().parents[1] / "src"
N_TEST = 2000
REAL = ("uk_temperature", "power", "superconductors", "cpu")


def table(name, data):
    """All rows of a set, shuffled."""
    if name == "friedman":
        return make_friedman1(5000 + N_TEST, n_features=7, noise=1.0, random_state=0)
    from bandfall import datasets

    X, y = getattr(datasets, f"load_{name}")(data_home=data, return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    return X[order], y[order]


def count_work(operator, counts):
    """Count what an operator class is asked for, from now on."""
    product, evaluate = operator.product, operator._evaluate

    def counted_product(self, bandwidth, block):
        counts["products"] += block.shape[1]
        return product(self, bandwidth, block)

    def counted_evaluate(self, bandwidth):
        counts["evaluations"] += 1
        return evaluate(self, bandwidth)

    operator.product, operator._evaluate = counted_product, counted_evaluate


def one_fit(name, data, n_rows, n_jobs):
    """Measure one search, in a process whose library is the one to measure."""
    from bandfall import BandfallRegressor, operators

    X, y = table(name, data)
    X_test, y_test = X[-N_TEST:], y[-N_TEST:]
    X, y = X[:-N_TEST][:n_rows], y[:-N_TEST][:n_rows]
    BandfallRegressor(max_rounds=0).fit(X[:12], y[:12])
    counts = {"products": 0, "evaluations": 0}
    for name_of_operator in ("DenseOperator", "SymmetricOperator"):
        if hasattr(operators, name_of_operator):  # earlier versions have the first alone
            count_work(getattr(operators, name_of_operator), counts)
    memory = peak_memory()
    wall, cpu = time.perf_counter(), time.process_time()
    model = BandfallRegressor(n_jobs=n_jobs).fit(X, y)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    scores = {"held_out": float(model.best_score_), "test": float(model.score(X_test, y_test))}
    memory = peak_memory() - memory
    return {"n": len(y), "cpu": cpu, "wall": wall, "memory": memory, **scores, **counts}


def peak_memory():
    """The most that this process has held so far, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measured(source, name, options, n_rows):
    """`one_fit` with the library of a source directory."""
    command = [sys.executable, __file__, "--one", name, "--rows", str(n_rows)]
    command += ["--data", options.data or ""]
    command += [] if options.jobs is None else ["--jobs", str(options.jobs)]
    environment = {**os.environ, "PYTHONPATH": str(source)}
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def show(label, one):
    print(
        f"{label:<34} {one['n']:6} {one['cpu']:8.2f} {one['wall']:8.2f} {one['held_out']:9.4f} "
        f"{one['test']:9.4f} {one['evaluations']:12,} {one['products']:10,} "
        f"{one['memory']:8.0f}",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--before", help="source directory of the version to compare with")
    parser.add_argument("--data", help="directory of the paper's sets; without, Friedman's alone")
    parser.add_argument("--rows", type=int, nargs="+", default=[80, 1000, 5000])
    parser.add_argument("--jobs", type=int)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(one_fit(options.one, options.data, options.rows[0], options.jobs)))
        return
    print(
        f"{'':<34} {'rows':>6} {'CPU s':>8} {'wall s':>8} {'held-out':>9} {'test R²':>9} "
        f"{'evaluations':>12} {'products':>10} {'MiB':>8}"
    )
    for name in ("friedman", *(REAL if options.data else ())):
        for n_rows in options.rows:
            now = measured(OURS, name, options, n_rows)
            show(name, now)
            if options.before:
                before = measured(Path(options.before).resolve(), name, options, n_rows)
                show(f"{name}, before", before)
                cpu, wall = (before[kind] / now[kind] for kind in ("cpu", "wall"))
                print(f"{'  before / now':<41} {cpu:8.1f} {wall:8.1f}", flush=True)


if __name__ == "__main__":
    main()
