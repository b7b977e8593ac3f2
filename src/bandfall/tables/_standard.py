"""Zero mean and unit variance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bandfall._checks import ShapeChecker
from bandfall._graphs import Graph
from bandfall._typing import Array
from bandfall.tables._base import NumberEncoding, register

FARTHEST = 1e6  # standard deviations; values are clipped here, within the range of float32
_LAST_BITS = 8
TINIEST = 1e-305  # columns that vary by less are constant: the reciprocal would overflow


@register("standard")
@dataclass(frozen=True, eq=False)
class Standard(NumberEncoding):
    """z = (x − centre) / scale."""

    centre: np.ndarray  # (p,)
    scale: np.ndarray  # (p,)

    def __post_init__(self) -> None:
        shapes = ShapeChecker()
        shapes("centre", self.centre, "p")
        shapes("scale", self.scale, "p")
        if np.any(self.scale <= 0):
            raise ValueError("a scale is not positive")

    @classmethod
    def learn(
        cls, values: np.ndarray, known: np.ndarray | None = None, n_steps: int = 1
    ) -> Standard:
        """Learn means and deviations; a constant column gets scale 1 and becomes exactly zero."""
        centre, deviation = moments(values)
        constant = np.ptp(values, axis=0) <= rounding(values)
        return cls(np.where(constant, values[0], centre), np.where(constant, 1.0, deviation))

    def transform(self, values: np.ndarray) -> np.ndarray:
        """Encoded rows, shape (m, p)."""
        with np.errstate(over="ignore"):
            z = (values - self.centre) / self.scale
        return np.minimum(np.maximum(z, -FARTHEST), FARTHEST)

    def jacobian(self, values: np.ndarray) -> np.ndarray:
        """dz/dx at rows, shape (m, p)."""
        return np.broadcast_to(self.slopes, values.shape)

    @property
    def slopes(self) -> np.ndarray:
        """dz/dx, the same everywhere, shape (p,)."""
        return 1.0 / self.scale

    @property
    def columns(self) -> np.ndarray:
        """See `NumberEncoding.columns`."""
        return np.arange(len(self.centre))

    def onnx(self, graph: Graph, columns: str) -> str:
        """Add `transform` to an ONNX graph."""
        encoded: Array = self.transform(graph.symbol(columns))
        return encoded.name


def moments(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of columns of any magnitude.

    Squares of 1e300 overflow and squares of 1e-300 vanish. Scaling by a power of two before, and
    back afterwards, changes no digit.
    """
    exponent = np.frexp(np.abs(values).max(axis=0))[1]
    unit = np.ldexp(values, -exponent)
    return np.ldexp(unit.mean(axis=0), exponent), np.ldexp(unit.std(axis=0), exponent)


def is_constant(values: np.ndarray) -> bool:
    """Whether a complete column varies by no more than rounding."""
    return bool(np.ptp(values) <= rounding(values[:, None])[0])


def rounding(values: np.ndarray) -> np.ndarray:
    """Largest differences within columns that may be rounding: a few bits of the largest value.

    Whole numbers below 2⁵³ are exact, so their differences are never rounding: large counters and
    timestamps vary little relative to their size.
    """
    largest = np.abs(values).max(axis=0, initial=0.0)
    exact = (largest < 2.0**53) & np.all(values == np.round(values), axis=0)
    return np.where(exact, 0.0, np.maximum(_LAST_BITS * np.spacing(largest), TINIEST))
