"""From what a search has found to the models that are averaged."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from bandfall.descent import Flow, Path, Status, Stopping, fit_path
from bandfall.descent.recorder import Watcher
from bandfall.metric import scaled
from bandfall.schedules import MinimumSpeed
from bandfall.selection.candidates import MAX_R2, Candidate, PowerLoss, Trial
from bandfall.selection.deadline import PATH, Deadline
from bandfall.selection.logistic import log_loss_target, with_log_loss
from bandfall.selection.pace import PathSeconds
from bandfall.selection.parts import (
    MAX_DIMENSION,
    SHRINK,
    TOLERANCE,
    Part,
    Rows,
)
from bandfall.selection.trainers import HeldParts, Roots
from bandfall.selection.tuning import Tuned
from bandfall.selection.work import FINAL_FITS

_PRODUCT_ERROR = 1e-6  # relative, of float32 products on any device
_DIVIDED_ROWS = 20_000  # beyond, workers share products rather than members
_PROBED_ROWS = 9000  # more than a search trains on, and than any device keeps K for
_GRACE = 0.5  # seconds after its time in which a final fit may still get better
_QUICK_ROWS = 1000  # to measure with, where there is little time
_ROUNDED = 0.5  # of a trial's error: where rounding may add more, float64 is worth its price
# Shares of a trial's error: targets need not be met closer, nor the flow be followed closer.
_LEFT = 0.03
_TOLERATED = 0.01


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

    def __repr__(self) -> str:
        one = self.candidate
        loss = f", log-loss with penalty {one.penalty:g}" if one.penalty else ""
        return (
            f"<{self.weight:.2f} of {one.encoding} columns, {one.n_rounds} rounds of the metric, "
            f"{one.kernel}, speed {one.min_speed:g}, training R² {self.max_r2:.4f}{loss}>"
        )


def default_choice(n_rows: int) -> Tuned:
    """The paper's rule, for rows that are too few or too alike to choose by."""
    trial = Trial(Candidate(), np.nan, np.nan, np.nan, MAX_R2, n_rows)
    nothing = np.zeros(0, dtype=int)
    return Tuned([(trial, 1.0)], nothing, np.zeros((0, 1)), np.nan, [], {})


def fit_members(
    rows: Rows,
    tuned: Tuned,
    deadline: Deadline | None = None,
    interrupted: Callable[[], bool] = lambda: False,
) -> tuple[list[Member], Tuned]:
    """Fit what was chosen to all rows, and tell what was chosen in the end.

    Metrics are those of the search. Members that there is no time for, the lightest, are left out
    of the average; where the heaviest alone takes too long, it is fitted to fewer rows.
    `interrupted` is asked after every stage of a long fit. Once it says yes, the members that are
    there make the model, or, if there is none, the heaviest on as few rows as take seconds.
    """
    deadline = deadline or Deadline()
    if len(rows) > _PROBED_ROWS and interrupted():
        deadline.end()
    everything = Part(rows, _affordable_rows(rows, tuned, deadline), np.arange(0))
    everything.roots.update(tuned.roots)
    deadline.work.expect(FINAL_FITS, PATH * len(tuned.members) * len(everything) ** 2)
    fitted = _fitted_elsewhere(rows, everything, tuned, deadline)
    for trial, _ in tuned.members if not fitted else []:
        if fitted and deadline.estimate(len(everything), PATH) > deadline.left:
            break
        entries = PATH * len(everything) ** 2
        with deadline.timed(len(everything), PATH), deadline.work.task(FINAL_FITS, entries):
            root, path = _fit_member(rows, everything, trial, deadline, interrupted)
        if path.status is Status.INTERRUPTED and interrupted():
            deadline.end()
            if fitted:
                break
            return fit_members(rows, tuned, deadline)
        if path.status is Status.INTERRUPTED:
            goal = _stop(trial)
            deadline.give_up(f"a model was trained to R² {path.r2:.4f} in place of {goal:.4f}")
        fitted[trial] = root, path
    n_left = len(tuned.members) - len(fitted)
    if n_left and tuned.among is not None:
        deadline.give_up(f"{n_left} of {len(tuned.members)} models were left out of the average")
        tuned = tuned.among(list(fitted))
    members = [
        Member(trial.candidate, _stop(trial), *fitted[trial], weight)
        for trial, weight in tuned.members
    ]
    return members, tuned


def expected_seconds(rows: Rows, n_members: int) -> float:
    """About what it will take to fit so many members to all rows; 0 where that is not long."""
    if len(rows) <= _PROBED_ROWS:
        return 0.0
    growth = (len(rows) / _PROBED_ROWS) ** 2
    paths = [
        PathSeconds.measured(rows, Candidate(encoding), _PROBED_ROWS).of(len(rows))
        for encoding in rows.views
    ]
    return n_members * growth * float(np.mean(paths))


def _affordable_rows(rows: Rows, tuned: Tuned, deadline: Deadline) -> np.ndarray:
    """Numbers of the rows that the heaviest member is in time with."""
    n_rows = len(rows)
    if deadline.interrupted:  # final fits of so few rows take seconds
        n = min(len(rows), _PROBED_ROWS)
    else:
        if deadline.bounded:
            n_probed = min(len(rows), _QUICK_ROWS)
            path = PathSeconds.measured(rows, tuned.members[0][0].candidate, n_probed)
            deadline.measured(n_probed, PATH, path.anew)
            if deadline.affordable_rows(len(rows), PATH) <= path.most_kept:  # which are quicker
                deadline.measured(n_probed, PATH, path.kept)
                n_rows = min(len(rows), path.most_kept)
        n = deadline.affordable_rows(n_rows, PATH)
    if n == len(rows):
        return np.arange(n)
    deadline.give_up(f"trained on {n:,} of {len(rows):,} rows")
    return np.sort(np.random.RandomState(0).permutation(len(rows))[:n])


