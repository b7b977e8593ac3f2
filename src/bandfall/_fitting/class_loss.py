"""Members for classes by both losses, squared error and log-loss, in one average of log-odds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bandfall._fitting.logistic import fit_logistic, log_loss_target, path_kernel
from bandfall._fitting.paths import fit_member_path
from bandfall._models.member import Candidate
from bandfall._models.metric import learned_root
from bandfall._search.averaging import Tuned, average_of
from bandfall._search.candidates import Trial
from bandfall._search.clock import FINALISTS, Clock
from bandfall._search.jobs import parallel_map
from bandfall._search.losses import joined_targets, joined_weights
from bandfall._search.metrics import Roots, roots_of
from bandfall._search.parts import Part
from bandfall._search.rows import Rows
from bandfall._search.search import tune
from bandfall._search.settings import PENALTIES, Settings
from bandfall._search.splits import folds_for
from bandfall._targets.links import SOFTMAX_LINKS, LogLoss
from bandfall._targets.losses import mean_and_error, mean_r2
from bandfall.kernels._kernel import Kernel, get_kernel

_WORK = "log-loss"  # part of the progress


def tune_classes(
    rows: Rows,
    *,
    kernels: Sequence[Kernel | str] | None = None,
    clock: Clock | None = None,
    n_jobs: int | None = None,
    **arguments: Any,
) -> Tuned:
    """`tune`, and then the log-loss."""
    clock, settings = clock or Clock(), for_columns(rows.settings, rows.y.shape[1])
    if len(rows) > rows.leaf_rows:  # final fits to all rows take most of the time
        n_members = max(2, settings.member_columns // rows.y.shape[1])
        settings = replace(settings, n_members=min(settings.n_members, n_members))
    wide = Candidate(
        kernel=get_kernel(settings.wide_kernel if kernels is None else kernels[0]),
        width=settings.wide_width,
        penalty=settings.wide_penalty,
    )
    if kernels is None and len(rows) < settings.few_kernel_rows:
        kernels = settings.few_kernels
    rows = replace(rows, settings=settings)
    _expect(clock, rows, folds_for(rows) or 1, settings.n_members)
    tuned = tune(rows, kernels=kernels, clock=clock, n_jobs=n_jobs, **arguments)
    try:
        return with_log_odds(rows, tuned, clock, n_jobs, wide)
    except KeyboardInterrupt:
        clock.press()
        clock.skip("no models of the log-loss were tried")
        return tuned


def for_columns(settings: Settings, n_columns: int) -> Settings:
    """The settings with fewer rows and speeds for many classes.

    A rung costs rows² times columns, and a column more for each class and speed.
    """
    most = min(settings.rung_rows[-1], int(math.sqrt(settings.rung_entries / n_columns)))
    first = int(math.sqrt(settings.first_entries / n_columns))
    return replace(
        settings,
        rung_rows=(min(settings.rung_rows[0], first), *settings.rung_rows[1:]),
        few_speeds=n_columns > settings.many_columns,
    ).up_to(most)


def with_log_odds(
    rows: Rows, tuned: Tuned, clock: Clock, n_jobs: int | None, wide: Candidate
) -> Tuned:
    """The average of log-odds with the smallest held-out log-loss; of many rows that of the search.

    Log-odds are those of kernel logistic regressions, in the kernels of the members' paths and in
    wide kernels, whose metric is learned from log-odds, and the outputs of the members, each
    divided by a temperature. Held-out rows choose penalties and temperatures.
    """
    parts = _few_rows(rows, _partition(tuned.parts))
    _expect(clock, rows, len(parts), len(tuned.members))
    if not parts or not _affordable(rows, parts, len(tuned.members), clock):
        return tuned
    prior = log_loss_target(rows, np.arange(0)).prior
    search = _LossSearch(parts, LogLoss(prior, log_odds=True), clock, n_jobs)
    starts = [
        (trial, roots_of(tuned.metrics, trial.candidate.metric, parts)[: len(parts)])
        for trial, _ in tuned.members
    ]
    fits = search.refits(starts)
    if len(fits) < len(tuned.members):
        return tuned
    by_codes = search.as_log_odds(tuned, [one.problems for one in fits])
    fits += search.wide(wide)
    outputs = {one.trial: one.outputs for one in fits}
    trials = [*tuned.trials, *outputs]
    metrics = {one.trial.candidate.metric: one.roots for one in fits}
    return average_of(outputs | by_codes, parts, search.judge, trials, metrics)


@dataclass(frozen=True)
class _Fit:
    """A trial with the log-loss, and its outputs for the held-out rows of its parts (m, k)."""

    trial: Trial
    roots: Roots
    outputs: np.ndarray
    problems: Sequence[_Problem]


_Start = tuple[Trial, Roots]


@dataclass(frozen=True)
class _LossSearch:
    """Tries kernel logistic regression on some parts."""

    parts: Sequence[Part]
    judge: LogLoss
    clock: Clock
    n_jobs: int | None

    @property
    def settings(self) -> Settings:
        return self.parts[0].rows.settings

    def refits(self, starts: list[_Start]) -> list[_Fit]:
        """Trials in their metrics with the log-loss, as far as there was time."""
        return self._map(lambda start: self._refit(self.parts, *start), starts)

    def wide(self, candidate: Candidate) -> list[_Fit]:
        """A wide kernel under the encodings that may win, each with the rounds that help."""
        settings, n_rows, starts = self.settings, len(self.parts[0]), []
        race = self.parts[: settings.wide_parts]
        for encoding in self.parts[0].rows.views:
            one = replace(candidate, encoding=encoding)
            trial = Trial(one, np.nan, np.nan, np.nan, settings.max_r2, n_rows)
            starts.append((trial, roots_of({}, one.metric, self.parts)))
        tried = self._map(lambda start: self._refit(race, start[0], start[1][: len(race)]), starts)
        least = min((one.trial.loss for one in tried), default=np.inf)
        near = {
            one.trial.candidate.encoding: one.trial
            for one in tried
            if one.trial.loss <= settings.wide_close * least
        }
        again = [
            (near[trial.candidate.encoding], roots)
            for trial, roots in starts
            if trial.candidate.encoding in near
        ]
        return self._map(lambda start: self._rounds(*start), again)

    def as_log_odds(
        self, tuned: Tuned, problems: Sequence[Sequence[_Problem]]
    ) -> dict[Trial, np.ndarray]:
        """Members by squared error, each at its best temperature, with their outputs.

        Where the parts have fewer rows than those of the search, the paths of their `problems`
        predict: members of both losses are compared on equal terms.
        """
        rows, y = self.parts[0].rows, joined_targets(self.parts)
        weights = rows.evidence[np.concatenate([part.held_out for part in self.parts])]
        fewer = len(self.parts[0]) < len(tuned.parts[0])
        outputs_of: dict[Trial, np.ndarray] = {}
        for (trial, _), own in zip(tuned.members, problems, strict=True):
            if fewer:
                outputs = np.concatenate([problem.codes() for problem in own])
            else:
                outputs = tuned.outputs[trial][: len(y)]
            link, loss = self.judge.best_link(outputs, y, weights, len(y), SOFTMAX_LINKS)
            as_odds = replace(trial, loss=loss, temperature=link.parameter)
            outputs_of[as_odds] = outputs / link.parameter
        return outputs_of

    def _map(self, task: Callable[[_Start], _Fit | None], starts: list[_Start]) -> list[_Fit]:
        """Those that there was time for."""
        results = parallel_map(
            task, starts, n_rows=len(self.parts[0]), n_jobs=self.n_jobs, stop=self.clock.end
        )
        return [one for one in results if one is not None]

    def _rounds(self, trial: Trial, roots: Roots) -> _Fit | None:
        """Learn the metric from log-odds while that helps."""
        settings = self.settings
        best = fit = self._refit(self.parts, trial, roots)
        for number in range(1, min(settings.wide_rounds, settings.max_rounds) + 1):
            if fit is None:
                break
            best, old = fit, fit.trial.candidate
            pairs = zip(fit.problems, fit.roots, strict=True)
            roots = tuple(problem.next_root(old, root) for problem, root in pairs)
            candidate = replace(old, log_rounds=number)
            fit = self._refit(self.parts, replace(fit.trial, candidate=candidate), roots)
            if fit is None or fit.trial.loss > (1.0 - settings.wide_helped) * best.trial.loss:
                break
        return best

    def _refit(self, parts: Sequence[Part], trial: Trial, roots: Roots) -> _Fit | None:
        """A trial with the log-loss at its best penalty; None if interrupted."""
        y, weights = joined_targets(parts), joined_weights(parts)
        entries = _entries(len(parts[0]), len(parts))
        with self.clock.task(FINALISTS, entries, part=_WORK):
            pairs = zip(parts, roots, strict=True)
            problems = [_Problem(part, trial, root) for part, root in pairs]
            outputs_of: dict[int, np.ndarray] = {}
            losses: dict[int, float] = {}

            def loss(place: int) -> float:
                if self.clock.interrupted or not 0 <= place < len(PENALTIES):
                    return np.inf
                if place not in losses:
                    outputs = np.concatenate([one.outputs(PENALTIES[place]) for one in problems])
                    outputs_of[place] = outputs
                    own = self.judge.losses(outputs, y)
                    losses[place] = float(np.average(own, weights=weights))
                return losses[place]

            first = trial.candidate.penalty or self.settings.first_penalty
            best = PENALTIES.index(first)
            step = 1 if loss(best + 1) < loss(best) else -1
            while loss(best + step) < loss(best):
                best += step
        if self.clock.interrupted:
            return None
        outputs = outputs_of[best]
        mean, error = mean_and_error(self.judge.losses(outputs, y), weights)
        judged = replace(
            trial,
            candidate=replace(trial.candidate, penalty=PENALTIES[best]),
            loss=mean,
            standard_error=error,
            score=mean_r2(self.judge.codes(outputs), y, weights),
            n_rows=len(parts[0]),
        )
        return _Fit(judged, roots, outputs, problems)


class _Problem:
    """Kernel logistic regression on one part, from penalty to penalty."""

    def __init__(self, part: Part, trial: Trial, root: np.ndarray):
        X, X_new = part.scaled(trial.candidate.encoding, root)
        if trial.candidate.width:  # small penalties: rounding would make K indefinite
            X, X_new = X.astype(np.float64), X_new.astype(np.float64)
        self._part = part
        self._path = fit_member_path(part.rows, part.train, X, trial)
        self._X_new = X_new
        self._K, self._K_new = path_kernel(self._path), path_kernel(self._path, X_new)
        self._target = log_loss_target(part.rows, part.train)
        self._alphas: dict[float, np.ndarray] = {}

    def outputs(self, penalty: float) -> np.ndarray:
        """For the held-out rows, shape (m, k)."""
        start = next(reversed(self._alphas.values()), None)
        self._alphas[penalty] = fit_logistic(self._K, self._target, penalty, start)
        return self._K_new @ self._alphas[penalty]

    def codes(self) -> np.ndarray:
        """What the path predicts for the held-out rows by squared error, shape (m, k)."""
        return self._path.evaluate(self._X_new, backend=self._part.rows.backend)

    def next_root(self, candidate: Candidate, root: np.ndarray) -> np.ndarray:
        """The metric of the next round, from gradients of the log-odds of a candidate."""
        alpha = self._alphas[candidate.penalty]
        model = replace(
            self._path.undivided,
            coefficients=self._path.durations[:, None, None] * alpha,
            offset=np.zeros(alpha.shape[1]),
        )
        return learned_root(
            model,
            np.ones(alpha.shape[1]),
            root,
            diagonal=not candidate.metric.mixes,
            backend=self._part.rows.backend,
        )


def _partition(parts: Sequence[Part]) -> list[Part]:
    """Parts from the first on, as long as no row is held out twice."""
    chosen: list[Part] = []
    seen: set[int] = set()
    for part in parts:
        rows = set(part.held_out.tolist())
        if rows & seen:
            break
        seen |= rows
        chosen.append(part)
    return chosen


def _few_rows(rows: Rows, parts: Sequence[Part]) -> Sequence[Part]:
    """The parts; of many rows, one whose training rows are some of those of the first.

    Penalties are those of a prior for the function: they suit any number of rows.
    """
    if len(rows) <= rows.settings.exact_rows or not parts:
        return parts
    return [Part(rows, parts[0].train[: rows.settings.penalty_rows], parts[0].held_out)]


def _affordable(rows: Rows, parts: Sequence[Part], n_members: int, clock: Clock) -> bool:
    """Whether rows are few enough for matrices of their own, and there is time."""
    n, exact = max(map(len, parts)), len(rows) <= rows.settings.exact_rows
    n_together = min(len(rows), rows.leaf_rows)
    # Five matrices of float64 in the search; two and a half of float32 in final fits to many rows.
    n_bytes = (8 * 5 if exact else 4 * 2.5) * n_together**2
    if not _minimised(rows) or n_bytes > rows.backend.budget:
        return False
    if not exact and clock.bounded:  # nothing has shown how long the final fits would take
        return False
    return clock.has_room(n, n_members * _n_ladders(len(parts[0]), len(parts)))


def _minimised(rows: Rows) -> bool:
    """Whether rows and classes are few enough for the log-loss; leaves of many take too long."""
    settings, divided = rows.settings, len(rows) > rows.leaf_rows
    if len(rows) > settings.log_loss_rows:
        return False
    if divided and rows.y.shape[1] > settings.leaf_columns:
        return False
    return min(len(rows), rows.leaf_rows) <= settings.cholesky_rows


def _expect(clock: Clock, rows: Rows, n_parts: int, n_members: int, n_others: int = 14) -> None:
    """Announce the usual number of fits (members and others), if the log-loss is minimised."""
    n_fits = n_members + n_others if _minimised(rows) else 0
    few = len(rows) <= rows.settings.exact_rows
    n_rows = len(rows) if few else rows.settings.penalty_rows
    clock.expect(FINALISTS, n_fits * _entries(n_rows, n_parts), part=_WORK)


def _n_ladders(n_rows: int, n_parts: int) -> float:
    """What a refit costs, in ladders of speeds; a Cholesky factor takes n³."""
    return n_parts * (1.0 + n_rows / 1000)


def _entries(n_rows: int, n_parts: int) -> float:
    """Entries of a refit: half a search's seconds per entry, as one penalty follows another."""
    return 0.5 * _n_ladders(n_rows, n_parts) * n_rows**2
