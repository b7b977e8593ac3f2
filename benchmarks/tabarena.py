"""BandfallRegressor and BandfallClassifier on TabArena v0.1, beside its published results.

    python benchmarks/tabarena.py [--kind regression] [--tasks ID ...] [--max-rows 100000]
                                  [--published FILE] [--out out/tabarena]

Needs `pip install openml` and a connection: tables and splits are OpenML's suite "tabarena-v0.1"
(the first fold of the first repeat), published errors are TabArena's own file. Both estimators run
with their defaults. The error of a task is TabArena's: the RMSE of numbers, 1 − AUC of two
classes, the log-loss of more. One JSON line a task in OUT/results.jsonl, from which an interrupted
run goes on. The tables played no part in building the search; do not let them.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from sklearn.metrics import log_loss, roc_auc_score, root_mean_squared_error

from bandfall import BandfallClassifier, BandfallRegressor

PUBLISHED = (
    "https://tabarena.s3.us-west-2.amazonaws.com/results/df_results_lite_leaderboard.parquet"
)
BOOSTERS = ("CAT (default)", "XGB (default)", "GBM (default)")


class Task(NamedTuple):
    """One table with its split."""

    name: str
    X: pd.DataFrame
    X_test: pd.DataFrame
    y: pd.Series
    y_test: pd.Series
    regression: bool


def load(number: int) -> Task:
    """A task of OpenML with its first split."""
    import openml

    task = openml.tasks.get_task(number)
    dataset = task.get_dataset()
    X, y, _, _ = dataset.get_data(target=task.target_name, dataset_format="dataframe")
    train, test = task.get_train_test_split_indices(fold=0, repeat=0)
    regression = "Regression" in str(task.task_type)
    return Task(dataset.name, X.iloc[train], X.iloc[test], y.iloc[train], y.iloc[test], regression)


def suite() -> list[int]:
    """Numbers of all tasks."""
    import openml

    return list(openml.study.get_suite("tabarena-v0.1").tasks)


def error(task: Task) -> float:
    """TabArena's error of our model on the test rows."""
    if task.regression:
        model = BandfallRegressor().fit(task.X, task.y.astype(float))
        return float(root_mean_squared_error(task.y_test.astype(float), model.predict(task.X_test)))
    model = BandfallClassifier().fit(task.X, task.y.astype(str))
    probabilities = model.predict_proba(task.X_test)
    truth = task.y_test.astype(str)
    if len(model.classes_) == 2:
        return float(1.0 - roc_auc_score(truth == model.classes_[1], probabilities[:, 1]))
    return float(log_loss(truth, probabilities, labels=model.classes_))


def measure(numbers, path: Path, *, kind: str, max_rows: int) -> list[dict]:
    """Results of all tasks of this kind; those in the file are taken from there."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    known = {entry["task"]: entry for entry in map(json.loads, lines)}
    for number in numbers:
        if number in known:
            continue
        task = load(number)
        if kind not in ("all", "regression" if task.regression else "classes"):
            continue
        if len(task.X) + len(task.X_test) > max_rows:
            print(f"{task.name}: left out, more than {max_rows} rows", flush=True)
            continue
        start = time.perf_counter()
        entry = {
            "task": number,
            "name": task.name,
            "regression": task.regression,
            "error": error(task),
            "seconds": round(time.perf_counter() - start, 1),
        }
        known[number] = entry
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")
        print(f"{task.name}: {entry['error']:.4g} in {entry['seconds']} s", flush=True)
    return [known[number] for number in numbers if number in known]


def summary(results: list[dict], published: pd.DataFrame) -> str:
    """Ratios to the best default booster and the rank among untuned methods, as Markdown."""
    untuned = published[published["method"].str.endswith("(default)")]
    table = untuned.pivot_table(index="dataset", columns="method", values="metric_error")
    text = []
    for regression, title in ((True, "regression"), (False, "classes")):
        ours = {r["name"]: r["error"] for r in results if r["regression"] == regression}
        ours = pd.Series({name: value for name, value in ours.items() if name in table.index})
        if ours.empty:
            continue
        rivals = table.loc[ours.index].dropna(axis="columns", how="all")
        best = rivals[[name for name in BOOSTERS if name in rivals]].min(axis="columns")
        ratios = ours.clip(lower=1e-6) / best.clip(lower=1e-6)  # an error may be zero
        ranks = rivals.assign(Bandfall=ours).rank(axis="columns").mean().sort_values()
        place = list(ranks.index).index("Bandfall") + 1
        mean = float(np.exp(np.log(ratios).mean()))
        text += [
            f"{title}: {len(ours)} tables; error relative to the best default booster {mean:.3f} "
            f"(geometric mean); ahead on {int((ratios < 1).sum())}; by mean rank {place} of "
            f"{len(ranks)} untuned methods",
            "",
            "| table | Bandfall | best default booster | ratio |",
            "| --- | --- | --- | --- |",
            *(f"| {n} | {ours[n]:.4g} | {best[n]:.4g} | {ratios[n]:.3f} |" for n in ours.index),
            "",
        ]
    return "\n".join(text)


def main(argv=None) -> None:
    """Measure what is missing, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kind", choices=("all", "regression", "classes"), default="all")
    parser.add_argument("--tasks", type=int, nargs="+", metavar="ID")
    parser.add_argument("--max-rows", type=int, default=100_000)
    parser.add_argument("--published", default=PUBLISHED, metavar="FILE")
    parser.add_argument("--out", type=Path, default=Path("out/tabarena"))
    options = parser.parse_args(argv)
    options.out.mkdir(parents=True, exist_ok=True)
    results = measure(
        options.tasks or suite(),
        options.out / "results.jsonl",
        kind=options.kind,
        max_rows=options.max_rows,
    )
    print(summary(results, pd.read_parquet(options.published)))


if __name__ == "__main__":
    main()
