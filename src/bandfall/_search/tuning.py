"""The search behind Bandfall: it chooses encoding, metric, kernel, speed and stop by held-out rows.

A family is an encoding and a kernel. Families that measure distances in the same metric learn it
together, round by round, and each round is judged at several speeds: a ladder of speeds costs
little more than one path and covers every stop. The best trial of every family is then compared
with the others on more rows or folds. The model is a weighted average of a few families, because
models of different kinds make a better average than the best few, which resemble each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeAlias

import numpy as np

from bandfall._models.member import Candidate, Family, MetricKey
from bandfall._search.averaging import averaged, greedy_weights
from bandfall._search.candidates import (
    MAX_R2,
    SPEEDS,
    Budget,
    Request,
    Trial,
    default_families,
    neighbours,
    next_speeds,
)
from bandfall._search.clock import AFTERWARDS, FINAL_FITS, FINALISTS, PATH, SEARCH, SUMMARY, Clock
from bandfall._search.held_out import Outcome
from bandfall._search.jobs import parallel_map
from bandfall._search.pace import affordable_budget
from bandfall._search.parts import (
    Part,
    Rows,
    common_root,
    joined_weights,
    learn_metrics,
    search_stages,
)
from bandfall._search.trainers import LocalTrainer, Trainer, trainer_for
from bandfall._targets.losses import Judge, PowerLoss, mean_and_error, mean_r2
from bandfall.kernels._kernel import Kernel, get_kernel

# Of the first round: every other speed. Those beside the best follow with the metric and among
# the finalists, also slower ones.
_FIRST_SPEEDS = SPEEDS[:7:2]
_MAX_STOPS = 60
_FIRST_LIMIT = 0.9999  # training R², before anything is known
_ROUNDS_AHEAD = 2  # a family is dropped if it would not win even after this many more rounds
# Typical values, for estimates of progress.
_ROUNDS_TRIED = 4  # rounds of a metric that are tried
_ROUNDS_CHOSEN = 3  # rounds of a metric that is chosen
_SHARE_CHOSEN = 0.8  # share of families that reach the next stage


@dataclass(frozen=True)
class Tuned:
    """The result of a search.

    Attributes
    ----------
    members : list of (Trial, float)
        The trials to average and their weights, which sum to one; heaviest first.
    held_out : ndarray of shape (m,)
        Row numbers of the evidence; a row may occur more than once.
    predictions : ndarray of shape (m, k)
        Predictions of the average for these rows, by models that have not seen them.
    trials : list of Trial
        All trials, in order.
    roots : dict of MetricKey to ndarray
        The metrics of the members.
    among : callable (sequence of Trial) -> Tuned, optional
        Returns the result with these members only, and new weights.
    parts : sequence of Part
        The parts whose held-out rows are the evidence.
    """

    members: list[tuple[Trial, float]]
    held_out: np.ndarray
    predictions: np.ndarray
    trials: list[Trial]
    roots: Mapping[MetricKey, np.ndarray]
    among: Callable[[Sequence[Trial]], Tuned] | None = None
    parts: Sequence[Part] = ()


Climb: TypeAlias = "Generator[Found, float | None, None]"
"""Yields everything found so far after each round, and receives the least loss of all climbs."""


@dataclass
class Found:
    """Trials, and predictions of the best speed of every encoding, metric and kernel."""

    trials: list[Trial] = field(default_factory=list)
    scouts: dict[MetricKey, Trial] = field(default_factory=dict)
    predictions: dict[Trial, np.ndarray] = field(default_factory=dict)

    def add(self, other: Found) -> None:
        """Add the contents of another one."""
        self.trials += other.trials
        self.scouts |= other.scouts
        self.predictions |= other.predictions

    @property
    def best(self) -> list[Trial]:
        """The best speed of every encoding, metric and kernel, best first."""
        return sorted(self.predictions, key=lambda trial: trial.loss)

    @property
    def finalists(self) -> list[Trial]:
        """The best of every family, best first."""
        families: dict[Family, Trial] = {}
        for trial in self.best:
            families.setdefault(trial.candidate.family, trial)
        return list(families.values())


def tune(
    rows: Rows,
    *,
    budget: Budget | None = None,
    judge: Judge | None = None,
    kernels: Sequence[Kernel | str] | None = None,
    random: np.random.RandomState,
    interrupted: Callable[[Trial], bool] = lambda trial: False,
    clock: Clock | None = None,
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
    kernels : sequence of Kernel or str, optional
        Kernels to try under every encoding; by default those of `FAMILIES`.
    random : RandomState
        Draws the held-out rows.
    interrupted : callable (Trial) -> bool
        Called with the best trial of every ladder of speeds; True ends the search with the best
        model so far.
    clock : Clock, optional
        Time limit of the whole fit; the search leaves time for the final fits.
    n_jobs : int, optional
        Number of ladders of speeds to train at a time, one per thread; by default one per core if
        that is faster. The result does not depend on it.
    """
    budget, clock = budget or Budget(), clock or Clock()
    judge = judge or PowerLoss()
    if kernels is None:
        classes = rows.strata is not None
        families = default_families(list(rows.views), len(rows), budget, classes=classes)
    else:
        families = [Family(one, get_kernel(k)) for one in rows.views for k in kernels]
    budget = affordable_budget(rows, families[0].kernel, budget, clock)
    clock.reserve(len(rows), PATH * rows.final_share(len(rows)) * budget.n_members)
    stages = search_stages(rows, budget, random)
    _expect(clock, rows, stages, families, budget)
    ended = clock.search_ended
    search, found = None, Found()
    finalists: list[Trial] = []
    try:
        for number, parts in enumerate(stages):
            with trainer_for(rows, parts, judge, ended, n_jobs) as trainer:
                now = Search(parts, judge, interrupted, clock, trainer)
                if search is None:
                    climbs = [now.explore(*one, budget) for one in _by_metric(families)]
                else:
                    anew = len(parts[0]) > len(search.parts[0]) and not parts[0].roots
                    climbs = [
                        now.decide(several, found.scouts, budget, anew)
                        for several in _of_one_metric(finalists)
                    ]
                results = race(
                    climbs,
                    n_rows=len(parts[0]),
                    n_jobs=len(climbs) if trainer.waits else 1,
                    clock=clock,
                )
            decided = Found(found.trials, dict(found.scouts))
            for one in results:
                decided.add(one)
            n_left = len(finalists) - len(decided.finalists)
            if search is not None and n_left > 0:
                clock.skip(f"{n_left} of {len(finalists)} finalists were not tried further")
            if search is None or decided.predictions:
                search, found = now, decided
            if now.over or clock.pressed:
                if number == 0:
                    clock.skip(f"the search ended early, after {len(found.trials)} trials")
                break
            if number + 1 < len(stages):
                grows = len(stages[number + 1][0]) > len(parts[0])
                finalists = search.shortlist(found, budget, dear=grows, last=number > 0)
                if number > 0 and len(rows) > rows.leaf_rows:  # leaves refine the metric themselves
                    stages[number + 1][0].roots.update(search.parts[0].roots)
                _expect_finalists(clock, finalists, stages[number + 1])
                _expect_later(clock, stages[number + 2 :], len(finalists), budget)
    except KeyboardInterrupt:
        if search is None:
            raise
        clock.press()
        clock.skip(f"the search ended early, after {len(found.trials)} trials")
        if n := len(finalists):
            clock.skip(f"{n} of {n} finalists were not tried further")
    assert search is not None
    return search.tuned(found, budget.n_members)


