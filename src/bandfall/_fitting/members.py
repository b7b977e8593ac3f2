"""Fits the models that a search has chosen: the members of the average."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from bandfall._fitting.leaf_fits import (
    SMALLEST_LEAF,
    Fitted,
    as_encoded,
    fit_leaves,
    with_evidence,
)
from bandfall._fitting.leaves import LeafStore
from bandfall._fitting.logistic import in_its_loss, log_loss_target
from bandfall._fitting.paths import fit_member_path, needs_digits, stop_of
from bandfall._models.member import Candidate, Member
from bandfall._models.metric import scaled
from bandfall._search.candidates import MAX_R2, Trial
from bandfall._search.clock import FINAL_FITS, PATH, Clock
from bandfall._search.pace import Now, PathSeconds
from bandfall._search.parts import Part, Rows
from bandfall._search.trainers import Roots, WorkerParts
from bandfall._search.tuning import Tuned
from bandfall._targets.losses import PowerLoss
from bandfall.descent import Path, Status

_DIVIDED_ROWS = 20_000  # with more rows, workers share products rather than members
_PROBED_ROWS = 9000  # about as many as a leaf has
_GRACE = 0.5  # seconds by which a final fit may exceed the limit
_QUICK_ROWS = 1000  # for measuring the pace if time is limited


def default_choice(n_rows: int) -> Tuned:
    """The paper's rule, for tables with too few or too similar rows for a search."""
    trial = Trial(Candidate(), np.nan, np.nan, np.nan, MAX_R2, n_rows)
    nothing = np.zeros(0, dtype=int)
    return Tuned([(trial, 1.0)], nothing, np.zeros((0, 1)), [], {})


def fit_members(
    rows: Rows,
    tuned: Tuned,
    clock: Clock | None = None,
    interrupted: Callable[[], bool] = lambda: False,
    store: LeafStore | None = None,
) -> tuple[list[Member], Tuned]:
    """Fit the chosen models to all rows; return them and the (possibly reduced) choice.

    Metrics are those of the search. If time is short, the lightest members are left out of the
    average; if even the heaviest takes too long, it is fitted to fewer rows. `interrupted` is
    called after every stage of a long fit. Once it returns True, the model consists of the finished
    members or, if there are none, of the heaviest, fitted to so few rows that it takes seconds.
    `store` keeps trained leaves for a fit that is run again.
    """
    clock = clock or Clock()
    if len(rows) > _PROBED_ROWS and interrupted():
        clock.end()
    rows = _affordable_leaves(rows, tuned, clock)
    everything = Part(rows, _affordable_rows(rows, tuned, clock), np.arange(0))
    everything.roots.update(tuned.roots)
    n_ladders = PATH * rows.final_share(len(everything))
    n_expected = 1 if clock.interrupted else len(tuned.members)
    clock.expect(FINAL_FITS, n_ladders * n_expected * len(everything) ** 2)
    fitted = _fitted_on_workers(rows, everything, tuned, clock)
    for trial, _ in tuned.members if not fitted else []:
        if fitted and clock.estimate(len(everything), n_ladders) > clock.left:
            break
        try:
            with clock.timed(len(everything), n_ladders):
                one = _fit_member(rows, everything, trial, clock, interrupted, store)
        except KeyboardInterrupt:
            clock.press()
            if fitted:
                break
            return fit_members(rows, tuned, clock)
        if one.path.status is Status.INTERRUPTED and interrupted():
            clock.end()
            if fitted:
                break
            return fit_members(rows, tuned, clock)
        if one.path.status is Status.INTERRUPTED:
            goal = stop_of(trial)
            clock.skip(f"a model was trained to R² {one.path.r2:.4f} instead of {goal:.4f}")
        fitted[trial] = one
    return members_of(fitted, tuned, everything, clock)


def members_of(
    fitted: Mapping[Trial, Fitted], tuned: Tuned, part: Part, clock: Clock
) -> tuple[list[Member], Tuned]:
    """The fitted members and the choice, with new weights if some members are missing.

    Held-out rows of leaves become the evidence.
    """
    n_left = len(tuned.members) - len(fitted)
    if n_left and tuned.among is not None:
        clock.skip(f"{n_left} of {len(tuned.members)} models were left out of the average")
        tuned = tuned.among(list(fitted))
    members = [
        Member(trial.candidate, stop_of(trial), fitted[trial].root, fitted[trial].path, weight)
        for trial, weight in tuned.members
    ]
    held_out = [fitted[trial].held_out for trial, _ in tuned.members]
    return members, with_evidence(tuned, part, held_out)


def expected_seconds(rows: Rows, n_members: int, now: Now = time.monotonic) -> float:
    """Estimated seconds to fit `n_members` members to all rows; 0 if there are few rows."""
    if len(rows) <= _PROBED_ROWS:
        return 0.0
    growth = rows.final_share(len(rows)) * (len(rows) / _PROBED_ROWS) ** 2
    n_together = min(len(rows), rows.leaf_rows)
    # The first products of a process also load libraries, compile loops and start a GPU.
    PathSeconds.measured(rows, Candidate(next(iter(rows.views))), _QUICK_ROWS, now)
    paths = [
        PathSeconds.measured(rows, Candidate(encoding), _PROBED_ROWS, now).of(n_together)
        for encoding in rows.views
    ]
    return n_members * growth * float(np.mean(paths))


