"""Encodings of categories: one-hot columns, mean targets, mean targets by frequency."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from bandfall._checks import ShapeChecker, check_number, check_positions
from bandfall._typing import Weights
from bandfall.tables._registry import CategoryEncoding, levels_by_size, register
from bandfall.tables._table import Column

MAX_COLUMNS = 30


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
        if self.codes.max() >= 1000:  # the table of levels must fit in memory
            raise ValueError("a category has more than 1,000 columns")
        check_number("unknown", self.unknown, -1, int(self.codes.max()))

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


@register("target")
@dataclass(frozen=True, eq=False)
class TargetMean(CategoryEncoding):
    """One number per target: the smoothed mean of a level minus the mean of all rows.

    It is in standard deviations of the target. A level of n rows keeps n / (n + m) of its
    deviation, where m is the ratio of the variances within and between levels. Unknown levels are
    0, which stands for the mean of all rows.
    """

    uses_target: ClassVar[bool] = True
    fewest_levels: ClassVar[int] = 3  # two levels are one contrast, as in one-hot columns

    means: np.ndarray  # (n_levels, n_targets)

    def __post_init__(self) -> None:
        super().__post_init__()
        ShapeChecker(n=len(self.levels))("means", self.means, "n k")

    @classmethod
    def learn(
        cls, position: int, column: Column, y: np.ndarray | None = None, weights: Weights = None
    ) -> tuple[TargetMean, np.ndarray]:
        """Learn from a column; return the encoding and the encoded rows, shape (n, n_targets).

        The numbers of a row come from nine tenths of the rows, without its own. The tenths are
        random, but the same in every call.
        """
        if y is None:
            raise ValueError("categories='target' needs the targets y")
        n_rows, levels = len(column.values), levels_by_size(column)
        y, weights = plain_targets(y, n_rows), row_weights(weights, n_rows)
        fitted = cls(position, levels, np.zeros((len(levels), y.shape[1])))
        places = fitted.places(column)
        places[places < 0] = len(levels)  # levels beyond MAX_LEVELS share one, which is not kept
        means = smoothed_means(places, y, weights, len(levels) + 1)[:-1]
        return cls(position, levels, means), out_of_fold(places, y, weights, len(levels) + 1)

    @cached_property
    def table(self) -> np.ndarray:
        """Means of levels, zeros for unknown ones."""
        return np.concatenate([self.means, np.zeros((1, self.means.shape[1]))])

    @property
    def suffixes(self) -> list[str]:
        return ["mean"] if self.width == 1 else [f"mean{i}" for i in range(self.width)]


def plain_targets(y: np.ndarray, n_rows: int) -> np.ndarray:
    """Targets (n, k) scaled to at most 1, because squares of 1e300 overflow."""
    y = np.asarray(y, dtype=np.float64).reshape(n_rows, -1)
    return y / np.maximum(np.abs(y).max(axis=0), 1e-300)


def row_weights(weights: Weights, n_rows: int) -> np.ndarray:
    """Weights of rows; ones by default."""
    return np.ones(n_rows) if weights is None else weights


def out_of_fold(
    places: np.ndarray, y: np.ndarray, weights: np.ndarray, n_levels: int
) -> np.ndarray:
    """Smoothed means for training rows, each from the other nine tenths of the rows, (n, k)."""
    encoded = np.zeros(y.shape)
    n_folds = min(10, len(y))
    parts = np.random.default_rng(0).permutation(len(y)) % n_folds
    for part in range(n_folds):
        own, others = parts == part, parts != part
        means = smoothed_means(places[others], y[others], weights[others], n_levels)
        encoded[own] = means[places[own]]
    return encoded


def smoothed_means(
    places: np.ndarray, y: np.ndarray, weights: np.ndarray, n_levels: int
) -> np.ndarray:
    """Smoothed means of levels minus the mean of all, in standard deviations, (n_levels, k)."""
    means = np.zeros((n_levels, y.shape[1]))
    if not len(y):
        return means
    sizes = np.bincount(places, weights=weights, minlength=n_levels)[:, None]
    total = sizes.sum()
    deviations = y - np.average(y, axis=0, weights=weights)
    spread = np.sqrt(np.average(deviations**2, axis=0, weights=weights))
    varied = spread > len(y) * np.finfo(np.float64).eps * np.abs(y).max(axis=0)
    deviations = np.where(varied, deviations / np.where(varied, spread, 1.0), 0.0)
    for k in range(y.shape[1]):
        sums = np.bincount(places, weights=weights * deviations[:, k], minlength=n_levels)
        means[:, k] = sums / np.maximum(sizes[:, 0], 1e-300)
    # The total variance is 1; this is the unbiased part within levels.
    inside = weights @ (deviations - means[places]) ** 2
    freedom = total - np.count_nonzero(sizes) * total / len(y)
    within = np.minimum(inside / freedom, 1.0) if freedom > 0 else np.ones(y.shape[1])
    between = 1.0 - within
    return means * sizes * between / (sizes * between + np.maximum(within, 1e-12))


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
    return len(one.levels) > MAX_COLUMNS and n_rows >= 2000


def _size_classes(counts: np.ndarray) -> np.ndarray:
    """⌊log₂(1 + c)⌋."""
    return np.frexp(1.0 + counts)[1].astype(np.int64) - 1
