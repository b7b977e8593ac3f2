"""Draws the selection shown in choosing.md: python docs/make_choosing_figure.py --data DIR."""

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("agg")

from bandfall import BandfallRegressor
from bandfall.datasets import load_uk_temperature, paper_splits
from bandfall.plotting import SelectionDisplay

parser = argparse.ArgumentParser()
parser.add_argument("--data")
arguments = parser.parse_args()
X, y = load_uk_temperature(data_home=arguments.data, return_X_y=True)
rows = paper_splits(X, y, size=1000, n_splits=1, n_train=800)[0]
model = BandfallRegressor().fit(rows.X_train, rows.y_train)
display = SelectionDisplay.from_estimator(model)
display.figure_.suptitle("U.K. temperature, 800 rows", fontsize=11)
display.figure_.savefig(Path(__file__).parent / "images" / "selection.png", dpi=100)
