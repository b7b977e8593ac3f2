"""What a search tries, what it may cost, and how it judges."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import NamedTuple, Protocol

import numpy as np

from bandfall.checks import check_instance, check_real
from bandfall.kernels import Kernel, get_kernel

SPEEDS = tuple(float(f"{0.1 * 10 ** (-i / 2):.1g}") for i in range(9))  # 0.1, 0.03, … 1e-05
# Families that differ in kind make a good average: smooth and rough profiles, norms that mix
# features and norms that add them up (docs/research.md says what each is worth).
FAMILIES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "standard": ("gaussian", "laplace^1.4", "laplace-1"),
        "steps": ("gaussian",),
        "quantile": ("gaussian", "laplace^1.4", "laplace-1.25"),
        "target": ("laplace^1.4",),
        "pairs": ("gaussian",),
    }
)
MAX_R2 = 1.0 - 1e-6  # on training rows, where no earlier stop is better


class Family(NamedTuple):
    """Candidates that differ in metric, speed and stop alone."""

    encoding: str
    kernel: Kernel


class MetricKey(NamedTuple):
    """Which metric: of which columns, by how many rounds, and whether it mixes them.

    Kernels of the Euclidean norm share a metric with directions of its own. All other norms
    depend on the axes; their kernels share a metric that scales columns one by one. Rounds by
    log-odds, for classes, follow those by squared error.
    """

    encoding: str
    mixes: bool
    n_rounds: int
    log_rounds: int = 0

    @classmethod
    def of(cls, encoding: str, kernel: Kernel, n_rounds: int = 0) -> MetricKey:
        """Of the candidates with this encoding and kernel, after some rounds."""
        return cls(encoding, kernel.geometry.rotates, n_rounds)

    def after(self, n_rounds: int) -> MetricKey:
        """The same after another number of rounds."""
        return self._replace(n_rounds=n_rounds)

    @property
    def learned(self) -> bool:
        """Whether there was any round; columns are as they are otherwise."""
        return self.n_rounds + self.log_rounds > 0


@dataclass(frozen=True)
class Request:
    """A ladder of speeds to train on all parts; the kernel may be given by its name."""

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
class Candidate:
    """A configuration: encoding, rounds of the learned metric, kernel and slowest speed.

    The kernel may be given by its name. The penalty is that of the log-loss for classes; 0
    stands for squared error. Rounds by log-odds (`log_rounds`) follow those by squared error. A
    `width` above 0 is the bandwidth of a path of one stage, relative to the largest distance.
    """

    encoding: str = "standard"
    n_rounds: int = 0
    kernel: Kernel = "gaussian"  # type: ignore[assignment]
    min_speed: float = 0.1
    penalty: float = 0.0
    log_rounds: int = 0
    width: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "kernel", get_kernel(self.kernel))
        check_instance("encoding", self.encoding, str)
        check_instance("n_rounds", self.n_rounds, int)
        check_instance("log_rounds", self.log_rounds, int)
        for name in ("n_rounds", "min_speed", "penalty", "log_rounds", "width"):
            check_real(name, getattr(self, name), 0.0)

    @property
    def family(self) -> Family:
        """Its encoding and kernel."""
        return Family(self.encoding, self.kernel)

    @property
    def metric(self) -> MetricKey:
        """The metric that distances are measured in."""
        key = MetricKey.of(self.encoding, self.kernel, self.n_rounds)
        return key._replace(log_rounds=self.log_rounds)

    def request(self, speeds: Sequence[float], max_r2: float) -> Request:
        """A ladder of other speeds, up to a training R²."""
        return Request(self.encoding, self.n_rounds, self.kernel, speeds, max_r2)

    def summary(self) -> dict[str, str | float]:
        """Its parts as numbers and text."""
        return {**vars(self), "kernel": str(self.kernel)}


@dataclass(frozen=True)
class Trial:
    """What a candidate achieved on held-out rows."""

    candidate: Candidate
    loss: float  # the judge's mean loss over held-out rows at the best stop: what decides
    standard_error: float  # of `loss`, over held-out rows
    score: float  # R² on the same rows
    max_r2: float  # training R² at that stop
    n_rows: int  # training rows
    # Training R² there, mean over parts: stops lie apart, and each part goes to its next one.
    train_r2: float = math.nan
    # Outputs of classes by squared error are divided by it to be log-odds; 0: they stay codes.
    temperature: float = 0.0

    @property
    def log_odds(self) -> bool:
        """Whether its outputs are log-odds of classes."""
        return self.candidate.penalty > 0.0 or self.temperature > 0.0


@dataclass(frozen=True)
class Budget:
    """How much evidence a search gathers. Nothing here looks at the machine."""

    # Training rows of each stage: first of the whole search, then of fewer and fewer finalists.
    stage_rows: tuple[int, ...] = (2000, 5000, 10000)
    # Below this number of rows each row is held out in turn; from it on, one part is held out.
    fold_rows: int = 1500
    n_folds: int = 5  # parts held out in turn
    few_rows: int = 300  # below this number of rows, finalists see two partitions into folds
    race_folds: int = 2  # folds that all candidates see, from `few_rows` on; the finalists see all
    held_out_rows: int = 2500  # most rows held out in one part
    # Least number of rows held out there, unless that is more than a third of all: with fewer, the
    # coverage of intervals is a matter of luck.
    fewest_held_out: int = 500
    n_members: int = 4  # most models to average
    max_rounds: int = 10  # of the learned metric
    worth: float = 0.01  # share by which the loss must fall for a round to have helped
    patience: int = 2  # rounds that may follow each other without having helped
    # A family is trained for another round if it comes within `race` times the least loss, should
    # it go on to fall for two rounds as it did in its last one.
    race: float = 1.4
    # A family goes on to more folds if its loss is at most `hopeless` times the least. It goes on
    # to more rows, which take longer, if its loss is at most `close` times the least, or if the
    # average of this stage contains it.
    hopeless: float = 1.4
    close: float = 1.05
    # Whether the first round of a metric takes every other speed. Later rounds then try those
    # beside the best until it is better than both: with many classes, columns take most of the
    # time.
    few_speeds: bool = False
    few_kernel_rows: int = 700  # below this number of rows, classes choose among two kernels
    # Most rows for the log-loss of classes: a Cholesky factor of more takes longer than a search.
    log_loss_rows: int = 10_000
    # Above `exact_rows` rows, models with the log-loss are compared after training on
    # `penalty_rows` of them, and the final fits are computed in float32.
    exact_rows: int = 5000
    penalty_rows: int = 3000

    def up_to(self, n_rows: int) -> Budget:
        """The same, with stages of at most `n_rows` rows."""
        stages = [rows for rows in self.stage_rows if rows < n_rows]
        return replace(self, stage_rows=(*stages, min(n_rows, self.stage_rows[-1])))


def neighbours(speed: float) -> tuple[float, ...]:
    """A speed, the next faster and the next slower one."""
    place = SPEEDS.index(speed)
    return SPEEDS[max(0, place - 1) : place + 2]


def next_speeds(request: Request, best: float, budget: Budget) -> tuple[float, ...]:
    """The best speed of a round and those beside it.

    With `few_speeds` the best alone, once it was better than those beside it.
    """
    beside, tried = neighbours(best), tuple(request.speeds)
    return (best,) if budget.few_speeds and tried in (beside, (best,)) else beside


class Judge(Protocol):
    """From predictions to a loss for every row."""

    def losses(self, predictions: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Of predictions (m, ..., k) for targets (m, ..., k), shape (m, ...)."""
        ...


@dataclass(frozen=True)
class PowerLoss:
    """Mean of |error|^power over targets of unit variance.

    Below 2, a few odd rows among those held out do not decide for all.
    """

    power: float = 1.5

    def losses(self, predictions: np.ndarray, y: np.ndarray) -> np.ndarray:
        """|prediction − y|^power, averaged over targets."""
        errors = np.abs(predictions - y)
        losses = errors * np.sqrt(errors) if self.power == 1.5 else errors**self.power
        return losses[..., 0] if losses.shape[-1] == 1 else losses.mean(axis=-1)


def trial_table(trials: list[Trial]) -> dict[str, np.ndarray]:
    """One entry a trial, by columns."""
    parts = [trial.candidate.summary() for trial in trials]
    keys = [field.name for field in fields(Candidate)]
    others = {"candidate", "temperature"}  # temperatures are those of members alone
    names = [field.name for field in fields(Trial) if field.name not in others]
    return {
        **{key: np.array([part[key] for part in parts]) for key in keys},
        **{name: np.array([getattr(trial, name) for trial in trials]) for name in names},
    }
