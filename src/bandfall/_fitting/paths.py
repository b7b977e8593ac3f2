"""Training the path of a trial on all rows: its stop, its accuracy and its loss."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from bandfall._models.logistic import ClassTarget, with_log_loss
from bandfall._models.metric import scaled
from bandfall._products import operator_over
from bandfall._search.parts import Rows
from bandfall._search.settings import Settings
from bandfall._search.trials import Trial
from bandfall._targets.links import LogLoss, class_shares
from bandfall.descent import Flow, Path, Status, Stopping, fit_path
from bandfall.descent._front import Watcher
from bandfall.descent._schedules import Constant, MinimumSpeed, Schedule


class Fitted(NamedTuple):
    """Metric and path of a member, and predictions (n, k) of its leaves for held-out rows."""

    root: np.ndarray
    path: Path
    held_out: np.ndarray | None = None


def train_path(
    rows: Rows,
    train: np.ndarray,
    Z: np.ndarray,
    root: np.ndarray,
    trial: Trial,
    classes: ClassTarget | None,
    watcher: Watcher | None,
) -> Path:
    """The path of a trial over encoded rows Z in a metric, in float64 if needed, in its loss."""
    path = fit_member_path(rows, train, scaled(Z, root), trial, watcher)
    if needs_digits(path, trial, rows.settings):
        path = fit_member_path(rows, train, scaled(Z.astype(np.float64), root), trial, watcher)
    return in_its_loss(path, trial, classes)


def stop_of(trial: Trial, settings: Settings) -> float:
    """The training R² at which the final path stops.

    This is the stop of the search, or an earlier one at which the training error is small compared
    with the held-out error.
    """
    r2 = trial.max_r2 if math.isnan(trial.train_r2) else trial.train_r2
    error = _error(trial)
    enough = math.inf if math.isnan(error) else 1.0 - (settings.left * error) ** 2
    return max(1e-3, min(r2, enough, settings.max_r2))


def fit_member_path(
    rows: Rows, train: np.ndarray, X: np.ndarray, trial: Trial, watcher: Watcher | None = None
) -> Path:
    """Train the path of a trial on rows X up to its stop.

    With a width it has one stage; with the log-loss, that is the start of logistic regression.
    """
    settings, candidate, y = rows.settings, trial.candidate, rows.y[train].astype(X.dtype)
    falling = MinimumSpeed(candidate.min_speed, settings.shrink)
    schedule: Schedule = Constant() if candidate.width else falling
    tolerance, stopping = settings.tolerance, Stopping(max_r2=2.0, max_time=1.0)
    if not (candidate.width and trial.log_odds):
        max_r2, error = stop_of(trial, settings), settings.final_tolerance * _error(trial)
        tolerance = min(tolerance, float(np.fmax(0.1 * math.sqrt(1.0 - max_r2), error)))
        stopping = Stopping(max_r2)
    with operator_over(rows.backend, X, candidate.kernel, n_columns=y.shape[1]) as operator:
        return fit_path(
            X,
            y,
            candidate.kernel,
            solver=Flow(tolerance, settings.max_dimension, max_iter=2000),
            schedule=schedule,
            stopping=stopping,
            bandwidth=candidate.width * operator.max_distance() if candidate.width else None,
            weights=None if rows.weights is None else rows.weights[train].astype(X.dtype),
            backend=rows.backend,
            operator=operator,
            watcher=watcher,
        )


def log_loss_target(rows: Rows, train: np.ndarray) -> ClassTarget:
    """Classes of some rows, with the prior of all."""
    labels = rows.strata
    assert labels is not None
    prior = class_shares(labels, rows.weights, max(2, rows.y.shape[1]))
    return ClassTarget(labels[train], prior, None if rows.weights is None else rows.weights[train])


def in_its_loss(path: Path, trial: Trial, target: ClassTarget | None) -> Path:
    """The path, with outputs converted to log-odds if those of the trial are."""
    if not trial.log_odds:
        return path
    if trial.temperature:
        share = 1.0 / trial.temperature
        coefficients, offset = share * path.coefficients, share * path.offset
        return path.replace(coefficients=coefficients, offset=offset, solver=None)
    assert target is not None
    if not len(path):
        return path.replace(offset=target.log_odds, solver=None)
    dtype = np.float64 if len(path.X) <= Settings.exact_rows else np.float32
    return with_log_loss(path, target, trial.candidate.penalty, dtype)


def as_codes(outputs: np.ndarray, trial: Trial, target: ClassTarget | None) -> np.ndarray:
    """Outputs of a trial as codes of classes, (m, k)."""
    if trial.temperature:
        return outputs * trial.temperature
    return LogLoss(target.prior).codes(outputs) if target and trial.log_odds else outputs


def needs_digits(path: Path, trial: Trial, settings: Settings) -> bool:
    """Whether a path should be trained again in float64.

    Rounding has ended its training, or would add to its error: slow paths have large coefficients.
    Logistic regression with a wide kernel and a small penalty has larger ones than its path.
    """
    if path.X.dtype != np.float32:
        return False
    if trial.candidate.width > 0.0 or path.status is Status.ROUNDING:
        return True
    return rounding_shows(path.coefficients, trial, settings)


def rounding_shows(coefficients: np.ndarray, trial: Trial, settings: Settings) -> bool:
    """Whether float32 products of these coefficients may add to the error of a trial."""
    product_error = 1e-6  # relative, on any device
    rounding = product_error * float(np.linalg.norm(coefficients.astype(np.float64)))
    return rounding > settings.rounded * _error(trial)


def _error(trial: Trial) -> float:
    """Root mean square error on held-out rows; NaN if there were none."""
    return math.nan if math.isnan(trial.score) else math.sqrt(max(1.0 - trial.score, 1e-12))