def race(
    climbs: Sequence[Climb],
    *,
    n_rows: int,
    n_jobs: int,
    clock: Clock,
) -> list[Found]:
    """Run all climbs and return their results.

    Climbs advance round by round, in parallel. After each round every climb receives the least
    loss of all, so that the result does not depend on the number of threads.
    """
    results = [Found() for _ in climbs]
    running, least = list(range(len(climbs))), None

    def go_on(i: int) -> bool:
        try:
            results[i] = climbs[i].send(least)
        except StopIteration:
            return False
        return True

    while running:
        try:
            more = parallel_map(go_on, running, n_rows=n_rows, n_jobs=n_jobs, stop=clock.end)
        except KeyboardInterrupt:
            if not any(found.predictions for found in results):
                raise
            clock.press()
            break
        running = [i for i, goes_on in zip(running, more, strict=True) if goes_on]
        least = min((one.loss for found in results for one in found.predictions), default=math.inf)
    return results


def _by_metric(families: Sequence[Family]) -> list[tuple[MetricKey, list[Kernel]]]:
    """Metrics to learn, each with the kernels that use it."""
    groups: dict[MetricKey, list[Kernel]] = {}
    for encoding, kernel in families:
        groups.setdefault(MetricKey.of(encoding, kernel), []).append(kernel)
    return list(groups.items())


