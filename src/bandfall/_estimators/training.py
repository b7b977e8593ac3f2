"""The fit of a self-tuning estimator: from a table, by a search, to an average of paths."""

from __future__ import annotations

import copy
import math
import sys
import threading
from collections.abc import Collection, Sequence
from dataclasses import fields, replace
from time import monotonic
from typing import NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from bandfall._checks import warn_caller
from bandfall._estimators.input import TrainingTable, training_table, warn_of_copies
from bandfall._estimators.self_tuning import SelfTuning
from bandfall._estimators.view import kernel_words
from bandfall._fitting.class_loss import tune_classes
from bandfall._fitting.members import default_choice, fit_members
from bandfall._models.average import Average
from bandfall._models.leaks import leaks
from bandfall._models.member import Candidate, Member
from bandfall._models.novelty import novelty_scale
from bandfall._products import NumpyBackend, resolve_backend
from bandfall._search.averaging import Tuned
from bandfall._search.clock import AFTERWARDS, SUMMARY, Clock, coarse
from bandfall._search.parts import Encoded, Rows, TargetEncoded
from bandfall._search.search import leaf_rows_for, tune
from bandfall._search.trials import Trial
from bandfall._targets import Target
from bandfall._targets.losses import evidence_weights
from bandfall._threads import blas_threads_for
from bandfall._typing import ArrayLike, TableLike, Weights
from bandfall.kernels._kernel import Kernel, get_kernel
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
_SHARE = 0.2  # an encoding may take this share of the time limit
_PROBED_ROWS = 100
_ROUNDING = 1e-5  # rounding error of encoded columns, whose deviation is about 1
_SILENCE = 1.75  # seconds without a message before the progress is printed


def train(
    model: SelfTuning,
    X: TableLike,
    y: ArrayLike,
    sample_weight: ArrayLike | None,
    groups: ArrayLike | None,
    time: str | ArrayLike | None,
) -> None:
    """Set the fitted attributes of a model; see `SelfTuning.fit`."""
    kernels, clock = _chosen_kernels(model), model._clock
    progress = FitProgress(model.verbose, model.target_kind, clock)
    fitted = copy.copy(model)  # an interrupted fit leaves the model as it was
    given = training_table(fitted, X, y, sample_weight, groups, time)
    fitted._dtype, fitted._used_rows = given.dtype, given.used
    # Limit BLAS threads for the whole fit: idle ones busy-wait.
    with blas_threads_for(len(given.table)), progress:
        target, rows, encoders = _encoded_rows(fitted, given, clock)
        tuned = _search(fitted, target, rows, given.groups is not None, kernels, progress)
        rows = replace(rows, leaf_rows=leaf_rows_for(rows, tuned.trials))
        members, tuned = fit_members(rows, tuned, clock)
        fitted.skipped_ = [*clock.skipped]
        with clock.task(SUMMARY, AFTERWARDS * len(rows) ** 2):
            try:
                _summarise(fitted, target, rows, encoders, members, tuned, clock)
            except KeyboardInterrupt:
                clock.press()
                _summarise(fitted, target, rows, encoders, members, tuned, clock)
    model.__dict__ = {**vars(fitted)}  # without names of columns of an earlier fit
    progress.ended(model.skipped_)
    if clock.pressed:
        raise KeyboardInterrupt
    left_out = {what: seconds for what, seconds in clock.skipped.items() if seconds}
    if left_out and not clock.interrupted:
        warn_caller(
            f"max_seconds={model.max_seconds:g} left out a part of the data: "
            f"{'; '.join(left_out)}. Allow at least {max(sum(left_out.values()), 0.1):.2g} s more"
        )


def _chosen_kernels(model: SelfTuning) -> tuple[Kernel, ...] | None:
    """The distinct kernels to choose from; None for the default."""
    if model.kernels is None:
        return None
    given = (model.kernels,) if isinstance(model.kernels, str | Kernel) else model.kernels
    chosen = tuple(dict.fromkeys(get_kernel(kernel) for kernel in given))
    if not chosen:
        raise ValueError("kernels=() leaves nothing to choose from; None takes the default")
    return chosen


def _encoded_rows(
    model: SelfTuning, given: TrainingTable, clock: Clock
) -> tuple[Target, Rows, dict[str, TableEncoder]]:
    """Encode features and target for the search; target columns have zero mean."""
    weights, values, n_rows = given.weights, given.values, len(given.table)
    evidence = None if weights is None else evidence_weights(weights)
    target, codes = given.target.coded(values, evidence, given.dtype)
    table = prepare_table(given.table, missing=model.missing)
    many = n_rows >= _FLOAT32_ROWS or n_rows**2 * table.width >= _FLOAT32_TERMS
    dtype = np.dtype(np.float32 if many else np.float64)
    groups = np.arange(n_rows) if given.groups is None else given.groups
    model.leaks_ = leaks(table, codes, groups, ordered=given.ordered)
    _warn_of_target(model.leaks_, target)
    strata, settings = target.strata(values), model._settings
    names = {*settings.families}
    if n_rows >= settings.fold_rows:
        names |= {*settings.exact_families}
    if strata is not None or model.kernels is not None:
        names = {*_ENCODINGS}
    encoders, views = _encoded_views(names, table, codes, evidence, dtype, clock)
    if given.groups is None:
        # New rows repeat old ones as often as old ones repeat each other.
        warn_of_copies(views["standard"].Z, codes)
    backend = resolve_backend(model.device, model.memory_budget, n_rows)
    clock.on_host &= isinstance(backend, NumpyBackend)
    fixed = backend, strata, model.leaf_rows, settings, given.ordered
    return target, Rows(views, codes, groups, weights, *fixed), encoders


