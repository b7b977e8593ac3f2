"""Normal quantiles: features transformed to a normal distribution."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import ndtri

from bandfall._checks import ShapeChecker
from bandfall._graphs import Graph
from bandfall.tables._base import NumberEncoding, register

_MAX_QUANTILES = 1000
FARTHEST = -ndtri(1e-7)  # normal quantiles are clipped here
_FEW_ROWS = 100  # up to here, processing all columns at once is faster than one by one


@register("quantile")
@dataclass(frozen=True, eq=False)
class Quantiles(NumberEncoding):
    """z = Φ⁻¹(share of training values below x), with the middle rank for ties.

    The smallest and the largest value are mapped to the ends, even if tied.
    """

    knots: np.ndarray  # (q, p): training values at evenly spaced ranks, rising

    def __post_init__(self) -> None:
        ShapeChecker()("knots", self.knots, "q p")
        if len(self.knots) < 1 or np.any(np.diff(self.knots, axis=0) < 0):
            raise ValueError("knots must rise")

    @classmethod
    def learn(
        cls, values: np.ndarray, known: np.ndarray | None = None, n_steps: int = 1
    ) -> Quantiles:
        """Quantiles of the columns of `values`."""
        # Values themselves: rounded means of two values would break ties.
        places = np.linspace(0, len(values) - 1, min(_MAX_QUANTILES, len(values)))
        return cls(np.sort(values, axis=0)[np.round(places).astype(int)])

    def transform(self, values: np.ndarray) -> np.ndarray:
        """Encoded rows, shape (m, p)."""
        if len(values) <= _FEW_ROWS:
            return _scores(values, self._padded)
        return self._by_column(values, _scores)

    def jacobian(self, values: np.ndarray) -> np.ndarray:
        """dz/dx at rows, shape (m, p); the right derivative at knots, zero beyond the ends."""
        return self._by_column(values, _slopes)

    @property
    def columns(self) -> np.ndarray:
        """See `NumberEncoding.columns`."""
        return np.arange(self.knots.shape[1])

    def onnx(self, graph: Graph, columns: str) -> str:
        """Add `transform` to an ONNX graph, column by column."""
        return graph.each_column(_onnx_scores, columns, self.knots)

    def _by_column(
        self, values: np.ndarray, function: Callable[[np.ndarray, np.ndarray], np.ndarray]
    ) -> np.ndarray:
        """Apply a function column by column, which makes good use of the cache."""
        found = np.empty(values.shape)
        for j in range(values.shape[1]):
            column = np.ascontiguousarray(values[:, j : j + 1])
            found[:, j : j + 1] = function(column, self._padded[j : j + 1])
        return found

    @cached_property
    def _padded(self) -> np.ndarray:
        """Knots of each column, padded with −∞ and ∞, shape (p, q + 2)."""
        return np.pad(self.knots.T, ((0, 0), (1, 1)), constant_values=(-np.inf, np.inf))


def _ranks(values: np.ndarray, padded: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of knots < x and ≤ x, each of shape (m, p)."""
    right = np.empty(values.shape, dtype=np.int64)
    for j, knots in enumerate(padded):
        right[:, j] = knots[1:-1].searchsorted(values[:, j], side="right")
    left = right.copy()
    tied = padded[np.arange(len(padded)), right] == values
    for j in np.flatnonzero(tied.any(axis=0)).tolist():
        rows = tied[:, j]
        left[rows, j] = padded[j, 1:-1].searchsorted(values[rows, j])
    return left, right


def _scores(values: np.ndarray, padded: np.ndarray) -> np.ndarray:
    """Φ⁻¹ of the share of knots below, interpolated between them."""
    left, right = _ranks(values, padded)
    n, column = padded.shape[1] - 2, np.arange(len(padded))
    below, above = padded[column, right], padded[column, right + 1]
    with np.errstate(all="ignore"):  # the ends are corrected below
        place = np.where(left == right, left - 1 + (values - below) / (above - below), 0.0)
    place = np.where(left == right, place, 0.5 * (left + right - 1)) / max(n - 1, 1)
    place = np.where(right == n, 1.0, place)
    scores = ndtri(np.where(values <= padded[:, 1], 0.0, place))
    return np.minimum(np.maximum(scores, -FARTHEST), FARTHEST)


def _slopes(values: np.ndarray, padded: np.ndarray) -> np.ndarray:
    """dz/dx: the rise between two knots over the normal density at z."""
    _, right = _ranks(values, padded)
    n, column = padded.shape[1] - 2, np.arange(len(padded))
    z = _scores(values, padded)
    # The density nearly vanishes at the ends, where z is clipped.
    inside = (right > 0) & (right < n) & (np.abs(z) < FARTHEST)
    gap = np.where(inside, padded[column, right + 1] - padded[column, right], np.inf)
    density = np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)
    return 1.0 / max(n - 1, 1) / density / gap


def _onnx_scores(graph: Graph, x: str, knots: str, n: int) -> str:
    """Φ⁻¹ of the mean of both interpolated ranks (they differ at ties)."""
    last = graph.constant(max(n - 1, 1), np.float64)
    sides = []
    for comparison in ("Less", "LessOrEqual"):
        left, share = graph.interval(comparison, x, knots, n)
        place = graph.op("Add", graph.cast(left, np.float64), share)
        sides.append(graph.op("Div", place, last))
    share = graph.op("Mul", graph.op("Add", *sides), graph.constant(0.5, np.float64))
    for comparison, end, limit in (("GreaterOrEqual", n - 1, 1.0), ("LessOrEqual", 0, 0.0)):
        knot = graph.op("Gather", knots, graph.constant(end, np.int64))
        beyond = graph.op(comparison, x, knot)
        share = graph.op("Where", beyond, graph.constant(limit, np.float64), share)
    return graph.clip(graph.normal_quantile(share), -FARTHEST, FARTHEST)
