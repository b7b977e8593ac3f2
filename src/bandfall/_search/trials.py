"""Trials: candidates trained at several speeds on parts of the rows, and judged by other rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

import numpy as np

from bandfall._models.member import Candidate, Family
from bandfall._products import WeightedOperator, operator_over
from bandfall._search.parts import Part, joined_targets, joined_weights
from bandfall._search.settings import SPEEDS, Settings
from bandfall._targets.losses import Judge, mean_and_error, mean_r2
from bandfall.descent._krylov import never
from bandfall.descent._ladder import Climb, Ladder, Stages, Watch


@dataclass(frozen=True)
class Request:
    """A candidate to train on all parts, at several speeds instead of its own."""

    candidate: Candidate
    speeds: Sequence[float]
    max_r2: float = Settings.max_r2


@dataclass(frozen=True)
class Trial:
    """The result of a candidate on held-out rows."""

    candidate: Candidate
    loss: float  # the judge's mean loss over held-out rows at the best stop; it decides
    standard_error: float  # of `loss`, over held-out rows
    score: float  # R² on the same rows
    max_r2: float  # training R² at that stop
    n_rows: int  # training rows
    # Training R² reached there, mean over parts: each part stops at its next recorded level.
    train_r2: float = math.nan
    # For classes: divides outputs of squared error to make log-odds; 0 if they stay codes.
    temperature: float = 0.0

    @property
    def log_odds(self) -> bool:
        """Whether outputs are log-odds of classes."""
        return self.candidate.penalty > 0.0 or self.temperature > 0.0


@dataclass(frozen=True)
class Outcome:
    """Paths of several speeds on one part, and their predictions for its held-out rows."""

    ladder: Ladder  # in the units of y
    predictions: np.ndarray  # (L + 1, m, V, k): before and after every stop
    losses: np.ndarray  # (L + 1, m, V): by the judge


@dataclass(frozen=True)
class Judged:
    """A request that was judged on several parts."""

    trials: list[Trial]  # of every speed
    best: Trial
    predictions: np.ndarray  # (m, k): of the best, for the held-out rows of all parts
    paths: list[Stages]  # of the best on every part, up to its stop


def beyond(trial: Trial, settings: Settings) -> float:
    """Training R² for the next paths: well beyond the stop of the best trial."""
    return min(settings.max_r2, 1.0 - settings.beyond * (1.0 - trial.max_r2))


def first_request(family: Family, settings: Settings) -> Request:
    """A family with columns as they are, at most speeds; at the least if its bandwidth stays."""
    speeds = [settings.least_speed] if family.width else settings.first_speeds
    one = Candidate(family.encoding, 0, family.kernel, speeds[0], width=family.width)
    return Request(one, speeds, settings.first_max_r2)


def neighbouring(trial: Trial, settings: Settings) -> Request:
    """A trial again, at its speed and, if its bandwidth falls, the next faster and slower one."""
    one = trial.candidate
    speeds: Sequence[float] = [one.min_speed]
    if not one.width:
        place = SPEEDS.index(one.min_speed)
        speeds = SPEEDS[max(0, place - 1) : place + 2]
    return Request(one, speeds, beyond(trial, settings))


def judge_parts(
    parts: Sequence[Part],
    request: Request,
    roots: Sequence[np.ndarray],
    judge: Judge,
    ended: Callable[[], bool] = never,
) -> Judged:
    """Train at all speeds of a request, and judge each at its best common stop of all parts."""
    outcomes = run_parts(parts, request, roots, judge, ended)
    tried = [trial_of(outcomes, parts, request, speed) for speed in range(len(request.speeds))]
    speed = min(range(len(tried)), key=lambda number: tried[number][0].loss)
    best, stops, predictions = tried[speed]
    pairs = zip(outcomes, stops, strict=True)
    paths = [one.ladder.until(speed, stop) for one, stop in pairs]
    return Judged([trial for trial, *_ in tried], best, predictions, paths)


class _HeldOut:
    """Predictions of all paths for the held-out rows of a part, stop by stop, and their losses."""

    def __init__(self, part: Part, root: np.ndarray, request: Request, judge: Judge):
        self.X, X_new = part.scaled(request.candidate.encoding, root)
        self._part, self._judge = part, judge
        self._cross = part.rows.backend.cross(X_new, self.X, request.candidate.kernel)
        shape = len(part.y), len(request.speeds), part.y.shape[1]
        self.predictions = [np.broadcast_to(part.offset, shape).astype(np.float64)]  # (m, V, k)
        self.losses = [judge.losses(self.predictions[0], part.y[:, None])]  # (m, V)

    def extend(self, bandwidth: float, blocks: np.ndarray) -> np.ndarray:
        """Judge more stops, of contributions (S, n, V, k) to the scaled target; losses (S, V)."""
        n_stops, n_rows, *paths = blocks.shape
        columns = (blocks * self._part.to_units.astype(blocks.dtype)).swapaxes(0, 1)
        added = self._cross.product(bandwidth, columns.reshape(n_rows, -1))
        added = added.reshape(-1, n_stops, *paths).cumsum(axis=1, dtype=np.float64)
        stops = self.predictions[-1][:, None] + added
        losses = self._judge.losses(stops, self._part.y[:, None, None])  # (m, S, V)
        self.predictions.extend(stops.swapaxes(0, 1))
        self.losses.extend(losses.swapaxes(0, 1))
        return np.tensordot(self._part.evidence, losses, 1)


def run_parts(
    parts: Sequence[Part],
    request: Request,
    roots: Sequence[np.ndarray],
    judge: Judge,
    ended: Callable[[], bool] = never,
) -> list[Outcome]:
    """Train on every part, in the metric with one of the `roots`, while the loss improves.

    After its best stop, a slow path would spend most of its products on learning noise. A speed
    ends once its loss over all parts is clearly above its minimum so far.
    """
    held_out = [_HeldOut(*pair, request, judge) for pair in zip(parts, roots, strict=True)]
    least, worse = np.full(len(request.speeds), np.inf), parts[0].rows.settings.worse

    def turned(bandwidth: float, coefficients: Sequence[np.ndarray]) -> np.ndarray:
        """Which speeds have a loss clearly above their minimum at one of these stops."""
        nonlocal least
        pairs = zip(held_out, coefficients, strict=True)
        totals = np.sum([one.extend(bandwidth, blocks) for one, blocks in pairs], axis=0)
        minima = np.minimum.accumulate(np.vstack([least, totals]))
        least = minima[-1]
        return np.any(totals > (1.0 + worse) * minima[1:], axis=0)

    ladders = train_parts(parts, request, [one.X for one in held_out], turned, ended)
    return [
        Outcome(ladder, np.stack(one.predictions), np.array(one.losses))
        for ladder, one in zip(ladders, held_out, strict=True)
    ]


def train_parts(
    parts: Sequence[Part],
    request: Request,
    rows: Sequence[np.ndarray],
    watch: Watch | None = None,
    ended: Callable[[], bool] = never,
) -> list[Ladder]:
    """Train at several speeds on every part, side by side; `rows` are scaled by its metric."""
    backend, settings = parts[0].rows.backend, parts[0].rows.settings
    n_columns = len(request.speeds) * parts[0].rows.y.shape[1]
    with backend.threads(max(map(len, parts))), ExitStack() as held:
        held.enter_context(np.errstate(invalid="ignore"))  # see `fit_path`
        operators = []
        for part, X in zip(parts, rows, strict=True):
            operator = held.enter_context(
                operator_over(backend, X, request.candidate.kernel, n_columns=n_columns)
            )
            if part.train_weights is not None:
                operator = WeightedOperator(operator, part.train_weights.astype(X.dtype))
            operators.append(operator)
        targets = [part.target for part in parts]
        limits = request.max_r2, settings.shrink, settings.tolerance, settings.max_dimension
        ways = watch, ended, request.candidate.width
        ladders = Climb(operators, targets, request.speeds, *limits, *ways).ladders()
    return [
        replace(one, coefficients=one.coefficients * part.to_units.astype(one.coefficients.dtype))
        for one, part in zip(ladders, parts, strict=True)
    ]


def trial_of(
    outcomes: Sequence[Outcome], parts: Sequence[Part], request: Request, speed: int
) -> tuple[Trial, list[int], np.ndarray]:
    """The trial of one speed at the best common stop of all parts, the stops, and predictions."""
    weights, ladders = joined_weights(parts), [one.ladder for one in outcomes]
    n_stops = max(1, len(ladders[0].bandwidths))  # without stops, the start
    levels = np.unique(np.concatenate([one.r2[-n_stops:, speed] for one in ladders]))
    reached = [one.reached(speed, levels) for one in ladders]
    losses = [one.losses[stops, :, speed] for one, stops in zip(outcomes, reached, strict=True)]
    all_losses = np.concatenate(losses, axis=1)  # (levels, m)
    best = int(np.argmin(np.average(all_losses, axis=1, weights=weights)))
    mean, error = mean_and_error(all_losses[best], weights)
    stops = [int(one[best]) for one in reached]
    pairs = list(zip(outcomes, stops, strict=True))
    predictions = np.concatenate([one.predictions[stop, :, speed] for one, stop in pairs])
    trial = Trial(
        replace(request.candidate, min_speed=request.speeds[speed]),
        loss=mean,
        standard_error=error,
        score=mean_r2(predictions, joined_targets(parts), weights),
        max_r2=float(levels[best]),
        n_rows=len(parts[0]),
        train_r2=float(np.mean([one.ladder.r2[stop, speed] for one, stop in pairs])),
    )
    return trial, stops, predictions
