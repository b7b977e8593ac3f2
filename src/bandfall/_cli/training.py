"""Training a model on a table: load it, split rows, fit with a progress bar."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

import bandfall
from bandfall._cli.options import Choices, Roles, Style
from bandfall._cli.rows import Dataset, load_table, only_numbers, split_table
from bandfall._cli.terminal import Bar, InputError, Watchdog, note
from bandfall._estimators import KernelDescentRegressor, KernelRidgeCV
from bandfall._estimators.view import Story, last_step, last_step_prefix, story_of
from bandfall._products import check_device
from bandfall._search.clock import observed_by
from bandfall._targets.scores import Scores
from bandfall._typing import Estimator, JsonDict, Weights
from bandfall.descent import Path, Status

FEW_ROWS = 10  # a score on fewer rows is little more than chance


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
    model, seconds = choices.model, choices.max_seconds
    if seconds is not None and model != "auto":
        raise InputError(f"--max-seconds works with --model auto only, not {model}")
    if seconds is not None and not seconds > 0:
        raise InputError(f"--max-seconds {seconds:g} must be above 0")
    if classes and model != "auto":
        raise InputError(f"--model {model} predicts numbers; classes need --model auto")
    if model == "auto":
        flagship = bandfall.BandfallClassifier if classes else bandfall.BandfallRegressor
        return _on_device(flagship(max_seconds=seconds), choices.device)
    last = KernelRidgeCV(n_jobs=-1) if model == "krr-cv" else KernelDescentRegressor()
    return make_pipeline(StandardScaler(), _on_device(last, choices.device))


def _on_device(estimator: Estimator, device: str) -> Estimator:
    if "://" not in device and device not in ("auto", "cpu", "cuda"):
        raise InputError(
            f"--device {device} must be auto, cpu, cuda, or the address of a Dask scheduler such "
            "as tcp://host:8786"
        )
    elsewhere = device not in ("auto", "cpu")
    if "device" in estimator.get_params():
        try:
            estimator.set_params(device=device)
            check_device(device if elsewhere else None)
        except (ValueError, ImportError) as error:
            raise InputError(f"--device {device}: {error}") from None
    elif elsewhere:
        raise InputError(f"--device {device}: {type(estimator).__name__} computes on the CPU only")
    return estimator


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
    estimator = make_estimator(choices)
    table = load_table(source, roles, style, choices.task)
    if table.has_classes:
        estimator = make_estimator(choices, classes=True)
    elif choices.model != "auto":
        table = only_numbers(table, choices.model)
    rows, held_out = split_table(table, choices)
    start = time.monotonic()
    interrupted = _train(estimator, rows, progress)
    return Trained(estimator, rows, held_out, time.monotonic() - start, interrupted)


def _train(estimator: Estimator, table: Dataset, progress: Callable[[float], None] | None) -> bool:
    """Fit with a progress bar; return whether Ctrl-C ended it."""
    model, interrupted = last_step(estimator), False
    if table.style.missing and "missing" in model.get_params():
        model.set_params(missing=list(table.style.missing))
    with Bar("fit", progress) as bar, observed_by(bar.follow), table.style.as_usual():
        try:
            roles = (table.weights, table.group, table.time)
            extra = fit_arguments(estimator, *roles)
            Watchdog.spares_next = True
            estimator.fit(table.X, table.y, **extra)
        except KeyboardInterrupt:
            try:
                check_is_fitted(model)
            except NotFittedError:
                raise KeyboardInterrupt from None
            interrupted = True
        except ValueError as error:  # names the column that is wrong
            raise InputError(f"{table.source}: {error}") from error
        finally:
            Watchdog.spares_next = False
    encoders = story_of(model).encoders
    if encoders and not any(encoder.width for encoder in encoders.values()):
        raise InputError(
            f"{table.source}: no feature varies in the training rows, so there is nothing to learn "
            "from"
        )
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


def score_words(scores: Scores, n_rows: int) -> str:
    """R², or the accuracy of a classifier, on `n_rows` rows, with what limits its meaning.

    Examples
    --------
    >>> score_words({"r2": 0.91234}, 1200), score_words({"r2": 0.9}, 2)
    ('0.9123 on 1,200 rows', '0.9000 on 2 rows, too few to be sure')
    >>> scores = {"accuracy": 0.9, "log_loss": 0.25, "auc": float("nan"), "calibration_error": 0.1}
    >>> score_words({**scores, "n_unseen": 0}, 1200)
    '90.0% on 1,200 rows (log-loss 0.2500, calibration error 0.1000)'
    """
    if "r2" in scores:
        few = ", too few to be sure" if n_rows < FEW_ROWS else ""
        if np.isnan(scores["r2"]):
            return f"not defined on {n_rows:,} rows: their targets are all equal"
        return f"{scores['r2']:.4f} on {n_rows:,} rows{few}"
    names = {"log_loss": "log-loss", "auc": "AUC", "calibration_error": "calibration error"}
    known = [
        f"{name} {scores[key]:.4f}" for key, name in names.items() if scores[key] == scores[key]
    ]
    rest = f" ({', '.join(known)})" if known else ""
    n_unseen = int(scores["n_unseen"])
    strange = f", {n_unseen:,} of them in classes without training rows" if n_unseen else ""
    return f"{scores['accuracy']:.1%} on {n_rows:,} rows{strange}{rest}"


def why_ended(story: Story, path: Path) -> str:
    """Why training ended, in words; self-tuning models chose their stop by held-out rows."""
    tuned = {
        Status.R2_REACHED: "where held-out rows were predicted best",
        Status.TIME_REACHED: "held-out rows chose its penalty",
        Status.INTERRUPTED: "cut short",
    }
    known = path.status.explanation
    return tuned.get(path.status, known) if story.members else known


def training_pairs(story: Story) -> Iterator[tuple[str, str]]:
    """How training went, as names and values."""
    path = story.path
    if path is not None and path.status is Status.CONSTANT_TARGET:
        yield "training", "the target is constant: every prediction is its value"
    elif path is not None:
        if not story.target.classes:
            yield "training R²", f"{path.r2:.4f}"
        if not (story.members and story.members[0].candidate.width):
            yield "training ended", why_ended(story, path)
    yield from (("skipped", what) for what in story.skipped)
