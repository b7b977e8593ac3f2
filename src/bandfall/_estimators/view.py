"""One view of a fitted estimator for reports, displays, commands and exports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from sklearn.pipeline import Pipeline

from bandfall._models.average import Average
from bandfall._models.intervals import Intervals
from bandfall._models.member import Member
from bandfall._targets import Numbers, Target
from bandfall._typing import Estimator, TableLike
from bandfall.descent import Path
from bandfall.descent._sum import KernelSum
from bandfall.tables import TableEncoder


@dataclass(frozen=True)
class Story:
    """The model of a fitted estimator and how it was trained."""

    kernel_sum: KernelSum | None = None  # the model of an estimator with a single kernel sum
    average: Average[Target] | None = None  # the model of a self-tuning estimator
    intervals: Intervals | None = None  # prediction intervals of the average
    target: Target = field(default_factory=Numbers.plain)
    dtype: np.dtype = np.dtype(np.float64)  # noqa: RUF009  (of the features)
    # The training of the kernel sum, or of the heaviest member of the average.
    path: Path | None = None
    # Whether the path itself predicts, so that it may be cut between stages.
    cuttable: bool = False
    selection: dict[str, np.ndarray] | None = None  # trials of a search, one entry each
    skipped: Sequence[str] = ()  # for lack of time, or because the fit was interrupted
    leaks: Mapping[str, str] = field(default_factory=dict)  # features that predict alone, and why
    # (m,): numbers of the training rows that the search held out; a row may occur twice.
    held_out_rows: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=int))
    # (m,) or (m, k): predictions, or probabilities, by models that had not seen these rows.
    held_out_answers: np.ndarray | None = None

    @property
    def members(self) -> Sequence[Member]:
        """Members of the average, heaviest first."""
        return () if self.average is None else self.average.members

    @property
    def encoders(self) -> Mapping[str, TableEncoder]:
        """Encoders of the average, by name of the encoding."""
        return {} if self.average is None else self.average.encoders

    @property
    def paths(self) -> list[Path]:
        """The paths that predict: one per member, or the only one."""
        if self.members:
            return [member.path for member in self.members]
        return [] if self.path is None else [self.path]


def story_of(estimator: Estimator) -> Story:
    """The story of an estimator or of the last step of a pipeline; empty for other packages."""
    return getattr(last_step(estimator), "_story", Story)()


def answers_of(estimator: Estimator, X: TableLike) -> np.ndarray:
    """Predictions or probabilities of new rows, (m, k) in float64."""
    method = "predict_proba" if story_of(estimator).target.classes else "predict"
    answers = np.asarray(getattr(estimator, method)(X), dtype=np.float64)
    return answers.reshape(len(answers), -1)


def feature_names_of(estimator: Estimator) -> list[str] | None:
    """Names of the features that an estimator was fitted to; None if they had none."""
    names = getattr(estimator, "feature_names_in_", None)
    return None if names is None else list(names)


def step_names(estimator: Estimator) -> list[str]:
    """Classes of the steps of a pipeline, or of the one estimator."""
    steps = (
        [step for _, step in estimator.steps] if isinstance(estimator, Pipeline) else [estimator]
    )
    return [type(step).__name__ for step in steps]


def last_step(estimator: Estimator) -> Estimator:
    """The estimator itself, or the one at the end of a pipeline."""
    return estimator[-1] if isinstance(estimator, Pipeline) else estimator


def steps_before(estimator: Estimator) -> Estimator:
    """A pipeline of all steps but the last; None if there is only one."""
    several = isinstance(estimator, Pipeline) and len(estimator) > 1
    return estimator[:-1] if several else None


def last_step_prefix(estimator: Estimator) -> str:
    """Prefix of parameters of the last step: ``name__`` in a pipeline, else empty."""
    return f"{estimator.steps[-1][0]}__" if isinstance(estimator, Pipeline) else ""
