"""Choosing encoding, metric, kernel, speed and stop by evidence: the search behind Bandfall.

Under every encoding the metric is learned round by round, each round judged by all kernels and
speeds: one ladder of speeds costs little more than one path, and serves every stop. The best of
every encoding and kernel then meet on more rows or folds, and the model is a weighted average of
few of them: models that differ in kind make a better average than the best few, which are alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain

import numpy as np

from bandfall.kernels import Kernel, get_kernel
from bandfall.selection.averaging import greedy_weights
from bandfall.selection.candidates import (
    KERNELS,
    MAX_R2,
    SPEEDS,
    Budget,
    Candidate,
    Judge,
    PowerLoss,
    Trial,
)
from bandfall.selection.deadline import AFTERWARDS, PATH, Deadline
from bandfall.selection.held_out import Outcome
from bandfall.selection.jobs import parallel_map
from bandfall.selection.parts import Part, Rows, learn_metrics, search_parts
from bandfall.selection.trainers import LocalTrainer, Request, Trainer, trainer_for
from bandfall.selection.work import FINAL_FITS, FINALISTS, SEARCH, SUMMARY
from bandfall.targets import column_means

_N_FIRST_SPEEDS = 7  # of SPEEDS: the slower ones are asked for where slow ones pay
_MAX_STOPS = 60
_FIRST_LIMIT = 0.9999  # training R², before anything is known
_USUAL_ROUNDS = 4  # of a metric that is chosen; the search tries a few more
_ROUNDS_TRIED = 6


@dataclass(frozen=True)
class Tuned:
    """What a search has found.

    Attributes
    ----------
    members : list of (Trial, float)
        What to average, with weights of sum one, heaviest first.
    scouts : dict of (str, int) to Trial
        With what the metric of an encoding and a number of rounds is learned further.
    held_out : ndarray of shape (m,)
        Row numbers of the evidence; a row may stand there more than once.
    predictions : ndarray of shape (m, k)
        Of the average for these rows, by models that have not seen them.
    score : float
        Their R².
    trials : list of Trial
        Everything tried, in order.
    roots : dict of (str, int) to ndarray
        Metrics learned from enough rows to be used as they are.
    among : callable (sequence of Trial) -> Tuned, optional
        The same with weights for these members alone.
    parts : sequence of Part
        Whose held-out rows the evidence is.
    """

    members: list[tuple[Trial, float]]
    scouts: Mapping[tuple[str, int], Trial]
    held_out: np.ndarray
    predictions: np.ndarray
    score: float
    trials: list[Trial]
    roots: Mapping[tuple[str, int], np.ndarray]
    among: Callable[[Sequence[Trial]], Tuned] | None = None
    parts: Sequence[Part] = ()


@dataclass
class Found:
    """Trials, and for the best speed of every encoding, metric and kernel what it predicted."""

    trials: list[Trial] = field(default_factory=list)
    scouts: dict[tuple[str, int], Trial] = field(default_factory=dict)
    predictions: dict[Trial, np.ndarray] = field(default_factory=dict)

    def add(self, other: Found) -> None:
        """Take over all that another one holds."""
        self.trials += other.trials
        self.scouts |= other.scouts
        self.predictions |= other.predictions

    @property
    def best(self) -> list[Trial]:
        """The best speed of every encoding, metric and kernel, best first."""
        return sorted(self.predictions, key=lambda trial: trial.loss)

    @property
    def finalists(self) -> list[Trial]:
        """The best of every encoding and kernel, best first."""
        kinds: dict[tuple[str, Kernel], Trial] = {}
        for trial in self.best:
            kinds.setdefault((trial.candidate.encoding, trial.candidate.kernel), trial)
        return list(kinds.values())


def tune(
    rows: Rows,
    *,
    budget: Budget | None = None,
    judge: Judge | None = None,
    kernels: Sequence[Kernel | str] = KERNELS,
    random: np.random.RandomState,
    interrupted: Callable[[Trial], bool] = lambda trial: False,
    deadline: Deadline | None = None,
    n_jobs: int | None = None,
) -> Tuned:
    """Search.

    Parameters
    ----------
    rows : Rows
        At least four.
    budget : Budget, optional
    judge : Judge, optional
        `PowerLoss` by default.
    kernels : sequence of Kernel or str
    random : RandomState
        Draws the held-out rows.
    interrupted : callable (Trial) -> bool
        Told the best trial of every ladder of speeds; True ends the search with the best so far.
    deadline : Deadline, optional
        Of the whole fit: the search ends while there is time for what comes after it.
    n_jobs : int, optional
        Encodings to work on at a time, each on a thread of its own; by default as many as there
        are cores where that pays. The result does not depend on it.
    """
    budget, deadline = budget or Budget(), deadline or Deadline()
    reuse_roots = len(rows) >= budget.fold_rows
    n_paths = budget.n_members * (1 if reuse_roots else 1 + _USUAL_ROUNDS)
    deadline.reserve(len(rows), PATH * n_paths)
    judge = judge or PowerLoss()
    chosen = [get_kernel(kernel) for kernel in kernels]
    first, second = search_parts(rows, budget, random)
    work = deadline.work
    work.expect(FINAL_FITS, PATH * n_paths * len(rows) ** 2)
    work.expect(SUMMARY, AFTERWARDS * len(rows) ** 2)
    for encoding in rows.views:
        n_tried = _ROUNDS_TRIED * len(kernels) * len(first)
        work.expect(SEARCH, n_tried * len(first[0]) ** 2, part=encoding)
    if second:
        n_ladders = (len(kernels) + PATH * _USUAL_ROUNDS) * len(rows.views) * len(second)
        work.expect(FINALISTS, n_ladders * len(second[0]) ** 2)
    found = Found()
    ended = partial(getattr, deadline, "interrupted")
    with trainer_for(rows, first, judge, ended) as trainer:
        search = Search(first, judge, interrupted, deadline, trainer)
        explored = parallel_map(
            lambda encoding: search.explore(encoding, chosen, budget),
            list(rows.views),
            n_rows=len(first[0]),
            n_jobs=len(rows.views) if trainer.elsewhere else n_jobs,
            stop=deadline.end,
        )
    for one in explored:
        found.add(one)
    if search.over:
        deadline.give_up(f"the search ended early, after {len(found.trials)} trials")
    elif second:
        decided = Found(found.trials, found.scouts)
        finalists = found.finalists
        learned = {one.candidate.encoding: one.candidate.n_rounds for one in finalists}
        n_ladders = (len(finalists) + PATH * sum(learned.values())) * len(second)
        work.expect(FINALISTS, n_ladders * len(second[0]) ** 2)
        with trainer_for(rows, second, judge, ended) as trainer:
            final = Search(second, judge, interrupted, deadline, trainer)
            several = parallel_map(
                lambda encoding: [
                    final.decide(one, found.scouts)
                    for one in finalists
                    if one.candidate.encoding == encoding
                ],
                list(rows.views),  # what has an encoding in common learns its metrics once
                n_rows=len(second[0]),
                n_jobs=len(rows.views) if trainer.elsewhere else n_jobs,
                stop=deadline.end,
            )
        for one in chain.from_iterable(several):
            decided.add(one)
        n_left = len(finalists) - len(decided.predictions)
        if n_left:
            deadline.give_up(f"{n_left} of {len(finalists)} finalists were not tried further")
        if decided.predictions:
            search, found = final, decided
    return search.tuned(found, budget.n_members, reuse_roots)


class Search:
    """Tries candidates on all its parts.

    Parameters
    ----------
    parts : list of Part
    judge : Judge
    interrupted : callable (Trial) -> bool
    deadline : Deadline, optional
    trainer : Trainer, optional
        Of the same parts; one that trains here by default.
    """

    def __init__(
        self,
        parts: list[Part],
        judge: Judge,
        interrupted: Callable[[Trial], bool] = lambda trial: False,
        deadline: Deadline | None = None,
        trainer: Trainer | None = None,
    ):
        self.parts = parts
        self.judge = judge
        self._trainer = trainer or LocalTrainer(parts, judge)
        self.over = False
        self._interrupted = interrupted
        self._deadline = deadline or Deadline()
        self._y = np.concatenate([part.y for part in parts])
        self._weights = _joined_weights(parts)

    def explore(self, encoding: str, kernels: Sequence[Kernel], budget: Budget) -> Found:
        """Learn the metric round by round while that helps any kernel."""
        found = Found()
        speeds = dict.fromkeys(kernels, SPEEDS[:_N_FIRST_SPEEDS])
        limits = dict.fromkeys(kernels, _FIRST_LIMIT)
        least, misses = math.inf, 0
        entries = len(self.parts) * len(self.parts[0]) ** 2
        work = self._deadline.work
        for n_rounds in range(budget.max_rounds + 1):
            rounds = []
            n_to_come = max(budget.patience - misses, _ROUNDS_TRIED - n_rounds)
            n_to_come = min(n_to_come, budget.max_rounds + 1 - n_rounds)
            work.expect(SEARCH, n_to_come * len(kernels) * entries, part=encoding)
            requests = [
                Request(encoding, n_rounds, kernel, speeds[kernel], limits[kernel])
                for kernel in kernels
            ]
            coming = self._trainer.outcomes(requests)
            for kernel, request in zip(kernels, requests, strict=True):
                if self.over and found.trials:
                    return found
                with work.task(SEARCH, entries, part=encoding):
                    trial, outcomes = self._take(found, request, coming)
                rounds.append((trial, outcomes, speeds[kernel].index(trial.candidate.min_speed)))
                speeds[kernel] = _neighbours(trial.candidate.min_speed)
                limits[kernel] = _beyond(trial)
            scout, outcomes, speed = min(rounds, key=lambda one: one[0].loss)
            found.scouts[encoding, n_rounds] = scout
            misses = 0 if scout.loss < (1.0 - budget.worth) * least else misses + 1
            least = min(least, scout.loss)
            flat = len(self.parts[0].root(encoding, n_rounds)) < 2
            if flat or misses == budget.patience or n_rounds == budget.max_rounds:
                work.expect(SEARCH, 0.0, part=encoding)
                break
            for part, outcome in zip(self.parts, outcomes, strict=True):
                part.learn(scout, outcome.ladder, speed)
        return found

    def decide(self, finalist: Trial, scouts: Mapping[tuple[str, int], Trial]) -> Found:
        """A finalist, and the speeds beside it; metrics are learned with their scouts."""
        found, candidate = Found(), finalist.candidate
        n_ladders = (1.0 + PATH * candidate.n_rounds) * len(self.parts)
        if not self.over and self._deadline.has_room(len(self.parts[0]), n_ladders):
            part = self.parts[0]
            known = (candidate.encoding, candidate.n_rounds) in part.roots
            n_ladders = 1.0 if known else 1.0 + PATH * candidate.n_rounds
            request = Request(
                candidate.encoding,
                candidate.n_rounds,
                candidate.kernel,
                _neighbours(candidate.min_speed),
                _beyond(finalist),
            )
            with self._deadline.work.task(FINALISTS, n_ladders * len(self.parts) * len(part) ** 2):
                train = self._trainer.ladders
                learn_metrics(self.parts, candidate.encoding, candidate.n_rounds, scouts, train)
                self._take(found, request, self._trainer.outcomes([request]))
        return Found() if self._deadline.interrupted else found  # cut off: no fair comparison

    def _take(
        self, found: Found, request: Request, coming: Iterator[list[Outcome]]
    ) -> tuple[Trial, list[Outcome]]:
        """Judge the next outcomes, of this request: its best trial, and what each part did."""
        with self._deadline.timed(len(self.parts[0]), len(self.parts)):
            outcomes = next(coming)
        trials = [
            self._judged(
                Candidate(request.encoding, request.n_rounds, request.kernel, speed), outcomes, i
            )
            for i, speed in enumerate(request.speeds)
        ]
        best = min(range(len(trials)), key=lambda i: trials[i].loss)
        found.trials += trials
        found.predictions[trials[best]] = _at_stop(outcomes, best, trials[best].max_r2)
        self.over = self.over or self._interrupted(trials[best]) or self._deadline.search_over
        return trials[best], outcomes

    def tuned(
        self,
        found: Found,
        n_members: int,
        reuse_roots: bool,
        among: Sequence[Trial] | None = None,
    ) -> Tuned:
        """The average to take, of some trials or the best, and the evidence for it."""
        best = found.best if among is None else list(among)
        predictions = [found.predictions[trial] for trial in best]
        weights = greedy_weights(
            predictions, self._y, self.judge, n_members=n_members, weights=self._weights
        )
        order = np.argsort(-weights, kind="stable")
        average = np.tensordot(weights, np.stack(predictions), 1)
        return Tuned(
            [(best[i], float(weights[i])) for i in order if weights[i] > 0],
            found.scouts,
            np.concatenate([part.held_out for part in self.parts]),
            average,
            _r2(average, self._y, self._weights),
            found.trials,
            self.parts[0].roots if reuse_roots else {},
            partial(self.tuned, found, n_members, reuse_roots),
            self.parts,
        )

    def _judged(self, candidate: Candidate, outcomes: list[Outcome], speed: int) -> Trial:
        """The trial of one speed, at the stop that is best for all parts together."""
        losses = [outcome.losses for outcome in outcomes]
        n_stops = max(1, len(losses[0]) - 1)  # none: where it starts
        levels = np.unique(np.concatenate([o.ladder.r2[-n_stops:, speed] for o in outcomes]))
        places = np.linspace(0, len(levels) - 1, min(len(levels), _MAX_STOPS)).astype(int)
        levels = levels[places] if len(levels) else np.zeros(1)  # constant targets train nothing
        stops = [outcome.ladder.all_reached(speed, levels) for outcome in outcomes]
        sums = np.zeros(len(levels))
        for part, loss, reached in zip(self.parts, losses, stops, strict=True):
            weights = np.ones(len(part.y)) if part.weights is None else part.weights
            sums += (loss[:, :, speed] @ weights)[reached]
        best = int(np.argmin(sums))
        rows = [loss[r[best], :, speed] for loss, r in zip(losses, stops, strict=True)]
        mean, error = _mean_and_error(np.concatenate(rows), self._weights)
        stop = float(levels[best])
        score = _r2(_at_stop(outcomes, speed, stop), self._y, self._weights)
        levels_reached = [o.ladder.r2[r[best], speed] for o, r in zip(outcomes, stops, strict=True)]
        return Trial(
            candidate, mean, error, score, stop, len(self.parts[0]), float(np.mean(levels_reached))
        )


def _beyond(trial: Trial) -> float:
    """How far to train where a trial is the best so far: well beyond its stop, and no farther."""
    return min(MAX_R2, 1.0 - 0.1 * (1.0 - trial.max_r2))


def _neighbours(speed: float) -> tuple[float, ...]:
    """A speed, the next faster and the next slower one."""
    place = SPEEDS.index(speed)
    return SPEEDS[max(0, place - 1) : place + 2]


def _at_stop(outcomes: Sequence[Outcome], speed: int, level: float) -> np.ndarray:
    """Predictions of one speed for all held-out rows, shape (m, k)."""
    return np.concatenate(
        [o.predictions[o.ladder.reached(speed, level), :, speed] for o in outcomes]
    )


def _joined_weights(parts: Sequence[Part]) -> np.ndarray | None:
    weights = [part.weights for part in parts if part.weights is not None]
    return np.concatenate(weights) if weights else None


def _mean_and_error(losses: np.ndarray, weights: np.ndarray | None) -> tuple[float, float]:
    """Weighted mean of losses (m,), and its standard error."""
    weights = np.ones(len(losses)) if weights is None else weights
    mean = float(np.average(losses, weights=weights))
    deviation = (losses - mean) * weights / weights.mean()
    return mean, float(deviation.std()) / math.sqrt(len(deviation))


def _r2(predictions: np.ndarray, y: np.ndarray, weights: np.ndarray | None) -> float:
    """R² averaged over targets that vary; NaN where none does."""
    mean = column_means(y, weights)
    variance = np.average((y - mean) ** 2, axis=0, weights=weights)
    error = np.average((predictions - y) ** 2, axis=0, weights=weights)
    varies = variance > 0
    return float(np.mean(1.0 - error[varies] / variance[varies])) if varies.any() else math.nan
