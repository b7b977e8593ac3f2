"""Draws the selection shown in choosing.md: python docs/make_choosing_figure.py --data DIR."""

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("agg")

import pandas as pd
from matplotlib import pyplot as plt

from bandfall import BandfallRegressor
from bandfall.datasets import load_uk_temperature, paper_splits

parser = argparse.ArgumentParser()
parser.add_argument("--data")
arguments = parser.parse_args()
X, y = load_uk_temperature(data_home=arguments.data, return_X_y=True)
rows = paper_splits(X, y, size=1000, n_splits=1, n_train=800)[0]
model = BandfallRegressor().fit(rows.X_train, rows.y_train)
# The last trial of a candidate is the one on the most rows.
trials = pd.DataFrame(model.selection_)
candidate = ["encoding", "n_rounds", "kernel", "min_speed"]
trials = trials.drop_duplicates(candidate, keep="last")
figure, (left, right) = plt.subplots(1, 2, figsize=(8.0, 3.4), sharey=True, layout="constrained")
for encoding, some in trials.groupby("encoding"):
    best = some.groupby("n_rounds")["score"].max()
    left.plot(best.index, best, "o-", markersize=4, label=encoding)
for (encoding, kernel), some in trials.groupby(["encoding", "kernel"]):
    at_best = some[some["n_rounds"] == some.loc[some["loss"].idxmin(), "n_rounds"]]
    at_best = at_best.sort_values("min_speed")
    label = f"{encoding}, {kernel}"
    right.plot(at_best["min_speed"], at_best["score"], "o-", markersize=4, label=label)
left.set(xlabel="rounds of the learned metric", ylabel="R² on held-out rows")
left.set_ylim(bottom=trials["score"].quantile(0.05))
right.set(xlabel="slowest accepted R² speed", xscale="log")
right.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
figure.suptitle("U.K. temperature, 800 rows", fontsize=11)
figure.savefig(Path(__file__).parent / "images" / "selection.png", dpi=100)
