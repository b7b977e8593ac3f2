"""Uniform ranks: every feature as if its values were evenly spread."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bandfall.checks import ShapeChecker
from bandfall.encoding.base import NumberEncoding, register
from bandfall.graphs import Graph

_MAX_KNOTS = 1000


@register("rank")
@dataclass(frozen=True, eq=False)
class Ranks(NumberEncoding):
    """z = the rank of x among the training values, with zero mean and unit variance.

    Equal values share the mean of their ranks. Between knots z is linear in x; beyond the ends it
    is constant. Knots are all distinct training values, or values at 1,000 evenly spaced ranks
    if there are more. The search of the self-tuning estimators does not use this encoding.

    Attributes
    ----------
    knots, heights : ndarray of shape (q, p)
        Training values, rising, and z there. Columns with fewer knots repeat the last one.
    """

    knots: np.ndarray
    heights: np.ndarray

    def __post_init__(self) -> None:
        shapes = ShapeChecker()
        for name, array in (("knots", self.knots), ("heights", self.heights)):
            shapes(name, array, "q p")
            if len(array) < 2 or np.any(np.diff(array, axis=0) < 0):
                raise ValueError(f"{name} must rise")

    @classmethod
    def learn(cls, values: np.ndarray, known: np.ndarray, n_steps: int = 1) -> Ranks:
        """Ranks of the `known` values of columns; `values` are complete."""
        columns = [_knots(column[ok]) for column, ok in zip(values.T, known.T, strict=True)]
        n_knots = max((len(knots) for knots, _ in columns), default=2)
        knots, ranks = (
            np.array([np.pad(one, (0, n_knots - len(one)), "edge") for one in part])
            .reshape(-1, n_knots)
            .T
            for part in (zip(*columns, strict=True) if columns else ([], []))
        )
        encoded = cls(knots, ranks).transform(values)
        deviation = encoded.std(axis=0)
        return cls(knots, (ranks - encoded.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0))

    def transform(self, values: np.ndarray) -> np.ndarray:
        """Encoded rows, shape (m, p)."""
        found = np.empty(values.shape)
        for j, (knots, heights) in enumerate(self._by_column):
            x = np.clip(values[:, j], knots[0], knots[-1])
            left = _left(knots, x)
            low, high = heights[left], heights[left + 1]
            gap = knots[left + 1] - knots[left]
            share = (x - knots[left]) / np.where(gap > 0, gap, 1.0)
            found[:, j] = low + share * (high - low)
        return found

    def jacobian(self, values: np.ndarray) -> np.ndarray:
        """dz/dx at rows, shape (m, p); to the right at knots, zero beyond the ends."""
        found = np.empty(values.shape)
        for j, (knots, heights) in enumerate(self._by_column):
            x = values[:, j]
            left = _left(knots, x)
            gap = knots[left + 1] - knots[left]
            inside = (x >= knots[0]) & (x < knots[-1]) & (gap > 0)
            rise = heights[left + 1] - heights[left]
            found[:, j] = np.where(inside, rise / np.where(inside, gap, 1.0), 0.0)
        return found

    @property
    def columns(self) -> np.ndarray:
        """The input column of each encoded one."""
        return np.arange(self.knots.shape[1])

    def onnx(self, graph: Graph, columns: str) -> str:
        """Add `transform` to an ONNX graph: all columns, one after the other."""
        return graph.each_column(_onnx_ranks, columns, self.knots, self.heights)

    @cached_property
    def _by_column(self) -> list[tuple[np.ndarray, np.ndarray]]:
        pairs = zip(self.knots.T, self.heights.T, strict=True)
        return [(np.ascontiguousarray(k), np.ascontiguousarray(h)) for k, h in pairs]


def _knots(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rising values, two at least, and the mean rank of each among all `values`."""
    if not len(values):
        return np.zeros(2), np.zeros(2)
    distinct, counts = np.unique(values, return_counts=True)
    last = np.cumsum(counts)
    ranks = last - 0.5 * (counts + 1)
    if len(distinct) > _MAX_KNOTS:
        places = np.round(np.linspace(0, len(values) - 1, _MAX_KNOTS))
        chosen = np.unique(last.searchsorted(places, side="right"))
        # A frequent value is a jump of ranks: without its neighbours, the jump would be a ramp.
        frequent = chosen[counts[chosen] > len(values) / _MAX_KNOTS]
        near = np.clip(np.concatenate([frequent - 1, frequent + 1]), 0, len(distinct) - 1)
        chosen = np.union1d(chosen, near)
        distinct, ranks = distinct[chosen], ranks[chosen]
    if len(distinct) == 1:
        distinct, ranks = distinct.repeat(2), ranks.repeat(2)
    return distinct, ranks


def _left(knots: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The interval of knots that x is in: the last one if x is the last knot or beyond."""
    return np.clip(knots.searchsorted(x, side="right") - 1, 0, len(knots) - 2)


def _onnx_ranks(graph: Graph, x: str, knots: str, heights: str, n: int) -> str:
    left, share = graph.interval("LessOrEqual", x, knots, n)
    right = graph.op("Add", left, graph.constant(1, np.int64))
    low, high = (graph.op("Gather", heights, place) for place in (left, right))
    return graph.op("Add", low, graph.op("Mul", share, graph.op("Sub", high, low)))
