"""The rounds of a search: learn metrics, judge every promising kernel in them, and learn anew.

Round 0 leaves columns as they are, and each further round learns a metric from the slopes of the
best path. After round 0, and after the best of all rounds, kernels are also judged with scales by
likelihood. All metrics go from round to round together, so that a kernel that can no longer win in
any of them is dropped.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, takewhile

import numpy as np

from bandfall._models.member import Family, MetricKey
from bandfall._search.metrics import Metrics
from bandfall._search.settings import Settings
from bandfall._search.trainer import Trainer
from bandfall._search.trials import Judged, Request, Trial, first_request, neighbouring


@dataclass(frozen=True)
class Found:
    """Everything that the search has found on one rung, and all trials before."""

    trials: tuple[Trial, ...] = ()
    # (m, k): for the held-out rows, of the best speed of every encoding, metric and kernel.
    predictions: Mapping[Trial, np.ndarray] = field(default_factory=dict)
    metrics: Metrics = field(default_factory=dict)
    # The best trial in each metric, from which its next round was learned.
    scouts: Mapping[MetricKey, Trial] = field(default_factory=dict)
    # That of the last round of each metric, by the metric before all rounds.
    latest: Mapping[MetricKey, Judged] = field(default_factory=dict)

    def plus(self, results: Iterable[Judged], metrics: Metrics) -> Found:
        """Together with requests that were judged in these metrics."""
        trials, predictions = list(self.trials), dict(self.predictions)
        scouts, latest = dict(self.scouts), dict(self.latest)
        for one in results:
            key = one.best.candidate.metric
            trials += one.trials
            predictions[one.best] = one.predictions
            teaches = not (key.likelihood or one.best.candidate.width)
            if teaches and (key not in scouts or one.best.loss < scouts[key].loss):
                scouts[key], latest[key.after(0)] = one.best, one
        return Found(tuple(trials), predictions, metrics, scouts, latest)

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

    def rounds(self, key: MetricKey) -> list[Trial]:
        """The best trial of every round of a metric."""
        keys = takewhile(self.scouts.__contains__, map(key.after, count()))
        return [self.scouts[key] for key in keys]

    def rounds_of(self, family: Family) -> list[Trial]:
        """The same of one family."""
        own = [trial for trial in self.predictions if trial.candidate.family == family]
        return [trial for trial in own if not trial.candidate.likelihood]


def race(families: Sequence[Family], trainer: Trainer, exact: Sequence[Family] = ()) -> Found:
    """Judge all families with columns as they are, and in the metrics that are worth learning.

    Targets almost free of noise also try the `exact` families. Those of one bandwidth come last,
    with columns as they are.
    """
    settings, found = trainer.settings, Found()
    many = len(trainer.rows) > settings.many_rows
    noise = settings.exact_of_many if many else settings.exact
    for some in (families, exact):
        if some is exact and not (found.best and found.best[0].score > 1.0 - noise):
            break
        starts = [first_request(one, settings) for one in some if not one.width]
        found = judged(found, starts, trainer)
        found = judged(found, by_likelihood(found, starts, trainer), trainer)
        for number in range(1, settings.max_rounds + 1):
            found = judged(found, by_slopes(found, starts, number, trainer), trainer)
        found = judged(found, by_likelihood(found, starts, trainer, best_round=True), trainer)
    constant = [first_request(one, settings) for one in families if one.width]
    return judged(found, constant, trainer)


def judged(found: Found, requests: Sequence[Request], trainer: Trainer) -> Found:
    """Learn the metrics of requests, and judge these."""
    requests = trainer.planned(requests)
    learned = trainer.learned(requests, found.metrics, found.scouts, found.latest)
    metrics = {**found.metrics, **learned}
    return found.plus(trainer.judged(requests, metrics), metrics)


def by_slopes(
    found: Found, starts: Sequence[Request], number: int, trainer: Trainer
) -> list[Request]:
    """The promising kernels, in the next round of metrics that still improve."""
    settings, requests = trainer.settings, []
    for start in starts:
        one = start.candidate
        rounds, trials = found.rounds(one.metric), found.rounds_of(one.family)
        goes_on = len(rounds) == number and misses(rounds, settings.min_gain) < settings.patience
        if not (goes_on and trials and trainer.rows.n_columns(one.encoding) > 1):
            continue
        if promising([trial.loss for trial in trials], found.best[0].loss, settings):
            again = neighbouring(trials[-1], settings)
            requests.append(replace(again, candidate=replace(again.candidate, n_rounds=number)))
    return requests


def by_likelihood(
    found: Found, starts: Sequence[Request], trainer: Trainer, best_round: bool = False
) -> list[Request]:
    """The good kernels with scales by likelihood, along the directions of the best round."""
    settings, requests = trainer.settings, []
    ratio = settings.max_ratio_rows if best_round else settings.max_ratio_folds
    for start in starts:
        one = start.candidate
        trials = found.rounds_of(one.family)
        learns = 1 < trainer.rows.n_columns(one.encoding) <= settings.likelihood_columns
        if not (learns and trials and settings.max_rounds):
            continue
        losses = [trial.loss for trial in found.rounds(one.metric)]
        number = losses.index(min(losses))
        request = neighbouring(trials[-1], settings) if number else start
        one = replace(request.candidate, n_rounds=number, likelihood=True)
        good = min(trial.loss for trial in trials) <= ratio * found.best[0].loss
        if good and one.metric not in found.metrics:
            requests.append(replace(request, candidate=one))
    return requests


def misses(rounds: Sequence[Trial], worth: float) -> int:
    """Number of rounds since the least loss fell by the share `worth`."""
    least, number = math.inf, 0
    for trial in rounds:
        number = 0 if trial.loss < (1.0 - worth) * least else number + 1
        least = min(least, trial.loss)
    return number


def promising(losses: Sequence[float], least: float, settings: Settings) -> bool:
    """Whether two more rounds as good as the last would bring a family near the least loss."""
    if len(losses) < 2:
        return True
    fall = min(1.0, losses[-1] / losses[-2]) if losses[-2] > 0 else 1.0
    return min(losses) * fall**2 <= settings.max_ratio_folds * least


def judge_again(finalists: Sequence[Trial], earlier: Found, trainer: Trainer) -> Found:
    """Judge finalists on more parts, at their speeds and the neighbouring ones.

    Parts that lack a metric learn it from its scouts, for as many rounds as before.
    """
    requests = [neighbouring(trial, trainer.settings) for trial in finalists]
    return judged(replace(earlier, predictions={}, latest={}), requests, trainer)
