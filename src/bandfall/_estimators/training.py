"""The fit of a self-tuning estimator: from a table, by a search, to an average of paths."""

from __future__ import annotations

import copy
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial
from os import PathLike
from typing import NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from bandfall._estimators.arrays import as_numpy
from bandfall._estimators.base import chosen_kernels
from bandfall._estimators.input import TrainingTable, training_table, warn_of_copies
from bandfall._estimators.progress import FitProgress, Reports
from bandfall._estimators.self_tuning import SelfTuning
from bandfall._files.checkpoint import LeafFolder
from bandfall._fitting.class_loss import tune_classes
from bandfall._fitting.members import default_choice, expected_seconds, fit_members
from bandfall._models.average import Average
from bandfall._models.leaks import leaks
from bandfall._models.member import Member
from bandfall._models.novelty import novelty_scale
from bandfall._products import NumpyBackend, resolve_backend
from bandfall._search.averaging import Tuned
from bandfall._search.candidates import trial_table
from bandfall._search.clock import AFTERWARDS, PATH, SUMMARY, Clock, coarse
from bandfall._search.rows import Encoded, Rows, TargetEncoded
from bandfall._search.search import leaf_rows_for, tune
from bandfall._targets import Target
from bandfall._targets.losses import evidence_weights
from bandfall._threads import blas_threads_for
from bandfall._typing import ArrayLike, TableLike, Weights
from bandfall._warnings import warn_caller
from bandfall.kernels._kernel import Kernel
from bandfall.tables import Table, TableEncoder, prepare_table
from bandfall.tables._numbers import steps_for

# From this number of rows, or of rows² × columns, on, everything is computed in float32.
_FLOAT32_ROWS = 500
_FLOAT32_TERMS = 1e7
_FEWEST = 4  # rows that a search needs


class _Encoding(NamedTuple):
    """Settings of a `TableEncoder`, and typical seconds relative to the standard encoding."""

    seconds: float
    numbers: str = "standard"
    categories: str = "onehot"


# "target" helps if the mean target describes a category, "pairs" if two categories interact.
_ENCODINGS = {
    "standard": _Encoding(1.0),
    "steps": _Encoding(9.0, numbers="steps"),
    "quantile": _Encoding(4.0, numbers="quantile"),
    "target": _Encoding(1.0, categories="target"),
    "pairs": _Encoding(2.0, categories="pairs"),
}
_SHARE = 0.2  # of the time limit, for encoding
_PROBED_ROWS, _PROBED_CELLS = 100, 100_000
_FEWEST_ROWS = 500
_ROUNDING = 1e-5  # of encoded columns, whose deviation is about 1


def train(
    model: SelfTuning,
    X: TableLike,
    y: ArrayLike,
    sample_weight: ArrayLike | None,
    groups: ArrayLike | None,
    time: str | ArrayLike | None,
    checkpoint: str | PathLike[str] | None,
) -> None:
    """Set the fitted attributes of a model; see `SelfTuning.fit`."""
    kernels, clock = chosen_kernels(model.kernels), model._clock
    store = None if checkpoint is None else LeafFolder(checkpoint)
    class_weight = getattr(model, "class_weight", None)
    X = as_numpy(X, model.memory_budget)
    y, sample_weight, groups, time = map(as_numpy, (y, sample_weight, groups, time))
    reports = Reports(model, X, y)
    progress = FitProgress(reports, model.verbose, model.target_kind, clock)
    fitted = copy.copy(model)  # an interrupted fit leaves the model as it was
    given = training_table(
        fitted, model.target_kind, X, y, sample_weight, groups, time, class_weight
    )
    # Limit BLAS threads for the whole fit: idle ones busy-wait.
    with blas_threads_for(len(given)), progress:
        seconds = _encoding_seconds(given.table, clock)
        used = _affordable(given, seconds, clock)
        seconds *= len(used) / len(given)
        fitted._dtype, fitted._used_rows = used.dtype, used.numbers
        target, rows, encoders = _encoded_rows(fitted, used, seconds, clock)
        tuned = _search(fitted, target, rows, used.groups is not None, kernels, progress)
        rows = replace(rows, leaf_rows=leaf_rows_for(rows, tuned.trials))
        members, tuned = fit_members(rows, tuned, clock, progress.interrupted, store)
        fitted.skipped_ = clock.skipped
        if clock.bounded and not clock.interrupted and not tuned.members[0][0].log_odds:
            _warn_if_useless(tuned, rows)
        with clock.task(SUMMARY, AFTERWARDS * len(rows) ** 2):
            try:
                _summarise(fitted, target, rows, encoders, members, tuned, clock)
            except KeyboardInterrupt:
                clock.press()
                _summarise(fitted, target, rows, encoders, members, tuned, clock)
    model.__dict__.update(vars(fitted))
    progress.ended(model.skipped_)
    reports.finish(model._fitted_state)
    if clock.pressed:
        raise KeyboardInterrupt
    if clock.left_out and not clock.interrupted:
        seconds = sum(clock.left_out.values())
        if len(used) < len(given):
            n_together = min(len(given), model.leaf_rows)
            seconds += clock.estimate(n_together, PATH * len(given) / n_together)
        warn_caller(
            f"max_seconds={model.max_seconds:g} left out a part of the data: "
            f"{'; '.join(clock.left_out)}. Allow at least {max(seconds, 0.1):.2g} s more"
        )


