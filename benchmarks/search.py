"""What a search costs and finds, beside another version of the library in the same run.

    python benchmarks/search.py [--before OTHER/src] [--data DIR] [--suite DIR]
                                [--rows 80 1000 5000] [--jobs N]

Every fit has a process of its own, which imports the library from this checkout or from the other
one; they take turns. Seconds are those of `fit` alone, after an import and two fits that warm it
up; memory is by how much the process grew at most. Friedman's function is always there, --data
adds the paper's sets, and --suite all sets of a folder (NAME.csv.gz, the target last) that have at
least a quarter more rows than are trained on. CPU time is what to compare on a busy machine, with
OMP_NUM_THREADS=1. Ends with means and medians by number of rows.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.datasets import make_friedman1

from published import read

OURS = Path(__file__).resolve().parents[1] / "src"
N_TEST = 2000
REAL = ("uk_temperature", "power", "superconductors", "cpu")


def table(name, data):
    """Columns and targets of all rows of a set, shuffled."""
    if name == "friedman":
        X, y = make_friedman1(5000 + N_TEST, n_features=7, noise=1.0, random_state=0)
    elif name in REAL:
        from bandfall import datasets

        X, y = getattr(datasets, f"load_{name}")(data_home=data, return_X_y=True)
    else:
        return read(Path(data) / f"{name}.csv.gz")
    return {f"x{i}": column for i, column in enumerate(X.T)}, y


def one_fit(name, data, n_rows, n_jobs):
    """Measure one search, in a process whose library is the one to measure."""
    from bandfall import BandfallRegressor

    columns, y = table(name, data)
    order = np.random.default_rng(0).permutation(len(y))
    train, test = order[:n_rows], order[n_rows:][:N_TEST]

    def rows(numbers):
        return {key: values[numbers] for key, values in columns.items()}

    warnings.simplefilter("ignore")
    for n_warm in (12, 700):  # threads, and loops that are compiled or read from disk
        X_warm, y_warm = make_friedman1(n_warm, random_state=0)
        BandfallRegressor(max_rounds=1).fit(X_warm, y_warm)
    memory = peak_memory()
    wall, cpu = time.perf_counter(), time.process_time()
    model = BandfallRegressor(n_jobs=n_jobs).fit(rows(train), y[train])
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    scores = {"held_out": float(model.best_score_), "test": float(model.score(rows(test), y[test]))}
    memory = peak_memory() - memory
    return {"n": len(train), "cpu": cpu, "wall": wall, "memory": memory, **scores}


def peak_memory():
    """The most that this process has held so far, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measured(source, name, data, options, n_rows):
    """`one_fit` with the library of a source directory."""
    command = [sys.executable, __file__, "--one", name, "--rows", str(n_rows)]
    command += ["--data", str(data or "")]
    command += [] if options.jobs is None else ["--jobs", str(options.jobs)]
    environment = {**os.environ, "PYTHONPATH": str(source)}
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def show(label, one):
    print(
        f"{label:<34} {one['n']:6} {one['cpu']:8.2f} {one['wall']:8.2f} {one['held_out']:9.4f} "
        f"{one['test']:9.4f} {one['memory']:8.0f}",
        flush=True,
    )


def sets(options, n_rows):
    """Names of sets with enough rows, each with its folder."""
    found = [("friedman", None)]
    found += [(name, options.data) for name in REAL if options.data]
    for path in sorted(Path(options.suite).glob("*.csv.gz")) if options.suite else ():
        if len(read(path)[1]) >= 1.25 * n_rows:
            found.append((path.name[:-7], options.suite))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--before", help="source directory of the version to compare with")
    parser.add_argument("--data", help="directory of the paper's sets")
    parser.add_argument("--suite", help="directory of further sets")
    parser.add_argument("--rows", type=int, nargs="+", default=[80, 1000, 5000])
    parser.add_argument("--jobs", type=int)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(one_fit(options.one, options.data, options.rows[0], options.jobs)))
        return
    print(
        f"{'':<34} {'rows':>6} {'CPU s':>8} {'wall s':>8} {'held-out':>9} {'test R²':>9} {'MiB':>8}"
    )
    for n_rows in options.rows:
        walls, ratios = [], []
        for name, data in sets(options, n_rows):
            now = measured(OURS, name, data, options, n_rows)
            show(name, now)
            walls.append(now["wall"])
            if options.before:
                before = measured(Path(options.before).resolve(), name, data, options, n_rows)
                show(f"{name}, before", before)
                ratios.append([now[kind] / before[kind] for kind in ("cpu", "wall")])
                print(f"{'  now / before':<41} {ratios[-1][0]:8.2f} {ratios[-1][1]:8.2f}")
        print(f"{n_rows} rows, {len(walls)} sets: {np.mean(walls):.1f} s in the mean, ", end="")
        print(f"{np.median(walls):.1f} s in the median", flush=True)
        if ratios:
            cpu, wall = np.exp(np.mean(np.log(ratios), axis=0))
            print(f"now / before, geometric mean: {cpu:.2f} (CPU), {wall:.2f} (wall)", flush=True)


if __name__ == "__main__":
    main()
