"""Steps: a unary code whose squared distances are about differences of ranks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from bandfall._checks import ShapeChecker, check_positions
from bandfall._graphs import Graph
from bandfall.tables._base import NumberEncoding, register
from bandfall.tables._standard import FARTHEST, rounding

_ROWS = 512  # at a time, so that their ramps stay in the cache

# Finer steps for many rows, if there are few features.
_FEWEST, _MOST = 12, 32
_ROWS_PER_STEP = 200
_WIDTH = 160


@register("steps")
@dataclass(frozen=True, eq=False)
class Steps(NumberEncoding):
    """Each feature as ramps between its quantile knots q₀ < q₁ < …,

        z_i = weight · clip((x − q_i) / (q_{i+1} − q_i), 0, 1).

    The squared Euclidean distance of two codes is about the 1-norm of the difference of their
    ranks, so a Gaussian of them is about a product of Laplace kernels. The ramps of a feature have
    equal weights, and their variances sum to 1.

    Outside the training range, the first and the last ramp continue as t / (1 + |t|) and level off
    after one more step. So values out of range keep their order, and lie outside by at most a step.
    """

    suffix: ClassVar[str] = "_step"

    # (width,): input column of each ramp; ramps of a column are consecutive, from low to high.
    columns: np.ndarray
    # (width,): q_i, q_{i+1} − q_i, and the height of the ramp.
    low: np.ndarray
    gap: np.ndarray
    weight: np.ndarray

    def __post_init__(self) -> None:
        check_positions("columns", self.columns)
        shapes = ShapeChecker(width=len(self.columns))
        for name, array in (("low", self.low), ("gap", self.gap), ("weight", self.weight)):
            shapes(name, array, "width")
        if np.any(np.diff(self.columns) < 0) or np.any(self.gap <= 0):
            raise ValueError("steps must rise")

    def takes(self, n_columns: int) -> bool:
        """Whether all ramps are of these columns; constant columns have no ramps."""
        return not np.any(self.columns >= n_columns)

    @classmethod
    def learn(cls, values: np.ndarray, known: np.ndarray, n_steps: int) -> Steps:
        """Learn ramps for columns of `values`; knots are quantiles of the `known` values.

        A column with fewer distinct values than knots has one ramp per gap. Equal knots are
        merged, so a constant column has no ramps.
        """
        knots = [_knots(column[ok], n_steps) for column, ok in zip(values.T, known.T, strict=True)]
        columns = np.repeat(np.arange(len(knots)), [len(q) - 1 for q in knots])
        low = np.concatenate([np.empty(0), *(q[:-1] for q in knots)])
        gap = np.concatenate([np.empty(0), *(np.diff(q) for q in knots)])
        plain = cls(columns, low, gap, np.ones(len(low)))
        ramps = plain.transform(values)
        # Values are in [0, 1], so the difference is accurate and needs no centred copy.
        variance = np.einsum("ij,ij->j", ramps, ramps) / len(ramps) - ramps.mean(axis=0) ** 2
        total = np.bincount(columns, weights=variance, minlength=len(knots))
        weight = 1.0 / np.sqrt(np.where(total > 0, total, 1.0))
        return cls(columns, low, gap, weight[columns])

    def transform(self, values: np.ndarray) -> np.ndarray:
        """Encoded rows, shape (m, width)."""
        encoded = np.empty((len(values), len(self.low)))
        for start in range(0, len(values), _ROWS):
            along = self._along(values[start : start + _ROWS])
            place = np.minimum(along, 1.0, out=encoded[start : start + _ROWS])
            np.maximum(place, 0.0, out=place)
            below = np.minimum(along[:, self.first], 0.0)
            place[:, self.first] += below / (1.0 - below)
            above = np.maximum(along[:, self.last] - 1.0, 0.0)
            place[:, self.last] += above / (1.0 + above)
            place *= self.weight
        return encoded

    def jacobian(self, values: np.ndarray) -> np.ndarray:
        """dz/dx at rows, shape (m, width); the right derivative at knots."""
        along = self._along(values)
        positions = np.arange(len(self.low))
        rising = (along >= 0) | np.isin(positions, self.first)
        rising &= (along < 1) | np.isin(positions, self.last)
        beyond = along - np.clip(along, 0.0, 1.0)
        return np.where(rising, self.weight / self.gap / (1.0 + np.abs(beyond)) ** 2, 0.0)

    def onnx(self, graph: Graph, columns: str) -> str:
        """Add `transform` to an ONNX graph."""
        x = graph.op("Gather", columns, graph.constant(self.columns, np.int64), axis=1)
        along = (graph.symbol(x) - self.low) / self.gap
        along = np.minimum(np.maximum(along, -FARTHEST), FARTHEST)
        place = np.minimum(np.maximum(along, 0.0), 1.0)
        ramps = np.arange(len(self.low))
        below = np.minimum(along - place, 0.0) * np.isin(ramps, self.first)
        above = np.maximum(along - place, 0.0) * np.isin(ramps, self.last)
        beyond = below + above
        return ((place + beyond / (np.absolute(beyond) + 1.0)) * self.weight).name

    def _along(self, values: np.ndarray) -> np.ndarray:
        """Position on each ramp: 0 at its low end, 1 at its high end, shape (m, width)."""
        along = values.take(self.columns, axis=1)
        with np.errstate(over="ignore"):
            along -= self.low
            along /= self.gap
        np.minimum(along, FARTHEST, out=along)
        return np.maximum(along, -FARTHEST, out=along)

    @cached_property
    def first(self) -> np.ndarray:
        """The first ramp of each feature."""
        return np.flatnonzero(np.diff(self.columns, prepend=-1))

    @cached_property
    def last(self) -> np.ndarray:
        """The last ramp of each feature."""
        return np.flatnonzero(np.diff(self.columns, append=-1))


def steps_for(n_rows: int, n_features: int) -> int:
    """Number of steps per feature: more for many rows, fewer for many features.

    Examples
    --------
    >>> from bandfall.tables._steps import steps_for
    >>> steps_for(1000, 4), steps_for(5000, 4), steps_for(50_000, 4), steps_for(50_000, 8)
    (12, 25, 32, 12)
    """
    finest = _MOST if _MOST * n_features <= _WIDTH else _FEWEST
    return max(_FEWEST, min(finest, n_rows // _ROWS_PER_STEP))


def _knots(values: np.ndarray, n_steps: int) -> np.ndarray:
    """At most n_steps + 1 rising values from the smallest to the largest."""
    knots = np.unique(values)
    if len(knots) > n_steps + 1:
        places = np.round(np.linspace(0, len(values) - 1, n_steps + 1)).astype(int)
        knots = np.unique(np.sort(values)[places])
    if not len(knots):
        return np.zeros(1)
    return knots[np.append(True, np.diff(knots) > rounding(knots[:, None])[0])]
