"""Seconds that a fit of `BandfallRegressor` takes, with default settings, over tables of a folder.

    python benchmarks/seconds.py --data FOLDER --rows 80 1000 5000

Fits rows of every CSV file with a quarter more than these (the last column is the target), once, on
all cores, and prints mean, median, fastest and slowest. Loops are compiled beforehand.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path

import numpy as np

from ablation import read
from bandfall import BandfallRegressor


def seconds(X, y, n_rows):
    """Of one fit, to a random choice of rows."""
    rows = np.random.default_rng(0).permutation(len(y))[:n_rows]
    start = time.perf_counter()
    BandfallRegressor().fit(X.iloc[rows], y[rows])
    return time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--rows", type=int, nargs="+", default=[80, 1000, 5000])
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    tables = {file.name.partition(".")[0]: read(file) for file in options.data.glob("*.csv*")}
    for X, y in tables.values():
        seconds(X, y, 300)
    print("| rows | tables | mean | median | fastest | slowest |")
    print("| --- | --- | --- | --- | --- | --- |")
    for n_rows in options.rows:
        taken = [
            (seconds(X, y, n_rows), name)
            for name, (X, y) in tables.items()
            if len(y) >= 1.25 * n_rows
        ]
        values = [value for value, _ in taken]
        cells = [
            f"{n_rows:,}",
            f"{len(taken)}",
            f"{np.mean(values):.2f}",
            f"{np.median(values):.2f}",
        ]
        cells += [f"{value:.1f} ({name})" for value, name in (min(taken), max(taken))]
        print("|", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main()
