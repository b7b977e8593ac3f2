"""Candidates of a search, and their trials on held-out rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np

from bandfall._models.member import Candidate, Family, MetricKey
from bandfall._search.rows import Rows
from bandfall._search.settings import SPEEDS, Settings
from bandfall.kernels._kernel import Kernel, get_kernel


@dataclass(frozen=True)
class Request:
    """A ladder of speeds to train on all parts; `kernel` may be a name."""

    encoding: str
    n_rounds: int
    kernel: Kernel
    speeds: Sequence[float]
    max_r2: float = Settings.max_r2
    likelihood: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "kernel", get_kernel(self.kernel))

    @property
    def metric(self) -> MetricKey:
        """The metric that distances are measured in."""
        return self.candidate(self.speeds[0]).metric

    def candidate(self, speed: float) -> Candidate:
        """The candidate of one speed."""
        return Candidate(
            self.encoding, self.n_rounds, self.kernel, speed, likelihood=self.likelihood
        )


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

    def request(self, speeds: Sequence[float], max_r2: float) -> Request:
        """A ladder of other speeds of its candidate, up to a training R²."""
        one = self.candidate
        return Request(one.encoding, one.n_rounds, one.kernel, speeds, max_r2, one.likelihood)


def families_for(rows: Rows, kernels: Sequence[Kernel | str] | None = None) -> list[Family]:
    """The families that are searched for these rows: with these kernels, or those of settings."""
    if kernels is not None:
        return families_among(rows, dict.fromkeys(rows.views, tuple(kernels)))
    settings, n = rows.settings, len(rows)
    usual, more, most = settings.families, settings.more_for_numbers, n
    if rows.strata is not None:
        usual, more, most = settings.class_families, settings.more_for_classes, settings.exact_rows
    families = families_among(rows, usual)
    if settings.fold_rows <= n <= most:
        widths = {name: view.Z.shape[1] for name, view in rows.views.items()}
        others = families_among(rows, more)
        families += [one for one in others if widths[one.encoding] <= settings.more_columns]
    return families


def exact_families_for(rows: Rows) -> list[Family]:
    """Further families for numbers of many rows, if they turn out to be almost free of noise."""
    settings = rows.settings
    tried = rows.strata is None and len(rows) >= settings.fold_rows
    return families_among(rows, settings.exact_families) if tried else []


def families_among(rows: Rows, kernels: Mapping[str, Sequence[Kernel | str]]) -> list[Family]:
    """The families of these kernels whose encodings the rows have."""
    return [
        Family(encoding, get_kernel(kernel))
        for encoding in rows.views
        for kernel in kernels.get(encoding, ())
    ]


def beyond(trial: Trial, settings: Settings) -> float:
    """Training R² for the next paths: well beyond the stop of the best trial."""
    return min(settings.max_r2, 1.0 - settings.beyond * (1.0 - trial.max_r2))


def neighbouring(trial: Trial, settings: Settings, few_speeds: bool = False) -> Request:
    """A trial again, at its speed and (unless `few_speeds`) the next faster and slower one."""
    speed = trial.candidate.min_speed
    place = SPEEDS.index(speed)
    speeds = (speed,) if few_speeds else SPEEDS[max(0, place - 1) : place + 2]
    return trial.request(speeds, beyond(trial, settings))


def trial_table(trials: Sequence[Trial]) -> dict[str, np.ndarray]:
    """Columns with one entry per trial."""
    names = [field.name for field in fields(Trial)]
    own = [name for name in names if name not in ("candidate", "temperature")]  # of members alone
    rows = [
        {**one.candidate.summary(), **{name: getattr(one, name) for name in own}} for one in trials
    ]
    keys = [field.name for field in fields(Candidate)] + own
    return {key: np.array([row[key] for row in rows]) for key in keys}
