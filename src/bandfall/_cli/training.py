"""Training a model on a table: load it, split rows, fit with a progress bar."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

import bandfall
from bandfall._cli.classes import Task
from bandfall._cli.read_table import Style
from bandfall._cli.rows import Dataset, Roles, load_table, only_numbers, split_table
from bandfall._cli.terminal import Bar, InputError, Watchdog, note
from bandfall._estimators import (
    BandfallClassifier,
    BandfallRegressor,
    KernelDescentRegressor,
    KernelRidgeCV,
)
from bandfall._estimators.view import Story, last_step, last_step_prefix, story_of
from bandfall._products import check_device
from bandfall._search.clock import observed_by
from bandfall._typing import Estimator, JsonDict, Weights
from bandfall.descent import Status

# Default of --max-rows for quick looks at a table; larger tables are sampled at random. `fit` takes
# all rows, except for models that need n³ operations.
MAX_ROWS = {"auto": 10_000, "kgdd": 10_000, "krr-cv": 2_000}
FEW_ROWS = 10  # a score on fewer rows is little more than chance


class ModelChoice(StrEnum):
    """Values of ``--model``."""

    AUTO = "auto"
    KGDD = "kgdd"
    KRR_CV = "krr-cv"


class Device(StrEnum):
    """Values of ``--device``, which also takes addresses of Dask schedulers."""

    AUTO = "auto"
    CPU = "cpu"
    CUDA = "cuda"


def make_estimator(
    choice: ModelChoice,
    device: str = Device.AUTO,
    max_seconds: float | None = None,
    *,
    classes: bool = False,
) -> Estimator:
    """The estimator for ``--model``, for numbers or classes."""
    if max_seconds is not None and choice is not ModelChoice.AUTO:
        raise InputError(f"--max-seconds works with --model auto only, not {choice}")
    if max_seconds is not None and not max_seconds > 0:
        raise InputError(f"--max-seconds {max_seconds:g} must be above 0")
    if classes and choice is not ModelChoice.AUTO:
        raise InputError(f"--model {choice} predicts numbers; classes need --model auto")
    if classes:
        estimator: Estimator = bandfall.BandfallClassifier(max_seconds=max_seconds)
    elif choice is ModelChoice.AUTO:
        estimator = bandfall.BandfallRegressor(max_seconds=max_seconds)
    elif choice is ModelChoice.KRR_CV:
        estimator = make_pipeline(StandardScaler(), KernelRidgeCV(n_jobs=-1))
    else:
        estimator = make_pipeline(StandardScaler(), KernelDescentRegressor())
    return _on_device(estimator, device)


def _on_device(estimator: Estimator, device: str) -> Estimator:
    last = last_step(estimator)
    if "://" not in device and device not in list(Device):
        raise InputError(
            f"--device {device} must be auto, cpu, cuda, or the address of a Dask scheduler such "
            "as tcp://host:8786"
        )
    elsewhere = device not in (Device.AUTO, Device.CPU)
    if "device" in last.get_params():
        try:
            last.set_params(device=str(device))
            check_device(str(device) if elsewhere else None)
        except (ValueError, ImportError) as error:
            raise InputError(f"--device {device}: {error}") from None
    elif elsewhere:
        raise InputError(f"--device {device}: {type(last).__name__} computes on the CPU only")
    return estimator


@dataclass(frozen=True)
class Choices:
    """Which model to train, for which task, on which device and rows."""

    model: ModelChoice
    device: str
    test_fraction: float
    max_rows: int | None
    seed: int
    task: Task
    max_seconds: float | None = None
    checkpoint: Path | None = None


@dataclass(frozen=True)
class Trained:
    """A fitted estimator, its rows and training time, and whether Ctrl-C ended it early."""

    estimator: Estimator
    rows: Dataset
    held_out: Dataset | None
    seconds: float
    interrupted: bool


def train_on(
    source: str,
    roles: Roles,
    style: Style,
    choices: Choices,
    progress: Callable[[float], None] | None = None,
) -> Trained:
    """Train a model on a table; some of its rows are held out.

    `progress` is called with the share of work done, 0 to 1, a few times a second.
    """
    settings = (choices.model, choices.device, choices.max_seconds)
    estimator = make_estimator(*settings)
    table = load_table(source, roles, style, choices.task)
    if table.has_classes:
        estimator = make_estimator(*settings, classes=True)
    elif choices.model is not ModelChoice.AUTO:
        table = only_numbers(table, choices.model)
    rows, held_out = split_table(table, choices.test_fraction, choices.seed, choices.max_rows)
    seconds, interrupted = _train(estimator, rows, progress, choices.checkpoint)
    return Trained(estimator, rows, held_out, seconds, interrupted)


def _train(
    estimator: Estimator,
    table: Dataset,
    progress: Callable[[float], None] | None,
    checkpoint: Path | None,
) -> tuple[float, bool]:
    """Fit with a progress bar; return the seconds, and whether Ctrl-C ended it."""
    start, interrupted = time.monotonic(), False
    model = last_step(estimator)
    # Callbacks need scikit-learn 1.9.
    watched = isinstance(model, KernelDescentRegressor) and hasattr(model, "set_callbacks")
    if table.roles.missing and "missing" in model.get_params():
        model.set_params(missing=table.roles.missing)
    with Bar("fit", progress) as bar, observed_by(bar.follow), table.style.as_usual():
        if watched:
            model.set_callbacks(_PathWatch(bar))
        try:
            roles = (table.weights, table.group, table.time)
            extra = fit_arguments(estimator, *roles, checkpoint=checkpoint)
            Watchdog.spares_next = True
            estimator.fit(table.X, table.y, **extra)
        except KeyboardInterrupt:
            if not _is_fitted(model):
                raise
            interrupted = True
        except ValueError as error:  # names the column that is wrong
            raise InputError(f"{table.source}: {error}") from error
        finally:
            Watchdog.spares_next = False
            if watched:
                model.set_callbacks()
    encoders = story_of(model).encoders
    if encoders and not any(encoder.width for encoder in encoders.values()):
        raise InputError(
            f"{table.source}: no feature varies in the training rows, so there is nothing to learn "
            "from"
        )
    return time.monotonic() - start, interrupted


def _is_fitted(model: Estimator) -> bool:
    try:
        check_is_fitted(model)
    except NotFittedError:
        return False
    return True


def fit_arguments(
    estimator: Estimator,
    weights: Weights,
    groups: np.ndarray | None,
    time: np.ndarray | None = None,
    *,
    checkpoint: Path | None = None,
) -> JsonDict:
    """Additional arguments of `fit` that the model accepts."""
    model = last_step(estimator)
    given = {"checkpoint": checkpoint, "sample_weight": weights, "time": time}
    arguments: JsonDict = {
        name: value
        for name, value in given.items()
        if value is not None and has_fit_parameter(model, name)
    }
    if groups is not None and isinstance(model, BandfallRegressor | BandfallClassifier):
        if np.ptp(groups) > 0:
            arguments["groups"] = groups
        else:
            note("all training rows belong to one group: the search holds out single rows")
    prefix = last_step_prefix(estimator)
    return {prefix + name: value for name, value in arguments.items()}


class _PathWatch:
    """A scikit-learn callback that moves the bar by the R² of a path."""

    def __init__(self, bar: Bar):
        self._bar = bar

    def setup(self, estimator: Estimator, context: object) -> None: ...

    def teardown(self, estimator: Estimator, context: object) -> None: ...

    def on_fit_task_begin(self, estimator: Estimator, context: object) -> None: ...

    def on_fit_task_end(
        self, estimator: Estimator, context: object, *, fitted_estimator: object = None
    ) -> bool:
        if isinstance(fitted_estimator, KernelDescentRegressor):
            self._bar.update(path_progress(fitted_estimator.path_.r2, fitted_estimator.max_r2))
        return False


def path_progress(r2: float, max_r2: float) -> float:
    """Share of a training up to `max_r2` that is done; the residual falls about exponentially.

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
    """R² on `n_rows` rows, with a remark if it is not reliable.

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


def why_ended(story: Story, status: Status) -> str:
    """Why training ended, in words; self-tuning models chose their stop by held-out rows."""
    tuned = {
        Status.R2_REACHED: "where held-out rows were predicted best",
        Status.TIME_REACHED: "held-out rows chose its penalty",
        Status.INTERRUPTED: "cut short",
    }
    return tuned.get(status, status.explanation) if story.members else status.explanation
