"""Classification: log-loss, AUC, accuracy and calibration error, against other classifiers.

    python benchmarks/classes.py --data DIR [--sets car vowel] [--methods LightGBM] [--out DIR]

DIR holds tables NAME.csv.gz with the class as their last column, and `categories.json`, which names
the categorical columns of each table. `--numbers DIR` adds two-class versions of the tables of the
regression suite with more than 3,000 rows: NAME-70 asks whether the target is above its 70 %
quantile, and in NAME-90-5 5 % of the answers about the 90 % quantile are wrong.

Three stratified folds; every method has its default settings, and no setting depends on the set.
OUT/classes.jsonl gets a line for every set, fold and method; what is there already is not computed
again, except with --again. Rivals that are not installed are left out and named. Prints tables as
Markdown and draws OUT/classes.png.

On a machine with many cores and without the rivals (pandas and matplotlib are not needed):

    python benchmarks/classes.py --data DIR --only-fit --jobs 16 --max-seconds 540 --out DIR

fits BandfallClassifier in 16 processes of one thread each, first folds and large sets first. Then

    python benchmarks/classes.py --data DIR --only-show --merge OTHER/classes.jsonl --out DIR

shows these results and those of other runs; later ones replace earlier ones.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import multiprocessing
import os
import time
import warnings
from pathlib import Path

import numpy as np
from scipy.stats import studentized_range
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from bandfall import BandfallClassifier
from bandfall._targets.scores import positions, score_classes
from bandfall.tables import Table
from bandfall.tables._table import Column, categories

N_FOLDS = 3
BOOSTERS = ("LightGBM", "XGBoost", "CatBoost", "HistGradientBoosting")
OURS = "BandfallClassifier"


VERSIONS = ("70", "90", "70-5", "90-5", "70-15")  # quantile, and percent of wrong labels
SMALLEST = 3000  # rows of tables of numbers


def load(folder, name):
    """Features, declared categories as such, and classes as text; empty fields are missing."""
    if (folder / "categories.json").exists():
        declared = json.loads((folder / "categories.json").read_text()).get(name, [])
        names, values, y = read_columns(folder / f"{name}.csv.gz")
        return table_of(names, values, declared), np.array(y)
    base, quantile, *wrong = name.split("-")
    names, values, y = read_columns(folder / f"{base}.csv.gz")
    y = np.array(y, dtype=float)
    above = y > np.quantile(y, int(quantile) / 100)
    if wrong:
        above ^= np.random.default_rng(0).uniform(size=len(y)) < int(wrong[0]) / 100
    text = [one for one, column in zip(names, values, strict=True) if not all_numbers(column)]
    return table_of(names, values, text), above.astype(str)


def read_columns(path):
    """Names and values of all columns but the last, and the last."""
    with gzip.open(path, "rt", newline="") as stream:
        names, *rows = csv.reader(stream)
    *values, y = map(list, zip(*rows, strict=True))
    return names[:-1], values, y


def all_numbers(column):
    """Whether a column holds numbers alone; dates are categories here."""
    try:
        return bool([float(value or "nan") for value in column])
    except ValueError:
        return False


def table_of(names, values, declared):
    """A table of numbers and declared categories."""
    columns = [
        categories(column, declared=True)
        if title in declared
        else Column("number", np.array([float(value or "nan") for value in column]))
        for title, column in zip(names, values, strict=True)
    ]
    return Table(names, None, columns)


def names_in(folder):
    """Names of all tables of a folder of classes or of numbers."""
    if (folder / "categories.json").exists():
        return list(json.loads((folder / "categories.json").read_text()))
    paths = sorted(folder.glob("*.csv.gz"))
    large = [path for path in paths if len(read_columns(path)[2]) > SMALLEST]
    return [f"{path.name[:-7]}-{version}" for path in large for version in VERSIONS]


def as_frame(table):
    """The same for pandas, which the rivals read; some take no punctuation in names."""
    import pandas as pd

    return pd.DataFrame(
        {
            f"column{i}": pd.Categorical.from_codes(column.values, list(column.levels))
            if column.kind == "category"
            else column.values
            for i, column in enumerate(table.columns)
        }
    )


def splits(y):
    """(training rows, test rows) of stratified folds; a class may have fewer rows than folds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return list(StratifiedKFold(N_FOLDS, shuffle=True, random_state=0).split(y, y))


