"""BandfallRegressor beside published scores, and beside boosters run here; losses included.

    python benchmarks/published.py --data DIR [--sets NAME ...] [--methods NAME ...]
                                   [--seeds 1] [--train-only] [--jobs 1] [--out DIR]

DIR holds the suite: one NAME.csv.gz a set, the target last. Fifteen sets have splits and scores
that others published (`published.json`): the test part is theirs, and we train on their training
and validation parts together, which the tuned methods used one after the other; --train-only
leaves the validation part out. The other sets are split at random, a fifth for testing, and
boosters and xRFM with their defaults run on the same rows, as far as they are installed. No
setting belongs to a set. One JSON line a fit in OUT/published.jsonl, from which an interrupted
run goes on; OUT/published.md has the tables.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import importlib
import json
import time
import warnings
from pathlib import Path

import joblib
import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import train_test_split

from bandfall import BandfallRegressor
from bandfall.tables import TableEncoder, read_table

PUBLISHED = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))["rmse"]
BOOSTERS = ("XGB", "CatB", "LGB")


class Encoded:
    """A rival behind the encoding that BandfallRegressor starts from."""

    def __init__(self, model):
        self.model = model
        self.encoder = TableEncoder()

    def fit(self, columns, y):
        self.model.fit(self.encoder.fit_transform(read_table(columns), warn=False), y)
        return self

    def predict(self, columns):
        Z = self.encoder.transform(read_table(columns), warn=False)
        return np.asarray(self.model.predict(Z)).reshape(-1)


class ValidatedXRFM:
    """xRFM with its defaults for standardised targets; a fifth of the rows validates."""

    def fit(self, X, y):
        from xrfm import xRFM

        self.offset, self.scale = y.mean(), y.std() or 1.0
        units = ((y - self.offset) / self.scale)[:, None]
        parts = train_test_split(X.astype("f"), units.astype("f"), test_size=0.2, random_state=0)
        X, X_validation, units, units_validation = parts
        self.model = xRFM(device="cpu", random_state=0, verbose=False)
        self.model.fit(X, units, X_validation, units_validation)
        return self

    def predict(self, X):
        return self.offset + self.scale * np.asarray(self.model.predict(X.astype("f"))).ravel()


def optional(module, name, **parameters):
    """A model from a package that may be missing."""
    return getattr(importlib.import_module(module), name)(**parameters)


METHODS = {
    "Bandfall": lambda seed: BandfallRegressor(random_state=seed),
    "Bandfall, one member": lambda seed: BandfallRegressor(random_state=seed, n_members=1),
    "HistGB": lambda seed: Encoded(HistGradientBoostingRegressor(random_state=seed)),
    "LightGBM": lambda seed: Encoded(
        optional("lightgbm", "LGBMRegressor", verbose=-1, random_state=seed)
    ),
    "XGBoost": lambda seed: Encoded(optional("xgboost", "XGBRegressor", random_state=seed)),
    "CatBoost": lambda seed: Encoded(
        optional(
            "catboost",
            "CatBoostRegressor",
            verbose=0,
            allow_writing_files=False,
            random_seed=seed,
        )
    ),
    "xRFM": lambda seed: importlib.import_module("xrfm") and Encoded(ValidatedXRFM()),
}
RIVALS = ("HistGB", "LightGBM", "XGBoost", "CatBoost")


def read(path):
    """Columns by name (text stays text, an empty field is missing) and the target."""
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        names, *rows = csv.reader(file)
    columns = {
        name: _column(values) for name, values in zip(names, zip(*rows, strict=True), strict=True)
    }
    return columns, np.asarray(columns.pop(names[-1]), dtype=float)


def _column(values):
    try:
        return np.array([float(value) if value else np.nan for value in values])
    except ValueError:
        return np.array([value or None for value in values], dtype=object)


def split(name, n_rows, seed, train_only):
    """Training and test rows; the published ones where there are."""
    if name not in PUBLISHED:
        order = np.random.RandomState(seed).permutation(n_rows)
        return order[n_rows // 5 :], order[: n_rows // 5]
    rest, test = train_test_split(np.arange(n_rows), test_size=0.2, random_state=42)
    train, validation = train_test_split(rest, test_size=0.2, random_state=42)
    return (train if train_only else np.concatenate([train, validation])), test


def run(data, name, method, seed, train_only):
    """One fit as a line of the log; None where the method is not installed."""
    columns, y = read(Path(data) / f"{name}.csv.gz")
    train, test = split(name, len(y), seed, train_only)
    try:
        model = METHODS[method](seed)
    except ImportError:
        return None
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit({key: values[train] for key, values in columns.items()}, y[train])
        seconds = time.perf_counter() - start
        predictions = model.predict({key: values[test] for key, values in columns.items()})
    line = {
        "set": name,
        "method": method,
        "seed": seed,
        "train_only": train_only,
        "n_train": len(train),
        "rmse": float(np.sqrt(np.mean((predictions - y[test]) ** 2))),
        "r2": float(1.0 - np.mean((predictions - y[test]) ** 2) / np.var(y[test])),
        "seconds": seconds,
    }
    if isinstance(model, BandfallRegressor):
        line["held_out_r2"] = model.best_score_
        line["members"] = [
            [*member.candidate.summary().values(), round(member.weight, 3)]
            for member in model.members_
        ]
    return line


def means(lines, train_only):
    """Mean RMSE over seeds by set and method."""
    found = {}
    for line in lines:
        if line["train_only"] == train_only or line["set"] not in PUBLISHED:
            found.setdefault(line["set"], {}).setdefault(line["method"], []).append(line["rmse"])
    return {
        name: {method: float(np.mean(values)) for method, values in methods.items()}
        for name, methods in found.items()
    }


def published_table(scores, ours="Bandfall"):
    """Against tuned methods, set by set."""
    rows = ["| set | Bandfall | best tuned booster | ratio | best of 27 | rank of 16 |"]
    rows.append("| --- | --- | --- | --- | --- | --- |")
    ratios, ranks, wins, firsts = [], [], 0, 0
    for name in (name for name in PUBLISHED if ours in scores.get(name, {})):
        theirs, own = PUBLISHED[name], scores[name][ours]
        tuned = [v for k, v in theirs.items() if k not in ("mean", "best of all 27", "best is")]
        booster = min(theirs[key] for key in BOOSTERS)
        ratios.append(own / booster)
        ranks.append(1 + sum(value < own for value in tuned))
        wins += own < booster
        firsts += own < theirs["best of all 27"]
        best = f"{_number(theirs['best of all 27'])} ({theirs['best is']})"
        cells = [name, _number(own), _number(booster), f"{ratios[-1]:.3f}", best, str(ranks[-1])]
        rows.append(f"| {' | '.join(cells)} |")
    if ratios:
        rows.append(
            f"\nAhead of the best tuned booster on {wins} of {len(ratios)} sets, ahead of all 27 "
            f"on {firsts}; geometric mean of the ratios {geometric_mean(ratios):.3f}; mean rank "
            f"{np.mean(ranks):.1f} among ours and the 15 methods with published columns."
        )
    return "\n".join(rows)


def rivals_table(scores, ours="Bandfall"):
    """Against methods run here with their defaults."""
    names = [name for name in scores if name not in PUBLISHED and ours in scores[name]]
    methods = [m for m in METHODS if any(m in scores[name] for name in names)]
    rows = ["| set | " + " | ".join(methods) + " | ratio to best booster |"]
    rows.append("| --- " * (len(methods) + 2) + "|")
    ratios = []
    for name in sorted(names):
        best = min(scores[name].values())
        cells = [_cell(scores[name].get(method), best) for method in methods]
        boosters = [scores[name][rival] for rival in RIVALS if rival in scores[name]]
        ratios.append(scores[name][ours] / min(boosters) if boosters else np.nan)
        rows.append(f"| {name} | " + " | ".join(cells) + f" | {ratios[-1]:.3f} |")
    known = [ratio for ratio in ratios if np.isfinite(ratio)]
    if known:
        rows.append(
            f"\nAhead of the best default booster on {sum(r < 1 for r in known)} of {len(known)} "
            f"sets; geometric mean of the ratios {geometric_mean(known):.3f}, worst "
            f"{max(known):.3f}."
        )
    return "\n".join(rows)


def _number(value):
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def _cell(value, best):
    if value is None:
        return "–"
    return f"**{_number(value)}**" if value == best else _number(value)


def geometric_mean(values):
    """exp of the mean logarithm."""
    return float(np.exp(np.mean(np.log(values))))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True, type=Path)
    parser.add_argument("--sets", nargs="*")
    parser.add_argument("--methods", nargs="*", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--train-only", action="store_true")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("out"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    log = options.out / "published.jsonl"
    lines = [json.loads(text) for text in log.read_text().splitlines()] if log.exists() else []
    done = {(line["set"], line["method"], line["seed"], line["train_only"]) for line in lines}
    sets = options.sets or sorted(path.name[:-7] for path in options.data.glob("*.csv.gz"))
    jobs = [
        (name, method, seed, options.train_only)
        for name in sets
        for method in options.methods
        for seed in range(options.seeds)
        if not (name in PUBLISHED and method not in ("Bandfall", "Bandfall, one member"))
        if (name, method, seed, options.train_only) not in done
    ]
    results = joblib.Parallel(n_jobs=options.jobs, return_as="generator_unordered")(
        joblib.delayed(run)(options.data, *job) for job in jobs
    )
    for line in filter(None, results):
        lines.append(line)
        with log.open("a") as file:
            file.write(json.dumps(line) + "\n")
        print("{set} {method} {seed}: RMSE {rmse:.5g}, {seconds:.1f} s".format(**line), flush=True)
    scores = means(lines, options.train_only)
    page = f"{published_table(scores)}\n\n{rivals_table(scores)}\n"
    (options.out / "published.md").write_text(page, encoding="utf-8")
    print(f"\n{page}")


if __name__ == "__main__":
    main()