def _fitted_elsewhere(
    rows: Rows, part: Part, tuned: Tuned, deadline: Deadline
) -> dict[Trial, tuple[np.ndarray, Path]]:
    """All members that there is time for, side by side on workers, each on one of them.

    None where there are no workers, or so many rows that single products are worth dividing.
    """
    if len(part) > _DIVIDED_ROWS:
        return {}
    helpers = rows.backend.helpers(HeldMembers(rows, [part], PowerLoss(), rows.backend.budget))
    if helpers is None:
        return {}
    trials = [
        trial
        for place, (trial, _) in enumerate(tuned.members)
        if place == 0 or deadline.estimate(len(part), PATH) <= deadline.left
    ]
    try:
        calls = [("member", (trial, part.roots)) for trial in trials]
        return dict(zip(trials, helpers.call(calls), strict=True))
    finally:
        helpers.close()


class HeldMembers(HeldParts):
    """What a worker holds to fit members: one part, of all rows to train on."""

    def member(self, trial: Trial, roots: Roots, _: None) -> tuple[np.ndarray, Path]:
        """Metric and path of a member."""
        (part,) = self.parts([0], [roots])
        return _fit_member(part.rows, part, trial, Deadline(), lambda: False)


def _fit_member(
    rows: Rows,
    part: Part,
    trial: Trial,
    deadline: Deadline,
    interrupted: Callable[[], bool],
) -> tuple[np.ndarray, Path]:
    """Metric and path over the training rows of a part, for columns as the encoder gives them."""
    # Few rows are never long; a path that is cut off at once would be no model at all.
    timed = deadline.bounded and not deadline.interrupted
    watched = timed or len(part) > _PROBED_ROWS

    def fit(X: np.ndarray) -> Path:
        watcher = (lambda _: deadline.left <= -_GRACE or interrupted()) if watched else None
        return fit_member_path(rows, part.train, X, trial, watcher)

    candidate = trial.candidate
    root = part.root(candidate.metric)
    view = rows.views[candidate.encoding]
    Z, _ = view.columns(part.train, part.held_out)
    path = fit(scaled(Z, root))
    if path.X.dtype == np.float32 and _rounding(path) > _ROUNDED * _error(trial):
        path = fit(scaled(Z.astype(np.float64), root))
    if candidate.penalty > 0 and len(path):
        path = with_log_loss(path, log_loss_target(rows, part.train), candidate.penalty)
    return _as_encoded(root, path, Z, view.places)


def _as_encoded(
    root: np.ndarray, path: Path, Z: np.ndarray, places: np.ndarray
) -> tuple[np.ndarray, Path]:
    """Metric and path for columns that stand at `places` of Z.

    Rows are scaled anew: stages of bandwidth zero know them by the bits that `predict` finds.
    """
    root = root[places] if root.ndim == 1 else root[np.ix_(places, places)]
    X = scaled(np.take(Z, places, axis=1).astype(path.X.dtype, copy=False), root)
    return root, replace(path, model=replace(path.model, X=X))


def _stop(trial: Trial) -> float:
    """The training R² of the search's stop, or where little is left beside its held-out error.

    The last per mille of the targets takes a slow path half of its products and most of its
    bandwidths, which every later prediction pays for, and changes no prediction by a percent of
    its error.
    """
    r2 = trial.max_r2 if math.isnan(trial.train_r2) else trial.train_r2
    error = _error(trial)
    enough = MAX_R2 if math.isnan(error) else 1.0 - (_LEFT * error) ** 2
    return max(1e-3, min(r2, enough, MAX_R2))


def fit_member_path(
    rows: Rows, train: np.ndarray, X: np.ndarray, trial: Trial, watcher: Watcher | None = None
) -> Path:
    """The path of a trial over training rows X, stopped where its search said."""
    max_r2 = _stop(trial)
    tolerance = float(np.fmax(0.1 * math.sqrt(1.0 - max_r2), _TOLERATED * _error(trial)))
    return fit_path(
        X,
        rows.y[train].astype(X.dtype),
        trial.candidate.kernel,
        solver=Flow(tolerance=min(TOLERANCE, tolerance), max_dimension=MAX_DIMENSION),
        schedule=MinimumSpeed(trial.candidate.min_speed, SHRINK),
        stopping=Stopping(max_r2=max_r2, max_iter=2000),
        weights=None if rows.weights is None else rows.weights[train].astype(X.dtype),
        backend=rows.backend,
        watcher=watcher,
    )


def _rounding(path: Path) -> float:
    """What rounding may do to predictions: slow paths add and subtract large numbers."""
    return _PRODUCT_ERROR * float(np.linalg.norm(path.coefficients.astype(np.float64)))


def _error(trial: Trial) -> float:
    """Root mean square of the errors on held-out rows; NaN where there were none to tell."""
    return math.nan if math.isnan(trial.score) else math.sqrt(max(1.0 - trial.score, 1e-12))