def _encoding_seconds(table: Table, clock: Clock) -> float:
    """Seconds that the standard encoding of all rows takes: a power of two, from some rows."""
    if not clock.bounded:
        return 0.0

    def seconds_of(n_rows: int) -> float:
        some = table.take(np.linspace(0, len(table) - 1, n_rows).astype(int))
        start = clock.stopwatch()
        TableEncoder().fit_transform(prepare_table(some, warn=False), warn=False)
        return clock.stopwatch() - start

    n_rows = min(len(table), max(_PROBED_ROWS, _PROBED_CELLS // table.width))
    n_fewer = max(1, n_rows // 4)
    few, more = (min(seconds_of(size) for _ in range(2)) for size in (n_fewer, n_rows))
    growth = max(more - few, 0.0) / max(1, n_rows - n_fewer)
    return coarse(1.5 * (more + growth * (len(table) - n_rows)))


def _affordable(given: TrainingTable, seconds: float, clock: Clock) -> TrainingTable:
    """The rows that can be encoded in a fifth of the time; one encoding takes `seconds`."""
    n, needed = len(given), seconds * sum(one.seconds for one in _ENCODINGS.values())
    share = coarse(_SHARE * clock.limit / max(needed, 1e-9))
    if share >= 1.0 or n <= _FEWEST_ROWS:
        return given
    kept = max(_FEWEST_ROWS, int(share * n))
    clock.skip(f"used {kept:,} of {n:,} rows", needed)
    return given.take(np.sort(np.random.RandomState(0).permutation(n)[:kept]))


def _encoded_rows(
    model: SelfTuning, given: TrainingTable, seconds: float, clock: Clock
) -> tuple[Target, Rows, dict[str, TableEncoder]]:
    """Encode features and target for the search; target columns have zero mean."""
    weights, groups, values = given.weights, given.group_numbers(), given.values
    evidence = None if weights is None else evidence_weights(weights)
    target, codes = given.target.coded(values, evidence, given.dtype)
    table = prepare_table(given.table, missing=model.missing)
    many = len(given) >= _FLOAT32_ROWS or len(given) ** 2 * table.width >= _FLOAT32_TERMS
    dtype = np.dtype(np.float32 if many else np.float64)
    each = np.arange(len(given))
    model.leaks_ = leaks(table, codes, each if groups is None else groups, ordered=given.ordered)
    _warn_of_target(model.leaks_, target)
    strata, settings = target.strata(values), model._settings
    names = {*settings.families}
    if len(given) >= settings.fold_rows:
        names |= {*settings.exact_families}
    if strata is not None or model.kernels is not None:
        names = {*_ENCODINGS}
    encoders, views = _encoded_views(names, table, codes, evidence, dtype, seconds, clock)
    if groups is None:
        # New rows repeat old ones as often as old ones repeat each other.
        groups = each
        warn_of_copies(views["standard"].Z, codes)
    backend = resolve_backend(model.device, model.memory_budget, len(given))
    clock.on_host &= isinstance(backend, NumpyBackend)
    fixed = backend, strata, model.leaf_rows, settings, given.ordered
    return target, Rows(views, codes, groups, weights, *fixed), encoders


def _encoded_views(
    names: Collection[str],
    table: Table,
    codes: np.ndarray,
    weights: Weights,
    dtype: np.dtype,
    seconds: float,
    clock: Clock,
) -> tuple[dict[str, TableEncoder], dict[str, Encoded]]:
    """Encoders and encoded views of a prepared table, by name; none has the distances of another.

    The standard encoding, which takes `seconds`, is always included, others with these names if
    they take at most a fifth of the time.
    """
    n_steps = steps_for(len(table), table.width)
    encoders: dict[str, TableEncoder] = {}
    views: dict[str, Encoded] = {}
    plains: list[np.ndarray] = []  # columns in the order of the table
    for name, (relative, numbers, categories) in _ENCODINGS.items():
        useless = categories != "onehot" and all(one.kind != "category" for one in table.readings)
        if useless or name not in names:
            continue
        if views and relative * seconds > _SHARE * clock.limit:
            clock.skip(f"the encoding {name!r} was not tried", relative * seconds)
            continue
        encoder = TableEncoder(numbers, categories, n_steps)
        Z = encoder.fit_transform(table, codes, weights, dtype, warn=False, by_content=True)
        assert encoder.fitted is not None
        plain = np.take(Z, np.argsort(encoder.fitted.order), axis=1)
        if encoder.uses_target:
            views[name] = TargetEncoded(encoder, table, codes, weights, Z)
        elif not any(_same_distances(plain, other) for other in plains):
            views[name] = Encoded(Z)
        if name in views:
            encoders[name] = encoder
            plains.append(plain)
    return encoders, views


def _same_distances(Z: np.ndarray, other: np.ndarray) -> bool:
    """Whether columns differ by constants, up to rounding, as two scales of 0 and 1 do."""
    if Z.shape != other.shape:
        return False
    return all(
        np.ptp(Z[:n_rows] - other[:n_rows], axis=0).max(initial=0.0) <= _ROUNDING
        for n_rows in (_PROBED_ROWS, len(Z))  # most encodings differ in the first rows already
    )


def _search(
    model: SelfTuning,
    target: Target,
    rows: Rows,
    grouped: bool,
    kernels: tuple[Kernel, ...] | None,
    progress: FitProgress,
) -> Tuned:
    """The chosen models; the paper's rule if there are too few groups of rows to search."""
    tuned = default_choice(len(rows))
    if rows.groups.max() + 1 >= (2 if grouped else _FEWEST) and np.any(rows.y):
        progress.begins(len(rows), partial(expected_seconds, rows, rows.settings.n_members))
        tuned = (tune if rows.strata is None else tune_classes)(
            rows,
            judge=target.judge,
            kernels=kernels,
            random=check_random_state(model.random_state),
            interrupted=progress.tried,
            clock=progress.clock,
            n_jobs=model.n_jobs,
        )
    progress.chosen(tuned, len(rows))
    return tuned


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


def _warn_if_useless(tuned: Tuned, rows: Rows) -> None:
    """Warn if held-out rows are predicted no better than by the mean, within two errors."""
    if not len(tuned.held_out):
        return
    codes = rows.y[tuned.held_out]
    gains = (codes**2 - (codes - tuned.predictions) ** 2).sum(axis=1)
    if gains.mean() <= 2.0 * gains.std() / len(gains) ** 0.5:
        mean = "the mean of the target" if rows.strata is None else "the shares of the classes"
        warn_caller(
            f"held-out rows are predicted no better than by {mean}; raise max_seconds, or the "
            "features say little about the target"
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
    encoders = {name: one for name, one in encoders.items() if name in used}
    model.average_ = Average(tuple(members), encoders, target, len(rows))
    path = model.average_.plainest.path
    unit = novelty_scale(path.X, geometry=path.kernel.geometry, backend=model._backend)
    model.average_ = replace(model.average_, novelty_scale=unit)
    model.held_out_rows_ = model._numbers_given(held_out)
    model.selection_ = trial_table(tuned.trials)
    model._keep_evidence(rows, tuned)
    variances = {name: rows.views[name].variances for name in encoders}
    model.feature_importances_ = model.average_.importances(
        variances, lambda: clock.over, backend=rows.backend
    )