def as_numbers():
    """Categories one-hot, missing numbers by their mean, unit variance."""
    return make_column_transformer(
        (
            make_pipeline(
                SimpleImputer(strategy="constant", fill_value="missing"),
                OneHotEncoder(handle_unknown="ignore", sparse_output=False),
            ),
            make_column_selector(dtype_include="category"),
        ),
        remainder=make_pipeline(
            SimpleImputer(add_indicator=True, keep_empty_features=True), StandardScaler()
        ),
    )


def lightgbm():
    from lightgbm import LGBMClassifier

    return LGBMClassifier(verbose=-1, n_jobs=1)


def xgboost():
    from xgboost import XGBClassifier

    return XGBClassifier(enable_categorical=True, n_jobs=1)


class CatBoost:
    """CatBoost with its categories named, and missing ones as a level of their own."""

    def fit(self, X, y):
        from catboost import CatBoostClassifier

        self.model = CatBoostClassifier(
            verbose=False,
            thread_count=1,
            allow_writing_files=False,
            cat_features=list(X.columns[X.dtypes == "category"]),
        ).fit(self.filled(X), y)
        return self

    @staticmethod
    def filled(X):
        categories = X.columns[X.dtypes == "category"]
        return X.assign(**{name: X[name].astype(object).fillna("missing") for name in categories})

    def predict_proba(self, X):
        return self.model.predict_proba(self.filled(X))


class HistGradientBoosting:
    """scikit-learn's boosting, which takes at most 255 levels and no column without a value."""

    def fit(self, X, y):
        self.columns = X.columns[X.notna().any()]
        self.model = HistGradientBoostingClassifier(random_state=0).fit(self.coded(X), y)
        return self

    def coded(self, X):
        X = X[self.columns]
        names = X.columns[X.dtypes == "category"]
        many = [name for name in names if len(X[name].cat.categories) > 255]
        return X.assign(**{name: X[name].cat.codes for name in many})

    def predict_proba(self, X):
        return self.model.predict_proba(self.coded(X))


class XRFM:
    """xRFM; a fifth of the rows chooses its rounds."""

    def fit(self, X, y):
        from xrfm import xRFM

        self.columns = as_numbers().fit(X)
        X = self.columns.transform(X).astype(np.float32)
        rare = np.bincount(y).min() < 5
        parts = train_test_split(X, y, test_size=0.2, random_state=0, stratify=None if rare else y)
        X, X_validation, y, y_validation = parts
        self.model = xRFM(tuning_metric="logloss", device="cpu", random_state=0, verbose=False)
        self.model.fit(X, y, X_validation, y_validation)
        return self

    def predict_proba(self, X):
        X = self.columns.transform(X).astype(np.float32)
        return np.asarray(self.model.predict_proba(X), dtype=float)


METHODS = {
    OURS: BandfallClassifier,
    "LightGBM": lightgbm,
    "XGBoost": xgboost,
    "CatBoost": CatBoost,
    "HistGradientBoosting": HistGradientBoosting,
    "logistic regression": lambda: make_pipeline(as_numbers(), LogisticRegression(max_iter=1000)),
    "random forest": lambda: make_pipeline(as_numbers(), RandomForestClassifier(random_state=0)),
    "xRFM": XRFM,
}


