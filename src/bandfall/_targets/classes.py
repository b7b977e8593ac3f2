"""Classes as targets, predicted as probabilities; see `Numbers` for what the methods do."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Self

import numpy as np
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from bandfall._checks import ShapeChecker
from bandfall._targets.links import (
    CLIP,
    LEAST,
    Link,
    LogLoss,
    all_columns,
    class_codes,
    class_shares,
)
from bandfall._targets.numbers import Output
from bandfall._targets.scores import Scores, decimals, positions, row_losses, score_classes
from bandfall._typing import ArrayLike, FloatT, Weights

if TYPE_CHECKING:
    from bandfall._graphs import Graph

_ROUNDING = 1e-6  # allowed error of the sum of shares


@dataclass(frozen=True, eq=False)
class Classes:
    """Classes; models are trained on one-hot columns minus the prior."""

    labels: np.ndarray  # (c,): the classes, sorted
    prior: np.ndarray  # (c,): their weighted shares in the training rows
    link: Link = field(default_factory=Link)  # turns outputs into probabilities
    dtype: np.dtype = np.dtype(np.float64)  # noqa: RUF009  (of probabilities)

    measure = "log-loss"
    lower_is_better = True
    heads = MappingProxyType(
        {
            "log-loss": "log_loss",
            "AUC": "auc",
            "accuracy": "accuracy",
            "calibration error": "calibration_error",
        }
    )
    trial_column = "loss"
    loss_name = "log-loss"
    harm = "Rise of log-loss"

    def __post_init__(self) -> None:
        if self.labels.ndim != 1 or not len(self.labels) or self.labels.dtype.kind == "c":
            raise ValueError("labels must be a list of classes")
        if len(np.unique(self.labels)) != len(self.labels):
            raise ValueError("labels must differ")
        ShapeChecker(c=len(self.labels))("prior", self.prior, "c")
        if np.any(self.prior < 0) or abs(self.prior.sum() - 1.0) > _ROUNDING:
            raise ValueError("prior must be shares of one")

    @classmethod
    def plain(cls, labels: np.ndarray) -> Self:
        """A target with these classes and a uniform prior."""
        return cls(labels, np.full(len(labels), 1.0 / len(labels)))

    @classmethod
    def learn(cls, y: ArrayLike) -> tuple[Self, np.ndarray]:
        """Values are positions of labels, shape (n,)."""
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        labels, values = np.unique(y, return_inverse=True)
        return cls.plain(labels), values

    def coded(
        self, values: np.ndarray, weights: Weights, dtype: np.dtype
    ) -> tuple[Self, np.ndarray]:
        """A target with the prior, and one-hot columns minus it."""
        prior = class_shares(values, weights, len(self.labels))
        return replace(self, prior=prior, dtype=np.dtype(dtype)), class_codes(values, prior)

    @property
    def n_columns(self) -> int:
        """1 for two classes, whose columns are negatives of each other; else the number of them."""
        return 1 if len(self.labels) == 2 else len(self.labels)

    @property
    def judge(self) -> LogLoss:
        """The log-loss, with the best link."""
        return LogLoss(self.prior)

    @property
    def classes(self) -> list[str]:
        """Names of the classes."""
        return [str(one) for one in self.labels]

    def strata(self, values: np.ndarray) -> np.ndarray:
        """The classes themselves."""
        return values

    def settled(
        self,
        outputs: np.ndarray,
        codes: np.ndarray,
        weights: Weights,
        n_rows: int,
        *,
        log_odds: bool = False,
    ) -> tuple[Self, float]:
        """Choose the link with the smallest log-loss on held-out rows; the score is minus that."""
        if not n_rows:
            return self, -np.nan
        judge = LogLoss(self.prior, log_odds)
        link, loss = judge.best_link(outputs, codes, weights, n_rows)
        return replace(self, link=link), -loss

    def answer(self, outputs: np.ndarray) -> np.ndarray:
        """Probabilities (m, c) in the dtype of the features."""
        return np.exp(self.log_probabilities(outputs)).astype(self.dtype, copy=False)

    def log_probabilities(self, outputs: np.ndarray) -> np.ndarray:
        """Logarithms of probabilities for outputs (m, k), shape (m, c), in float64."""
        columns = all_columns(outputs, len(self.labels))
        return self.link.log_probabilities(columns, self.prior)

    def read(self, y: ArrayLike) -> np.ndarray:
        """Positions of labels, −1 for unknown classes."""
        y = np.asarray(y)
        return positions(y.astype(str) if self.labels.dtype.kind == "U" else y, self.labels)

    def start(self, values: np.ndarray) -> np.ndarray:
        """The prior."""
        return self.prior

    def loss(self, values: np.ndarray, answers: np.ndarray) -> float:
        """The mean log-loss of rows of known classes; NaN if there are none."""
        return float(self.row_losses(values, answers).mean()) if np.any(values >= 0) else np.nan

    def score(self, loss: FloatT) -> FloatT:
        """The loss itself."""
        return loss

    def scores(self, values: np.ndarray, answers: np.ndarray, weights: Weights = None) -> Scores:
        """All scores, and the number of rows of unknown classes."""
        return {**score_classes(answers, values, weights), "n_unseen": int(np.sum(values < 0))}

    def row_losses(self, values: np.ndarray, answers: np.ndarray) -> np.ndarray:
        """Log-losses of rows of known classes."""
        return row_losses(answers[values >= 0], values[values >= 0])

    def words(self, loss: float) -> str:
        """The score with its name."""
        return f"{self.measure} {decimals(loss, 4)}"

    def onnx(self, graph: Graph, outputs: str) -> tuple[list[Output], dict[str, str]]:
        """The class and the probabilities as ONNX nodes, and the classes as a property."""
        labels = self.labels
        probabilities = self._onnx_probabilities(graph, outputs)
        # ONNX has text, integers, booleans and floats.
        kinds = {"U": str, "O": str, "i": np.int64, "u": np.int64, "b": np.bool_}
        labels = labels.astype(kinds.get(labels.dtype.kind, np.float64))
        labels = labels.astype(object) if labels.dtype.kind == "U" else labels
        best = graph.op("ArgMax", probabilities, axis=1, keepdims=0)
        prediction = graph.op("Gather", graph.constant(labels), best)
        found = [
            Output("prediction", prediction, labels.dtype),
            Output("probability", probabilities, None, (len(labels),)),
        ]
        return found, {"classes": json.dumps(self.labels.tolist())}

    def _onnx_probabilities(self, graph: Graph, outputs: str) -> str:
        """The formula of `Link.log_probabilities`."""
        if len(self.labels) == 2:
            outputs = graph.op("Concat", graph.op("Neg", outputs), outputs, axis=1)
        link, prior, symbol = self.link, self.prior, graph.symbol(outputs)
        if link.kind == CLIP:
            shares = np.maximum(symbol + prior, np.maximum(link.parameter * prior, LEAST))
            linked = graph.op("Div", shares.name, graph.op("ReduceSum", shares.name, [1]))
        else:
            logits = symbol / link.parameter + np.log(np.maximum(prior, LEAST))
            linked = graph.op("Softmax", logits.name, axis=1)
        return (graph.symbol(linked) * (1.0 - link.stray) + link.stray * prior).name
