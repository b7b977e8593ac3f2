"""The members of an average, and how each is configured."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from bandfall._checks import ShapeChecker, check_number
from bandfall.descent import Path
from bandfall.kernels._kernel import Kernel, get_kernel


class Family(NamedTuple):
    """Candidates that differ only in metric, speed and stop."""

    encoding: str
    kernel: Kernel
    width: float = 0.0  # bandwidth relative to the largest distance, if it stays


@dataclass(frozen=True, order=True)
class MetricKey:
    """Identifies a metric: its encoding, its rounds, and whether it mixes columns.

    Kernels of the Euclidean norm share a metric that mixes columns. All other norms depend on the
    axes; their kernels share a metric that scales each column. After the rounds, `likelihood` may
    scale the directions that they found. For classes, rounds with log-odds follow.
    """

    encoding: str
    mixes: bool
    n_rounds: int
    likelihood: bool = False
    log_rounds: int = 0

    def after(self, n_rounds: int) -> MetricKey:
        """The metric after another number of rounds, without likelihood."""
        return replace(self, n_rounds=n_rounds, likelihood=False)

    @property
    def learned(self) -> bool:
        """Whether columns are scaled or mixed at all."""
        return self.likelihood or self.n_rounds + self.log_rounds > 0


@dataclass(frozen=True)
class Candidate:
    """A configuration: encoding, rounds of the learned metric, kernel and slowest speed.

    `kernel` may be a name. `penalty` is that of the log-loss for classes; 0 means squared error.
    `likelihood` scales the directions that these rounds found, by marginal likelihood. Rounds with
    log-odds (`log_rounds`) follow. A `width` above 0 is the bandwidth of a path of one stage,
    relative to the largest distance.
    """

    encoding: str = "standard"
    n_rounds: int = 0
    kernel: Kernel = "gaussian"  # type: ignore[assignment]
    min_speed: float = 0.1
    penalty: float = 0.0
    log_rounds: int = 0
    width: float = 0.0
    likelihood: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "kernel", get_kernel(self.kernel))
        for name in ("n_rounds", "min_speed", "penalty", "log_rounds", "width"):
            check_number(name, getattr(self, name), 0.0)

    @property
    def family(self) -> Family:
        """Its encoding and kernel, and its bandwidth if that stays."""
        return Family(self.encoding, self.kernel, self.width)

    @property
    def metric(self) -> MetricKey:
        """The metric that distances are measured in."""
        mixes = self.kernel.geometry.rotates
        return MetricKey(self.encoding, mixes, self.n_rounds, self.likelihood, self.log_rounds)

    @property
    def pace(self) -> str:
        """Its speed, or the bandwidth that it keeps, in words."""
        kept = f"bandwidth {self.width:g} of the largest distance"
        return kept if self.width else f"speed {self.min_speed:g}"

    def summary(self) -> dict[str, str | float]:
        """The fields as numbers and text."""
        return {**vars(self), "kernel": str(self.kernel)}


@dataclass(frozen=True)
class Member:
    """One of the models that are averaged."""

    candidate: Candidate
    max_r2: float  # training R² at which it was stopped
    root: np.ndarray  # (d, d) or (d,): root of the metric, which multiplies encoded columns
    path: Path  # over the scaled columns
    weight: float

    def __post_init__(self) -> None:
        check_number("max_r2", self.max_r2, 0.0, 1.0)
        check_number("weight", self.weight, 0.0, 1.0)
        shapes = ShapeChecker(d=self.path.X.shape[1])
        shapes("root", self.root, "d" if np.ndim(self.root) == 1 else "d d")
        if self.path.kernel != self.candidate.kernel:
            raise ValueError("the kernels of path and candidate differ")

    def __repr__(self) -> str:
        one = self.candidate
        loss = f", log-loss with penalty {one.penalty:g}" if one.penalty else ""
        likelihood = " and likelihood" if one.likelihood else ""
        stop = "" if one.width and loss else f", training R² {self.max_r2:.4f}"
        return (
            f"<{self.weight:.2f} of {one.encoding} columns, "
            f"{one.n_rounds + one.log_rounds} rounds of the metric{likelihood}, {one.kernel}, "
            f"{one.pace}{stop}{loss}>"
        )
