"""Categories with very many levels: mean targets of levels and of levels of similar frequency."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from bandfall._checks import ShapeChecker, check_positions
from bandfall._typing import Weights
from bandfall.tables._base import CategoryEncoding, register
from bandfall.tables._onehot import MAX_COLUMNS
from bandfall.tables._table import Column
from bandfall.tables._target_mean import (
    TargetMean,
    out_of_fold,
    plain_targets,
    row_weights,
    smoothed_means,
)

_FEWEST_ROWS = 2000  # means of many levels from fewer rows mislead


@register("sizes")
@dataclass(frozen=True, eq=False)
class TargetMeanAndSize(CategoryEncoding):
    """Two numbers per target: the smoothed means of a level and of all levels of its size.

    The first is that of `TargetMean`. Sizes are classes ⌊log₂(1 + c)⌋ of the number of other rows
    c. So an unknown level gets the mean of all rows whose level occurs only once.
    """

    uses_target: ClassVar[bool] = True

    means: np.ndarray  # (n_levels, n_targets)
    sizes: np.ndarray  # (n_levels,): the class of its size
    by_size: np.ndarray  # (n_sizes, n_targets)

    def __post_init__(self) -> None:
        super().__post_init__()
        shapes = ShapeChecker(n=len(self.levels))
        shapes("means", self.means, "n k")
        shapes("by_size", self.by_size, "s k")
        check_positions("sizes", self.sizes, len(self.by_size))
        if len(self.sizes) != len(self.levels):
            raise ValueError("sizes do not fit its levels")

    @classmethod
    def learn(
        cls, position: int, column: Column, y: np.ndarray | None = None, weights: Weights = None
    ) -> tuple[TargetMeanAndSize, np.ndarray]:
        """Learn the encoding; return it and the encoded training rows, as in `TargetMean`.

        The size of a training row's level counts only the other rows, as for a new row.
        """
        mean, encoded = TargetMean.learn(position, column, y, weights)
        assert y is not None
        n_rows = len(column.values)
        y, weights = plain_targets(y, n_rows), row_weights(weights, n_rows)
        counts = np.bincount(column.values + 1, minlength=len(column.levels) + 1)
        own = _size_classes(counts[column.values + 1] - 1)
        names = {level: i for i, level in enumerate((None, *column.levels))}
        sizes = _size_classes(counts[[names[level] for level in mean.levels]])
        n_sizes = int(max(sizes.max(), own.max())) + 1
        by_size = smoothed_means(own, y, weights, n_sizes)
        encoded = np.concatenate([encoded, out_of_fold(own, y, weights, n_sizes)], axis=1)
        return cls(position, mean.levels, mean.means, sizes, by_size), encoded

    @cached_property
    def table(self) -> np.ndarray:
        """Both means of each level; unknown levels have only the mean of their size."""
        known = np.concatenate([self.means, self.by_size[self.sizes]], axis=1)
        unknown = np.concatenate([np.zeros(self.means.shape[1]), self.by_size[0]])
        return np.concatenate([known, unknown[None]])

    @property
    def suffixes(self) -> list[str]:
        k = self.means.shape[1]
        numbers = [""] if k == 1 else [str(i) for i in range(k)]
        return [f"{name}{i}" for name in ("mean", "size") for i in numbers]


def has_many_levels(one: CategoryEncoding, n_rows: int) -> bool:
    """Whether a category has too many levels for a column each, and enough rows for means."""
    return len(one.levels) > MAX_COLUMNS and n_rows >= _FEWEST_ROWS


def _size_classes(counts: np.ndarray) -> np.ndarray:
    """⌊log₂(1 + c)⌋."""
    return np.frexp(1.0 + counts)[1].astype(np.int64) - 1