def _affordable_leaves(rows: Rows, tuned: Tuned, clock: Clock) -> Rows:
    """The rows, with smaller leaves if time is too short for all members."""
    if len(rows) <= rows.leaf_rows or clock.interrupted or not clock.bounded:
        return rows
    n_probed = min(len(rows), _QUICK_ROWS)
    path = PathSeconds.measured(rows, tuned.members[0][0].candidate, n_probed, clock.now)
    clock.measured(n_probed, PATH, path.of(rows.leaf_rows))
    n_ladders = PATH * rows.final_share(len(rows)) * len(tuned.members)
    share = max(clock.left, 0.0) / max(clock.estimate(len(rows), n_ladders), 1e-9)
    leaf_rows = max(int(rows.leaf_rows * share), SMALLEST_LEAF)
    if leaf_rows >= rows.leaf_rows:
        return rows
    clock.skip(f"leaves have at most {leaf_rows:,} rows instead of {rows.leaf_rows:,}")
    return replace(rows, leaf_rows=leaf_rows)


def _affordable_rows(rows: Rows, tuned: Tuned, clock: Clock) -> np.ndarray:
    """Indices of the rows to which the heaviest member can be fitted in time."""
    n_rows = len(rows)
    if clock.interrupted:  # fitting this many takes seconds
        n = min(len(rows), _PROBED_ROWS)
    elif len(rows) > rows.leaf_rows:  # time grows with rows, not with their square
        needed = clock.estimate(len(rows), PATH * rows.final_share(len(rows)))
        share = min(1.0, max(clock.left, 0.0) / max(needed, 1e-9))
        n = max(int(share * len(rows)), min(rows.leaf_rows, len(rows)))
    else:
        if clock.bounded:
            n_probed = min(len(rows), _QUICK_ROWS)
            path = PathSeconds.measured(rows, tuned.members[0][0].candidate, n_probed, clock.now)
            clock.measured(n_probed, PATH, path.recomputed)
            if clock.affordable_rows(len(rows), PATH) <= path.most_kept:
                clock.measured(n_probed, PATH, path.kept)
                n_rows = min(len(rows), path.most_kept)
        n = clock.affordable_rows(n_rows, PATH)
    if n == len(rows):
        return np.arange(n)
    seconds = clock.estimate(len(rows), PATH * rows.final_share(len(rows)))
    clock.skip(f"trained on {n:,} of {len(rows):,} rows", seconds)
    return np.sort(np.random.RandomState(0).permutation(len(rows))[:n])


def _fitted_on_workers(rows: Rows, part: Part, tuned: Tuned, clock: Clock) -> dict[Trial, Fitted]:
    """All members that there is time for, trained in parallel, one per worker.

    Empty without workers, or if dividing leaves or products is faster.
    """
    if len(part) > min(_DIVIDED_ROWS, rows.leaf_rows):
        return {}
    helpers = rows.backend.helpers(WorkerMembers(rows, [part], PowerLoss(), rows.backend.budget))
    if helpers is None:
        return {}
    trials = [
        trial
        for place, (trial, _) in enumerate(tuned.members)
        if place == 0 or clock.estimate(len(part), PATH) <= clock.left
    ]
    try:
        calls = [("member", (trial, part.roots)) for trial in trials]
        return dict(zip(trials, helpers.call(calls), strict=True))
    finally:
        helpers.close()


class WorkerMembers(WorkerParts):
    """The state of a worker that fits members: one part with all training rows."""

    def member(self, trial: Trial, roots: Roots, _: None) -> Fitted:
        """Train one member."""
        (part,) = self.parts([0], [roots])
        return _fit_member(part.rows, part, trial, Clock(), lambda: False)


def _fit_member(
    rows: Rows,
    part: Part,
    trial: Trial,
    clock: Clock,
    interrupted: Callable[[], bool],
    store: LeafStore | None = None,
) -> Fitted:
    """Metric and path over the training rows of a part, for columns in the encoder's order."""
    # Small fits are not interrupted: they are quick, and a path cut off at once is no model.
    timed = clock.bounded and not clock.interrupted
    watched = timed or len(part) > _PROBED_ROWS

    def fit(X: np.ndarray) -> Path:
        watcher = (lambda _: clock.left <= -_GRACE or interrupted()) if watched else None
        return fit_member_path(rows, part.train, X, trial, watcher)

    candidate = trial.candidate
    root = part.root(candidate.metric)
    view = rows.views[candidate.encoding]
    Z, _ = view.columns(part.train, part.held_out)
    if len(part) > rows.leaf_rows:
        return fit_leaves(part, trial, Z, root, clock, interrupted, store)
    with clock.task(FINAL_FITS, PATH * len(part) ** 2):
        path = fit(scaled(Z, root))
        if needs_digits(path, trial):
            path = fit(scaled(Z.astype(np.float64), root))
    if trial.log_odds:
        path = in_its_loss(path, trial, log_loss_target(rows, part.train))
    root, X = as_encoded(root, Z.astype(path.X.dtype, copy=False), view.places)
    return Fitted(root, replace(path, model=replace(path.undivided, X=X)))
