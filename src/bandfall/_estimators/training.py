"""The fit of a self-tuning estimator: from a table, by a search, to an average of paths."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from os import PathLike

import numpy as np
from sklearn.utils import check_random_state

from bandfall._estimators.arrays import as_numpy
from bandfall._estimators.base import chosen_kernels
from bandfall._estimators.input import TrainingTable, training_table, warn_of_copies
from bandfall._estimators.progress import FitProgress, Reports
from bandfall._estimators.remote_rows import RemoteRows
from bandfall._estimators.self_tuning import SelfTuning
from bandfall._estimators.views import ENCODINGS, affordable_rows, encoded_views
from bandfall._files.checkpoint import LeafFolder
from bandfall._fitting.class_loss import tune_classes
from bandfall._fitting.members import default_choice, expected_seconds, fit_members
from bandfall._models.average import Average
from bandfall._models.leaks import leaks
from bandfall._models.member import Member
from bandfall._models.novelty import novelty_scale
from bandfall._search.averaging import Tuned
from bandfall._search.candidates import trial_table
from bandfall._search.clock import AFTERWARDS, PATH, SUMMARY, Clock
from bandfall._search.rows import Rows
from bandfall._search.search import tune
from bandfall._targets import Target
from bandfall._targets.weights import evidence_weights
from bandfall._threads import blas_threads_for
from bandfall._typing import ArrayLike
from bandfall._warnings import warn_caller
from bandfall.kernels._kernel import Kernel
from bandfall.tables import TableEncoder, prepare_table

# From this number of rows on, everything is computed in float32.
_FLOAT32_ROWS = 500
_FEWEST = 4  # rows that a search needs


def train(
    model: SelfTuning,
    X: ArrayLike,
    y: ArrayLike,
    sample_weight: ArrayLike | None,
    groups: ArrayLike | None,
    time: str | ArrayLike | None,
    checkpoint: str | PathLike[str] | None,
) -> None:
    """Set the fitted attributes of a model; see `SelfTuning.fit`."""
    kernels = chosen_kernels(model.kernels)
    clock = model._clock
    store = None if checkpoint is None else LeafFolder(checkpoint)
    remote = _left_on_workers(model, X, y, sample_weight, groups, time, store)
    rows, target = (X, y) if remote is None else remote.sample()
    X, y = as_numpy(rows), as_numpy(target)
    sample_weight, groups, time = as_numpy(sample_weight), as_numpy(groups), as_numpy(time)
    reports = Reports(model, X, y)
    progress = FitProgress(reports, model.verbose, model.target_kind, clock)
    weight = getattr(model, "class_weight", None)
    fitted = copy.copy(model)
    given = training_table(fitted, model.target_kind, X, y, sample_weight, groups, time, weight)
    if remote is not None:
        given = replace(given, values=remote.values[remote.numbers])  # positions among all classes

    n_given = len(given)
    # Limit BLAS threads for the whole fit: idle ones busy-wait.
    with blas_threads_for(len(given)), progress:
        some = affordable_rows(given.table, clock) if remote is None else None
        given = given if some is None else given.take(some)
        fitted._dtype, fitted._used_rows = given.dtype, given.numbers
        _search_and_fit(fitted, given, remote, kernels, progress, store)
    model.__dict__.update(vars(fitted))
    progress.ended(model.skipped_)
    reports.finish(model._fitted_state)
    if clock.pressed:
        raise KeyboardInterrupt
    if clock.left_out and not clock.interrupted:
        seconds = sum(clock.left_out.values())
        if model._used_rows is not None:
            seconds += clock.estimate(n_given, PATH)
        warn_caller(
            f"max_seconds={model.max_seconds:g} left out a part of the data: "
            f"{'; '.join(clock.left_out)}. Allow at least {max(seconds, 0.1):.2g} s more"
        )


def _search_and_fit(
    model: SelfTuning,
    given: TrainingTable,
    remote: RemoteRows | None,
    kernels: tuple[Kernel, ...] | None,
    progress: FitProgress,
    store: LeafFolder | None,
) -> None:
    """Search if there are enough groups of rows, and fit the chosen models to all rows."""
    clock = progress.clock
    target, rows, encoders = _encoded_rows(model, given, remote, clock)
    tuned = default_choice(len(rows))
    fewest = _FEWEST if given.groups is None else 2
    if rows.groups.max() + 1 >= fewest and np.any(rows.y):
        seconds = partial(expected_seconds, rows, rows.settings.n_members)
        progress.begins(len(rows), seconds, clock.bounded)
        tuned = (tune if rows.strata is None else tune_classes)(
            rows,
            judge=target.judge,
            kernels=kernels,
            random=check_random_state(model.random_state),
            interrupted=progress.tried,
            clock=clock,
            n_jobs=model.n_jobs,
        )
    progress.chosen(tuned, len(rows))
    if remote is None:
        members, tuned = fit_members(rows, tuned, clock, progress.interrupted, store)
    else:
        rows, members, tuned = remote.fit_members(rows, given.dtype, encoders, tuned, clock)
    model.skipped_ = clock.skipped
    if clock.bounded and not clock.interrupted and not tuned.members[0][0].log_odds:
        _warn_if_useless(tuned, rows.y)
    with clock.task(SUMMARY, AFTERWARDS * len(rows) ** 2):
        try:
            _summarise(model, target, rows, encoders, members, tuned, clock)
        except KeyboardInterrupt:
            clock.press()
            _summarise(model, target, rows, encoders, members, tuned, clock)


def _warn_if_useless(tuned: Tuned, codes: np.ndarray) -> None:
    """Warn if held-out rows are predicted no better than by the mean, within two errors."""
    if not len(tuned.held_out):
        return
    codes = codes[tuned.held_out]
    gains = (codes**2 - (codes - tuned.predictions) ** 2).sum(axis=1)
    if gains.mean() <= 2.0 * gains.std() / len(gains) ** 0.5:
        warn_caller(
            "held-out rows are predicted no better than by the mean of the target; raise "
            "max_seconds, or the features say little about the target"
        )


def _summarise(
    model: SelfTuning,
    target: Target,
    rows: Rows,
    encoders: dict[str, TableEncoder],
    members: Sequence[Member],
    tuned: Tuned,
    clock: Clock,
) -> None:
    """Set the fitted attributes of a model with these members."""
    held_out = tuned.held_out
    target, model.best_score_ = target.settled(
        tuned.predictions,
        rows.y[held_out],
        None if rows.weights is None else rows.evidence[held_out],
        len(np.unique(held_out)),
        log_odds=tuned.members[0][0].log_odds,
    )
    used = {member.candidate.encoding for member in members}
    encoders = {name: encoders[name] for name in ENCODINGS if name in used}
    average = Average(tuple(members), encoders, target, len(rows))
    path, backend = average.plainest.path, model._backend(len(average))
    unit = novelty_scale(path.X, geometry=path.kernel.geometry, backend=backend)
    model.average_ = replace(average, novelty_scale=unit)
    model.held_out_rows_ = model._numbers_given(held_out)
    model.selection_ = trial_table(tuned.trials)
    model._keep_evidence(rows, tuned)
    variances = {name: rows.views[name].variances for name in encoders}
    model.feature_importances_ = model.average_.importances(
        variances, lambda: clock.over, backend=rows.backend
    )


def _encoded_rows(
    model: SelfTuning, given: TrainingTable, remote: RemoteRows | None, clock: Clock
) -> tuple[Target, Rows, dict[str, TableEncoder]]:
    """Encode features and target for the search; target columns have zero mean."""
    weights, groups = given.weights, given.groups
    dtype = np.dtype(np.float32 if len(given) >= _FLOAT32_ROWS else np.float64)
    evidence = None if weights is None else evidence_weights(weights)
    if remote is None:
        target, codes = given.target.coded(given.values, evidence, given.dtype)
    else:  # learned from all rows
        target, codes = remote.coded(given.dtype)
        codes = codes[remote.numbers]
    table = prepare_table(given.table, missing=model.missing)
    each = np.arange(len(given))
    model.leaks_ = leaks(table, codes, each if groups is None else groups, ordered=given.ordered)
    _warn_of_target(model.leaks_, target)
    encoders, views = encoded_views(table, codes, evidence, dtype, clock)
    if remote is not None:  # mean targets of the sample would leak
        views = {name: one for name, one in views.items() if not encoders[name].uses_target}
    if groups is None:
        # New rows repeat old ones as often as old ones repeat each other.
        groups = each
        warn_of_copies(views["standard"].Z, codes)
    backend, strata = model._backend(len(given)), target.strata(given.values)
    fixed = backend, strata, model.leaf_rows, model._settings, given.ordered
    rows = Rows(views, codes, groups, weights, *fixed)
    return target, rows, encoders


def _warn_of_target(leaks: dict[str, str], target: Target) -> None:
    """Warn if features predict the target alone, or if there is nothing to predict."""
    if len(target.classes) == 1:
        warn_caller(
            f"y holds one class, {target.classes[0]!r}: every prediction will be this class"
        )
    for name, why in leaks.items():
        warn_caller(
            f"column {name!r}: {why}. If it is a copy of the target, an id, or known only after "
            "it, leave it out: scores and intervals are too good"
        )


def _left_on_workers(
    model: SelfTuning, X: ArrayLike, y: ArrayLike, *others: object
) -> RemoteRows | None:
    """The rows of a dask array or dataframe that stay on workers; None if all are gathered."""
    if any(one is not None for one in (*others, getattr(model, "class_weight", None))):
        return None
    return RemoteRows.of(model.target_kind, X, y, model.device, model.leaf_rows)
