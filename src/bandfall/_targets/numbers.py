"""Numbers as targets, one or several columns; their methods are the contract of all targets."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Self

import numpy as np
from sklearn.metrics import r2_score
from sklearn.utils import check_array

from bandfall._checks import ShapeChecker
from bandfall._targets.losses import Judge, PowerLoss, mean_r2
from bandfall._targets.scores import Scores, decimals, score_numbers
from bandfall._typing import ArrayLike, DTypeLike, FloatT, Weights
from bandfall.descent._path import column_means

if TYPE_CHECKING:
    from bandfall._graphs import Graph

_MAX_ROUNDING = 1e-3  # error of predictions, in mean absolute deviations of the target
_ROUNDING = 8.0 * np.finfo(np.float64).eps  # relative deviation of a constant target


class Output(NamedTuple):
    """An output of an ONNX graph; `shape` is that of one row."""

    name: str
    value: str
    dtype: np.dtype | None  # None: the dtype requested by the user
    shape: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class Numbers:
    """Columns of numbers; models are trained on standardised columns.

    An estimator calls `learn` with the user's y and `coded` with the rows to train on. The search
    uses `judge` and `strata`; its held-out rows calibrate the target (`settled`). From then on,
    `answer` turns outputs (..., m, k) into predictions.
    """

    offset: np.ndarray  # (k,): mean of every column
    scale: np.ndarray  # (k,): its standard deviation, 1 for a constant column
    ndim: int = 1  # number of dimensions of y and of predictions
    dtype: np.dtype = np.dtype(np.float64)  # noqa: RUF009  (of predictions)

    classes: ClassVar[list[str]] = []  # names of the classes
    judge: ClassVar[Judge] = PowerLoss()  # of candidates
    measure = "R²"  # name of the score in messages and pages
    lower_is_better = False
    heads = MappingProxyType({"R²": "r2", "mean absolute error": "mae"})  # of tables of `scores`
    trial_column = "score"  # attribute of a `Trial` that holds the score
    loss_name = "1 − R²"
    harm = "Loss of R²"  # label for the change of the score when a feature is shuffled

    def __post_init__(self) -> None:
        shapes = ShapeChecker()
        shapes("offset", self.offset, "k")
        shapes("scale", self.scale, "k")
        if np.any(self.scale <= 0):
            raise ValueError("scale must be positive")
        if self.ndim not in (1, 2) or (self.ndim == 1 and self.n_columns != 1):
            raise ValueError(f"ndim={self.ndim!r} does not fit {self.n_columns} targets")

    @classmethod
    def plain(cls, n_columns: int = 1, ndim: int = 1, dtype: DTypeLike = np.float64) -> Self:
        """A target without scaling."""
        return cls(np.zeros(n_columns), np.ones(n_columns), ndim, np.dtype(dtype))

    @classmethod
    def learn(cls, y: ArrayLike) -> tuple[Self, np.ndarray]:
        """A target that is not fitted yet, and the values of all rows, (n,) or (n, k)."""
        y = _checked(y)
        values = y.reshape(len(y), -1)
        return cls.plain(values.shape[1], y.ndim), values

    def coded(
        self, values: np.ndarray, weights: Weights, dtype: np.dtype
    ) -> tuple[Self, np.ndarray]:
        """A target with units, and codes of zero mean, (n, k) in float64; X has this dtype."""
        offset, scale = _standard_units(values, weights)
        with np.errstate(over="ignore"):
            codes = (values - offset) / scale
        precise = prediction_dtype(values, dtype)
        return replace(self, offset=offset, scale=scale, dtype=precise), codes

    @property
    def n_columns(self) -> int:
        """k, the number of columns of codes."""
        return len(self.scale)

    def strata(self, values: np.ndarray) -> np.ndarray | None:
        """Classes for stratified held-out rows, shape (n,); None for numbers."""
        return None

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

        A row may occur more than once; `n_rows` is the number of distinct rows.
        """
        return self, mean_r2(outputs, codes, weights) if n_rows else np.nan

    def answer(self, outputs: np.ndarray) -> np.ndarray:
        """Predictions in the shape of y, or probabilities (m, c), for outputs of a model."""
        return self.shaped(outputs * self.scale + self.offset)

    def outputs(self, predictions: np.ndarray) -> np.ndarray:
        """The inverse of `answer`: outputs (m, k) in float64."""
        values = predictions.reshape(-1, self.n_columns).astype(np.float64)
        return (values - self.offset) / self.scale

    def residuals(self, outputs: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """Residuals in the units and the shape of y, for outputs and codes (m, k)."""
        return self.shaped((codes - outputs) * self.scale)

    def shaped(self, predictions: np.ndarray) -> np.ndarray:
        """Predictions (..., m, k) in the shape and dtype of y."""
        shaped = predictions[..., 0] if self.ndim == 1 else predictions
        return shaped.astype(self.dtype, copy=False)

    def read(self, y: ArrayLike) -> np.ndarray:
        """Convert y of any rows to the values that scores expect, shape (n,) or (n, k)."""
        return np.asarray(y, dtype=np.float64)

    def start(self, values: np.ndarray) -> np.ndarray:
        """The answer before training, shape (k,)."""
        return np.reshape(values.mean(axis=0), -1)

    def loss(self, values: np.ndarray, answers: np.ndarray) -> float:
        """The training loss of answers (m, k)."""
        return 1.0 - float(r2_score(values.reshape(len(values), -1), answers))

    def score(self, loss: FloatT) -> FloatT:
        """Convert the loss to the score that users see."""
        return 1.0 - loss

    def scores(self, values: np.ndarray, answers: np.ndarray, weights: Weights = None) -> Scores:
        """All scores of answers (m, k), by name; rows of weight zero are ignored."""
        return score_numbers(values.reshape(len(values), -1), answers, weights)

    def row_losses(self, values: np.ndarray, answers: np.ndarray) -> np.ndarray:
        """Losses of the rows that can be scored."""
        return ((values.reshape(len(values), -1) - answers) ** 2).mean(axis=1)

    def words(self, loss: float) -> str:
        """The score with its name."""
        return f"{self.measure} {decimals(self.score(loss), 4)}"

    def onnx(self, graph: Graph, outputs: str) -> tuple[list[Output], dict[str, str]]:
        """ONNX nodes with answers, and properties of the graph."""
        return [self.onnx_quantile(graph, "prediction", outputs)], {}

    def onnx_quantile(self, graph: Graph, name: str, outputs: str) -> Output:
        """An ONNX output `name` in the units and the shape of y, for outputs (m, k)."""
        value = graph.op("Add", graph.op("Mul", outputs, self.scale), self.offset)
        if self.ndim == 1:
            return Output(name, graph.op("Squeeze", value, [1]), None)
        return Output(name, value, None, (self.n_columns,))


def prediction_dtype(y: np.ndarray, dtype: np.dtype) -> np.dtype:
    """Dtype of the features, or float64 if that dtype would round the target's variation away."""
    largest = np.abs(y).max(axis=0)
    shares = y / np.where(largest > 0, largest, 1.0)  # sums of huge values would overflow
    spread = np.abs(shares - column_means(shares)).mean(axis=0)
    lost = (spread > 0) & (np.finfo(dtype).eps > _MAX_ROUNDING * spread)
    lost |= largest > np.finfo(dtype).max
    return np.dtype(np.float64) if lost.any() else np.dtype(dtype)


def check_variation(y: np.ndarray, smallest: float, dtype: DTypeLike) -> None:
    """Raise ValueError if a column of y, (n,) or (n, k), varies by less than `smallest`."""
    with np.errstate(over="ignore"):
        variations = np.ptp(np.asarray(y, dtype=np.float64).reshape(len(y), -1), axis=0)
    small = variations[(variations > 0) & (variations < smallest)]
    if len(small):
        raise ValueError(
            f"y varies by no more than {small[0]:.3g}, too little for {np.dtype(dtype)}; rescale "
            "the target"
        )


def _standard_units(y: np.ndarray, weights: Weights) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation (1 if constant) of every target, without overflow."""
    largest = np.abs(y).max(axis=0)
    unit = np.where(largest > 0, largest, 1.0)
    shares = y / unit
    mean = np.average(shares, axis=0, weights=weights)
    deviation = np.sqrt(np.average((shares - mean) ** 2, axis=0, weights=weights))
    constant = deviation <= _ROUNDING * np.abs(mean)
    return mean * unit, np.where(constant, 1.0, deviation) * np.where(constant, 1.0, unit)


def _checked(y: ArrayLike) -> np.ndarray:
    """y in float64, (n,) or (n, k); raises ValueError unless all are finite numbers."""
    given = np.asarray(y)
    if given.dtype.kind == "c":
        raise ValueError("Complex data not supported: y must hold real numbers")
    try:
        if given.dtype.kind in "mM":
            raise TypeError
        given = given.astype(np.float64, copy=False)
    except (TypeError, ValueError):
        raise ValueError(
            "y must hold numbers, such as a number of days; for classes, use BandfallClassifier"
        ) from None
    values: np.ndarray = check_array(given, ensure_2d=False, input_name="y")
    check_variation(values, len(values) * float(np.finfo(np.float64).tiny), np.float64)
    return values
