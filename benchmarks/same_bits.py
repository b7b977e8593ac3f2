"""Whether this tree's models equal those of another revision, bit by bit.

    python benchmarks/same_bits.py                    against c94fb40
    python benchmarks/same_bits.py --against HEAD~3   against any revision
    python benchmarks/same_bits.py --only classes     kinds of fits whose name contains a word

Fits about twenty kinds of models on made-up tables with both revisions, and compares predictions,
intervals, probabilities, trials, saved models and ONNX outputs. A reference is computed once and
kept in build/same_bits. Ends with 1 where a difference exceeds 1e-6 of the spread of the values.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
ALLOWED = 1e-6  # of the spread of the reference


def numeric(n=400, d=5, seed=0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, d))
    y = np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * random.normal(size=n)
    return X, y


def mixed(n=300, seed=1):
    """A frame with numbers, categories, dates and missing values."""
    import pandas as pd

    random = np.random.default_rng(seed)
    X, y = numeric(n, 3, seed)
    town = random.choice(["Lund", "Kiruna", "Malmö", "Visby", "Ystad"], n)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    frame.loc[random.random(n) < 0.1, "b"] = np.nan
    frame["town"] = town
    frame["kind"] = random.choice(list("pq"), n)
    frame["day"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(random.integers(0, 700, n), "D")
    y = y + (town == "Kiruna") + 0.3 * (frame["kind"] == "p") * X[:, 0]
    return frame, y.to_numpy()


def regressor(X, y, *, fit=None, **settings):
    from bandfall import BandfallRegressor, load_model, to_onnx

    model = BandfallRegressor(**settings).fit(X, y, **(fit or {}))
    results = {"predict": model.predict(X), "importances": model.feature_importances_}
    results["novelty"] = model.novelty(X)
    if np.ndim(y) == 1:
        results["interval"] = np.asarray(model.predict_interval(X[:50]))
        results["staged"] = np.array([stage[:5] for stage in model.staged_predict(X[:20])][-3:])
    for name in ("loss", "score", "max_r2"):
        results[f"trials: {name}"] = model.selection_[name]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.bandfall"
        model.save(file)
        results["file"] = load_model(file).predict(X)
    if isinstance(X, np.ndarray):
        results["onnx"] = onnx_outputs(to_onnx(model, dtype=np.float64), X)
    return results


def onnx_outputs(graph, X):
    import onnxruntime

    session = onnxruntime.InferenceSession(graph.SerializeToString())
    return np.asarray(session.run(None, {session.get_inputs()[0].name: X.astype(np.float64)})[0])


def classifier(X, y, *, fit=None, **settings):
    from bandfall import BandfallClassifier

    model = BandfallClassifier(**settings).fit(X, y, **(fit or {}))
    return {"probabilities": model.predict_proba(X), "trials: loss": model.selection_["loss"]}


def single(estimator, n=250, **settings):
    import bandfall

    X, y = numeric(n, 3)
    model = getattr(bandfall, estimator)(**settings).fit(X, y)
    return {"predict": model.predict(X), "elsewhere": model.predict(X[:50] + 0.1)}


def classes_of(y, n):
    return np.digitize(y, np.quantile(y, np.arange(1, n) / n))


def fits():
    """Names of all kinds of fits, and what computes their arrays."""
    X, y = numeric()
    large, of_large = numeric(1500, 4, 3)
    frame, of_frame = mixed()
    weights = np.random.default_rng(5).random(len(y))
    few, of_few = numeric(60, 3, 7)
    return {
        "numbers": lambda: regressor(X, y),
        "numbers, float32": lambda: regressor(X.astype(np.float32), y),
        "numbers, few rows": lambda: regressor(few, of_few),
        "numbers, several targets": lambda: regressor(X, np.column_stack([y, y**2])),
        "numbers, weights": lambda: regressor(X, y, fit={"sample_weight": weights}),
        "numbers, groups": lambda: regressor(X, y, fit={"groups": np.arange(len(y)) // 4}),
        "numbers, one member": lambda: regressor(X, y, n_members=1, kernels="laplace"),
        "numbers, mixed table": lambda: regressor(frame, of_frame),
        "numbers, repeated rows": lambda: regressor(np.round(X), y),
        "numbers, leaves": lambda: regressor(large, of_large, leaf_rows=500, search_rows=400),
        "classes, two": lambda: classifier(X, classes_of(y, 2)),
        "classes, four": lambda: classifier(X, classes_of(y, 4)),
        "classes, rare": lambda: classifier(X, y > 1.8, class_weight="balanced"),
        "classes, mixed table": lambda: classifier(frame, classes_of(of_frame, 3)),
        "classes, leaves": lambda: classifier(
            large, classes_of(of_large, 2), leaf_rows=500, search_rows=400
        ),
        "descent": lambda: single("KernelDescentRegressor"),
        "descent, Euler": lambda: single("KernelDescentRegressor", 80, solver="euler"),
        "descent, Laplace": lambda: single("KernelDescentRegressor", kernel="laplace"),
        "ridge": lambda: single("KernelRidgeRegressor"),
        "flow": lambda: single("KernelFlowRegressor"),
        "ridge, cross-validated": lambda: single("KernelRidgeCV", 80),
        "flow, cross-validated": lambda: single("KernelFlowCV", 80),
        "ridge, marginal likelihood": lambda: single("KernelRidgeMML", 80),
    }


def computed(only):
    """All arrays of this tree, by the names of fit and array."""
    arrays = {}
    for name, fit in fits().items():
        if only in name:
            print(f"  {name}", file=sys.stderr)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                arrays.update({f"{name} / {what}": array for what, array in fit().items()})
    return arrays


def reference(revision, only):
    """All arrays of another revision, from a checkout of its own."""
    commit = subprocess.check_output(["git", "rev-parse", revision], cwd=ROOT, text=True).strip()
    file = ROOT / "build" / "same_bits" / f"{commit[:12]}{'-' + only if only else ''}.npz"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as folder:
            git = ["git", "worktree"]
            subprocess.run([*git, "add", "--detach", folder, commit], cwd=ROOT, check=True)
            try:
                path = {**os.environ, "PYTHONPATH": f"{folder}/src"}
                call = [sys.executable, __file__, "--write", str(file), "--only", only]
                subprocess.run(call, check=True, env=path)
            finally:
                subprocess.run([*git, "remove", "--force", folder], cwd=ROOT, check=True)
    return np.load(file)


def difference(new, old):
    """Largest difference in units of the spread of the old values; NaN where shapes differ."""
    if new.shape != old.shape:
        return np.nan
    if new.dtype.kind not in "fc":
        return float(not np.array_equal(new, old))
    unlike = (new != old) & ~(np.isnan(new) & np.isnan(old))
    if not unlike.any():
        return 0.0
    spread = np.ptp(old[np.isfinite(old)]) or 1.0
    return float(np.max(np.abs(new - old)[unlike]) / spread)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--against", default="c94fb40", help="a revision")
    parser.add_argument("--only", default="", help="part of the name of a kind of fits")
    parser.add_argument("--write", help="write the arrays of the importable package to a file")
    options = parser.parse_args()
    if options.write:
        np.savez(options.write, **computed(options.only))
        return 0
    old = reference(options.against, options.only)
    new = computed(options.only)
    worst = 0.0
    for name in sorted({*old.files, *new}):
        change = difference(new[name], old[name]) if {name} <= {*old.files} & {*new} else np.nan
        worst = max(worst, np.inf if np.isnan(change) else change)
        words = "same bits" if change == 0 else f"differs by {change:.1e} of the spread"
        if np.isnan(change):
            words = "is missing, or has another shape"
        print(f"{name:<44} {words}")
    return int(worst > ALLOWED)


if __name__ == "__main__":
    sys.exit(main())