def _of_one_metric(trials: Sequence[Trial]) -> list[list[Trial]]:
    """Trials whose metrics are learned together."""
    groups: dict[MetricKey, list[Trial]] = {}
    for trial in trials:
        groups.setdefault(trial.candidate.metric.after(0), []).append(trial)
    return list(groups.values())


def _expect(
    clock: Clock,
    rows: Rows,
    stages: list[list[Part]],
    families: Sequence[Family],
    budget: Budget,
) -> None:
    """Announce the expected work of the whole fit."""
    n_ladders = PATH * rows.final_share(len(rows)) * budget.n_members
    clock.expect(FINAL_FITS, n_ladders * len(rows) ** 2)
    clock.expect(SUMMARY, AFTERWARDS * len(rows) ** 2)
    for key, kernels in _by_metric(families):
        n_tried = _ROUNDS_TRIED * len(kernels) * len(stages[0])
        clock.expect(SEARCH, n_tried * len(stages[0][0]) ** 2, part=str(key))
    _expect_later(clock, stages[1:], _SHARE_CHOSEN * len(families), budget)


def _expect_later(
    clock: Clock, stages: list[list[Part]], n_finalists: float, budget: Budget
) -> None:
    """Announce stages whose finalists are not known yet."""
    entries = 0.0
    for parts in stages:
        n_ladders = n_finalists * (1.0 + PATH * _ROUNDS_CHOSEN) * len(parts)
        entries += n_ladders * len(parts[0]) ** 2
        n_finalists = min(n_finalists, budget.n_members)
    clock.expect(FINALISTS, entries)


def _expect_finalists(clock: Clock, finalists: Sequence[Trial], parts: list[Part]) -> None:
    """Announce the next stage, now that its finalists are known."""
    for several in _of_one_metric(finalists):
        n_ladders = (len(several) + PATH * _rounds_to_learn(parts, several)) * len(parts)
        part = str(several[0].candidate.metric.after(0))
        clock.expect(FINALISTS, n_ladders * len(parts[0]) ** 2, part=part)


def _rounds_to_learn(parts: Sequence[Part], trials: Sequence[Trial]) -> int:
    """Rounds of the metric that some part has to learn for trials of one metric."""
    keys = [trial.candidate.metric for trial in trials]
    return max(
        (key.n_rounds for key in keys if any(key not in part.roots for part in parts)), default=0
    )


