"""Classification: log-loss, AUC, accuracy and calibration error, against other classifiers.

    python benchmarks/classes.py [--data SUITE] [--rows 500] [--seeds 2]

scikit-learn's bundled sets, and with --data, tables NAME.csv.gz whose last column is cut at its
median ("NAME/2") or into terciles ("NAME/3"). A line of JSON for every set, method and split goes
to --out; what is there already is not computed again. Methods whose package is missing are left
out.
"""

import argparse
import json
import pathlib
import time
import warnings

import numpy as np
import pandas as pd
from sklearn import datasets
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from bandfall import BandfallClassifier
from bandfall.report.class_scores import score_classes
from intervals import as_numbers, load

BUNDLED = {
    "iris": lambda: datasets.load_iris(return_X_y=True),
    "wine": lambda: datasets.load_wine(return_X_y=True),
    "breast cancer": lambda: datasets.load_breast_cancer(return_X_y=True),
    "digits": lambda: datasets.load_digits(return_X_y=True),
    "moons": lambda: datasets.make_moons(1500, noise=0.3, random_state=0),
    "circles": lambda: datasets.make_circles(1500, noise=0.2, factor=0.5, random_state=0),
}


def lightgbm(isotonic=False):
    from lightgbm import LGBMClassifier

    model = LGBMClassifier(verbose=-1, n_jobs=1)
    return CalibratedClassifierCV(model, method="isotonic") if isotonic else model


def catboost():
    from catboost import CatBoostClassifier

    return CatBoostClassifier(
        iterations=500, verbose=False, thread_count=1, allow_writing_files=False
    )


class XRFM:
    """xRFM's classifier: scaled columns, a fifth of the rows to choose its rounds by."""

    def fit(self, X, y):
        from xrfm import xRFM

        self.scaler = StandardScaler().fit(X)
        parts = train_test_split(self.scaler.transform(X), y, test_size=0.2, random_state=0)
        rows, rows_kept, labels, labels_kept = parts
        self.model = xRFM(tuning_metric="logloss", device="cpu", random_state=0, verbose=False)
        self.model.fit(
            rows.astype(np.float32),
            labels.astype(np.int64),
            rows_kept.astype(np.float32),
            labels_kept.astype(np.int64),
        )
        return self

    def predict_proba(self, X):
        return self.model.predict_proba(self.scaler.transform(X).astype(np.float32))


METHODS = {
    "bandfall": BandfallClassifier,
    "hist": HistGradientBoostingClassifier,
    "svc-platt": lambda: make_pipeline(StandardScaler(), CalibratedClassifierCV(SVC())),
    "lightgbm": lightgbm,
    "lightgbm-isotonic": lambda: lightgbm(isotonic=True),
    "catboost": catboost,
    "xrfm": XRFM,
}


def problem(name, folder):
    """Features and classes of a bundled set, or of a table's target in quantiles."""
    if name in BUNDLED:
        return BUNDLED[name]()
    table, y = load(folder / f"{name.split('/')[0]}.csv.gz")
    n_classes = int(name.split("/")[1])
    cuts = np.quantile(y, np.arange(1, n_classes) / n_classes)
    # Where many values equal a cut, they go to the side that leaves classes more alike in size.
    sides = [np.searchsorted(cuts, y, side=side) for side in ("left", "right")]
    return table, max(sides, key=lambda labels: np.bincount(labels, minlength=n_classes).min())


def run(name, method, folder, n_rows, seed):
    X, y = problem(name, folder)
    n_train = min(n_rows, len(y) // 2)
    X, X_test, y, y_test = train_test_split(
        X,
        y,
        train_size=n_train,
        test_size=min(2000, len(y) - n_train),
        random_state=seed,
        stratify=y,
    )
    if isinstance(X, pd.DataFrame) and method != "bandfall":
        X, X_test = np.nan_to_num(as_numbers(X)), np.nan_to_num(as_numbers(X_test))
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = METHODS[method]().fit(X, y)
        probabilities = np.asarray(model.predict_proba(X_test), float)
    scores = score_classes(probabilities / probabilities.sum(axis=1, keepdims=True), y_test)
    return {
        "n_train": n_train,
        **scores._asdict(),
        "seconds": round(time.perf_counter() - start, 1),
    }


def show(results):
    """Means over sets, and the mean rank by log-loss."""
    table = pd.DataFrame(results).groupby(["set", "method"]).mean(numeric_only=True)
    keys = ["log_loss", "auc", "accuracy", "calibration_error", "seconds"]
    losses = table["log_loss"].unstack()
    means = table[keys].groupby("method").mean()
    means["rank"] = losses.rank(axis=1).mean()
    print(means.sort_values("rank").round(4).to_string())
    print(losses.round(4).to_string())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=pathlib.Path)
    parser.add_argument("--sets", nargs="*", default=list(BUNDLED))
    parser.add_argument("--methods", nargs="*", default=list(METHODS), choices=METHODS)
    parser.add_argument("--rows", type=int, default=500)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("classes.jsonl"))
    arguments = parser.parse_args()
    results = []
    if arguments.out.exists():
        results = [json.loads(line) for line in arguments.out.read_text().splitlines()]
    done = {(one["set"], one["method"], one["seed"], one["rows"]) for one in results}
    for seed in range(arguments.seeds):
        for name in arguments.sets:
            for method in arguments.methods:
                if (name, method, seed, arguments.rows) in done:
                    continue
                try:
                    figures = run(name, method, arguments.data, arguments.rows, seed)
                except ImportError as error:
                    print(f"{method}: {error}")
                    continue
                line = {"set": name, "method": method, "seed": seed, "rows": arguments.rows}
                results.append({**line, **figures})
                with arguments.out.open("a") as stream:
                    stream.write(json.dumps(results[-1]) + "\n")
                print(results[-1], flush=True)
    show([one for one in results if one["rows"] == arguments.rows])


if __name__ == "__main__":
    main()
