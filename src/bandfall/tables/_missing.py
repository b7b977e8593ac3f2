"""Missing numbers: replaced by the median, with an indicator column."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bandfall._checks import ShapeChecker, check_positions


@dataclass(frozen=True, eq=False)
class MissingValues:
    """Replacements for missing values of p columns, and the columns with an indicator."""

    fill: np.ndarray  # (p,): medians
    marked: np.ndarray  # (q,): columns with missing values in training

    def __post_init__(self) -> None:
        ShapeChecker()("fill", self.fill, "p")
        check_positions("marked", self.marked, len(self.fill))
        if np.any(np.diff(self.marked) <= 0):
            raise ValueError("marked must rise")

    @classmethod
    def learn(cls, values: np.ndarray) -> MissingValues:
        """Learn the medians of columns, ignoring NaN; 0 for a column without values."""
        missing = np.isnan(values)
        known = ~missing.all(axis=0)
        fill = np.zeros(values.shape[1])
        if known.any():
            fill[known] = np.nanmedian(values[:, known], axis=0)
        return cls(fill, np.flatnonzero(missing.any(axis=0)))

    def split(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Values without gaps, shape (m, p), and the indicators, shape (m, q)."""
        missing = np.isnan(values)
        filled = np.where(missing, self.fill, values)
        return filled, missing[:, self.marked].astype(np.float64)
