"""Normal quantiles: every feature as if it were normal."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

_MAX_QUANTILES = 1000
FARTHEST = -ndtri(1e-7)  # where normal quantiles of values out of range end
_FEW_ROWS = 8  # comparing with all knots at once beats a search in each column


@dataclass(frozen=True, eq=False)
class Quantiles:
    """z = Φ⁻¹(share of training values below x); ties in the middle of their range.

    The smallest and the largest value go to the ends, tied or not.

    Attributes
    ----------
    knots : ndarray of shape (q, p)
        Training values at evenly spaced ranks, rising.
    """

    knots: np.ndarray

    @classmethod
    def learn(cls, values: np.ndarray) -> Quantiles:
        """Quantiles of the columns of `values`, which is complete."""
        # Values themselves, for means of two would tear ties apart by rounding.
        places = np.linspace(0, len(values) - 1, min(_MAX_QUANTILES, len(values)))
        return cls(np.sort(values, axis=0)[np.round(places).astype(int)])

    def transform(self, values: np.ndarray) -> np.ndarray:
        """Encoded rows, shape (m, p)."""
        left, right = self._ranks(values)
        steps = max(len(self.knots) - 1, 1)
        share = (right - 1) / steps
        between = left == right
        if between.any():
            below, above = self._neighbours(right)
            with np.errstate(all="ignore"):  # beyond the ends, which are put right below
                part = np.where(between, (values - below) / (above - below), 0.0)
            share += part / steps
        share = np.where(between, share, 0.5 * ((right - 1) + left) / steps)
        share = np.where(right == len(self.knots), 1.0, share)
        scores = ndtri(np.where(values <= self.knots[0], 0.0, share))
        return np.minimum(np.maximum(scores, -FARTHEST), FARTHEST)

    def jacobian(self, values: np.ndarray) -> np.ndarray:
        """dz/dx at rows, shape (m, p); to the right at knots, zero beyond the ends."""
        _, right = self._ranks(values)
        below, above = self._neighbours(right)
        inside = (right > 0) & (right < len(self.knots))
        z = self.transform(values)
        density = np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)
        rise = 1.0 / max(len(self.knots) - 1, 1) / density
        # At an end the normal density is next to nothing, and z is cut off there.
        inside &= np.abs(z) < FARTHEST
        return np.where(inside, rise / np.where(inside, above - below, 1.0), 0.0)

    @property
    def slopes(self) -> np.ndarray:
        """NaN: the slope differs from row to row, shape (p,)."""
        return np.full(self.knots.shape[1], np.nan)

    @property
    def columns(self) -> np.ndarray:
        """The input column of each encoded one."""
        return np.arange(self.knots.shape[1])

    def _ranks(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Numbers of knots < x and ≤ x, each of shape (m, p)."""
        if len(values) <= _FEW_ROWS:
            left = (self.knots < values[:, None, :]).sum(axis=1)
            return left, left + (self.knots == values[:, None, :]).sum(axis=1)
        left, right = np.empty((2, *values.shape), dtype=int)
        for j, knots in enumerate(np.ascontiguousarray(self.knots.T)):
            column = np.ascontiguousarray(values[:, j])
            right[:, j] = left[:, j] = np.searchsorted(knots, column, side="right")
            tied = np.flatnonzero(knots[np.maximum(right[:, j] - 1, 0)] == column)
            left[tied, j] = np.searchsorted(knots, column[tied], side="left")
        return left, right

    def _neighbours(self, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The knots on both sides of rows with `right` knots ≤ x."""
        below = np.clip(right - 1, 0, max(len(self.knots) - 2, 0))
        above = np.minimum(below + 1, len(self.knots) - 1)
        column = np.arange(self.knots.shape[1])
        return self.knots[below, column], self.knots[above, column]
