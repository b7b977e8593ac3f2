"""What one setting of the search is worth: test RMSE, coverage and CPU time with and without it.

    python benchmarks/ablation.py --data FOLDER --rows 1000 --set likelihood_columns=0

Fits `BandfallRegressor` as it is, and with settings of `bandfall._search.settings` changed, to the
same training rows of every table of a folder of CSV files whose last column is the target. Prints
ratios of the default to the changed search for each table, and their means.
"""

from __future__ import annotations

import argparse
import time
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np

from bandfall import BandfallRegressor


class Changed(BandfallRegressor):
    """The search with other settings."""

    changes: dict = {}  # noqa: RUF012

    @property
    def _settings(self):
        return replace(super()._settings, **self.changes)


def read(file):
    """Features and target; text as categories."""
    import pandas as pd

    table = pd.read_csv(file, keep_default_na=False, na_values=[""])
    y = table.pop(table.columns[-1]).to_numpy(float)
    text = [name for name in table if not pd.api.types.is_numeric_dtype(table[name])]
    return table.astype(dict.fromkeys(text, "category")), y


def measured(model, X, y, X_new, y_new):
    """RMSE, coverage of 90 % intervals, and CPU seconds of the fit."""
    start = time.process_time()
    model.fit(X, y)
    seconds = time.process_time() - start
    low, high = model.predict_interval(X_new).T
    rmse = np.sqrt(np.mean((model.predict(X_new) - y_new) ** 2))
    return rmse, np.mean((low <= y_new) & (y_new <= high)), seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--draw", type=int, default=0)
    parser.add_argument("--set", nargs="+", required=True, metavar="NAME=NUMBER")
    options = parser.parse_args()
    pairs = (change.split("=") for change in options.set)
    Changed.changes = {name: float(value) if "." in value else int(value) for name, value in pairs}
    warnings.simplefilter("ignore")
    rows = []
    for file in sorted(options.data.glob("*.csv.gz")):
        X, y = read(file)
        order = np.random.default_rng(options.draw).permutation(len(y))
        n = min(options.rows, int(0.7 * len(y)))
        train, test = order[:n], order[n : n + 2000]
        given = X.iloc[train], y[train], X.iloc[test], y[test]
        now, other = (measured(kind(n_jobs=1), *given) for kind in (BandfallRegressor, Changed))
        rows.append((now[0] / other[0], now[1], other[1], now[2] / other[2]))
        print("{:<16} RMSE {:.4f}  coverage {:.3f} {:.3f}  CPU {:.2f}".format(file.name, *rows[-1]))
    ratios, *_ = np.array(rows).T
    better, worse = np.sum(ratios < 0.9995), np.sum(ratios > 1.0005)
    print(f"{len(rows)} tables: RMSE {np.exp(np.log(ratios).mean()):.4f} in the geometric mean,")
    print(f"{better} better, {worse} worse (up to {ratios.max():.3f}), ", end="")
    print("coverage {1:.3f} {2:.3f}, CPU {3:.2f}".format(*np.mean(rows, axis=0)))


if __name__ == "__main__":
    main()
