"""Candidates of a search, and their trials on held-out rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from bandfall._models.member import Candidate
from bandfall._search.settings import SPEEDS, Settings


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


def beyond(trial: Trial, settings: Settings) -> float:
    """Training R² for the next paths: well beyond the stop of the best trial."""
    return min(settings.max_r2, 1.0 - settings.beyond * (1.0 - trial.max_r2))


def neighbouring(trial: Trial, settings: Settings) -> Request:
    """A trial again, at its speed and the next faster and slower one."""
    place = SPEEDS.index(trial.candidate.min_speed)
    speeds = SPEEDS[max(0, place - 1) : place + 2]
    return Request(trial.candidate, speeds, beyond(trial, settings))
