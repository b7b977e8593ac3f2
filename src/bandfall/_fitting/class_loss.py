"""Members for classes by both losses, squared error and log-loss, in one average of log-odds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from bandfall._fitting.logistic import fit_logistic, log_loss_target, path_kernel
from bandfall._fitting.paths import fit_member_path
from bandfall._models.member import Candidate
from bandfall._models.metric import learned_root
from bandfall._search.averaging import averaged
from bandfall._search.candidates import MAX_R2, Budget, Trial
from bandfall._search.clock import FINALISTS, Clock
from bandfall._search.jobs import parallel_map
from bandfall._search.parts import Part, Rows, common_root, folds_for, joined_weights
from bandfall._search.tuning import Tuned, tune
from bandfall._targets.links import SOFTMAX_LINKS
from bandfall._targets.losses import LogLoss, mean_and_error, mean_r2
from bandfall.kernels._kernel import Kernel, get_kernel

_FEW_KERNELS = ("gaussian", "matern12")
PENALTIES = tuple(float(f"{10.0 * 10 ** (-i / 2):.1g}") for i in range(13))  # 10, 3, … 1e-05
_STAGE_ENTRIES = 3e8  # rows² × columns of a search: as many as three classes of 10,000 rows have
_FIRST_ENTRIES = 4e7  # the same of the first stage: as many as ten classes of 2,000 rows have
_MANY_COLUMNS = 3  # that seven speeds of cost little
_LEAF_COLUMNS = 10  # most classes for the log-loss in leaves
_MEMBER_COLUMNS = 60  # of all members that are fitted to all rows: four of fifteen classes
_FIRST = 0.3  # penalty that suits most members
_WORK = "log-loss"
_USUAL_FITS = 14  # beside the members, as if on all parts
_PACE = 0.5  # of a search's seconds per entry: what one penalty after the other takes
_MATRICES = 5  # of float64 that a part needs at a time
_MATRICES_32 = 2.5  # of float32 that a final fit to many rows needs at a time
# Where classes follow a rule, wide kernels with small penalties have the least log-loss, though the
# squared error of such paths is poor.
_WIDE = Candidate(kernel=get_kernel("gaussian"), width=0.25, penalty=0.003)
_RACE_PARTS = 2  # that all encodings are tried on
_CLOSE = 1.25  # times the least loss: encodings that learn a metric
_MAX_ROUNDS = 3
_HELPED = 0.02  # share by which the loss must fall for a round to have helped


def tune_classes(
    rows: Rows,
    *,
    budget: Budget | None = None,
    kernels: Sequence[Kernel | str] | None = None,
    clock: Clock | None = None,
    n_jobs: int | None = None,
    **settings: Any,
) -> Tuned:
    """`tune`, and then the log-loss.

    Few rows choose among few kernels: with more of them the held-out log-loss falls and that of
    new rows rises (docs/research.md).
    """
    budget = for_columns(budget or Budget(), rows.y.shape[1])
    if len(rows) > rows.leaf_rows:  # final fits to all rows take most of the time
        n_members = max(2, _MEMBER_COLUMNS // rows.y.shape[1])
        budget = replace(budget, n_members=min(budget.n_members, n_members))
    clock = clock or Clock()
    chosen = _FEW_KERNELS if kernels is None and len(rows) < budget.few_kernel_rows else kernels
    settings |= {"budget": budget, "kernels": chosen, "clock": clock, "n_jobs": n_jobs}
    wide = _WIDE if kernels is None else replace(_WIDE, kernel=get_kernel(kernels[0]))
    _expect(clock, budget, rows, folds_for(rows, budget) or 1, budget.n_members)
    tuned = tune(rows, **settings)
    try:
        return with_log_odds(rows, tuned, clock, n_jobs, budget, wide)
    except KeyboardInterrupt:
        clock.press()
        clock.skip("no models of the log-loss were tried")
        return tuned


def for_columns(budget: Budget, n_columns: int) -> Budget:
    """The budget with fewer rows and speeds for many classes.

    A stage costs rows² times columns, and a column more for each class and speed.
    """
    most = min(budget.stage_rows[-1], int(math.sqrt(_STAGE_ENTRIES / n_columns)))
    first = int(math.sqrt(_FIRST_ENTRIES / n_columns))
    stages = (min(budget.stage_rows[0], first), *budget.stage_rows[1:])
    return replace(
        budget,
        stage_rows=stages,
        few_speeds=n_columns > _MANY_COLUMNS,
    ).up_to(most)


def with_log_odds(
    rows: Rows,
    tuned: Tuned,
    clock: Clock,
    n_jobs: int | None = None,
    budget: Budget | None = None,
    wide: Candidate = _WIDE,
) -> Tuned:
    """The average of log-odds with the smallest held-out log-loss; of many rows that of the search.

    Log-odds are those of kernel logistic regressions, in the kernels of the members' paths and in
    wide kernels, whose metric is learned from log-odds, and the outputs of the members, each
    divided by a temperature. Held-out rows choose penalties and temperatures.
    """
    budget = budget or Budget()
    parts = _few_rows(rows, _partition(tuned.parts), budget)
    _expect(clock, budget, rows, len(parts), len(tuned.members))
    if not parts or not _affordable(rows, parts, len(tuned.members), clock, budget):
        return tuned
    prior = log_loss_target(rows, np.arange(0)).prior
    search = _LossSearch(rows, parts, LogLoss(prior, log_odds=True), clock, n_jobs)
    fits = search.members([trial for trial, _ in tuned.members])
    if len(fits) < len(tuned.members):
        return tuned
    by_codes = search.as_log_odds(tuned, [one.problems for one in fits])
    fits += search.wide(wide, min(_MAX_ROUNDS, budget.max_rounds))
    outputs = {one.trial: one.outputs for one in fits}
    tuned = replace(tuned, trials=[*tuned.trials, *outputs])
    outputs |= by_codes
    average = partial(_average, tuned, rows, parts, search.judge, outputs, budget.n_members)
    return average(list(outputs))


@dataclass(frozen=True)
class _Fit:
    """A trial with the log-loss, and its outputs for the held-out rows of its parts (m, k)."""

    trial: Trial
    outputs: np.ndarray
    problems: Sequence[_Problem]


@dataclass(frozen=True)
class _LossSearch:
    """Tries kernel logistic regression on some parts."""

    rows: Rows
    parts: Sequence[Part]
    judge: LogLoss
    clock: Clock
    n_jobs: int | None

    def members(self, trials: list[Trial]) -> list[_Fit]:
        """Members of the search, as far as there was time."""
        return self._map(lambda trial: self._refit(self.parts, trial), trials)

    def wide(self, candidate: Candidate, max_rounds: int) -> list[_Fit]:
        """A wide kernel under the encodings that may win, each with the rounds that help."""
        race, n_rows = self.parts[:_RACE_PARTS], len(self.parts[0])
        starts = [
            Trial(replace(candidate, encoding=encoding), np.nan, np.nan, np.nan, MAX_R2, n_rows)
            for encoding in self.rows.views
        ]
        tried = self._map(lambda trial: self._refit(race, trial), starts)
        least = min((one.trial.loss for one in tried), default=np.inf)
        near = [one.trial for one in tried if one.trial.loss <= _CLOSE * least]
        return self._map(lambda trial: self._rounds(trial, max_rounds), near)

    def as_log_odds(
        self, tuned: Tuned, problems: Sequence[Sequence[_Problem]]
    ) -> dict[Trial, np.ndarray]:
        """Members by squared error, each at its best temperature, with their outputs.

        Where the parts have fewer rows than those of the search, the paths of their `problems`
        predict: members of both losses are compared on equal terms.
        """
        assert tuned.among is not None
        held_out = np.concatenate([part.held_out for part in self.parts])
        y, weights = self.rows.y[held_out], self.rows.evidence[held_out]
        fewer = len(self.parts[0]) < len(tuned.parts[0])
        found = {}
        for (trial, _), own in zip(tuned.members, problems, strict=True):
            if fewer:
                outputs = np.concatenate([problem.codes() for problem in own])
            else:
                outputs = tuned.among([trial]).predictions[: len(y)]
            link, loss = self.judge.best_link(outputs, y, weights, len(y), SOFTMAX_LINKS)
            found[replace(trial, loss=loss, temperature=link.parameter)] = outputs / link.parameter
        return found

    def _map(self, task: Callable[[Trial], _Fit | None], trials: list[Trial]) -> list[_Fit]:
        """Those that there was time for."""
        results = parallel_map(
            task, trials, n_rows=len(self.parts[0]), n_jobs=self.n_jobs, stop=self.clock.end
        )
        return [one for one in results if one is not None]

    def _rounds(self, trial: Trial, max_rounds: int) -> _Fit | None:
        """Learn the metric from log-odds while that helps."""
        best = fit = self._refit(self.parts, trial)
        for number in range(1, max_rounds + 1):
            if fit is None:
                break
            best, candidate = fit, replace(fit.trial.candidate, log_rounds=number)
            for part, problem in zip(self.parts, fit.problems, strict=True):
                part.roots[candidate.metric] = problem.root(fit.trial.candidate)
            fit = self._refit(self.parts, replace(fit.trial, candidate=candidate))
            if fit is None or fit.trial.loss > (1.0 - _HELPED) * best.trial.loss:
                break
        return best

    def _refit(self, parts: Sequence[Part], trial: Trial) -> _Fit | None:
        """A trial with the log-loss at its best penalty; None if interrupted."""
        entries = _PACE * _n_ladders(len(parts[0]), len(parts)) * len(parts[0]) ** 2
        with self.clock.task(FINALISTS, entries, part=_WORK):
            problems = [_Problem(self.rows, part, trial) for part in parts]
            y, weights = np.concatenate([part.y for part in parts]), joined_weights(parts)
            found: dict[int, tuple[float, np.ndarray]] = {}

            def loss(place: int) -> float:
                if self.clock.interrupted or not 0 <= place < len(PENALTIES):
                    return np.inf
                if place not in found:
                    outputs = np.concatenate([one.outputs(PENALTIES[place]) for one in problems])
                    losses = self.judge.losses(outputs, y)
                    found[place] = float(np.average(losses, weights=weights)), outputs
                return found[place][0]

            best = PENALTIES.index(trial.candidate.penalty or _FIRST)
            step = 1 if loss(best + 1) < loss(best) else -1
            while loss(best + step) < loss(best):
                best += step
        if self.clock.interrupted:
            return None
        outputs = found[best][1]
        mean, error = mean_and_error(self.judge.losses(outputs, y), weights)
        score = mean_r2(self.judge.codes(outputs), y, weights)
        better = replace(trial.candidate, penalty=PENALTIES[best])
        judged = replace(
            trial,
            candidate=better,
            loss=mean,
            standard_error=error,
            score=score,
            n_rows=len(parts[0]),
        )
        return _Fit(judged, outputs, problems)


class _Problem:
    """Kernel logistic regression on one part, from penalty to penalty."""

    def __init__(self, rows: Rows, part: Part, trial: Trial):
        X, X_new = part.scaled_rows(trial.candidate.metric)
        self._part = part
        self._path = fit_member_path(rows, part.train, X, trial)
        self._X_new = X_new
        self._K, self._K_new = path_kernel(self._path), path_kernel(self._path, X_new)
        self._target = log_loss_target(rows, part.train)
        self._alphas: dict[float, np.ndarray] = {}

    def outputs(self, penalty: float) -> np.ndarray:
        """For the held-out rows, shape (m, k)."""
        start = next(reversed(self._alphas.values()), None)
        self._alphas[penalty] = fit_logistic(self._K, self._target, penalty, start)
        return self._K_new @ self._alphas[penalty]

    def codes(self) -> np.ndarray:
        """What the path predicts for the held-out rows by squared error, shape (m, k)."""
        return self._path.evaluate(self._X_new, backend=self._part.backend)

    def root(self, candidate: Candidate) -> np.ndarray:
        """The metric of the next round, from gradients of the log-odds of a candidate."""
        alpha = self._alphas[candidate.penalty]
        model = replace(
            self._path.undivided,
            coefficients=self._path.durations[:, None, None] * alpha,
            offset=np.zeros(alpha.shape[1]),
        )
        key = candidate.metric
        return learned_root(
            model,
            np.ones(alpha.shape[1]),
            self._part.root(key),
            diagonal=not key.mixes,
            backend=self._part.backend,
        )


def _average(
    tuned: Tuned,
    rows: Rows,
    parts: Sequence[Part],
    judge: LogLoss,
    outputs: dict[Trial, np.ndarray],
    n_members: int,
    trials: Sequence[Trial],
) -> Tuned:
    """The average of at most `n_members` of these trials, by their outputs for held-out rows."""
    held_out = np.concatenate([part.held_out for part in parts])
    members, average = averaged(
        trials,
        [outputs[trial] for trial in trials],
        rows.y[held_out],
        judge,
        n_members=n_members,
        weights=joined_weights(parts),
    )
    keys = {trial.candidate.metric for trial, _ in members}
    return replace(
        tuned,
        members=members,
        held_out=held_out,
        predictions=average,
        roots={key: common_root(parts, key) for key in keys if key.learned},
        among=partial(_average, tuned, rows, parts, judge, outputs, n_members),
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


def _few_rows(rows: Rows, parts: Sequence[Part], budget: Budget) -> Sequence[Part]:
    """The parts; of many rows, one whose training rows are some of those of the first.

    Penalties are those of a prior for the function: they suit any number of rows.
    """
    if len(rows) <= budget.exact_rows or not parts:
        return parts
    part = Part(rows, parts[0].train[: budget.penalty_rows], parts[0].held_out)
    part.roots.update(parts[0].roots)
    return [part]


def _affordable(
    rows: Rows, parts: Sequence[Part], n_members: int, clock: Clock, budget: Budget
) -> bool:
    """Whether rows are few enough for matrices of their own, and there is time."""
    n, exact = max(map(len, parts)), len(rows) <= budget.exact_rows
    n_together = min(len(rows), rows.leaf_rows)
    n_bytes = (8 * _MATRICES if exact else 4 * _MATRICES_32) * n_together**2
    if not _minimised(rows, budget) or n_bytes > rows.backend.budget:
        return False
    if not exact and clock.bounded:  # nothing has shown how long the final fits would take
        return False
    return clock.has_room(n, n_members * _n_ladders(len(parts[0]), len(parts)))


def _minimised(rows: Rows, budget: Budget) -> bool:
    """Whether rows and classes are few enough for the log-loss; leaves of many take too long."""
    divided = len(rows) > rows.leaf_rows
    if len(rows) > budget.log_loss_rows or (divided and rows.y.shape[1] > _LEAF_COLUMNS):
        return False
    return min(len(rows), rows.leaf_rows) <= budget.cholesky_rows


def _expect(clock: Clock, budget: Budget, rows: Rows, n_parts: int, n_members: int) -> None:
    """Announce the usual number of fits, if the log-loss is minimised."""
    n_fits = n_members + _USUAL_FITS if _minimised(rows, budget) else 0
    n_rows = len(rows) if len(rows) <= budget.exact_rows else budget.penalty_rows
    entries = _PACE * n_fits * _n_ladders(n_rows, n_parts) * n_rows**2
    clock.expect(FINALISTS, entries, part=_WORK)


def _n_ladders(n_rows: int, n_parts: int) -> float:
    """What a refit costs, in ladders of speeds; a Cholesky factor takes n³."""
    return n_parts * (1.0 + n_rows / 1000)