def _encoded_views(
    names: Collection[str],
    table: Table,
    codes: np.ndarray,
    weights: Weights,
    dtype: np.dtype,
    clock: Clock,
) -> tuple[dict[str, TableEncoder], dict[str, Encoded]]:
    """Encoders and encoded views of a prepared table, by name; none has the distances of another.

    The standard encoding is always included, others with these names if they are expected to take
    at most a fifth of the time.
    """
    n_steps = steps_for(len(table), table.width)
    encoders: dict[str, TableEncoder] = {}
    views: dict[str, Encoded] = {}
    plains: list[np.ndarray] = []  # columns in the order of the table
    start, seconds = clock.stopwatch(), 0.0
    for name, (relative, numbers, categories) in _ENCODINGS.items():
        useless = categories != "onehot" and all(one.kind != "category" for one in table.readings)
        if useless or name not in names:
            continue
        if relative * seconds > _SHARE * clock.limit:
            clock.skip(f"the encoding {name!r} was not tried", relative * seconds)
            continue
        encoder = TableEncoder(numbers, categories, n_steps)
        Z = encoder.fit_transform(table, codes, weights, dtype, warn=False, by_content=True)
        seconds = seconds or coarse(clock.stopwatch() - start)  # time of the standard encoding
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
        tuned = (tune if rows.strata is None else tune_classes)(
            rows,
            judge=target.judge,
            kernels=kernels,
            random=check_random_state(model.random_state),
            tried=progress.tried,
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
    variances = {name: rows.views[name].Z.var(axis=0, dtype=np.float64) for name in encoders}
    model.feature_importances_ = model.average_.importances(
        variances, lambda: clock.over, backend=rows.backend
    )


def trial_table(trials: Sequence[Trial]) -> dict[str, np.ndarray]:
    """Columns with one entry per trial; some targets need no search."""
    own = [one.name for one in fields(Trial) if one.name not in ("candidate", "temperature")]
    of_candidate = [one.name for one in fields(Candidate)]
    summaries = [trial.candidate.summary() for trial in trials]
    columns = {name: np.array([one[name] for one in summaries]) for name in of_candidate}
    return columns | {name: np.array([getattr(one, name) for one in trials]) for name in own}


class FitProgress:
    """Prints the progress of a search to standard error.

    With `verbose` 1 it prints every improvement, with 2 every trial. It also prints the progress
    whenever nothing else was printed for two seconds.
    """

    def __init__(self, verbose: int, target: type[Target], clock: Clock) -> None:
        self.clock = clock
        self._verbose, self._target = int(verbose), target
        self._start = self._last = monotonic()
        self._least, self._n_trials = math.inf, 0
        self._lock = threading.RLock()  # encodings are searched in parallel
        self._ended = threading.Event()

    def __enter__(self) -> FitProgress:
        if self._verbose:
            threading.Thread(target=self._break_silence, daemon=True).start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._ended.set()

    def tried(self, trial: Trial) -> None:
        """Report the best trial of a ladder of speeds."""
        with self._lock:
            self._n_trials += 1
            better, self._least = trial.loss < self._least, min(trial.loss, self._least)
            if self._verbose > (not better):
                self._say(self._words(trial, better))

    def chosen(self, tuned: Tuned, n_rows: int) -> None:
        """The search is over; the chosen models are fitted to all rows next."""
        n_members = len(tuned.members)
        models = "1 model" if n_members == 1 else f"an average of {n_members} models"
        tried = f"{self._n_trials} trials of {len(tuned.trials)} speeds"
        self._say(f"{tried}; fitting {models} to {n_rows:,} rows")

    def ended(self, skipped: list[str]) -> None:
        """The fit is over."""
        for what in skipped:
            self._say(f"skipped: {what}")
        self._say("done")

    def _break_silence(self) -> None:
        while not self._ended.wait(0.25):
            if monotonic() - self._last >= _SILENCE and not self._ended.is_set():
                share, passed = self.clock.share(), monotonic() - self._start
                left = _minutes(max(passed * (1.0 / share - 1.0), 1.0)) if share else ""
                self._say(f"{share:.0%} done, about {left} left" if share else "working")

    def _words(self, trial: Trial, better: bool) -> str:
        one = trial.candidate
        how = f"{kernel_words(one.kernel)}, {one.encoding} columns, {one.pace}"
        how += f", round {one.n_rounds} of the metric" * (one.n_rounds > 0)
        score = f"{self._target.measure} {getattr(trial, self._target.trial_column):.4f}"
        new = "new best; " if better else ""
        return f"trial {self._n_trials}: {score} on held-out rows ({new}{how})"

    def _say(self, message: str) -> None:
        if self._verbose:
            with self._lock:
                self._last = monotonic()
                sys.stderr.write(f"[bandfall] {self._last - self._start:7.1f} s  {message}\n")


def _minutes(seconds: float) -> str:
    """An estimate in words, with one or two digits."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} minutes" if minutes < 90 else f"{minutes / 60:.0f} hours"
