"""Prediction intervals: coverage, width, interval score and CRPS, against other ways to get them.

    python benchmarks/intervals.py --data SUITE [--sets abalone kin8nm] [--rows 1000]

SUITE holds tables NAME.csv.gz with the target as their last column. Of each set a random part is
trained on (--rows at most), other rows are predicted. One line of JSON for every set and method
goes to --out; what is there already is not computed again. Methods whose package is missing are
left out: LightGBM with MAPIE's split conformal, CatBoost's quantiles. scikit-learn brings the
quantiles of HistGradientBoosting and a Gaussian process.
"""

import argparse
import json
import pathlib
import time
import warnings

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.preprocessing import StandardScaler

from bandfall import BandfallRegressor
from bandfall._models.intervals import interval_score

COVERAGE = 0.9
LEVELS = np.linspace(0.05, 0.95, 19)
MAX_GP_ROWS = 1000


def load(file):
    """Features (text as categories, ISO dates as dates) and target of a table."""
    table = pd.read_csv(file, keep_default_na=False, na_values=[""])
    y = table.pop(table.columns[-1]).to_numpy(float)
    for column in table.columns[[not pd.api.types.is_numeric_dtype(t) for t in table.dtypes]]:
        iso = table[column].dropna().str.fullmatch(r"\d{4}-\d\d-\d\d(T\d\d:\d\d)?").all()
        table[column] = pd.to_datetime(table[column]) if iso else table[column].astype("category")
    return table, y


def as_numbers(table):
    """Categories by their codes and dates in days, for models of numbers."""
    columns = {}
    for name, values in table.items():
        if isinstance(values.dtype, pd.CategoricalDtype):
            columns[name] = values.cat.codes.astype(float)
        elif pd.api.types.is_datetime64_any_dtype(values.dtype):
            columns[name] = (values - pd.Timestamp("2000-01-01")) / pd.Timedelta(days=1)
        else:
            columns[name] = values.astype(float)
    return pd.DataFrame(columns).to_numpy()


def bandfall(X, y, X_new):
    return BandfallRegressor().fit(X, y).predict_quantiles(X_new, LEVELS)


def hist_quantiles(X, y, X_new):
    X, X_new = as_numbers(X), as_numbers(X_new)
    columns = [
        HistGradientBoostingRegressor(loss="quantile", quantile=level).fit(X, y).predict(X_new)
        for level in LEVELS
    ]
    return np.sort(np.stack(columns, axis=1), axis=1)


def lightgbm_conformal(X, y, X_new):
    from lightgbm import LGBMRegressor
    from mapie.regression import SplitConformalRegressor

    X, X_new = as_numbers(X), as_numbers(X_new)
    cut = 3 * len(y) // 4
    coverages = 2.0 * LEVELS[LEVELS > 0.501] - 1.0
    model = SplitConformalRegressor(
        LGBMRegressor(verbose=-1, n_jobs=1), confidence_level=list(coverages), prefit=False
    )
    model.fit(X[:cut], y[:cut]).conformalize(X[cut:], y[cut:])
    middle, ends = model.predict_interval(X_new)
    return np.concatenate([ends[:, 0, ::-1], middle[:, None], ends[:, 1]], axis=1)


def catboost_quantiles(X, y, X_new):
    from catboost import CatBoostRegressor

    loss = "MultiQuantile:alpha=" + ",".join(f"{level:.2f}" for level in LEVELS)
    model = CatBoostRegressor(
        loss_function=loss, iterations=500, verbose=False, thread_count=1, allow_writing_files=False
    )
    return np.sort(model.fit(as_numbers(X), y).predict(as_numbers(X_new)), axis=1)


