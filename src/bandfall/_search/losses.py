"""Trials from the outcomes of a request: the loss of every speed at its best stop."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bandfall._search.candidates import Request, Trial
from bandfall._search.parts import Outcome, Part
from bandfall._targets.losses import mean_and_error, mean_r2


def trials_of(request: Request, outcomes: Sequence[Outcome], parts: Sequence[Part]) -> list[Trial]:
    """The trial of each speed, at the best common stop of all parts."""
    return [_trial(request, number, outcomes, parts) for number in range(len(request.speeds))]


def at_stop(outcomes: Sequence[Outcome], speed: int, max_r2: float) -> np.ndarray:
    """Predictions of one speed for the held-out rows of all parts, shape (m, k)."""
    return np.concatenate(
        [one.predictions[one.ladder.reached(speed, max_r2), :, speed] for one in outcomes]
    )


def joined_weights(parts: Sequence[Part]) -> np.ndarray | None:
    """Weights of the held-out rows of all parts; None where all count alike."""
    weights = [part.weights for part in parts if part.weights is not None]
    return np.concatenate(weights) if weights else None


def joined_targets(parts: Sequence[Part]) -> np.ndarray:
    """Targets of the held-out rows of all parts, shape (m, k)."""
    return np.concatenate([part.y for part in parts])


def _trial(
    request: Request, speed: int, outcomes: Sequence[Outcome], parts: Sequence[Part]
) -> Trial:
    losses = [outcome.losses for outcome in outcomes]
    n_stops = max(1, len(losses[0]) - 1)  # without stops, the start
    levels = np.unique(np.concatenate([one.ladder.r2[-n_stops:, speed] for one in outcomes]))
    n_levels = min(len(levels), parts[0].rows.settings.max_stops)
    places = np.linspace(0, len(levels) - 1, n_levels).astype(int)
    levels = levels[places] if len(levels) else np.zeros(1)  # constant targets train nothing
    stops = [outcome.ladder.all_reached(speed, levels) for outcome in outcomes]
    sums = np.zeros(len(levels))
    for part, loss, reached in zip(parts, losses, stops, strict=True):
        own = np.ones(len(part.y)) if part.weights is None else part.weights
        sums += (loss[:, :, speed] @ own)[reached]
    best = int(np.argmin(sums))
    rows = [loss[reached[best], :, speed] for loss, reached in zip(losses, stops, strict=True)]
    weights = joined_weights(parts)
    mean, error = mean_and_error(np.concatenate(rows), weights)
    max_r2 = float(levels[best])
    score = mean_r2(at_stop(outcomes, speed, max_r2), joined_targets(parts), weights)
    reached_r2 = [
        one.ladder.r2[reached[best], speed] for one, reached in zip(outcomes, stops, strict=True)
    ]
    return Trial(
        request.candidate(request.speeds[speed]),
        loss=mean,
        standard_error=error,
        score=score,
        max_r2=max_r2,
        n_rows=len(parts[0]),
        train_r2=float(np.mean(reached_r2)),
    )
