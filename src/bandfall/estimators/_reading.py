"""What pages, displays, commands and exports ask of a fitted estimator: asked in one way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import numpy as np
from sklearn.pipeline import Pipeline

from bandfall.descent import Path
from bandfall.encoding import TableEncoder
from bandfall.selection.members import Member

Answer = TypeVar("Answer", covariant=True)


class Reader(Protocol[Answer]):
    """Reads the formula of a fitted estimator, which calls the one method that fits.

    Every kernel estimator has a method ``_read_by(reader)``; a new formula is a new method here.
    """

    def kernel_sum(self, estimator: Any) -> Answer:
        """Of one that predicts by its ``kernel_sum_``."""
        ...

    def average(self, estimator: Any) -> Answer:
        """Of a weighted mean of members, in the units of the target."""
        ...

    def classes(self, estimator: Any) -> Answer:
        """Of a weighted mean of members that becomes probabilities of classes."""
        ...


def read_formula(estimator: Any, reader: Reader[Answer]) -> Answer:
    """What a reader makes of a fitted kernel estimator."""
    if not hasattr(estimator, "_read_by"):
        raise TypeError(f"{type(estimator).__name__} is not a kernel estimator")
    return estimator._read_by(reader)


@dataclass(frozen=True)
class Story:
    """How a fitted estimator came about, as far as it tells.

    Attributes
    ----------
    path : Path or None
        Of the heaviest member, where there are several.
    cuttable : bool
        Whether predictions are the path's own, so that it may be cut between stages.
    members : sequence of Member
        Heaviest first; none where nothing is averaged.
    selection : dict of ndarray, or None
        Trials of a search, one entry each.
    given_up : sequence of str
        What there was no time for.
    encoders : dict of TableEncoder
        By the name of the encoding.
    interval : dict or None
        How intervals were learned, where there are any.
    held_out_rows : ndarray of int, shape (m,)
        Numbers of the training rows that the search held out; a row may occur twice.
    held_out_outputs : ndarray of shape (m,) or (m, k)
        What models that had not seen these rows predicted: numbers, or probabilities.
    """

    path: Path | None = None
    cuttable: bool = False
    members: Sequence[Member] = ()
    selection: dict[str, np.ndarray] | None = None
    given_up: Sequence[str] = ()
    encoders: Mapping[str, TableEncoder] = field(default_factory=dict)
    interval: dict[str, Any] | None = None
    held_out_rows: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=int))
    held_out_outputs: np.ndarray | None = None

    @property
    def paths(self) -> list[Path]:
        """All that predictions are made of."""
        if self.members:
            return [member.path for member in self.members]
        return [] if self.path is None else [self.path]


def story_of(estimator: Any) -> Story:
    """That of an estimator, or of the last step of a pipeline; of other packages' an empty one."""
    last = last_step(estimator)
    return last._story() if hasattr(last, "_story") else Story()


def training_rows_of(estimator: Any) -> tuple[Any, np.ndarray] | None:
    """X (a Table or an array) and y that an estimator was fitted to, as long as it has them.

    A pipeline does not have its own. y of a classifier is the classes.
    """
    found = getattr(estimator, "_training_rows", None)
    if found is None:
        return None
    X, y = found
    classes = getattr(estimator, "classes_", None)
    return X, y if classes is None else classes[y]


def last_step(estimator: Any) -> Any:
    """The estimator itself, or the one at the end of a pipeline."""
    return estimator[-1] if isinstance(estimator, Pipeline) else estimator


def steps_before(estimator: Any) -> Any:
    """A pipeline of all steps but the last; None where there are none."""
    several = isinstance(estimator, Pipeline) and len(estimator) > 1
    return estimator[:-1] if several else None


def last_step_prefix(estimator: Any) -> str:
    """What parameters of the last step begin with: ``name__`` in a pipeline, else nothing."""
    return f"{estimator.steps[-1][0]}__" if isinstance(estimator, Pipeline) else ""
