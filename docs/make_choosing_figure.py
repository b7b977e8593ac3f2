"""Draws the selection shown in choosing.md: python docs/make_choosing_figure.py --data DIR."""

import argparse
from itertools import cycle
from pathlib import Path

import matplotlib

matplotlib.use("agg")

import pandas as pd
from matplotlib import pyplot as plt

from bandfall import BandfallRegressor
from bandfall.datasets import load_uk_temperature, paper_splits

COLOURS = "#0072B2", "#009E73", "#D55E00", "#E69F00"  # of encodings

parser = argparse.ArgumentParser()
parser.add_argument("--data")
arguments = parser.parse_args()
X, y = load_uk_temperature(data_home=arguments.data, return_X_y=True)
rows = paper_splits(X, y, size=1000, n_splits=1, n_train=800)[0]
model = BandfallRegressor().fit(rows.X_train, rows.y_train)
# The last trial of a candidate is the one on the most rows.
trials = pd.DataFrame(model.selection_)
candidate = ["encoding", "n_rounds", "likelihood", "kernel", "min_speed"]
trials = trials.drop_duplicates(candidate, keep="last")
figure, (left, right) = plt.subplots(1, 2, figsize=(8.0, 3.4), sharey=True, layout="constrained")
for colour, (encoding, some) in zip(COLOURS, trials.groupby("encoding"), strict=False):
    best = some[~some["likelihood"]].groupby("n_rounds")["score"].max()
    left.plot(best.index, best, "o-", markersize=4, color=colour, label=encoding)
    left.plot(0, some.loc[some["likelihood"], "score"].max(), "*", markersize=11, color=colour)
    for style, (kernel, own) in zip(cycle(["-", "--", "-.", ":"]), some.groupby("kernel")):
        metric = own[["n_rounds", "likelihood"]]
        at_best = own[(metric == metric.loc[own["loss"].idxmin()]).all(axis=1)]
        at_best = at_best.sort_values("min_speed")
        looks = {"marker": "o", "markersize": 4, "linestyle": style, "color": colour}
        right.plot(at_best["min_speed"], at_best["score"], **looks, label=f"{encoding}, {kernel}")
left.set(xlabel="rounds of the learned metric", ylabel="R² on held-out rows")
left.set_ylim(bottom=trials["score"].quantile(0.05))
left.legend(frameon=False)
right.set(xlabel="slowest accepted R² speed", xscale="log")
right.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
figure.suptitle("U.K. temperature, 800 rows", fontsize=11)
figure.savefig(Path(__file__).parent / "images" / "selection.png", dpi=100)
