"""From a table to a trained model: choose columns, split rows, fit with a bar, score."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import has_fit_parameter

import bandfall
from bandfall.backends import check_device
from bandfall.commands.kept_rows import pack_rows
from bandfall.commands.rows import Dataset, Roles
from bandfall.commands.tables import kind_of
from bandfall.commands.terminal import Bar, InputError, note
from bandfall.estimators import (
    BandfallClassifier,
    BandfallRegressor,
    KernelDescentRegressor,
    KernelRidgeCV,
)
from bandfall.estimators.reading import last_step, last_step_prefix
from bandfall.interrupts import Interrupt
from bandfall.selection.work import observed_by

# More rows than these are sampled at random unless --max-rows is given, so that a first look is
# quick. `fit` takes all rows, except for models that need n³ operations.
MAX_ROWS = {"auto": 10_000, "kgdd": 10_000, "krr-cv": 2_000}
FEW_ROWS = 10  # below, a score is little more than a coin toss


class ModelChoice(StrEnum):
    """What ``--model`` takes."""

    AUTO = "auto"
    KGDD = "kgdd"
    KRR_CV = "krr-cv"


class Device(StrEnum):
    """What ``--device`` takes, beside the addresses of Dask schedulers."""

    AUTO = "auto"
    CPU = "cpu"
    CUDA = "cuda"


def make_estimator(
    choice: ModelChoice, device: str = Device.AUTO, max_seconds: float | None = None
) -> BaseEstimator:
    """The estimator that ``--model`` stands for."""
    if max_seconds is not None and choice is not ModelChoice.AUTO:
        raise InputError(f"--max-seconds works with --model auto only, not {choice}")
    if max_seconds is not None and not max_seconds > 0:
        raise InputError(f"--max-seconds {max_seconds:g} must be above 0")
    if choice is ModelChoice.AUTO:
        estimator: Any = bandfall.BandfallRegressor(max_seconds=max_seconds)
    elif choice is ModelChoice.KRR_CV:
        estimator = make_pipeline(StandardScaler(), KernelRidgeCV(n_jobs=-1))
    else:
        estimator = make_pipeline(StandardScaler(), KernelDescentRegressor())
    return _on_device(estimator, device)


def make_classifier(
    choice: ModelChoice, device: str = Device.AUTO, max_seconds: float | None = None
) -> BaseEstimator:
    """The classifier that ``--model`` stands for."""
    if choice is not ModelChoice.AUTO:
        raise InputError(f"--model {choice} predicts numbers; classes need --model auto")
    return _on_device(bandfall.BandfallClassifier(max_seconds=max_seconds), device)


def _on_device(estimator: Any, device: str) -> Any:
    last, here = last_step(estimator), device in (Device.AUTO, Device.CPU)
    if "://" not in device and device not in list(Device):
        raise InputError(
            f"--device {device} must be auto, cpu, cuda, or the address of a Dask scheduler such "
            "as tcp://host:8786"
        )
    if "device" not in last.get_params():
        if not here:
            raise InputError(f"--device {device}: {type(last).__name__} computes on the CPU only")
        return estimator
    if not here:
        try:
            check_device(str(device))
        except (ValueError, ImportError) as error:
            raise InputError(f"--device {device}: {error}") from None
    # Without a GPU, NumPy is meant: torch on the CPU is not needed.
    last.set_params(device=None if device == Device.CPU else str(device))
    return estimator


@dataclass(frozen=True)
class Trained:
    """A fitted estimator, how long it took, and whether it was stopped early by Ctrl-C."""

    estimator: Any
    seconds: float
    interrupted: bool


def train(
    estimator: Any,
    table: Dataset,
    progress: Callable[[float], None] | None = None,
    checkpoint: Path | None = None,
) -> Trained:
    """Fit with a bar.

    `progress` is called with the share that is done. `checkpoint` is for models that take one.
    """
    start, n_taken = time.monotonic(), Interrupt.n_taken
    model = last_step(estimator)
    single_path = isinstance(model, KernelDescentRegressor)
    if table.roles.missing and "missing" in model.get_params():
        model.set_params(missing=table.roles.missing)
    with Bar("fit", progress) as bar, observed_by(bar.follow):
        if single_path:
            model.set_callbacks(_PathWatch(bar))
        try:
            told = fit_arguments(estimator, table.weights, table.group, checkpoint=checkpoint)
            estimator.fit(table.X, table.y, **told)
        except ValueError as error:  # what is wrong with a table, by column
            raise InputError(f"{table.source}: {error}") from error
        finally:
            if single_path:
                model.set_callbacks()
    encoders = getattr(model, "encoders_", {}).values()
    if encoders and not any(encoder.width for encoder in encoders):
        raise InputError(
            f"{table.source}: every feature is constant in the training rows; there is nothing to "
            "learn from"
        )
    return Trained(estimator, time.monotonic() - start, Interrupt.n_taken > n_taken)


def fit_arguments(
    estimator: Any,
    weights: np.ndarray | None,
    groups: np.ndarray | None,
    *,
    checkpoint: Path | None = None,
) -> dict[str, Any]:
    """Further arguments of `fit`, as far as the model takes them."""
    model = last_step(estimator)
    told: dict[str, Any] = {}
    if checkpoint is not None:
        told["checkpoint"] = checkpoint
    if weights is not None and has_fit_parameter(model, "sample_weight"):
        told["sample_weight"] = weights
    if groups is not None and isinstance(model, BandfallRegressor | BandfallClassifier):
        if np.ptp(groups) > 0:
            told["groups"] = groups
        else:
            note("all training rows belong to one group: the search holds out single rows")
    prefix = last_step_prefix(estimator)
    return {prefix + name: value for name, value in told.items()}


class _PathWatch:
    """A scikit-learn callback that moves the bar by the R² of a path."""

    def __init__(self, bar: Bar):
        self._bar = bar

    def setup(self, estimator: Any, context: Any) -> None: ...

    def teardown(self, estimator: Any, context: Any) -> None: ...

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None: ...

    def on_fit_task_end(
        self, estimator: Any, context: Any, *, fitted_estimator: Any = None
    ) -> bool:
        path = getattr(fitted_estimator, "path_", None)
        if path is not None:
            self._bar.update(path_progress(path.r2, estimator.max_r2))
        return False


def path_progress(r2: float, max_r2: float) -> float:
    """How much of a training up to `max_r2` is done: what is left falls about exponentially.

    Examples
    --------
    >>> round(path_progress(0.9, 0.999), 3), path_progress(-0.1, 0.999), path_progress(1.0, 1.0)
    (0.333, 0.0, 1.0)
    """
    if r2 >= max_r2:
        return 1.0
    left = max(1.0 - max_r2, 1e-4)
    return float(np.clip(np.log1p(-min(r2, 1.0 - left)) / np.log(left), 0.0, 1.0))


def score_words(r2: float, n_rows: int) -> str:
    """R² on `n_rows` rows, with a remark if it means little.

    Examples
    --------
    >>> score_words(0.91234, 1200), score_words(0.9, 2)
    ('0.9123 on 1,200 rows', '0.9000 on 2 rows, too few to be sure')
    >>> score_words(float("nan"), 50)
    'not defined on 50 rows: their targets are all equal'
    """
    if np.isnan(r2):
        return f"not defined on {n_rows:,} rows: their targets are all equal"
    few = ", too few to be sure" if n_rows < FEW_ROWS else ""
    return f"{r2:.4f} on {n_rows:,} rows{few}"


def model_notes(train_table: Dataset, test_table: Dataset | None, seconds: float) -> dict[str, Any]:
    """What a model file keeps for `predict`, `inspect` and `report` beside the model."""
    roles = train_table.roles
    notes: dict[str, Any] = {
        "target": train_table.target,
        "targets": list(roles.targets),
        "source": Path(train_table.source).name,
        "keep": list(roles.keep),
        "missing": list(roles.missing),
        "kinds": {name: kind_of(train_table.X[name]) for name in train_table.X.columns},
        "n_dropped": train_table.n_dropped,
        "n_without_target": train_table.n_without_target,
        "split": split_words(roles),
        "seconds": seconds,
    }
    notes["train"] = pack_rows(train_table.X, train_table.y)
    if test_table is not None:
        notes["test"] = pack_rows(test_table.X, test_table.y)
    return notes


def split_words(roles: Roles) -> str:
    """How rows were held out, for people."""
    if roles.time is not None:
        return f"the last by {roles.time}"
    return "at random" if roles.group is None else f"whole groups of {roles.group}"