def run(folder, name, fold, method):
    """A line of results: scores of one method on one fold."""
    table, y = load(folder, name)
    train, test = splits(y)[fold]
    X, X_test = table.take(train), table.take(test)
    if method != OURS:
        X, X_test = as_frame(X), as_frame(X_test)
    classes, labels = np.unique(y[train], return_inverse=True)
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = METHODS[method]().fit(X, labels)
        trained = time.perf_counter()
        probabilities = np.asarray(model.predict_proba(X_test), dtype=float)
    predicted = time.perf_counter()
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    scores = score_classes(probabilities, positions(y[test], classes))
    scores |= {"seconds": trained - start, "predict_seconds": predicted - trained}
    line = {"set": name, "rows": len(y), "method": method, "fold": fold}
    return line | {name: round(value, 6) for name, value in scores.items()}


def keep(arguments, line):
    """Write one result."""
    with arguments.file.open("a") as stream:
        stream.write(json.dumps(line) + "\n")
    print(line, flush=True)


def measure(arguments, results):
    """Whatever is not known yet, line by line into the file of results."""
    done = {(one["set"], one["fold"], one["method"]) for one in results}
    wanted = [
        (name, fold, method)
        for name in arguments.sets
        for fold in range(arguments.folds)
        for method in arguments.methods
        if (name, fold, method) not in done
    ]
    if arguments.jobs > 1:
        measure_together(arguments, wanted)
        return
    missing = set()
    for name, fold, method in wanted:
        if method in missing:
            continue
        try:
            keep(arguments, run(arguments.folder[name], name, fold, method))
        except ImportError:
            missing.add(method)
    if missing:
        print("not installed, left out: " + ", ".join(sorted(missing)))


def measure_together(arguments, wanted):
    """The same in processes of one thread each, until the time is over; then they are ended."""
    for name in ("OMP", "OPENBLAS", "MKL", "NUMBA"):
        os.environ[f"{name}_NUM_THREADS"] = "1"  # read when a new process imports NumPy
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # one device would not serve all processes
    sizes = {name: size for size, name in enumerate(arguments.sets)}
    wanted.sort(key=lambda one: (one[1], -sizes[one[0]]))
    end = time.monotonic() + arguments.max_seconds
    with multiprocessing.get_context("spawn").Pool(arguments.jobs) as pool:
        coming = pool.imap_unordered(_run, [(arguments.folder[one[0]], *one) for one in wanted])
        for _ in wanted:
            try:
                line = coming.next(min(max(0.0, end - time.monotonic()), 1e6))
            except multiprocessing.TimeoutError:
                print("time is over")
                break
            keep(arguments, line)


def _run(task):
    return run(*task)


def log_losses(results, *, complete=True):
    """Mean over folds, sets × methods; `complete` leaves out folds that some method lacks.

    Otherwise the folds are ours, and a rival that lacks one of them has no mean.
    """
    import pandas as pd

    table = pd.DataFrame(results).pivot_table("log_loss", ["rows", "set", "fold"], "method")
    table = table[[name for name in METHODS if name in table]]
    table = table.dropna(subset=None if complete else [OURS] if OURS in table else None)
    means = table.groupby(["rows", "set"]).agg(lambda column: column.mean(skipna=False))
    return means.droplevel("rows")


def show(results):
    """Tables by set and by method; ranks are those of sets that every method has finished."""
    import pandas as pd

    losses, ranked = log_losses(results, complete=False), log_losses(results)
    boosters = [name for name in BOOSTERS if name in losses]
    best = losses[boosters].min(axis=1)
    everything = pd.DataFrame(results).query("set in @ranked.index").groupby("method")
    scores = ["log_loss", "auc", "accuracy", "calibration_error", "seconds"]
    means = everything[scores].mean().loc[losses.columns]
    ratios = losses.div(best, axis=0)
    means["to best booster"] = np.exp(np.log(ratios).mean())
    means["worst"] = ratios.max()
    means["ahead"] = [
        (losses[name] < losses[[b for b in boosters if b != name]].min(axis=1)).sum()
        for name in losses
    ]
    means["first"] = ranked.idxmin(axis=1).value_counts().reindex(losses.columns, fill_value=0)
    means["mean rank"] = ranked.rank(axis=1).mean()
    print(f"{len(losses)} sets, {len(ranked)} of them with every method\n")
    print(markdown(means.sort_values("mean rank").round(3)), "\n")
    if OURS in losses:
        losses["best booster"], losses["ratio"] = best, losses[OURS] / best
    print(markdown(losses.round(4)))


