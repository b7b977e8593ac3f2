"""Training the path of a trial: its stop and its accuracy."""

from __future__ import annotations

import math

import numpy as np

from bandfall._models.member import Candidate
from bandfall._products import operator_over
from bandfall._search.candidates import Trial
from bandfall._search.rows import Rows
from bandfall._search.settings import Settings
from bandfall.descent import Flow, Path, Status, Stopping, fit_path
from bandfall.descent._front import Watcher
from bandfall.descent._schedules import Constant, MinimumSpeed


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
    """Train the path of a trial on rows X up to its stop."""
    if trial.candidate.width:
        return _one_stage(rows, train, X, trial.candidate)
    settings, max_r2 = rows.settings, stop_of(trial, rows.settings)
    error = settings.final_tolerance * _error(trial)
    tolerance = min(settings.tolerance, float(np.fmax(0.1 * math.sqrt(1.0 - max_r2), error)))
    return fit_path(
        X,
        rows.y[train].astype(X.dtype),
        trial.candidate.kernel,
        solver=Flow(tolerance, settings.max_dimension, max_iter=2000),
        schedule=MinimumSpeed(trial.candidate.min_speed, settings.shrink),
        stopping=Stopping(max_r2),
        weights=None if rows.weights is None else rows.weights[train].astype(X.dtype),
        backend=rows.backend,
        watcher=watcher,
    )


def _one_stage(rows: Rows, train: np.ndarray, X: np.ndarray, candidate: Candidate) -> Path:
    """A path of one stage, as the start of kernel logistic regression."""
    kernel, y, settings = candidate.kernel, rows.y[train].astype(X.dtype), rows.settings
    with operator_over(rows.backend, X, kernel, n_columns=y.shape[1]) as operator:
        return fit_path(
            X,
            y,
            kernel,
            solver=Flow(tolerance=settings.tolerance, max_dimension=settings.max_dimension),
            schedule=Constant(),
            stopping=Stopping(max_r2=2.0, max_time=1.0),
            bandwidth=candidate.width * operator.max_distance(),
            weights=None if rows.weights is None else rows.weights[train].astype(X.dtype),
            backend=rows.backend,
            operator=operator,
        )


def needs_digits(path: Path, trial: Trial, settings: Settings) -> bool:
    """Whether a path should be trained again in float64.

    Rounding has ended its training, or would add to its error. Logistic regression with a wide
    kernel and a small penalty has larger coefficients than its path, so it always is.
    """
    if path.X.dtype != np.float32:
        return False
    if trial.candidate.width > 0.0 or path.status is Status.ROUNDING:
        return True
    return _rounding(path) > settings.rounded * _error(trial)


def _rounding(path: Path) -> float:
    """Bound on the rounding error of predictions; slow paths have large coefficients."""
    product_error = 1e-6  # relative, of float32 products on any device
    return product_error * float(np.linalg.norm(path.coefficients.astype(np.float64)))


def _error(trial: Trial) -> float:
    """Root mean square error on held-out rows; NaN if there were none."""
    return math.nan if math.isnan(trial.score) else math.sqrt(max(1.0 - trial.score, 1e-12))
