"""Fits the models that a search has chosen: the members of the average."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from bandfall._fitting.leaves import fit_leaves
from bandfall._fitting.paths import Fitted, log_loss_target, stop_of, train_path
from bandfall._models.member import Candidate, Member
from bandfall._search.averaging import Tuned
from bandfall._search.clock import FINAL_FITS, PATH, Clock, coarse
from bandfall._search.metrics import roots_of
from bandfall._search.pace import member_seconds
from bandfall._search.parts import Part, Rows
from bandfall._search.settings import Settings
from bandfall._search.trials import Trial
from bandfall.descent import Status


def default_choice(n_rows: int) -> Tuned:
    """The paper's rule, for tables with too few or too similar rows for a search."""
    trial = Trial(Candidate(), np.nan, np.nan, np.nan, Settings.max_r2, n_rows)
    nothing = np.zeros(0, dtype=int)
    return Tuned([(trial, 1.0)], nothing, np.zeros((0, 1)), [], {})


def fit_members(rows: Rows, tuned: Tuned, clock: Clock | None = None) -> tuple[list[Member], Tuned]:
    """Fit the chosen models to all rows; return them and the (possibly reduced) choice.

    If time is short, the lightest members are left out of the average; if even the heaviest takes
    too long, it is fitted to fewer rows. After Ctrl-C, the model consists of the finished members
    or, if there are none, of the heaviest, fitted to so few rows that it takes seconds.
    """
    clock = clock or Clock()
    part, n_members = _planned(rows, tuned, clock)
    trials = [trial for trial, _ in tuned.members[:n_members]]
    n_ladders = PATH * part.rows.final_share(len(part))
    clock.expect(FINAL_FITS, n_ladders * len(trials) * len(part) ** 2)
    metrics = {key: (root,) for key, root in tuned.roots.items()}
    fitted: dict[Trial, Fitted] = {}
    for trial in trials:
        if fitted and clock.over:
            break
        (root,) = roots_of(metrics, trial.candidate.metric, [part])
        try:
            one = _fit_member(part, trial, root, clock)
        except KeyboardInterrupt:
            clock.press()
            if fitted:
                break
            return fit_members(rows, tuned, clock)
        if one.path.status is Status.INTERRUPTED:
            goal = stop_of(trial, rows.settings)
            clock.skip(f"a model was trained to R² {one.path.r2:.4f} instead of {goal:.4f}")
        fitted[trial] = one
    return _members_of(fitted, tuned, part, clock)


def _fit_member(part: Part, trial: Trial, root: np.ndarray, clock: Clock) -> Fitted:
    """The path over the training rows of a part."""
    rows, timed = part.rows, clock.bounded and not clock.interrupted
    if len(part) > rows.leaf_rows:
        return fit_leaves(part, trial, root, clock)
    watcher = (lambda _: clock.left <= -rows.settings.grace) if timed else None
    Z, _ = part.columns(trial.candidate.encoding)
    classes = log_loss_target(rows, part.train) if trial.log_odds else None
    with clock.task(FINAL_FITS, PATH * len(part) ** 2):
        path = train_path(rows, part.train, Z, root, trial, classes, watcher)
    return Fitted(root, path)


def _members_of(
    fitted: Mapping[Trial, Fitted], tuned: Tuned, part: Part, clock: Clock
) -> tuple[list[Member], Tuned]:
    """The fitted members and the choice, with new weights if some members are missing."""
    n_left = len(tuned.members) - len(fitted)
    if n_left:
        clock.skip(f"{n_left} of {len(tuned.members)} models were left out of the average")
        tuned = tuned.among(list(fitted))
    members = []
    for trial, weight in tuned.members:
        one, stop = fitted[trial], stop_of(trial, part.rows.settings)
        members.append(Member(trial.candidate, stop, one.root, one.path, weight))
    return members, with_evidence(tuned, part, fitted)


def with_evidence(tuned: Tuned, part: Part, fitted: Mapping[Trial, Fitted]) -> Tuned:
    """Replace the evidence by held-out rows of all leaves, if all members have leaves.

    The search trains paths on a sample of the rows; leaves are trained on all rows but the
    evidence.
    """
    predictions = np.zeros((len(part), part.rows.y.shape[1]))
    for trial, weight in tuned.members:
        own = fitted[trial].held_out
        predictions += np.nan if own is None else weight * own
    known = np.flatnonzero(np.isfinite(predictions).all(axis=1))
    if not len(known) or len(known) < min(len(tuned.held_out), part.rows.settings.fewest_judging):
        return tuned
    return replace(tuned, held_out=part.train[known], predictions=predictions[known])


def _planned(rows: Rows, tuned: Tuned, clock: Clock) -> tuple[Part, int]:
    """The rows to train on and the number of members that there is time for.

    If time is short, leaves are smaller, then members fewer, and then rows fewer.
    """
    settings, n, n_members = rows.settings, len(rows), len(tuned.members)
    if not clock.bounded:
        return _some_rows(rows, n, 0.0, clock), n_members
    if clock.interrupted:  # fitting this many takes seconds
        return _some_rows(rows, min(n, settings.hurried_rows), 0.0, clock), 1
    seconds = member_seconds(rows, tuned.members[0][0].candidate, clock.stopwatch)
    leaf_rows, fewest = rows.leaf_rows, settings.fewest_fitted
    if n > leaf_rows:
        share = coarse(clock.spare / (n_members * seconds(n, leaf_rows)))
        leaf_rows = min(leaf_rows, max(int(leaf_rows * share), settings.smallest_leaf))
        fewest = leaf_rows
        if leaf_rows < rows.leaf_rows:
            clock.skip(f"leaves have at most {leaf_rows:,} rows instead of {rows.leaf_rows:,}")
            rows = replace(rows, leaf_rows=leaf_rows)
    while n > fewest and seconds(n, leaf_rows) > clock.spare:
        n = max(n // 2, fewest)
    n_members = min(n_members, max(1, int(coarse(clock.spare / seconds(n, leaf_rows)))))
    return _some_rows(rows, n, seconds(len(rows), leaf_rows), clock), n_members


def _some_rows(rows: Rows, n: int, seconds: float, clock: Clock) -> Part:
    """`n` of the rows to train on; lists the others as skipped, with the seconds that all take."""
    train = np.arange(len(rows))
    if n < len(rows):
        clock.skip(f"trained on {n:,} of {len(rows):,} rows", seconds)
        train = np.sort(np.random.RandomState(0).permutation(train)[:n])
    return Part(rows, train, np.arange(0))
