"""The base class of targets: how y is read, coded for training, judged, answered and scored."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Self

import numpy as np

from bandfall._targets.losses import Judge, PowerLoss
from bandfall._targets.scores import Scores, decimals
from bandfall._typing import ArrayLike, FloatT, Weights

if TYPE_CHECKING:
    from bandfall._graphs import Graph


class Output(NamedTuple):
    """An output of an ONNX graph; `shape` is that of one row."""

    name: str
    value: str
    dtype: np.dtype | None  # None: the dtype requested by the user
    shape: tuple[int, ...] = ()


class Target(ABC):
    """A kind of target.

    An estimator calls `learn` with the user's y and `coded` with the rows to train on. The search
    uses `judge` and `strata`; its held-out rows calibrate the target (`settled`). From then on,
    `answer` turns outputs into predictions. Models are trained on codes, which have zero mean;
    their outputs have shape (..., m, k).
    """

    measure: ClassVar[str]  # name of the score in messages and pages
    lower_is_better: ClassVar[bool]
    heads: ClassVar[Mapping[str, str]]  # headings of score tables to names of scores
    trial_column: ClassVar[str]  # attribute of a `Trial` that holds the score
    loss_name: ClassVar[str]
    harm: ClassVar[str]  # label for the change of the score when a feature is shuffled
    checks: ClassVar[Mapping[str, bool]] = MappingProxyType({})  # options of `validate_data` for y

    @classmethod
    @abstractmethod
    def learn(cls, y: ArrayLike) -> tuple[Self, np.ndarray]:
        """Read y: a target that is not fitted yet, and the values of all rows, (n,) or (n, k)."""

    @abstractmethod
    def coded(
        self, values: np.ndarray, weights: Weights, dtype: np.dtype
    ) -> tuple[Self, np.ndarray]:
        """A target with units, and codes of zero mean, (n, k) in float64.

        `dtype` is the dtype of the features. Answers have the same dtype if it is precise enough.
        """

    @property
    @abstractmethod
    def n_columns(self) -> int:
        """k, the number of columns of codes."""

    @property
    def judge(self) -> Judge:
        """The judge of candidates."""
        return PowerLoss()

    @property
    def classes(self) -> list[str]:
        """Names of the classes; empty for numbers."""
        return []

    def strata(self, values: np.ndarray) -> np.ndarray | None:
        """Classes for stratified held-out rows, shape (n,); None for numbers."""
        return None

    @abstractmethod
    def settled(
        self,
        outputs: np.ndarray,
        codes: np.ndarray,
        weights: Weights,
        n_rows: int,
        *,
        log_odds: bool = False,
    ) -> tuple[Self, float]:
        """A target calibrated on held-out rows, and the score there; NaN without rows.

        Outputs and codes have shape (m, k), weights (m,). A row may occur more than once;
        `n_rows` is the number of distinct rows. `log_odds` says what the outputs of classes are.
        """

    @abstractmethod
    def answer(self, outputs: np.ndarray) -> np.ndarray:
        """Predictions in the shape of y, or probabilities (m, c), for outputs of a model."""

    @abstractmethod
    def read(self, y: ArrayLike) -> np.ndarray:
        """Convert y of any rows to the values that scores expect, shape (n,) or (n, k)."""

    @abstractmethod
    def start(self, values: np.ndarray) -> np.ndarray:
        """The answer before training, shape (k,)."""

    @abstractmethod
    def loss(self, values: np.ndarray, answers: np.ndarray) -> float:
        """The training loss of answers (m, k)."""

    @abstractmethod
    def score(self, loss: FloatT) -> FloatT:
        """Convert the loss to the score that users see."""

    @abstractmethod
    def scores(self, values: np.ndarray, answers: np.ndarray, weights: Weights = None) -> Scores:
        """All scores of answers (m, k), by name; rows of weight zero are ignored."""

    @abstractmethod
    def row_losses(self, values: np.ndarray, answers: np.ndarray) -> np.ndarray:
        """Losses of the rows that can be scored."""

    def words(self, loss: float) -> str:
        """The score with its name."""
        return f"{self.measure} {decimals(self.score(loss), 4)}"

    @abstractmethod
    def onnx(self, graph: Graph, outputs: str) -> tuple[list[Output], dict[str, str]]:
        """Answers as ONNX nodes, and properties of the graph."""
