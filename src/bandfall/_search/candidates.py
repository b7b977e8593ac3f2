"""Candidates of a search, their trials, and its budget."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from types import MappingProxyType

import numpy as np

from bandfall._models.member import Candidate, Family, MetricKey
from bandfall.kernels._kernel import Kernel, get_kernel

SPEEDS = tuple(float(f"{0.1 * 10 ** (-i / 2):.1g}") for i in range(9))  # 0.1, 0.03, … 1e-05
# Families of different kinds make a good average: smooth and rough profiles, norms that mix
# features and norms that add them up (docs/research.md has the measurements).
FAMILIES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "standard": ("gaussian", "laplace^1.4", "laplace-1"),
        "steps": ("gaussian",),
        "quantile": ("gaussian", "laplace^1.4", "laplace-1.25"),
        "target": ("laplace^1.4",),
        "pairs": ("gaussian",),
    }
)
# Also tried from `Budget.fold_rows` rows on. Numbers: many rows show what many levels add. Classes
# often follow thresholds of single columns; above `Budget.class_rows` rows, the many columns of
# steps would make predictions slow.
MORE_FOR_NUMBERS: Mapping[str, tuple[str, ...]] = MappingProxyType({"target": ("laplace-1",)})
MORE_FOR_CLASSES: Mapping[str, tuple[str, ...]] = MappingProxyType({"steps": ("laplace-1.25",)})
MAX_R2 = 1.0 - 1e-6  # on training rows: no path is trained beyond


@dataclass(frozen=True)
class Request:
    """A ladder of speeds to train on all parts; `kernel` may be a name."""

    encoding: str
    n_rounds: int
    kernel: Kernel
    speeds: Sequence[float]
    max_r2: float = MAX_R2

    def __post_init__(self) -> None:
        object.__setattr__(self, "kernel", get_kernel(self.kernel))

    @property
    def metric(self) -> MetricKey:
        """The metric that distances are measured in."""
        return MetricKey.of(self.encoding, self.kernel, self.n_rounds)


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
        return Request(one.encoding, one.n_rounds, one.kernel, speeds, max_r2)


@dataclass(frozen=True)
class Budget:
    """The effort of a search. It does not depend on the machine."""

    # Training rows of each stage; each stage has fewer candidates than the one before.
    stage_rows: tuple[int, ...] = (2000, 5000, 10000)
    # With fewer rows, each row is held out in one of the folds; from here on, one part is held out.
    fold_rows: int = 1500
    # For classes, each row is held out up to `class_rows` rows: losses of few rows vary too much.
    # `class_folds` folds serve from `fold_rows` rows on, and `n_folds` if fewer than half of
    # `fold_rows` rows are not of the most frequent class: training needs these.
    class_rows: int = 5000
    class_folds: int = 3
    n_folds: int = 5
    few_rows: int = 300  # with fewer rows, finalists are judged on two partitions into folds
    # Folds for all candidates, from `few_rows` on, at most half of all; finalists get all folds.
    race_folds: int = 2
    held_out_rows: int = 2500  # maximum number of rows held out in one part
    # Minimum number of rows held out in one part, but at most a third of all: with fewer, the
    # coverage of intervals would vary too much.
    fewest_held_out: int = 500
    n_members: int = 4  # maximum number of models to average
    max_rounds: int = 10  # of the learned metric
    worth: float = 0.01  # relative fall of the loss that counts as an improvement by a round
    patience: int = 2  # consecutive rounds without improvement before the metric is final
    # A family is trained for another round if its loss would come within `race` times the least
    # loss after two more rounds like its last one.
    race: float = 1.4
    # A family goes on to more folds if its loss is at most `hopeless` times the least. It goes on
    # to more rows, which take longer, if its loss is at most `close` times the least, or if it is
    # in the average of this stage.
    hopeless: float = 1.4
    close: float = 1.05
    # Whether rounds after the first try the neighbours of the best speed only until it is better
    # than both. This saves time with many classes.
    few_speeds: bool = False
    few_kernel_rows: int = 700  # with fewer rows, classes choose among two kernels
    # Maximum numbers of rows for the log-loss, in all and in one leaf: a larger Cholesky factor
    # takes longer than a search.
    log_loss_rows: int = 100_000
    cholesky_rows: int = 10_000
    # Above `exact_rows` rows, models with the log-loss are compared after training on
    # `penalty_rows` of them, and the final fits are computed in float32.
    exact_rows: int = 5000
    penalty_rows: int = 3000

    def up_to(self, n_rows: int) -> Budget:
        """A copy with stages of at most `n_rows` rows."""
        stages = [rows for rows in self.stage_rows if rows < n_rows]
        return replace(self, stage_rows=(*stages, min(n_rows, self.stage_rows[-1])))


def default_families(
    encodings: Sequence[str], n_rows: int, budget: Budget, *, classes: bool
) -> list[Family]:
    """The families that are searched under these encodings by default."""
    more = MORE_FOR_CLASSES if classes else MORE_FOR_NUMBERS
    if n_rows < budget.fold_rows or (classes and n_rows > budget.class_rows):
        more = {}
    return [
        Family(one, get_kernel(kernel))
        for one in encodings
        for kernel in (*FAMILIES.get(one, FAMILIES["standard"]), *more.get(one, ()))
    ]


def neighbours(speed: float) -> tuple[float, ...]:
    """A speed, the next faster and the next slower one."""
    place = SPEEDS.index(speed)
    return SPEEDS[max(0, place - 1) : place + 2]


def next_speeds(request: Request, best: float, budget: Budget) -> tuple[float, ...]:
    """The best speed of a round and its neighbours.

    With `few_speeds`, only the best once it was better than its neighbours.
    """
    beside, tried = neighbours(best), tuple(request.speeds)
    return (best,) if budget.few_speeds and tried in (beside, (best,)) else beside


def trial_table(trials: list[Trial]) -> dict[str, np.ndarray]:
    """Columns with one entry per trial."""
    parts = [trial.candidate.summary() for trial in trials]
    keys = [field.name for field in fields(Candidate)]
    others = {"candidate", "temperature"}  # only members have a temperature
    names = [field.name for field in fields(Trial) if field.name not in others]
    return {
        **{key: np.array([part[key] for part in parts]) for key in keys},
        **{name: np.array([getattr(trial, name) for trial in trials]) for name in names},
    }
