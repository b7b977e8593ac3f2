"""From what a search has found to the models that are averaged."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from bandfall.descent import Flow, Path, Status, Stopping, fit_path
from bandfall.descent.recorder import Watcher
from bandfall.metric import scaled
from bandfall.schedules import MinimumSpeed
from bandfall.selection.candidates import MAX_R2, Candidate, PowerLoss, Trial
from bandfall.selection.deadline import PATH, Deadline
from bandfall.selection.jobs import parallel_map
from bandfall.selection.leaves import (
    Divided,
    FittedLeaf,
    fit_leaf,
    held_out_predictions,
    path_of_leaves,
    with_evidence,
)
from bandfall.selection.logistic import in_its_loss
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
_SMALLEST_LEAF = 2000  # rows: smaller leaves save little time
_HARDLY_ANY = 200  # rows of a leaf after an interrupt: its model is thrown away
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
    rows = _affordable_leaves(rows, tuned, deadline)
    everything = Part(rows, _affordable_rows(rows, tuned, deadline), np.arange(0))
    everything.roots.update(tuned.roots)
    n_ladders = PATH * rows.final_share(len(everything))
    deadline.work.expect(FINAL_FITS, n_ladders * len(tuned.members) * len(everything) ** 2)
    fitted = _fitted_elsewhere(rows, everything, tuned, deadline)
    for trial, _ in tuned.members if not fitted else []:
        if fitted and deadline.estimate(len(everything), n_ladders) > deadline.left:
            break
        with deadline.timed(len(everything), n_ladders):
            one = _fit_member(rows, everything, trial, deadline, interrupted)
        if one.path.status is Status.INTERRUPTED and interrupted():
            deadline.end()
            if fitted:
                break
            return fit_members(rows, tuned, deadline)
        if one.path.status is Status.INTERRUPTED:
            goal = _stop(trial)
            deadline.give_up(f"a model was trained to R² {one.path.r2:.4f} in place of {goal:.4f}")
        fitted[trial] = one
    n_left = len(tuned.members) - len(fitted)
    if n_left and tuned.among is not None:
        deadline.give_up(f"{n_left} of {len(tuned.members)} models were left out of the average")
        tuned = tuned.among(list(fitted))
    members = [
        Member(trial.candidate, _stop(trial), fitted[trial].root, fitted[trial].path, weight)
        for trial, weight in tuned.members
    ]
    held_out = [fitted[trial].held_out for trial, _ in tuned.members]
    return members, with_evidence(tuned, everything, held_out)


class Fitted(NamedTuple):
    """Metric and path of a member, and what its leaves predicted for rows not seen (n, k)."""

    root: np.ndarray
    path: Path
    held_out: np.ndarray | None = None


def expected_seconds(rows: Rows, n_members: int) -> float:
    """About what it will take to fit so many members to all rows; 0 where that is not long."""
    if len(rows) <= _PROBED_ROWS:
        return 0.0
    growth = rows.final_share(len(rows)) * (len(rows) / _PROBED_ROWS) ** 2
    n_together = min(len(rows), rows.leaf_rows)
    paths = [
        PathSeconds.measured(rows, Candidate(encoding), _PROBED_ROWS).of(n_together)
        for encoding in rows.views
    ]
    return n_members * growth * float(np.mean(paths))


def _affordable_leaves(rows: Rows, tuned: Tuned, deadline: Deadline) -> Rows:
    """The rows, in smaller leaves if that keeps all members in time."""
    if len(rows) <= rows.leaf_rows or deadline.interrupted or not deadline.bounded:
        return rows
    n_probed = min(len(rows), _QUICK_ROWS)
    path = PathSeconds.measured(rows, tuned.members[0][0].candidate, n_probed)
    deadline.measured(n_probed, PATH, path.of(rows.leaf_rows))
    n_ladders = PATH * rows.final_share(len(rows)) * len(tuned.members)
    share = max(deadline.left, 0.0) / max(deadline.estimate(len(rows), n_ladders), 1e-9)
    leaf_rows = max(int(rows.leaf_rows * share), _SMALLEST_LEAF)
    if leaf_rows >= rows.leaf_rows:
        return rows
    deadline.give_up(f"leaves have at most {leaf_rows:,} rows in place of {rows.leaf_rows:,}")
    return replace(rows, leaf_rows=leaf_rows)


def _affordable_rows(rows: Rows, tuned: Tuned, deadline: Deadline) -> np.ndarray:
    """Numbers of the rows that the heaviest member is in time with."""
    n_rows = len(rows)
    if deadline.interrupted:  # final fits of so few rows take seconds
        n = min(len(rows), _PROBED_ROWS)
    elif len(rows) > rows.leaf_rows:  # time grows with rows, not with their square
        needed = deadline.estimate(len(rows), PATH * rows.final_share(len(rows)))
        share = min(1.0, max(deadline.left, 0.0) / max(needed, 1e-9))
        n = max(int(share * len(rows)), min(rows.leaf_rows, len(rows)))
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
) -> dict[Trial, Fitted]:
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

    def member(self, trial: Trial, roots: Roots, _: None) -> Fitted:
        """A member, trained."""
        (part,) = self.parts([0], [roots])
        return _fit_member(part.rows, part, trial, Deadline(), lambda: False)

    def leaf(self, trial: Trial, roots: Roots, numbers: np.ndarray, _: None) -> FittedLeaf:
        """One leaf of a member, with these rows of the part."""
        (part,) = self.parts([0], [roots])
        Z = part.rows.views[trial.candidate.encoding].columns(part.train, part.held_out)[0]
        divided = Divided.of(part, trial, scaled(Z, part.root(trial.candidate.metric)))
        return _train_leaf(part, divided, numbers, trial, lambda: False)


def _fit_member(
    rows: Rows,
    part: Part,
    trial: Trial,
    deadline: Deadline,
    interrupted: Callable[[], bool],
) -> Fitted:
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
    if len(part) > rows.leaf_rows:
        return _fit_leaves(part, trial, Z, root, deadline, interrupted)
    with deadline.work.task(FINAL_FITS, PATH * len(part) ** 2):
        path = fit(scaled(Z, root))
        if _needs_digits(path, trial):
            path = fit(scaled(Z.astype(np.float64), root))
    path = in_its_loss(path, rows, part.train, candidate.penalty)
    root, X = _as_encoded(root, Z.astype(path.X.dtype, copy=False), view.places)
    return Fitted(root, replace(path, model=replace(path.undivided, X=X)))


def _fit_leaves(
    part: Part,
    trial: Trial,
    Z: np.ndarray,
    root: np.ndarray,
    deadline: Deadline,
    interrupted: Callable[[], bool],
) -> Fitted:
    """The same, leaf by leaf, on workers if there are any.

    Once time is over, the leaves that are left are trained on some of their rows; once
    `interrupted` says yes, on very few, and the status of the path says so.
    """
    rows = part.rows
    divided = Divided.of(part, trial, scaled(Z, root))
    partition, leaves = divided.leaves(rows.leaf_rows)
    entries = PATH * rows.final_share(len(part)) * len(part) ** 2
    entries /= sum(len(numbers) ** 2 for numbers in leaves)

    def one(numbers: np.ndarray) -> FittedLeaf:
        share = entries * len(numbers) ** 2
        if deadline.left <= 0.0:
            most = _HARDLY_ANY if interrupted() else _SMALLEST_LEAF
            numbers = numbers[:: -(-len(numbers) // most)]
            deadline.give_up(f"some leaves were trained on at most {most:,} of their rows")
        with deadline.work.task(FINAL_FITS, share):
            return _train_leaf(part, divided, numbers, trial, interrupted)

    helpers = rows.backend.helpers(HeldMembers(rows, [part], PowerLoss(), rows.backend.budget))
    if helpers is None:
        fitted = parallel_map(one, leaves, n_rows=max(map(len, leaves)), n_jobs=None)
    else:
        try:
            roots = {trial.candidate.metric: root}
            fitted = helpers.call([("leaf", (trial, roots, numbers)) for numbers in leaves])
        finally:
            helpers.close()
    held_out = None
    if not trial.candidate.penalty:  # halves are trained with the squared error
        held_out = held_out_predictions(partition, divided.X, fitted)
    places = rows.views[trial.candidate.encoding].places
    root, X = _as_encoded(root, Z, places)
    path = path_of_leaves(X, divided.y, divided.weights, partition, fitted, places)
    return Fitted(root, path, held_out)


def _train_leaf(
    part: Part,
    divided: Divided,
    numbers: np.ndarray,
    trial: Trial,
    interrupted: Callable[[], bool],
) -> FittedLeaf:
    def fit(X: np.ndarray, numbers: np.ndarray, trial: Trial) -> Path:
        train = part.train[numbers]
        path = fit_member_path(part.rows, train, X, trial, lambda _: interrupted())
        if _needs_digits(path, trial):
            X = X.astype(np.float64)
            path = fit_member_path(part.rows, train, X, trial, lambda _: interrupted())
        return in_its_loss(path, part.rows, train, trial.candidate.penalty)

    return fit_leaf(divided, numbers, trial, fit)


def _as_encoded(
    root: np.ndarray, Z: np.ndarray, places: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Metric and scaled rows for columns that stand at `places` of Z.

    Rows are scaled anew: stages of bandwidth zero know them by the bits that `predict` finds.
    """
    root = root[places] if root.ndim == 1 else root[np.ix_(places, places)]
    return root, scaled(np.take(Z, places, axis=1), root)


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


def _needs_digits(path: Path, trial: Trial) -> bool:
    """Whether a path should be trained again in float64."""
    return path.X.dtype == np.float32 and _rounding(path) > _ROUNDED * _error(trial)


def _rounding(path: Path) -> float:
    """What rounding may do to predictions: slow paths add and subtract large numbers."""
    return _PRODUCT_ERROR * float(np.linalg.norm(path.coefficients.astype(np.float64)))


def _error(trial: Trial) -> float:
    """Root mean square of the errors on held-out rows; NaN where there were none to tell."""
    return math.nan if math.isnan(trial.score) else math.sqrt(max(1.0 - trial.score, 1e-12))
