"""From what a search has found to the models that are averaged."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bandfall.descent import Flow, Path, Stopping, fit_path
from bandfall.kernels import get_kernel
from bandfall.metric import scaled
from bandfall.schedules import MinimumSpeed
from bandfall.selection.candidates import MAX_R2, Candidate, Trial
from bandfall.selection.parts import (
    MAX_DIMENSION,
    SHRINK,
    TOLERANCE,
    Part,
    Rows,
    learn_metrics,
)
from bandfall.selection.tuning import Tuned

_PRODUCT_ERROR = 1e-6  # relative, of float32 products on any device
_ROUNDED = 0.5  # of a trial's error: where rounding may add more, float64 is worth its price


@dataclass(frozen=True)
class Member:
    """One of the models that are averaged.

    Attributes
    ----------
    candidate : Candidate
    max_r2 : float
        Training R² at which it was stopped.
    root : ndarray of shape (d, d) or (d,)
        What encoded columns are multiplied with before distances are taken.
    path : Path
        Over the scaled columns.
    weight : float
    """

    candidate: Candidate
    max_r2: float
    root: np.ndarray
    path: Path
    weight: float


def default_choice(n_rows: int) -> Tuned:
    """The paper's rule, for rows that are too few or too alike to choose by."""
    trial = Trial(Candidate(), np.nan, np.nan, np.nan, MAX_R2, n_rows)
    nothing = np.zeros(0, dtype=int)
    return Tuned([(trial, 1.0)], {}, nothing, np.zeros((0, 1)), np.nan, [], {})


def fit_members(
    rows: Rows, tuned: Tuned, progress: Callable[[], object] = lambda: None
) -> list[Member]:
    """Fit what was chosen to all rows; metrics are learned on all of them, or taken over."""
    everything = Part(rows, np.arange(len(rows)), np.arange(0))
    everything.roots.update(tuned.roots)
    members = []
    for trial, weight in tuned.members:
        candidate = trial.candidate
        learn_metrics([everything], candidate.encoding, candidate.n_rounds, tuned.scouts)
        root = everything.root(candidate.encoding, candidate.n_rounds)
        Z, _ = rows.views[candidate.encoding].columns(everything.train, everything.held_out)
        max_r2 = min(max(trial.max_r2, 1e-3), MAX_R2)
        path = _fit(rows, scaled(Z, root), candidate, max_r2)
        if path.X.dtype == np.float32 and _rounding(path) > _ROUNDED * _error(trial):
            path = _fit(rows, scaled(Z.astype(np.float64), root), candidate, max_r2)
        members.append(Member(candidate, max_r2, root, path, weight))
        progress()
    return members


def _fit(rows: Rows, X: np.ndarray, candidate: Candidate, max_r2: float) -> Path:
    """The candidate's path, stopped where its search said."""
    tolerance = min(TOLERANCE, 0.1 * math.sqrt(1.0 - max_r2))
    return fit_path(
        X,
        rows.y.astype(X.dtype),
        get_kernel(candidate.kernel),
        solver=Flow(tolerance=tolerance, max_dimension=MAX_DIMENSION),
        schedule=MinimumSpeed(candidate.min_speed, SHRINK),
        stopping=Stopping(max_r2=max_r2, max_iter=2000),
        weights=None if rows.weights is None else rows.weights.astype(X.dtype),
        backend=rows.backend,
    )


def _rounding(path: Path) -> float:
    """What rounding may do to predictions: slow paths add and subtract large numbers."""
    return _PRODUCT_ERROR * float(np.linalg.norm(path.coefficients.astype(np.float64)))


def _error(trial: Trial) -> float:
    """Root mean square of the errors on held-out rows."""
    return math.sqrt(max(1.0 - trial.score, 1e-12))
