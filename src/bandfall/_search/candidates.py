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
    if rows.strata is None:
        usual, more, most = settings.families, settings.more_for_numbers, n
    else:
        usual, most = settings.class_families, settings.exact_rows
        widths = {encoding: view.Z.shape[1] for encoding, view in rows.views.items()}
        more = {
            encoding: kernels
            for encoding, kernels in settings.more_for_classes.items()
            if widths.get(encoding, 0) <= settings.more_columns
        }
    families = families_among(rows, usual)
    return families + (families_among(rows, more) if settings.fold_rows <= n <= most else [])


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


def neighbours(speed: float) -> tuple[float, ...]:
    """A speed, the next faster and the next slower one."""
    place = SPEEDS.index(speed)
    return SPEEDS[max(0, place - 1) : place + 2]


def next_speeds(request: Request, best: float, few_speeds: bool) -> tuple[float, ...]:
    """The best speed of a request and its neighbours.

    With `few_speeds`, only the best once it was better than its neighbours.
    """
    beside, tried = neighbours(best), tuple(request.speeds)
    return (best,) if few_speeds and tried in (beside, (best,)) else beside


def beyond(trial: Trial, settings: Settings) -> float:
    """Training R² for the next paths: well beyond the stop of the best trial."""
    return min(settings.max_r2, 1.0 - settings.beyond * (1.0 - trial.max_r2))


def neighbouring(trial: Trial, settings: Settings) -> Request:
    """A trial again, with the neighbours of its speed."""
    return trial.request(neighbours(trial.candidate.min_speed), beyond(trial, settings))


def trial_table(trials: Sequence[Trial]) -> dict[str, np.ndarray]:
    """Columns with one entry per trial."""
    parts = [trial.candidate.summary() for trial in trials]
    keys = [field.name for field in fields(Candidate)]
    others = {"candidate", "temperature"}  # only members have a temperature
    names = [field.name for field in fields(Trial) if field.name not in others]
    return {
        **{key: np.array([part[key] for part in parts]) for key in keys},
        **{name: np.array([getattr(trial, name) for trial in trials]) for name in names},
    }
