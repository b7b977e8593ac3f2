"""Training a model on a table: load it, split rows, fit with a progress bar."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

import bandfall
from bandfall._cli.options import Choices
from bandfall._cli.rows import Dataset, load_table, only_numbers, split_table
from bandfall._cli.terminal import Bar, InputError, note
from bandfall._estimators import KernelDescentRegressor
from bandfall._estimators.view import last_step, last_step_prefix, story_of
from bandfall._products import check_device
from bandfall._progress import observed_by
from bandfall._typing import Estimator, JsonDict, Weights
from bandfall.tables._text import usual_style


@dataclass(frozen=True)
class Trained:
    """A fitted estimator, its rows and training time, and whether Ctrl-C ended it early."""

    estimator: Estimator
    rows: Dataset
    held_out: Dataset | None
    seconds: float
    interrupted: bool


def make_estimator(choices: Choices, *, classes: bool = False) -> Estimator:
    """The estimator for ``--model`` on its device, for numbers or classes."""
    model, seconds, device = choices.model, choices.max_seconds, choices.device
    if classes and model != "auto":
        raise InputError(f"--model {model} predicts numbers; classes need --model auto")
    if seconds is not None and model != "auto":
        raise InputError(f"--max-seconds works with --model auto only, not {model}")
    if seconds is not None and not seconds > 0:
        raise InputError(f"--max-seconds {seconds:g} must be above 0")
    try:
        check_device(None if device in ("auto", "cpu") else device)
    except (ValueError, ImportError) as error:
        raise InputError(f"--device {device}: {error}") from None
    if model == "kgdd":
        return make_pipeline(StandardScaler(), KernelDescentRegressor(device=device))
    flagship = bandfall.BandfallClassifier if classes else bandfall.BandfallRegressor
    return flagship(max_seconds=seconds, device=device, missing=choices.missing or None)


def train_on(source: str, choices: Choices) -> Trained:
    """Train a model on a table; some of its rows are held out."""
    make_estimator(choices)  # fails before the table is read
    table = load_table(source, choices)
    estimator = make_estimator(choices, classes=table.has_classes)
    if choices.model == "kgdd":
        table = only_numbers(table)
    rows, held_out = split_table(table)
    start = time.monotonic()
    interrupted = _train(estimator, rows)
    return Trained(estimator, rows, held_out, time.monotonic() - start, interrupted)


def _train(estimator: Estimator, table: Dataset) -> bool:
    """Fit with a progress bar; return whether Ctrl-C ended it."""
    interrupted = False
    with Bar("fit") as bar, observed_by(bar.follow), usual_style(table.style):
        try:
            extra = fit_arguments(estimator, table.weights, table.group, table.time)
            estimator.fit(table.X, table.y, **extra)
        except KeyboardInterrupt:
            try:
                check_is_fitted(last_step(estimator))
            except NotFittedError:
                raise KeyboardInterrupt from None
            interrupted = True
        except ValueError as error:  # names the column that is wrong
            raise InputError(f"{table.source}: {error}") from error
    encoders = story_of(estimator).encoders
    if encoders and not any(encoder.width for encoder in encoders.values()):
        raise InputError(f"{table.source}: no feature varies in the training rows")
    return interrupted


def fit_arguments(
    estimator: Estimator,
    weights: Weights,
    groups: np.ndarray | None,
    time: np.ndarray | None = None,
) -> JsonDict:
    """Additional arguments of `fit` that the model accepts."""
    model = last_step(estimator)
    if groups is not None and has_fit_parameter(model, "groups") and np.ptp(groups) == 0:
        note("all training rows belong to one group: the search holds out single rows")
        groups = None
    given = {"sample_weight": weights, "time": time, "groups": groups}
    return {
        last_step_prefix(estimator) + name: value
        for name, value in given.items()
        if value is not None and has_fit_parameter(model, name)
    }
