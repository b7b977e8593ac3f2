"""Classification: log-loss, AUC, accuracy and calibration error, against other classifiers.

    python benchmarks/classes.py --data DIR [--sets car vowel] [--methods bandfall] [--out DIR]

DIR holds tables NAME.csv.gz with the class as their last column, and `categories.json`, which names
the categorical columns of each table. Three stratified folds; every method has its default
settings, and no setting depends on the set. OUT/classes.jsonl gets a line for every set, fold and
method; what is there already is not computed again, except with --again. Rivals that are not
installed are left out and named. Prints tables as Markdown and draws OUT/classes.png.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import studentized_range
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from bandfall import BandfallClassifier
from bandfall.report.scores import positions, score_classes

N_FOLDS = 3
BOOSTERS = ("LightGBM", "XGBoost", "CatBoost", "HistGradientBoosting")
OURS = "BandfallClassifier"


def load(folder, name):
    """Features, declared categories as such, and classes as text; empty fields are missing."""
    categories = json.loads((folder / "categories.json").read_text()).get(name, [])
    X = pd.read_csv(
        folder / f"{name}.csv.gz",
        dtype=dict.fromkeys(categories, str),
        keep_default_na=False,
        na_values=[""],
    )
    y = X.pop(X.columns[-1]).astype(str).to_numpy()
    return X.astype(dict.fromkeys(categories, "category")), y


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


def bandfall():
    return BandfallClassifier()


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
    OURS: bandfall,
    "LightGBM": lightgbm,
    "XGBoost": xgboost,
    "CatBoost": CatBoost,
    "HistGradientBoosting": HistGradientBoosting,
    "logistic regression": lambda: make_pipeline(as_numbers(), LogisticRegression(max_iter=1000)),
    "random forest": lambda: make_pipeline(as_numbers(), RandomForestClassifier(random_state=0)),
    "xRFM": XRFM,
}


def run(X, y, train, test, method):
    """Scores of one method on one fold."""
    classes, labels = np.unique(y[train], return_inverse=True)
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = METHODS[method]().fit(X.iloc[train], labels)
        trained = time.perf_counter()
        probabilities = np.asarray(model.predict_proba(X.iloc[test]), dtype=float)
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    scores = score_classes(probabilities, positions(y[test], classes))
    seconds = {"seconds": trained - start, "predict_seconds": time.perf_counter() - trained}
    return {name: round(value, 6) for name, value in {**scores._asdict(), **seconds}.items()}


def measure(arguments, results):
    """Whatever is not known yet, line by line into the file of results."""
    done = {(one["set"], one["method"], one["fold"]) for one in results}
    missing = set()
    for name in arguments.sets:
        X, y = load(arguments.data, name)
        for fold, (train, test) in enumerate(splits(y)[: arguments.folds]):
            for method in arguments.methods:
                if (name, method, fold) in done or method in missing:
                    continue
                try:
                    figures = run(X, y, train, test, method)
                except ImportError:
                    missing.add(method)
                    continue
                line = {"set": name, "rows": len(y), "method": method, "fold": fold, **figures}
                results.append(line)
                with arguments.file.open("a") as stream:
                    stream.write(json.dumps(line) + "\n")
                print(line, flush=True)
    if missing:
        print("not installed, left out: " + ", ".join(sorted(missing)))


def log_losses(results):
    """Mean over the folds that every method has finished, sets × methods."""
    table = pd.DataFrame(results).pivot_table("log_loss", ["rows", "set", "fold"], "method")
    known = [name for name in METHODS if name in table]
    return table[known].dropna().groupby(["rows", "set"]).mean().droplevel("rows")


def show(results):
    """Tables by set and by method."""
    losses = log_losses(results)
    boosters = [name for name in BOOSTERS if name in losses]
    best = losses[boosters].min(axis=1)
    everything = pd.DataFrame(results).query("set in @losses.index").groupby("method")
    scores = ["log_loss", "auc", "accuracy", "calibration_error", "seconds"]
    means = everything[scores].mean().loc[losses.columns]
    ratios = losses.div(best, axis=0)
    means["to best booster"] = np.exp(np.log(ratios).mean())
    means["worst"] = ratios.max()
    means["ahead"] = [
        (losses[name] < losses[[b for b in boosters if b != name]].min(axis=1)).sum()
        for name in losses
    ]
    means["first"] = losses.idxmin(axis=1).value_counts().reindex(losses.columns, fill_value=0)
    means["mean rank"] = losses.rank(axis=1).mean()
    print(f"{len(losses)} sets\n")
    print(markdown(means.sort_values("mean rank").round(3)), "\n")
    if OURS in losses:
        losses["best booster"], losses["ratio"] = best, losses[OURS] / best
    print(markdown(losses.round(4)))


def markdown(table):
    lines = [f"| {table.index.name or ''} | " + " | ".join(map(str, table.columns)) + " |"]
    lines.append("| --- " * (table.shape[1] + 1) + "|")
    for name, values in table.iterrows():
        cells = [f"{value:g}" if isinstance(value, float) else str(value) for value in values]
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
    parser.add_argument("--sets", nargs="+")
    parser.add_argument("--max-rows", type=int, help="leave out larger sets")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--folds", type=int, default=N_FOLDS, help="of three, the first so many")
    parser.add_argument("--again", action="store_true", help="compute these methods anew")
    parser.add_argument("--out", type=Path, default=Path("out"))
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    arguments.file = arguments.out / "classes.jsonl"
    names = arguments.sets or sorted(json.loads((arguments.data / "categories.json").read_text()))
    sizes = {name: len(load(arguments.data, name)[1]) for name in names}
    arguments.sets = sorted(names, key=lambda name: sizes[name])
    if arguments.max_rows:
        arguments.sets = [name for name in arguments.sets if sizes[name] <= arguments.max_rows]
    results = []
    if arguments.file.exists():
        results = [json.loads(line) for line in arguments.file.read_text().splitlines()]
    if arguments.again:
        results = [
            one
            for one in results
            if one["set"] not in arguments.sets or one["method"] not in arguments.methods
        ]
        arguments.file.write_text("".join(json.dumps(one) + "\n" for one in results))
    measure(arguments, results)
    show(results)
    draw(results, arguments.out / "classes.png")


if __name__ == "__main__":
    main()
