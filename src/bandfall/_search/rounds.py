"""The rounds of a metric: every kernel is judged in it, then it is learned anew from the best.

Round 0 leaves columns as they are, and each further round learns from slopes. After round 0, and
after the best of all rounds, kernels are also judged with scales by likelihood. All metrics advance
together, so that a kernel that can no longer win in any of them is dropped.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np

from bandfall._models.member import Family, MetricKey
from bandfall._search.candidates import Request, Trial, beyond, neighbouring, next_speeds
from bandfall._search.clock import PATH
from bandfall._search.jobs import parallel_map
from bandfall._search.metrics import Metrics, complete, likely_root, next_root, roots_of
from bandfall._search.parts import Outcome, Part, at_stop, trials_of
from bandfall._search.settings import Settings
from bandfall._search.trainers import Trainer
from bandfall.kernels._kernel import Kernel


@dataclass(frozen=True)
class Found:
    """Everything that the search has found on one rung, and all trials before.

    Attributes
    ----------
    trials : tuple of Trial
    scouts : dict of MetricKey to Trial
        The best trial in each metric, from which its next round was learned.
    predictions : dict of Trial to ndarray of shape (m, k)
        Predictions for the held-out rows, of the best speed of every encoding, metric and kernel.
    metrics : dict of MetricKey to tuple of ndarray
    """

    trials: tuple[Trial, ...] = ()
    scouts: Mapping[MetricKey, Trial] = field(default_factory=dict)
    predictions: Mapping[Trial, np.ndarray] = field(default_factory=dict)
    metrics: Metrics = field(default_factory=dict)

    def joined(self, others: Iterable[Found]) -> Found:
        """Together with others."""
        result = self
        for one in others:
            result = Found(
                (*result.trials, *one.trials),
                {**result.scouts, **one.scouts},
                {**result.predictions, **one.predictions},
                {**result.metrics, **one.metrics},
            )
        return result

    def tried(
        self, request: Request, outcomes: list[Outcome], parts: Sequence[Part]
    ) -> tuple[Found, Trial]:
        """Together with the trials of a request, and the best of these."""
        trials = trials_of(request, outcomes, parts)
        number = min(range(len(trials)), key=lambda i: trials[i].loss)
        best = trials[number]
        predictions = {**self.predictions, best: at_stop(outcomes, number, best.max_r2)}
        return replace(self, trials=(*self.trials, *trials), predictions=predictions), best

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


Judged: TypeAlias = tuple[Trial, list[Outcome], Request]
"""The best trial of a request, and its outcomes."""


@dataclass(frozen=True)
class Climb:
    """The rounds of one metric so far.

    Attributes
    ----------
    starts : tuple of Request
        The kernels, each with the speeds of its first round.
    requests : dict of Kernel to Request
        The speeds of the next round.
    losses : dict of Kernel to tuple of float
        The least of every round.
    rounds : tuple of (Trial, list of Outcome, Request)
        The best of every round.
    found : Found
    over : bool
        Whether there is no time left, or no kernel that may still win.
    """

    starts: tuple[Request, ...]
    requests: Mapping[Kernel, Request]
    losses: Mapping[Kernel, tuple[float, ...]] = field(default_factory=dict)
    rounds: tuple[Judged, ...] = ()
    found: Found = field(default_factory=Found)
    over: bool = False

    def key(self, n_rounds: int, likelihood: bool = False) -> MetricKey:
        """The metric of a round."""
        return self.starts[0].metric._replace(n_rounds=n_rounds, likelihood=likelihood)

    @property
    def best_round(self) -> int:
        """The number of the round with the least loss."""
        return min(range(len(self.rounds)), key=lambda number: self.rounds[number][0].loss)

    def misses(self, worth: float) -> int:
        """Number of rounds since the least loss fell by the share `worth`."""
        least, count = math.inf, 0
        for trial, *_ in self.rounds:
            count = 0 if trial.loss < (1.0 - worth) * least else count + 1
            least = min(least, trial.loss)
        return count


def race(families: Sequence[Family], trainer: Trainer, exact: Sequence[Family] = ()) -> list[Found]:
    """Judge all families with columns as they are, and in the metrics that are worth learning.

    Targets almost free of noise also try the `exact` families.
    """
    settings = trainer.settings
    climbs = climbed(climbs_of(families, settings), trainer)
    trials = [trial for climb in climbs for trial in climb.found.predictions]
    best = min(trials, key=lambda trial: trial.loss, default=None)
    if best and not trainer.over and best.score > 1.0 - settings.exact:
        climbs = climbed([*climbs, *climbs_of(exact, settings)], trainer)
    return [climb.found for climb in climbs]


def climbed(climbs: list[Climb], trainer: Trainer) -> list[Climb]:
    """The climbs after all their rounds."""
    climbs = advanced(climbs, by_slopes, trainer)
    climbs = advanced(climbs, by_likelihood, trainer)
    while any(goes_on(climb, trainer) for climb in climbs):
        climbs = advanced(climbs, by_slopes, trainer)
    return advanced(climbs, by_likelihood, trainer)


def climbs_of(families: Sequence[Family], settings: Settings) -> list[Climb]:
    """A climb for every metric of these families, before round 0."""
    metrics: dict[MetricKey, list[Request]] = {}
    for encoding, kernel in families:
        start = Request(encoding, 0, kernel, settings.first_speeds, settings.first_max_r2)
        metrics.setdefault(start.metric, []).append(start)
    return [Climb(tuple(own), {start.kernel: start for start in own}) for own in metrics.values()]


def advanced(
    climbs: list[Climb], asked: Callable[..., list[Request] | None], trainer: Trainer
) -> list[Climb]:
    """All climbs after a round that hears the least loss of all before, whatever the threads."""
    losses = (trial.loss for climb in climbs for trial in climb.found.predictions)
    overall = min(losses, default=math.inf)
    requests = [asked(climb, overall, trainer) for climb in climbs]
    jobs = [
        (climb, due, trainer.planned(due or []))
        for climb, due in zip(climbs, requests, strict=True)
    ]
    return parallel_map(
        lambda job: next_round(*job, trainer),
        jobs,
        n_rows=len(trainer.parts[0]),
        n_jobs=len(climbs) if trainer.waits else 1,
        stop=trainer.clock.end,
        press=trainer.press,
    )


def goes_on(climb: Climb, trainer: Trainer) -> bool:
    """Whether another round of slopes follows."""
    settings, number = trainer.settings, len(climb.rounds)
    if climb.over or number > settings.max_rounds:
        return False
    misses = climb.misses(settings.worth)
    return number == 0 or (n_columns(climb, trainer) > 1 and misses < settings.patience)


def by_slopes(climb: Climb, overall: float, trainer: Trainer) -> list[Request] | None:
    """The promising kernels in the metric of the next round, or None without such a round.

    `overall` is the least loss of all climbs.
    """
    if not goes_on(climb, trainer):
        return None
    return [
        replace(request, n_rounds=len(climb.rounds))
        for kernel, request in climb.requests.items()
        if promising(climb.losses.get(kernel, ()), overall, trainer.settings)
    ]


def by_likelihood(climb: Climb, overall: float, trainer: Trainer) -> list[Request] | None:
    """The best kernels with scales by likelihood, along the directions of the best round."""
    settings = trainer.settings
    if climb.over or not 1 < n_columns(climb, trainer) <= settings.likelihood_columns:
        return None
    number = climb.best_round
    limit = (settings.close if number else settings.race) * overall
    requests = [
        replace(climb.requests[start.kernel] if number else start, n_rounds=number, likelihood=True)
        for start in climb.starts
        if min(climb.losses[start.kernel]) <= limit
    ]
    known = climb.key(number, likelihood=True) in climb.found.metrics
    return None if known or settings.max_rounds == 0 else requests or None


def next_round(
    climb: Climb, due: list[Request] | None, planned: Sequence[Request], trainer: Trainer
) -> Climb:
    """Learn a metric and judge the planned kernels in it; over unless all that were due are."""
    if due is None:
        return climb
    found, judged = climb.found, []
    try:
        if planned:
            key = planned[0].metric
            found = replace(found, metrics={**found.metrics, **learned(key, climb, trainer)})
            coming = trainer.outcomes(planned, roots_of(found.metrics, key, trainer.parts))
        for request in planned:
            if trainer.over and (found.trials or trainer.clock.search_over):
                break
            outcomes = next(coming)
            found, trial = found.tried(request, outcomes, trainer.parts)
            judged.append((trial, outcomes, request))
            trainer.tried(trial)
    except KeyboardInterrupt:
        trainer.press()
    climb = replace(climb, found=found, over=not 0 < len(judged) == len(due))
    return climb if climb.over or due[0].likelihood else after_slopes(climb, judged, trainer)


def after_slopes(climb: Climb, judged: Sequence[Judged], trainer: Trainer) -> Climb:
    """The climb after a round of slopes, with the speeds of the next one."""
    settings, number = trainer.settings, len(climb.rounds)
    requests, losses = dict(climb.requests), dict(climb.losses)
    for trial, _, request in judged:
        kernel = request.kernel
        speeds = next_speeds(request, trial.candidate.min_speed, settings.few_speeds)
        requests[kernel] = replace(request, speeds=speeds, max_r2=beyond(trial, settings))
        losses[kernel] = (*losses.get(kernel, ()), trial.loss)
    best = min(judged, key=lambda one: one[0].loss)
    found = replace(climb.found, scouts={**climb.found.scouts, climb.key(number): best[0]})
    rounds = (*climb.rounds, best)
    return replace(climb, requests=requests, losses=losses, rounds=rounds, found=found)


def learned(key: MetricKey, climb: Climb, trainer: Trainer) -> Metrics:
    """A metric: by likelihood, or from the slopes of the best path of the round before."""
    parts, metrics, ended = trainer.parts, climb.found.metrics, trainer.clock.search_ended
    if not key.learned:
        return {}
    if key.likelihood:
        pairs = zip(parts, roots_of(metrics, key.after(key.n_rounds), parts), strict=True)
        return {key: tuple(likely_root(part, key, root, ended) for part, root in pairs)}
    scout, outcomes, request = climb.rounds[-1]
    ladders = [one.ladder for one in outcomes]
    speed = tuple(request.speeds).index(scout.candidate.min_speed)
    triples = zip(parts, ladders, roots_of(metrics, scout.candidate.metric, parts), strict=True)
    return {key: tuple(next_root(*one, scout, speed, ended) for one in triples)}


def n_columns(climb: Climb, trainer: Trainer) -> int:
    """Of the encoding: with one, there is no metric to learn."""
    return trainer.parts[0].rows.views[climb.starts[0].encoding].Z.shape[1]


def promising(losses: Sequence[float], least: float, settings: Settings) -> bool:
    """Whether the loss of a family may still come near the least of all, at its present trend."""
    if len(losses) < 2:
        return True
    fall = min(1.0, losses[-1] / losses[-2]) if losses[-2] > 0 else 1.0
    return min(losses) * fall**settings.rounds_ahead <= settings.race * least


def judge_again(finalists: Sequence[Trial], earlier: Found, trainer: Trainer) -> list[Found]:
    """Judge finalists on more parts, at their speeds and the neighbouring ones.

    Parts that lack a metric learn it from its scouts, for as many rounds as before.
    """
    metrics: dict[MetricKey, list[Trial]] = {}
    for trial in finalists:
        metrics.setdefault(trial.candidate.metric.after(0), []).append(trial)
    begun = [trials for trials in metrics.values() if _begin_again(trials, earlier, trainer)]
    return parallel_map(
        lambda trials: _judged_again(trials, earlier, trainer),
        begun,
        n_rows=len(trainer.parts[0]),
        n_jobs=len(metrics) if trainer.waits else 1,
        stop=trainer.clock.end,
        press=trainer.press,
    )


def _begin_again(finalists: Sequence[Trial], earlier: Found, trainer: Trainer) -> bool:
    """Whether there is room for the finalists of one metric, which begin now."""
    known, n_parts = earlier.metrics, len(trainer.parts)
    keys = [trial.candidate.metric for trial in finalists]
    lacking = [key.n_rounds for key in keys if len(known.get(key, ())) < n_parts]
    room = trainer.has_room(len(finalists) + PATH * max(lacking, default=0))
    return room and trainer.begins(len(finalists))


def _judged_again(finalists: Sequence[Trial], earlier: Found, trainer: Trainer) -> Found:
    """Finalists of one metric."""
    metric, parts = finalists[0].candidate.metric.after(0), trainer.parts
    known = {key: roots for key, roots in earlier.metrics.items() if key.after(0) == metric}
    found = Found(metrics=known)
    try:
        for trial in finalists:
            if trainer.over and found.trials:
                break
            start = neighbouring(trial, trainer.settings)
            metrics = complete(found.metrics, start.metric, earlier.scouts, parts, trainer.ladders)
            roots = roots_of(metrics, start.metric, parts)
            outcomes = next(trainer.outcomes([start], roots))
            found, best = replace(found, metrics=metrics).tried(start, outcomes, parts)
            trainer.tried(best)
    except KeyboardInterrupt:
        trainer.press()
    return Found() if trainer.clock.search_ended() else found
