"""What a model predicts: how it is read, coded for training, judged, answered and scored."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from bandfall.graphs import Graph
from bandfall.selection.candidates import Judge
from bandfall.selection.parts import Rows
from bandfall.selection.tuning import Tuned, tune
from bandfall.targets.scores import Scores
from bandfall.typing import ArrayLike, FloatT


class Output(NamedTuple):
    """An output of an ONNX graph: name, value, dtype (None: the requested one) and last sizes."""

    name: str
    value: str
    dtype: np.dtype | None
    shape: tuple[int, ...] = ()


class Target(ABC):
    """A kind of target.

    An estimator calls `learn` with y as given, `coded` with the rows that count, hands `tune`,
    `judge` and `strata` to the search, calls `settled` with what was found, and from then on
    answers with `answer`. Outputs (..., m, k) are what models are trained on: codes of zero mean.
    """

    measure: ClassVar[str]  # the score that messages and pages show
    lower_is_better: ClassVar[bool]
    heads: ClassVar[Mapping[str, str]]  # of tables of scores: what each shows, `measure` first
    trial_column: ClassVar[str]  # which number of a `Trial` that score is
    loss_name: ClassVar[str]
    harm: ClassVar[str]  # what shuffling a feature does to the score
    checks: ClassVar[Mapping[str, bool]] = MappingProxyType({})  # of y, for `validate_data`

    @classmethod
    @abstractmethod
    def learn(cls, y: ArrayLike) -> tuple[Self, np.ndarray]:
        """A target, not yet ready to answer, and the values of all rows, (n,) or (n, k)."""

    @abstractmethod
    def coded(
        self, values: np.ndarray, weights: np.ndarray | None, dtype: np.dtype
    ) -> tuple[Self, np.ndarray]:
        """A target that has learned its units, and codes of zero mean, (n, k) in float64.

        `dtype` is that of the features, in which answers are given if it has enough digits.
        """

    @property
    @abstractmethod
    def n_columns(self) -> int:
        """k, how many columns codes have."""

    @property
    def judge(self) -> Judge | None:
        """What candidates are judged by; None for the search's own."""
        return None

    @property
    def classes(self) -> list[str]:
        """Names of classes; none of numbers."""
        return []

    def strata(self, values: np.ndarray) -> np.ndarray | None:
        """Classes that held-out rows are to hold in equal shares, shape (n,); None for none."""
        return None

    def tune(self, rows: Rows, **settings: Any) -> Tuned:
        """The search, with the arguments of `bandfall.selection.tuning.tune`."""
        return tune(rows, **settings)

    @abstractmethod
    def settled(self, tuned: Tuned, rows: Rows) -> tuple[Self, float]:
        """A target that has learned from held-out rows how to answer, and the score there."""

    @abstractmethod
    def answer(self, outputs: np.ndarray) -> np.ndarray:
        """What models return: predictions in the shape of y, or probabilities (m, c)."""

    @abstractmethod
    def read(self, y: ArrayLike) -> np.ndarray:
        """Targets of any rows as scores take them, shape (n,) or (n, k)."""

    @abstractmethod
    def start(self, values: np.ndarray) -> np.ndarray:
        """The answer before training, shape (k,)."""

    @abstractmethod
    def loss(self, values: np.ndarray, answers: np.ndarray) -> float:
        """What training lowers, of answers (m, k)."""

    @abstractmethod
    def score(self, loss: FloatT) -> FloatT:
        """The score that is shown, from the loss."""

    @abstractmethod
    def scores(
        self, values: np.ndarray, answers: np.ndarray, weights: np.ndarray | None = None
    ) -> Scores:
        """All scores by name, of answers (m, k); rows of weight zero are none."""

    @abstractmethod
    def row_losses(self, values: np.ndarray, answers: np.ndarray) -> np.ndarray:
        """Losses whose mean decides, one for each row that can be scored."""

    @abstractmethod
    def words(self, loss: float) -> str:
        """The score with its name."""

    @abstractmethod
    def onnx(self, graph: Graph, outputs: str) -> tuple[list[Output], dict[str, str]]:
        """Answers as ONNX nodes, and properties of the graph."""