class Search:
    """Tries candidates on all its parts.

    Parameters
    ----------
    parts : list of Part
    judge : Judge
    interrupted : callable (Trial) -> bool
    clock : Clock, optional
    trainer : Trainer, optional
        For the same parts; trains in this process by default.
    """

    def __init__(
        self,
        parts: list[Part],
        judge: Judge,
        interrupted: Callable[[Trial], bool] = lambda trial: False,
        clock: Clock | None = None,
        trainer: Trainer | None = None,
    ):
        self.parts = parts
        self.judge = judge
        self._trainer = trainer or LocalTrainer(parts, judge)
        self.over = False
        self._begun = False
        self._interrupted = interrupted
        self._clock = clock or Clock()
        self._ended = self._clock.search_ended
        self._y = np.concatenate([part.y for part in parts])
        self._weights = joined_weights(parts)

    def explore(self, key: MetricKey, kernels: Sequence[Kernel], budget: Budget) -> Climb:
        """Learn a metric round by round while any kernel improves."""
        starts = [
            Request(key.encoding, 0, kernel, _FIRST_SPEEDS, _FIRST_LIMIT) for kernel in kernels
        ]
        return self._rounds(key, starts, {}, budget, budget.patience, (SEARCH, str(key)))

    def decide(
        self,
        finalists: Sequence[Trial],
        scouts: Mapping[MetricKey, Trial],
        budget: Budget,
        anew: bool,
    ) -> Climb:
        """Judge finalists of one metric, at their speeds and the neighbouring ones.

        With `anew`, learn the metric again on more rows than before and judge it round by round,
        because stops and numbers of rounds may differ. Otherwise, parts that lack the metric learn
        it with the settings of its scouts, for as many rounds as before.
        """
        n_rows, n_parts = len(self.parts[0]), len(self.parts)
        n_ladders = len(finalists) + PATH * _rounds_to_learn(self.parts, finalists)
        if self.over or not self._clock.has_room(n_rows, n_ladders * n_parts):
            return
        starts = [
            trial.request(neighbours(trial.candidate.min_speed), _beyond(trial))
            for trial in finalists
        ]
        key = finalists[0].candidate.metric.after(0)
        stage = (FINALISTS, str(key))
        if anew:
            yield from self._rounds(key, starts, scouts, budget, 1, stage)
        else:
            found = Found()
            for start in starts:
                if self.over and found.trials:
                    break
                within = partial(self._training, stage)
                train = partial(self._trainer.ladders, within=partial(within, PATH))
                learn_metrics(self.parts, start.metric, scouts, train)
                outcomes = self._trainer.outcomes([start], within)
                self._take(found, start, next(outcomes))
            yield Found() if self._ended() else found  # trials that were cut off are not comparable

    def _rounds(
        self,
        key: MetricKey,
        starts: Sequence[Request],
        scouts: Mapping[MetricKey, Trial],
        budget: Budget,
        patience: int,
        stage: tuple[str, str],
    ) -> Climb:
        """Learn a metric round by round, beginning with none, while that helps.

        Each of `starts` is trained from its own round on, while it is `_promising`. Earlier rounds
        train only their scout, at its speed.
        """
        found = Found()
        yield found  # it grows, so that an interrupt keeps what it has
        requests = {start.kernel: start for start in starts}
        losses: dict[Kernel, list[float]] = {start.kernel: [] for start in starts}
        overall = math.inf

        def fair() -> Found:  # finalists that were cut off are not comparable
            return Found() if scouts and self._ended() else found

        least, misses = math.inf, 0
        settled = max(start.n_rounds for start in starts)  # all are trained from here on
        usual = max(settled, 0 if scouts else _ROUNDS_TRIED - 1)
        for n_rounds in range(budget.max_rounds + 1):
            due = [start.kernel for start in starts if start.n_rounds <= n_rounds]
            due = [kernel for kernel in due if _promising(losses[kernel], overall, budget)]
            if not due and n_rounds > settled:
                break
            if due:
                asked = [replace(requests[kernel], n_rounds=n_rounds) for kernel in due]
            else:
                scout = scouts[key.after(n_rounds)]
                asked = [scout.request((scout.candidate.min_speed,), _beyond(scout))]
            last = max(n_rounds - 1 + patience - misses, usual)
            going = [start for start in starts if start.kernel in due or start.n_rounds > n_rounds]
            self._expect_rounds(going, range(n_rounds, min(last, budget.max_rounds) + 1), stage)
            within = partial(self._training, stage, 1.0 if due else PATH)
            coming, tried = self._trainer.outcomes(asked, within), []
            for request in asked:
                late = self._clock.search_over and self._begun
                if self.over and (found.trials or late):
                    yield fair()
                    return
                trial, outcomes = self._take(found, request, next(coming))
                one = trial.candidate
                tried.append((trial, outcomes, tuple(request.speeds).index(one.min_speed)))
                if one.kernel in due:
                    losses[one.kernel].append(trial.loss)
                    speeds = next_speeds(request, one.min_speed, budget)
                    limit = _beyond(trial)
                    requests[one.kernel] = replace(request, speeds=speeds, max_r2=limit)
            scout, outcomes, speed = min(tried, key=lambda one: one[0].loss)
            found.scouts[key.after(n_rounds)] = scout
            misses = 0 if scout.loss < (1.0 - budget.worth) * least else misses + 1
            least = min(least, scout.loss)
            flat = len(self.parts[0].root(key.after(n_rounds))) < 2
            enough = n_rounds >= settled and misses >= patience
            heard = yield fair()
            overall = math.inf if heard is None else heard
            if flat or enough or n_rounds == budget.max_rounds:
                break
            with self._task(stage, 0.0):  # counted with the ladders
                for part, outcome in zip(self.parts, outcomes, strict=True):
                    part.learn(scout, outcome.ladder, speed, self._ended)
        self._expect_rounds(starts, range(0), stage)

    def _expect_rounds(
        self, starts: Sequence[Request], rounds: range, stage: tuple[str, str]
    ) -> None:
        """Announce the rounds to come: each start from its own round on, a scout before."""
        n_due = [sum(start.n_rounds <= number for start in starts) for number in rounds]
        n_ladders = sum(n or PATH for n in n_due)
        entries = n_ladders * len(self.parts) * len(self.parts[0]) ** 2
        self._clock.expect(stage[0], entries, part=stage[1])

    def _task(self, stage: tuple[str, str], n_ladders: float) -> AbstractContextManager[None]:
        entries = n_ladders * len(self.parts) * len(self.parts[0]) ** 2
        return self._clock.task(stage[0], entries, part=stage[1])

    @contextmanager
    def _training(self, stage: tuple[str, str], n_ladders: float = 1.0) -> Iterator[None]:
        """Count the training inside as work of a stage, and learn the pace from it."""
        pace = self._clock.timed(len(self.parts[0]), n_ladders * len(self.parts))
        with self._task(stage, n_ladders), pace:
            yield

    def _take(
        self, found: Found, request: Request, outcomes: list[Outcome]
    ) -> tuple[Trial, list[Outcome]]:
        """Judge the outcomes of a request; return its best trial and the outcomes."""
        trials = [
            self._judged(
                Candidate(request.encoding, request.n_rounds, request.kernel, speed), outcomes, i
            )
            for i, speed in enumerate(request.speeds)
        ]
        best = min(range(len(trials)), key=lambda i: trials[i].loss)
        found.trials += trials
        found.predictions[trials[best]] = _at_stop(outcomes, best, trials[best].max_r2)
        self._begun = self._clock.begun = True
        self.over = self.over or self._interrupted(trials[best]) or self._clock.search_over
        return trials[best], outcomes

    def shortlist(
        self, found: Found, budget: Budget, *, dear: bool = False, last: bool = False
    ) -> list[Trial]:
        """The trials for the next stage.

        All families that may still win. If more rows make the stage expensive (`dear`), only those
        near the best and those in the average of this stage; in the `last` stage only the latter.
        """
        finalists = found.finalists
        limit = (budget.close if dear else budget.hopeless) * finalists[0].loss
        near = [not last and not trial.loss > limit for trial in finalists]
        taken = [False] * len(finalists)
        if dear or last:
            taken = (self._weights_of(finalists, found, budget.n_members) > 0).tolist()
        return [one for one, a, b in zip(finalists, near, taken, strict=True) if a or b]

    def tuned(self, found: Found, n_members: int, among: Sequence[Trial] | None = None) -> Tuned:
        """The average of the best trials, or of those `among` some, and the evidence for it."""
        best = found.best if among is None else list(among)
        predictions = [found.predictions[trial] for trial in best]
        members, average = averaged(
            best, predictions, self._y, self.judge, n_members=n_members, weights=self._weights
        )
        return Tuned(
            members,
            np.concatenate([part.held_out for part in self.parts]),
            average,
            found.trials,
            {
                key: common_root(self.parts, key)
                for key in dict.fromkeys(trial.candidate.metric for trial, _ in members)
                if key.learned
            },
            partial(self.tuned, found, n_members),
            self.parts,
        )

    def _weights_of(self, trials: Sequence[Trial], found: Found, n_members: int) -> np.ndarray:
        return greedy_weights(
            [found.predictions[trial] for trial in trials],
            self._y,
            self.judge,
            n_members=n_members,
            weights=self._weights,
        )

    def _judged(self, candidate: Candidate, outcomes: list[Outcome], speed: int) -> Trial:
        """The trial of one speed, at the best common stop of all parts."""
        losses = [outcome.losses for outcome in outcomes]
        n_stops = max(1, len(losses[0]) - 1)  # without stops, the start
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
        mean, error = mean_and_error(np.concatenate(rows), self._weights)
        stop = float(levels[best])
        score = mean_r2(_at_stop(outcomes, speed, stop), self._y, self._weights)
        levels_reached = [o.ladder.r2[r[best], speed] for o, r in zip(outcomes, stops, strict=True)]
        return Trial(
            candidate, mean, error, score, stop, len(self.parts[0]), float(np.mean(levels_reached))
        )


def _promising(losses: Sequence[float], least: float, budget: Budget) -> bool:
    """Whether the loss of a family may still come near the least of all, at its present trend."""
    if len(losses) < 2:
        return True
    fall = min(1.0, losses[-1] / losses[-2]) if losses[-2] > 0 else 1.0
    return min(losses) * fall**_ROUNDS_AHEAD <= budget.race * least


def _beyond(trial: Trial) -> float:
    """Training R² for the next round: well beyond the stop of the best trial."""
    return min(MAX_R2, 1.0 - 0.1 * (1.0 - trial.max_r2))


def _at_stop(outcomes: Sequence[Outcome], speed: int, level: float) -> np.ndarray:
    """Predictions of one speed for all held-out rows, shape (m, k)."""
    return np.concatenate(
        [o.predictions[o.ladder.reached(speed, level), :, speed] for o in outcomes]
    )