def markdown(table):
    lines = [f"| {table.index.name or ''} | " + " | ".join(map(str, table.columns)) + " |"]
    lines.append("| --- " * (table.shape[1] + 1) + "|")
    for name, values in table.iterrows():
        cells = ["–" if value != value else f"{value:g}" for value in values]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def draw(results, path):
    """Mean rank of each method by log-loss, with Nemenyi's critical difference from the first."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot as plt

    ranks = log_losses(results).rank(axis=1)
    n_sets, k = ranks.shape
    order = ranks.mean().sort_values(ascending=False)
    critical = studentized_range.ppf(0.95, k, 1e6) * np.sqrt(k * (k + 1) / 12 / n_sets)
    figure, ax = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
    for height, (name, mean) in enumerate(order.items()):
        jitter = np.linspace(-0.2, 0.2, n_sets)
        ax.plot(ranks[name], height + jitter, "o", color="#0072B2", alpha=0.25, markersize=4)
        ax.plot(mean, height, "D", color="#D55E00")
    ax.axvspan(order.min(), order.min() + critical, color="#D55E00", alpha=0.08, linewidth=0)
    ax.set_yticks(range(k), order.index)
    ax.set(xlabel="rank by log-loss (1 is best)", title=f"{n_sets} sets")
    ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=100)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("BANDFALL_DATA"))
    parser.add_argument("--numbers", type=Path, help="tables of the regression suite, as classes")
    parser.add_argument("--sets", nargs="+")
    parser.add_argument("--max-rows", type=int, help="leave out larger sets")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--folds", type=int, default=N_FOLDS, help="of three, the first so many")
    parser.add_argument("--jobs", type=int, default=1, help="processes, of one thread each")
    parser.add_argument("--max-seconds", type=float, default=float("inf"), help="with --jobs")
    parser.add_argument("--only-fit", action="store_true", help="this library alone, no tables")
    parser.add_argument("--only-show", action="store_true", help="tables of what there is")
    parser.add_argument("--merge", nargs="+", type=Path, default=[], help="results of other runs")
    parser.add_argument("--again", action="store_true", help="compute these methods anew")
    parser.add_argument("--out", type=Path, default=Path("out"))
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    arguments.file = arguments.out / "classes.jsonl"
    folders = [one for one in (arguments.data, arguments.numbers) if one is not None]
    arguments.folder = {name: folder for folder in folders for name in names_in(folder)}
    names = arguments.sets or sorted(arguments.folder)
    sizes = {name: len(load(arguments.folder[name], name)[1]) for name in names}
    arguments.sets = sorted(names, key=lambda name: sizes[name])
    if arguments.max_rows:
        arguments.sets = [name for name in arguments.sets if sizes[name] <= arguments.max_rows]
    if arguments.only_fit:
        arguments.methods = [OURS]
    results = read(arguments.file)
    if arguments.again:
        results = [
            one
            for one in results
            if one["set"] not in arguments.sets or one["method"] not in arguments.methods
        ]
        arguments.file.write_text("".join(json.dumps(one) + "\n" for one in results))
    if not arguments.only_show:
        measure(arguments, results)
    if arguments.only_fit:
        return
    found = {}
    for path in [arguments.file, *arguments.merge]:
        for line in read(path):
            found[line["set"], line["fold"], line["method"]] = line
    results = list(found.values())
    show(results)
    draw(results, arguments.out / "classes.png")


def read(path):
    """Lines of results."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


if __name__ == "__main__":
    main()
