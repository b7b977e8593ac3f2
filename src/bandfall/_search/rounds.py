"""The rounds of a metric: every kernel is judged in it, then it is learned anew from the best.

Round 0 leaves columns as they are, and each further round learns from slopes. After round 0, and
after the best of all rounds, kernels are also judged with scales by likelihood.

A metric and its rounds so far are a value, `Climb`; `next_round` returns the next one. All metrics
advance together, so that a kernel that can no longer win in any of them is dropped.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeAlias

import numpy as np

from bandfall._models.member import Family, MetricKey
from bandfall._search.candidates import Request, Trial, beyond, neighbouring, next_speeds
from bandfall._search.clock import PATH
from bandfall._search.jobs import parallel_map
from bandfall._search.losses import at_stop, trials_of
from bandfall._search.metrics import Metrics, complete, likely_root, next_root, roots_of
from bandfall._search.parts import Outcome, Part
from bandfall._search.rows import Rows
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
        Each is trained from its own round on, while it is promising. Earlier rounds train only
        their scout, at its speed.
    scouts : dict of MetricKey to Trial
        Of an earlier rung; without them, every start begins with round 0.
    patience : int
    n_columns : int
        Of the encoding: with one, there is nothing to learn.
    requests : dict of Kernel to Request
        The next ones.
    losses : dict of Kernel to tuple of float
        The least of every round.
    number : int
        The next round.
    likelihood : bool
        Whether likelihood scales the metric of that round next.
    least, misses : float, int
        The least loss, and the number of rounds since it fell.
    last : (Trial, list of Outcome, Request), optional
        The best trial of the last round, its outcomes and its request.
    """

    starts: tuple[Request, ...]
    patience: int
    n_columns: int
    scouts: Mapping[MetricKey, Trial] = field(default_factory=dict)
    requests: Mapping[Kernel, Request] = field(default_factory=dict)
    losses: Mapping[Kernel, tuple[float, ...]] = field(default_factory=dict)
    found: Found = field(default_factory=Found)
    number: int = 0
    likelihood: bool = False
    least: float = math.inf
    misses: int = 0
    last: Judged | None = None
    over: bool = False

    @property
    def key(self) -> MetricKey:
        """The metric of the next round."""
        key = self.starts[0].metric.after(self.number)
        return key._replace(likelihood=self.likelihood)

    def takes(self, start: Request) -> bool:
        """Whether a start is trained in the next round if it is promising."""
        if not self.scouts:
            return True
        if self.likelihood or start.likelihood:
            return self.likelihood == start.likelihood and self.number == start.n_rounds
        return self.number >= start.n_rounds

    def asked(self, start: Request) -> Request:
        """The speeds of a start in the next round."""
        anew = self.likelihood and (self.scouts or self.number == 0)
        return start if anew else self.requests.get(start.kernel, start)

    @property
    def settled(self) -> int:
        """From this round on, all starts are trained."""
        return max(start.n_rounds for start in self.starts)


def climbs_from(families: Sequence[Family], rows: Rows) -> list[Climb]:
    """A climb for every metric of these families, from round 0."""
    settings = rows.settings
    starts = [
        Request(encoding, 0, kernel, settings.first_speeds, settings.first_max_r2)
        for encoding, kernel in families
    ]
    return _climbs(starts, rows, settings.patience)


def climbs_again(finalists: Sequence[Trial], found: Found, rows: Rows) -> list[Climb]:
    """A climb for every metric of the finalists, each from its own round on."""
    starts = [neighbouring(trial, rows.settings) for trial in finalists]
    return _climbs(starts, rows, 1, found.scouts)


def _climbs(
    starts: Sequence[Request],
    rows: Rows,
    patience: int,
    scouts: Mapping[MetricKey, Trial] | None = None,
) -> list[Climb]:
    metrics: dict[MetricKey, list[Request]] = {}
    for start in starts:
        metrics.setdefault(start.metric.after(0), []).append(start)
    return [
        Climb(
            tuple(own),
            patience,
            rows.views[key.encoding].Z.shape[1],
            scouts or {},
            likelihood=all(start.likelihood and start.n_rounds == 0 for start in own),
        )
        for key, own in metrics.items()
    ]


