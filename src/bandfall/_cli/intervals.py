"""The columns that the options ``--interval`` and ``--novelty`` add."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd

from bandfall._cli.columns import Features
from bandfall._cli.outputs import PREDICTION
from bandfall._cli.terminal import InputError, note
from bandfall._estimators.view import last_step, story_of
from bandfall._typing import Estimator

MANY_NOVEL = 0.1  # share of rows above which a note is printed


def check_novelty(novelty: bool, estimator: Estimator) -> None:
    """Raise InputError if the model cannot measure novelty."""
    if novelty and story_of(estimator).average is None:
        name = type(last_step(estimator)).__name__
        raise InputError(f"--novelty: {name} cannot measure it; train with --model auto")


def novelty_column(estimator: Estimator, rows: Features, name: str) -> pd.DataFrame:
    """The column "novelty"; prints a note if many rows are far from the training rows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # noted with the predictions
        novelty = np.asarray(last_step(estimator).novelty(rows))
    share = float(np.mean(novelty > 1))
    if share > MANY_NOVEL:
        note(f"{share:.0%} of the rows in {name} are far from the training rows: see novelty")
    return pd.DataFrame({"novelty": novelty})


def check_interval(interval: float | None, estimator: Estimator) -> None:
    """Raise InputError if the share is invalid or the model has no intervals."""
    if interval is None:
        return
    if not 0 < interval < 1:
        raise InputError(f"--interval must be between 0 and 1; got {interval}")
    if story_of(estimator).target.classes:
        raise InputError(
            "--interval: this model predicts classes; the result has their probabilities instead"
        )
    if story_of(estimator).intervals is None:
        name = type(last_step(estimator)).__name__
        raise InputError(f"--interval: {name} has no intervals; train with --model auto")


def interval_columns(
    estimator: Estimator, rows: Features, interval: float, names: list[str]
) -> pd.DataFrame:
    """Columns "lower" and "upper" for every prediction, named after the predictions."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ends = np.asarray(last_step(estimator).predict_interval(rows, interval))
    if any("too few" in str(warning.message) for warning in caught):
        n_rows = last_step(estimator).interval_["n_rows"]
        note(
            f"{n_rows:,} held-out rows are too few for --interval {interval}: "
            "the intervals are infinite"
        )
    ends = ends.reshape(len(ends), -1, 2)
    columns = {}
    for j, name in enumerate(names):
        suffix = name.removeprefix(PREDICTION)
        columns[f"lower{suffix}"], columns[f"upper{suffix}"] = ends[:, j, 0], ends[:, j, 1]
    return pd.DataFrame(columns)
