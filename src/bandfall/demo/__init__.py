"""The demonstration ``make demo``: one table and two pictures, in well under a minute.

    python -m bandfall.demo --out out

All data are included: a table of yacht hulls, the sine data of the paper's Figure 1, and
scikit-learn's diabetes data.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
import time
from importlib.util import find_spec
from typing import NamedTuple

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from bandfall._estimators import BandfallRegressor, KernelDescentRegressor, KernelRidgeCV
from bandfall._explore import render_playground
from bandfall._typing import Estimator
from bandfall.demo import _falling as falling
from bandfall.demo import _yacht as yacht

YACHT, SINE, DIABETES = "yacht, 16 of 22 hulls", "sine, 20 rows", "diabetes, 331 rows"
YACHT_SEEDS, SINE_SEEDS, DIABETES_SEEDS = range(3), range(10), range(3)
OURS = "BandfallRegressor, tunes itself"
EXPLANATION = """
R² on rows that were held out, mean over 3, 10 and 3 splits. Yacht: a real table, tested on hulls
that no model has seen. Sine: 20 points of a smooth curve, the paper's toy; there ridge regression
with one well-chosen bandwidth is ahead. Diabetes: mostly noise, where ridge regression is ahead,
too; a model that interpolates, as KGD-D does, also fits the noise."""


class Score(NamedTuple):
    """One line of the table; R², error and seconds are means over the splits."""

    data: str
    model: str
    r2: float
    rmse: float
    seconds: float


class Split(NamedTuple):
    """Training rows, held-out rows, and groups of the training rows if there are any."""

    X: np.ndarray
    X_test: np.ndarray
    y: np.ndarray
    y_test: np.ndarray
    groups: np.ndarray | None = None


def models() -> dict[str, Estimator]:
    """The models of the table, each ready for ``fit``."""
    return {
        OURS: BandfallRegressor(),
        "kernel ridge, cross-validated": make_pipeline(StandardScaler(), KernelRidgeCV()),
        "gradient boosting (scikit-learn)": HistGradientBoostingRegressor(random_state=0),
        "KGD-D (the paper), no tuning": make_pipeline(StandardScaler(), KernelDescentRegressor()),
    }


def splits() -> dict[str, list[Split]]:
    """Several splits of every data set."""
    hulls = [yacht.split_hulls(seed) for seed in YACHT_SEEDS]
    X, y = load_diabetes(return_X_y=True)
    return {
        YACHT: [Split(one.X, one.X_test, one.y, one.y_test, one.hulls) for one in hulls],
        SINE: [Split(*falling.sine(seed)) for seed in SINE_SEEDS],
        DIABETES: [Split(*train_test_split(X, y, random_state=seed)) for seed in DIABETES_SEEDS],
    }


def compare() -> tuple[list[Score], BandfallRegressor]:
    """Fit every model to every split; return scores, and our model of the first yacht split."""
    scores: list[Score] = []
    first: Estimator = None
    for data, parts in splits().items():
        for name in models():
            report(f"{data}: {name}")
            results = []
            for part in parts:
                model = models()[name]
                groups = {"groups": part.groups} if name == OURS else {}
                start = time.perf_counter()
                model.fit(part.X, part.y, **groups)
                seconds = time.perf_counter() - start
                error = model.predict(part.X_test) - part.y_test
                rmse = float(np.sqrt(np.mean(error**2)))
                results.append((1.0 - rmse**2 / np.var(part.y_test), rmse, seconds))
                first = model if first is None else first
            scores.append(Score(data, name, *np.mean(results, axis=0)))
    return scores, first


def table(scores: list[Score]) -> str:
    """The scores as text, one block per data set."""
    lines = [f"{'data':<24}{'model':<38}{'test R²':>8}{'seconds':>10}", "─" * 80]
    previous = None
    for score in scores:
        data = score.data if score.data != previous else ""
        lines.append(f"{data:<24}{score.model:<38}{score.r2:>8.3f}{score.seconds:>10.2f}")
        previous = score.data
    return "\n".join(lines)


def report(message: str) -> None:
    """Print progress on standard error."""
    print(f"  … {message}", file=sys.stderr, flush=True)


def main(argv: list[str] | None = None) -> int:
    """Print the table, write pictures and ``playground.html``, and print their paths."""
    parser = argparse.ArgumentParser(prog="python -m bandfall.demo", description=__doc__)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("out"), metavar="FOLDER")
    folder = parser.parse_args(argv).out
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        parser.error("the pictures need matplotlib: pip install matplotlib")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        parser.error(f"--out {folder}: {error.strerror}")
    # One core for each model, for a fair comparison of times.
    with threadpool_limits(limits=1):
        scores, model = compare()
        report("pictures")
        errors = {
            score.model.partition(",")[0].partition(" (")[0]: score.rmse
            for score in scores
            if score.data == YACHT
        }
        pictures = {"demo.png": yacht.draw(model, yacht.split_hulls(YACHT_SEEDS[0]), errors)}
        pictures["falling.png"] = falling.draw(falling.sine(), falling.fit_floors(falling.sine()))
    for name, figure in pictures.items():
        figure.savefig(folder / name)
    print(table(scores))
    print(EXPLANATION)
    print(yacht.CREDIT)
    playground = folder / "playground.html"
    playground.write_text(render_playground(), encoding="utf-8")
    print(f"\nPictures: {folder / 'demo.png'} (what you get), {folder / 'falling.png'} (why)")
    command = " (or type `bandfall explore`)" if find_spec("typer") else ""
    print(f"To watch it learn, open {playground} in a browser{command}.")
    return 0
