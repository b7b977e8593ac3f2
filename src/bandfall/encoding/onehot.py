"""One column a category, unscaled."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bandfall.encoding.table import Column

MAX_COLUMNS = 30
MAX_LEVELS = 10_000  # most levels a model remembers; rarer ones are to it as if never seen


@dataclass(frozen=True, eq=False)
class OneHot:
    """One column a level; the rarest share one, which unknown ones join.

    Attributes
    ----------
    position : int
        The input column.
    levels : tuple of str or None
        Most frequent first; None stands for missing values.
    codes : ndarray of int, shape (n_levels,)
        Column of each level.
    unknown : int
        Column of levels never seen; −1 where there is none: they are then all zeros.
    """

    position: int
    levels: tuple[str | None, ...]
    codes: np.ndarray
    unknown: int

    @classmethod
    def learn(cls, position: int, column: Column) -> OneHot:
        """Learn the levels of a column and which of them are rare."""
        levels = levels_by_size(column)
        n_own = len(levels) if len(levels) <= MAX_COLUMNS else MAX_COLUMNS - 1
        codes = np.minimum(np.arange(len(levels)), n_own)
        return cls(position, levels, codes, n_own if len(levels) > n_own else -1)

    @property
    def width(self) -> int:
        """Number of encoded columns."""
        return int(self.codes.max()) + 1

    def transform(self, column: Column) -> tuple[np.ndarray, np.ndarray]:
        """Zeros and ones, shape (m, width), and the rows whose level is unknown."""
        places = level_positions(column, self.index)
        codes = np.append(self.codes, self.unknown)[places]
        encoded = np.zeros((len(codes), self.width))
        seen = np.flatnonzero(codes >= 0)
        encoded[seen, codes[seen]] = 1.0
        return encoded, np.flatnonzero(places < 0)

    @cached_property
    def index(self) -> dict[str, int]:
        """Position of each level."""
        return level_index(self.levels)

    @property
    def suffixes(self) -> list[str]:
        """What is added to the name of the input column."""
        names = ["rest"] * self.width
        shared = np.bincount(self.codes, minlength=self.width) > 1
        for level, code in zip(self.levels, self.codes, strict=True):
            if not shared[code]:
                names[code] = "missing" if level is None else level
        return names


def levels_by_size(column: Column) -> tuple[str | None, ...]:
    """Levels that rows have, None for missing ones, the most frequent first, then by name."""
    counts = np.bincount(column.values + 1, minlength=len(column.levels) + 1)
    names = [None, *column.levels]
    order = sorted(np.flatnonzero(counts), key=lambda i: (-counts[i], str(names[i])))
    return tuple(names[i] for i in order[:MAX_LEVELS])


def level_index(levels: tuple[str | None, ...]) -> dict[str, int]:
    """Position of each level; that of missing values under no text, which no level has."""
    return {level or "": i for i, level in enumerate(levels)}


def level_positions(column: Column, index: dict[str, int]) -> np.ndarray:
    """Position of each row's level, −1 for unknown ones, shape (m,)."""
    lookup = [index.get(level, -1) for level in (*column.levels, "")]
    return np.array(lookup, dtype=np.int64)[column.values]  # −1, missing, is the last