def run(climbs: Sequence[Climb], trainer: Trainer) -> list[Found]:
    """Advance all climbs to their ends, round by round, and return what they found.

    After each round every climb hears the least loss of all, so that the result does not depend
    on the number of threads.
    """
    climbs, least = list(climbs), math.inf
    while running := [i for i, climb in enumerate(climbs) if not climb.over]:
        advanced = parallel_map(
            partial(next_round, overall=least, trainer=trainer),
            [climbs[i] for i in running],
            n_rows=len(trainer.parts[0]),
            n_jobs=len(climbs) if trainer.waits else 1,
            stop=trainer.clock.end,
            press=trainer.press,
        )
        for i, climb in zip(running, advanced, strict=True):
            climbs[i] = climb
        losses = (trial.loss for climb in climbs for trial in climb.found.predictions)
        least = min(losses, default=math.inf)
    return [climb.found for climb in climbs]


def next_round(climb: Climb, overall: float, trainer: Trainer) -> Climb:
    """Learn the metric of the next round, and judge every promising kernel in it.

    `overall` is the least loss of all climbs.
    """
    begins_again = bool(climb.scouts) and not climb.found.trials
    if begins_again and not trainer.has_room(len(climb.starts) + PATH * climb.settled):
        return replace(climb, over=True)
    requests, found = _requests(climb, overall, trainer.settings), climb.found
    if climb.likelihood and not requests:
        return _onwards(climb, trainer.settings)
    judged: list[Judged] = []
    try:
        if requests:
            found = replace(found, metrics=_learned(climb, trainer))
            roots = roots_of(found.metrics, climb.key, trainer.parts)
            coming = trainer.outcomes(requests, roots)
        for request in requests:
            if trainer.over and (found.trials or trainer.clock.search_over):
                break
            outcomes = next(coming)
            found, trial = found.tried(request, outcomes, trainer.parts)
            judged.append((trial, outcomes, request))
            trainer.tried(trial)
    except KeyboardInterrupt:
        trainer.press()
    climb = replace(climb, found=found)
    whole = len(requests) == len(judged) > 0
    climb = _after(climb, judged, trainer.settings) if whole else replace(climb, over=True)
    if climb.scouts and trainer.clock.search_ended():  # finalists cut off are not comparable
        return replace(climb, found=Found(), over=True)
    return climb


def _requests(climb: Climb, overall: float, settings: Settings) -> list[Request]:
    """What the next round trains: kernels that are due and promising, or else the scout alone."""
    number, key = climb.number, climb.key
    due = [
        replace(climb.asked(start), n_rounds=number, likelihood=climb.likelihood)
        for start in climb.starts
        if climb.takes(start) and _worth_trying(climb, start, overall, settings)
    ]
    if due or climb.likelihood or number > climb.settled:
        return due
    scout = climb.scouts[key]
    return [scout.request((scout.candidate.min_speed,), beyond(scout, settings))]


def _worth_trying(climb: Climb, start: Request, overall: float, settings: Settings) -> bool:
    """Whether a kernel may come near the least loss of all, at its trend or by likelihood."""
    losses = climb.losses.get(start.kernel, ())
    if climb.likelihood and losses:
        limit = settings.close if climb.number else settings.race
        return min(losses) <= limit * overall
    return promising(losses, overall, settings)


