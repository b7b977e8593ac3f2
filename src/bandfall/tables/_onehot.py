"""One-hot columns for categories, unscaled."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bandfall._checks import check_instance, check_positions, check_real
from bandfall._typing import Weights
from bandfall.tables._base import CategoryEncoding, levels_by_size, register
from bandfall.tables._table import Column

MAX_COLUMNS = 30
_MOST_COLUMNS = 1000  # in model files, whose tables of levels must fit in memory


@register("onehot")
@dataclass(frozen=True, eq=False)
class OneHot(CategoryEncoding):
    """One column per level; the rarest levels and unknown levels share one."""

    codes: np.ndarray  # (n_levels,): column of each level
    unknown: int  # column of unknown levels; −1 encodes them as zeros

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positions("codes", self.codes, len(self.levels))
        if len(self.codes) != len(self.levels):
            raise ValueError("codes do not fit the levels")
        if self.codes.max() >= _MOST_COLUMNS:
            raise ValueError(f"a category has more than {_MOST_COLUMNS:,} columns")
        check_instance("unknown", self.unknown, int)
        check_real("unknown", self.unknown, -1, int(self.codes.max()))

    @classmethod
    def learn(
        cls, position: int, column: Column, y: np.ndarray | None = None, weights: Weights = None
    ) -> tuple[OneHot, np.ndarray]:
        """Learn the levels of a column, most frequent first; the last ones may share a column."""
        levels = levels_by_size(column)
        n_own = len(levels) if len(levels) <= MAX_COLUMNS else MAX_COLUMNS - 1
        codes = np.minimum(np.arange(len(levels)), n_own)
        onehot = cls(position, levels, codes, n_own if len(levels) > n_own else -1)
        return onehot, onehot.transform(column)[0]

    @cached_property
    def table(self) -> np.ndarray:
        """One-hot rows of levels; the last row, for unknown levels, may be all zeros."""
        width = int(self.codes.max()) + 1
        return (np.append(self.codes, self.unknown)[:, None] == np.arange(width)).astype(float)

    @property
    def suffixes(self) -> list[str]:
        names = ["rest"] * self.width
        shared = np.bincount(self.codes, minlength=self.width) > 1
        for level, code in zip(self.levels, self.codes, strict=True):
            if not shared[code]:
                names[code] = "missing" if level is None else level
        return names