def gaussian_process(X, y, X_new):
    from scipy.stats import norm

    X, X_new = np.nan_to_num(as_numbers(X)), np.nan_to_num(as_numbers(X_new))
    scaler = StandardScaler().fit(X)
    kernel = ConstantKernel() * RBF(np.ones(X.shape[1])) + WhiteKernel()
    model = GaussianProcessRegressor(kernel, normalize_y=True)
    model.fit(scaler.transform(X[:MAX_GP_ROWS]), y[:MAX_GP_ROWS])
    mean, deviation = model.predict(scaler.transform(X_new), return_std=True)
    return mean[:, None] + deviation[:, None] * norm.ppf(LEVELS)


METHODS = {
    "bandfall": bandfall,
    "hist-quantiles": hist_quantiles,
    "lightgbm-mapie": lightgbm_conformal,
    "catboost-quantiles": catboost_quantiles,
    "gaussian-process": gaussian_process,
}


def measures(quantiles, y, scale):
    """Figures of one method on one set, widths and scores in standard deviations of the target."""
    lower, upper = quantiles[:, 0], quantiles[:, -1]
    errors = y[:, None] - quantiles
    pinball = np.maximum(LEVELS * errors, (LEVELS - 1.0) * errors)
    return {
        "coverage": float(np.mean((lower <= y) & (y <= upper))),
        "width": float(np.mean(upper - lower) / scale),
        "interval_score": float(interval_score(lower, upper, y, COVERAGE).mean() / scale),
        "crps": float(2.0 * pinball.mean() / scale),
    }


def run(file, method, n_rows):
    X, y = load(file)
    order = np.random.default_rng(0).permutation(len(y))
    n_test = min(2000, max(len(y) // 4, len(y) - n_rows))
    test, train = order[:n_test], order[n_test:][:n_rows]
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        quantiles = METHODS[method](X.iloc[train], y[train], X.iloc[test])
    figures = measures(np.asarray(quantiles, float), y[test], y[train].std())
    seconds = round(time.perf_counter() - start, 1)
    return {"n_train": len(train), "n_test": n_test, **figures, "seconds": seconds}


def show(results):
    """A table of means, and on how many sets each method is behind this library's."""
    table = pd.DataFrame(results).pivot(index="set", columns="method")
    names = list(table["coverage"].columns)
    ours = table["interval_score"].get("bandfall")
    print(f"{'':<20}{'coverage':>10}{'width':>8}{'score':>8}{'CRPS':>8}{'behind':>10}")
    for name in names:
        both = table.dropna(subset=[("coverage", name), ("coverage", "bandfall")])
        behind = int((both["interval_score"][name] > ours[both.index]).sum())
        figures = [
            both[key][name].mean() for key in ("coverage", "width", "interval_score", "crps")
        ]
        text = "".join(f"{value:>{10 if i == 0 else 8}.3f}" for i, value in enumerate(figures))
        print(f"{name:<20}{text}{behind:>6} of {len(both)}")
    print(table["coverage"].round(3).to_string())
    print(table["interval_score"].round(3).to_string())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--sets", nargs="*")
    parser.add_argument("--methods", nargs="*", default=list(METHODS), choices=METHODS)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("intervals.jsonl"))
    arguments = parser.parse_args()
    results = []
    if arguments.out.exists():
        results = [json.loads(line) for line in arguments.out.read_text().splitlines()]
    done = {(one["set"], one["method"], one["rows"]) for one in results}
    files = {file.name.split(".")[0]: file for file in sorted(arguments.data.glob("*.csv.gz"))}
    for name in arguments.sets or files:
        for method in arguments.methods:
            if (name, method, arguments.rows) in done:
                continue
            try:
                figures = run(files[name], method, arguments.rows)
            except ImportError as error:
                print(f"{method}: {error}")
                continue
            line = {"set": name, "method": method, "rows": arguments.rows, **figures}
            results.append(line)
            with arguments.out.open("a") as stream:
                stream.write(json.dumps(line) + "\n")
            print(line, flush=True)
    show([one for one in results if one["rows"] == arguments.rows])


if __name__ == "__main__":
    main()