def _after(climb: Climb, judged: Sequence[Judged], settings: Settings) -> Climb:
    """The climb after a round: what to train next, and whether that is worth it."""
    if climb.likelihood:
        return _onwards(climb, settings)
    requests, losses = dict(climb.requests), dict(climb.losses)
    taken = {start.kernel for start in climb.starts if climb.takes(start)}
    for trial, _, request in judged:
        kernel = request.kernel
        if kernel in taken:
            losses[kernel] = (*losses.get(kernel, ()), trial.loss)
            speeds = next_speeds(request, trial.candidate.min_speed, settings.few_speeds)
            requests[kernel] = replace(request, speeds=speeds, max_r2=beyond(trial, settings))
    best = min(judged, key=lambda one: one[0].loss)
    loss = best[0].loss
    misses = 0 if loss < (1.0 - settings.worth) * climb.least else climb.misses + 1
    after = replace(
        climb,
        requests=requests,
        losses=losses,
        found=replace(climb.found, scouts={**climb.found.scouts, climb.key: best[0]}),
        least=min(climb.least, loss),
        misses=misses,
        last=best,
    )
    return _onwards(after, settings)


def _onwards(climb: Climb, settings: Settings) -> Climb:
    """The climb with its next round: likelihood after round 0 and after the best of all."""
    number, likelihood = climb.number, climb.likelihood
    likely = settings.max_rounds > 0 and 1 < climb.n_columns <= settings.likelihood_columns
    wanted = {start.n_rounds for start in climb.starts if start.likelihood or not climb.scouts}
    if likely and not likelihood and number == 0 and 0 in wanted:
        return replace(climb, likelihood=True)
    if not _slopes_are_learned(climb, settings):
        return replace(climb, number=number + 1, likelihood=False)
    scouts = climb.found.scouts
    if climb.scouts:
        best = max(wanted, default=0)
    else:
        best = min(scouts, key=lambda key: scouts[key].loss).n_rounds
    if likely and best > 0 and not (likelihood and number > 0):
        return replace(climb, number=best, likelihood=True)
    return replace(climb, over=True)


def _slopes_are_learned(climb: Climb, settings: Settings) -> bool:
    """Whether no further round of slopes follows."""
    if climb.n_columns < 2 or climb.number >= settings.max_rounds:
        return True
    of_likelihood = all(start.likelihood for start in climb.starts)
    return climb.number >= climb.settled and (climb.misses >= climb.patience or of_likelihood)


def _learned(climb: Climb, trainer: Trainer) -> Metrics:
    """The metrics of a climb and that of its next round, learned from the last one."""
    metrics, ended = climb.found.metrics, trainer.clock.search_ended
    if climb.key in metrics:
        return metrics
    if climb.likelihood:
        before = roots_of(metrics, climb.key.after(climb.number), trainer.parts)
        pairs = zip(trainer.parts, before, strict=True)
        likely = tuple(likely_root(part, climb.key, root, ended) for part, root in pairs)
        return {**metrics, climb.key: likely}
    if climb.last is None:
        return metrics
    scout, outcomes, request = climb.last
    speed = tuple(request.speeds).index(scout.candidate.min_speed)
    before = roots_of(metrics, scout.candidate.metric, trainer.parts)
    roots = tuple(
        next_root(part, scout, outcome.ladder, speed, root, ended)
        for part, outcome, root in zip(trainer.parts, outcomes, before, strict=True)
    )
    return {**metrics, climb.key: roots}


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
    return parallel_map(
        lambda trials: _judged_again(trials, earlier, trainer),
        list(metrics.values()),
        n_rows=len(trainer.parts[0]),
        n_jobs=len(metrics) if trainer.waits else 1,
        stop=trainer.clock.end,
        press=trainer.press,
    )


def _judged_again(finalists: Sequence[Trial], earlier: Found, trainer: Trainer) -> Found:
    """Finalists of one metric."""
    metric, parts = finalists[0].candidate.metric.after(0), trainer.parts
    known = {key: roots for key, roots in earlier.metrics.items() if key.after(0) == metric}
    found, keys = Found(metrics=known), [trial.candidate.metric for trial in finalists]
    lacking = [key.n_rounds for key in keys if len(known.get(key, ())) < len(parts)]
    if not trainer.has_room(len(finalists) + PATH * max(lacking, default=0)):
        return found
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
