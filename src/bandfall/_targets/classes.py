"""Classes as targets, predicted as probabilities."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Self

import numpy as np
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from bandfall._checks import ShapeChecker
from bandfall._targets.base import Output, Target
from bandfall._targets.links import (
    CLIP,
    LEAST,
    Link,
    LogLoss,
    all_columns,
    class_codes,
    class_shares,
)
from bandfall._targets.scores import Scores, positions, row_losses, score_classes
from bandfall._typing import ArrayLike, FloatT, Weights

if TYPE_CHECKING:
    from bandfall._graphs import Graph

_ROUNDING = 1e-6  # allowed error of the sum of shares


@dataclass(frozen=True, eq=False)
class Classes(Target):
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
        """See `Target`; values are positions of labels, shape (n,)."""
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        labels, values = np.unique(y, return_inverse=True)
        return cls.plain(labels), values

    def coded(
        self, values: np.ndarray, weights: Weights, dtype: np.dtype
    ) -> tuple[Self, np.ndarray]:
        prior = class_shares(values, weights, len(self.labels))
        return replace(self, prior=prior, dtype=np.dtype(dtype)), class_codes(values, prior)

    @property
    def n_columns(self) -> int:
        """1 for two classes, whose columns are negatives of each other; else the number of them."""
        return 1 if len(self.labels) == 2 else len(self.labels)

    @property
    def judge(self) -> LogLoss:
        return LogLoss(self.prior)

    @property
    def classes(self) -> list[str]:
        return [str(one) for one in self.labels]

    def strata(self, values: np.ndarray) -> np.ndarray:
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
        return self.prior

    def loss(self, values: np.ndarray, answers: np.ndarray) -> float:
        return float(self.row_losses(values, answers).mean()) if np.any(values >= 0) else np.nan

    def score(self, loss: FloatT) -> FloatT:
        return loss

    def scores(self, values: np.ndarray, answers: np.ndarray, weights: Weights = None) -> Scores:
        return {**score_classes(answers, values, weights), "n_unseen": int(np.sum(values < 0))}

    def row_losses(self, values: np.ndarray, answers: np.ndarray) -> np.ndarray:
        return row_losses(answers[values >= 0], values[values >= 0])

    def onnx(self, graph: Graph, outputs: str) -> tuple[list[Output], dict[str, str]]:
        probabilities = self._onnx_probabilities(graph, outputs)
        labels = self._onnx_labels()
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
        link, prior = self.link, self.prior
        if link.kind == CLIP:
            least = np.maximum(link.parameter * prior, LEAST)
            shares = graph.op("Max", graph.op("Add", outputs, prior), least)
            linked = graph.op("Div", shares, graph.op("ReduceSum", shares, [1]))
        else:
            logits = graph.op("Div", outputs, float(link.parameter))
            logits = graph.op("Add", logits, np.log(np.maximum(prior, LEAST)))
            linked = graph.op("Softmax", logits, axis=1)
        linked = graph.op("Mul", linked, 1.0 - link.stray)
        return graph.op("Add", linked, link.stray * prior)

    def _onnx_labels(self) -> np.ndarray:
        """The classes in a type of ONNX: text, integers, booleans or float64."""
        kind = self.labels.dtype.kind
        if kind in "UO":
            return self.labels.astype(str).astype(object)
        return self.labels.astype({"i": np.int64, "u": np.int64, "b": np.bool_}.get(kind, float))
