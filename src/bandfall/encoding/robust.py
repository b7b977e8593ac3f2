"""Robust scale with smooth clipping: far values stay in order but lose their pull."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bandfall.encoding.standard import FARTHEST, moments, rounding

_NORMAL_RANGE = 1.3489795003921634  # between the quartiles of a standard normal variable
LIMIT = 3.0  # robust standard deviations, which no value reaches


@dataclass(frozen=True, eq=False)
class Robust:
    """z = t / √(1 + (t/3)²) with t = (x − centre) / scale.

    Attributes
    ----------
    centre, scale : ndarray of shape (p,)
        Median and interquartile range, the latter in the units of a standard deviation. Where
        half of the values are equal, the standard deviation itself.
    """

    centre: np.ndarray
    scale: np.ndarray

    @classmethod
    def learn(cls, values: np.ndarray, known: np.ndarray) -> Robust:
        """Medians and quartiles of the `known` values of columns."""
        pairs = [_centre_and_scale(c[ok]) for c, ok in zip(values.T, known.T, strict=True)]
        centre, scale = np.array(pairs).reshape(-1, 2).T
        return cls(centre, scale)

    def transform(self, values: np.ndarray) -> np.ndarray:
        """Encoded rows, shape (m, p)."""
        t = self._scaled(values)
        return t / np.sqrt(1.0 + (t / LIMIT) ** 2)

    def jacobian(self, values: np.ndarray) -> np.ndarray:
        """dz/dx at rows, shape (m, p)."""
        return (1.0 + (self._scaled(values) / LIMIT) ** 2) ** -1.5 / self.scale

    @property
    def slopes(self) -> np.ndarray:
        """NaN: the slope differs from row to row, shape (p,)."""
        return np.full(len(self.centre), np.nan)

    @property
    def columns(self) -> np.ndarray:
        """The input column of each encoded one."""
        return np.arange(len(self.centre))

    def _scaled(self, values: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            t = (values - self.centre) / self.scale
        return np.minimum(np.maximum(t, -FARTHEST), FARTHEST)


def _centre_and_scale(values: np.ndarray) -> tuple[float, float]:
    if not len(values):
        return 0.0, 1.0
    lower, median, upper = np.quantile(values, [0.25, 0.5, 0.75])
    mean, deviation = moments(values[:, None])
    if deviation[0] <= rounding(values, mean)[0]:
        return float(values[0]), 1.0
    scale = (upper - lower) / _NORMAL_RANGE
    return float(median), float(scale if scale > rounding(values, mean)[0] else deviation[0])
