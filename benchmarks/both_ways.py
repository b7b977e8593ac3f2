"""Fit every set of a folder from Python and from the shell, and compare the predictions.

    python benchmarks/both_ways.py --data DIR [--rows 400] [--whole 700] [--sets NAME ...]

DIR holds files NAME.csv.gz whose last column is the target. Python reads them with pandas (text as
categories, ISO dates as times) and calls `BandfallRegressor()`; the shell gets the same lines of
the raw file, with no option beside the target. A random --rows of the rows train, of sets with at
most --whole rows all of them but a fifth; up to 2,000 others are predicted. Prints the largest
difference in standard deviations of the target and R² both ways; exits with 1 where any set fails
or differs by more than --tolerance.
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

from bandfall import BandfallRegressor

N_TEST = 2000


def read(file):
    """Features as categories, dates and numbers, and the target: without the commands' reading."""
    X = pd.read_csv(file, keep_default_na=False, na_values=[""])
    y = X.pop(X.columns[-1]).astype(float)
    for column in X.columns:
        if not pd.api.types.is_numeric_dtype(X[column]):
            iso = X[column].dropna().str.fullmatch(r"\d{4}-\d\d-\d\d(T\d\d:\d\d)?")
            X[column] = pd.to_datetime(X[column]) if iso.all() else X[column].astype("category")
    return X, y


def split(n, arguments):
    """Row numbers to train on and to predict, each in the order of the file."""
    order = np.random.default_rng(0).permutation(n)
    n_train = n - n // 5 if n <= arguments.whole else arguments.rows
    return np.sort(order[:n_train]), np.sort(order[n_train:][:N_TEST])


def in_python(file, train, test):
    """What the estimator predicts for the rows of `test`."""
    X, y = read(file)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the shell tells the same
        return BandfallRegressor().fit(X.iloc[train], y.iloc[train]).predict(X.iloc[test])


def in_the_shell(file, target, train, test):
    """What ``bandfall fit`` and ``bandfall predict`` make of the same lines."""
    head, *lines = gzip.decompress(file.read_bytes()).splitlines(keepends=True)
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        for name, rows in (("train.csv", train), ("test.csv", test)):
            (folder / name).write_bytes(b"".join([head, *(lines[row] for row in rows)]))
        model = ("--out", folder / "model")
        bandfall("fit", folder / "train.csv", "--target", target, "--test-fraction", 0, *model)
        told = bandfall("predict", folder / "model", folder / "test.csv", "--json")
    return np.array(json.loads(told)["predictions"])


def bandfall(*arguments):
    """Standard output of a command that must succeed."""
    command = [sys.executable, "-m", "bandfall", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip())
    return done.stdout


def r2(predictions, y):
    return 1 - np.mean((predictions - y) ** 2) / np.var(y)


def compare(file, arguments):
    """One line of the table; whether both ways agree."""
    start = time.perf_counter()
    _, y = read(file)
    train, test = split(len(y), arguments)
    python = in_python(file, train, test)
    shell = in_the_shell(file, y.name, train, test)
    truth = y.to_numpy()[test]
    difference = np.abs(python - shell).max() / truth.std()
    print(
        f"| {file.name.split('.')[0]} | {len(train)} | {r2(python, truth):.4f} "
        f"| {r2(shell, truth):.4f} | {difference:.1e} | {time.perf_counter() - start:.0f} |",
        flush=True,
    )
    return difference <= arguments.tolerance


def main(arguments):
    files = sorted(arguments.data.glob("*.csv.gz"))
    print("| set | rows | R², Python | R², shell | largest difference | seconds |")
    print("| --- " * 6 + "|")
    wrong = []
    for file in files:
        name = file.name.split(".")[0]
        if arguments.sets and name not in arguments.sets:
            continue
        try:
            agrees = compare(file, arguments)
        except (RuntimeError, ValueError) as error:
            print(f"| {name} | {error} |", flush=True)
            agrees = False
        wrong += [] if agrees else [name]
    print(f"different: {', '.join(wrong)}" if wrong else "equal on all sets")
    return 1 if wrong else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True, type=Path)
    parser.add_argument("--rows", type=int, default=400)
    parser.add_argument("--whole", type=int, default=700)
    parser.add_argument("--sets", nargs="+")
    parser.add_argument("--tolerance", type=float, default=1e-6)
    sys.exit(main(parser.parse_args()))
