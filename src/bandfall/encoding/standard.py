"""Zero mean and unit variance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bandfall.checks import ShapeChecker
from bandfall.encoding.base import NumberEncoding, register
from bandfall.graphs import Graph
from bandfall.typing import Array

FARTHEST = 1e6  # standard deviations: where values out of range end, so that float32 holds them
_LAST_BITS = 8
TINIEST = 1e-305  # what varies by less is constant: its reciprocal would overflow


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
        """Means and deviations of columns; a constant column gets scale 1 and is exactly zero."""
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
        """The input column of each encoded one."""
        return np.arange(len(self.centre))

    def onnx(self, graph: Graph, columns: str) -> str:
        """Add `transform` to an ONNX graph."""
        encoded: Array = self.transform(graph.symbol(columns))
        return encoded.name


def moments(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of columns, whatever their magnitude.

    Squares of 1e300 overflow and those of 1e-300 vanish; powers of two, taken out before and put
    back after, change no digit.
    """
    exponent = np.frexp(np.abs(values).max(axis=0))[1]
    unit = np.ldexp(values, -exponent)
    return np.ldexp(unit.mean(axis=0), exponent), np.ldexp(unit.std(axis=0), exponent)


def is_constant(values: np.ndarray) -> bool:
    """Whether a complete column varies by no more than rounding."""
    return bool(np.ptp(values) <= rounding(values[:, None])[0])


def rounding(values: np.ndarray) -> np.ndarray:
    """Differences within columns that are rounding: a few last bits of the largest value.

    Whole numbers below 2⁵³ are exact, so their differences never are: large counters and
    timestamps vary by little of what they are.
    """
    largest = np.abs(values).max(axis=0, initial=0.0)
    exact = (largest < 2.0**53) & np.all(values == np.round(values), axis=0)
    return np.where(exact, 0.0, np.maximum(_LAST_BITS * np.spacing(largest), TINIEST))
