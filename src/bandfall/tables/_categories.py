"""Encodings of categories: one-hot columns, mean targets, mean targets by frequency."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from bandfall._checks import ShapeChecker, check_number, check_positions
from bandfall._typing import Weights
from bandfall.tables._table import Column

if TYPE_CHECKING:
    from bandfall._graphs import Graph

MAX_LEVELS = 10_000  # maximum number of levels in a model; rarer levels count as unknown
MAX_COLUMNS = 30


@dataclass(frozen=True, eq=False)
class CategoryEncoding(ABC):
    """Encodes a category as columns of numbers, by looking up each level in a table."""

    uses_target: ClassVar[bool] = False

    position: int  # the input column
    levels: tuple[str | None, ...]  # None stands for missing values

    def __post_init__(self) -> None:
        if not self.levels or "" in self.levels or len(set(self.levels)) < len(self.levels):
            raise ValueError("levels must be distinct and not empty")

    @classmethod
    @abstractmethod
    def learn(
        cls, position: int, column: Column, y: np.ndarray | None = None, weights: Weights = None
    ) -> tuple[CategoryEncoding, np.ndarray]:
        """Encoding and encoded training rows, which do not depend on their own targets y (n, k)."""

    @property
    @abstractmethod
    def table(self) -> np.ndarray:
        """Encoded levels, shape (n_levels + 1, width); the last row is for unknown levels."""

    @property
    @abstractmethod
    def suffixes(self) -> list[str]:
        """Suffixes to the name of the input column, one for each encoded column."""

    @property
    def width(self) -> int:
        """Number of encoded columns."""
        return self.table.shape[1]

    def transform(self, column: Column) -> tuple[np.ndarray, np.ndarray]:
        """Encoded rows, shape (m, width), and the rows whose level is unknown."""
        places = self.places(column)
        return self.table[places], np.flatnonzero(places < 0)

    def onnx(self, graph: Graph, places: str) -> str:
        """Add `transform` to an ONNX graph, from positions of levels, −1 for unknown ones."""
        return graph.op("Gather", graph.constant(self.table, np.float64), places, axis=0)

    def places(self, column: Column) -> np.ndarray:
        """Position of each row's level, −1 for unknown ones, shape (m,)."""
        index = {level or "": i for i, level in enumerate(self.levels)}
        lookup = [index.get(level, -1) for level in (*column.levels, "")]
        return np.array(lookup, dtype=np.int64)[column.values]  # −1 (missing) takes the last entry


def levels_by_size(column: Column) -> tuple[str | None, ...]:
    """Levels that occur, None for missing values, by frequency, then by name."""
    counts = np.bincount(column.values + 1, minlength=len(column.levels) + 1)
    names = [None, *column.levels]
    order = sorted(np.flatnonzero(counts), key=lambda i: (-counts[i], str(names[i])))
    return tuple(names[i] for i in order[:MAX_LEVELS])


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
        """Columns for the most frequent levels; the last ones may share one."""
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


@dataclass(frozen=True, eq=False)
class TargetMean(CategoryEncoding):
    """One number per target: the smoothed mean of a level minus the mean of all rows.

    It is in standard deviations of the target. A level of n rows keeps n / (n + m) of its
    deviation, where m is the ratio of the variances within and between levels. Unknown levels are
    0, which stands for the mean of all rows.
    """

    uses_target: ClassVar[bool] = True

    means: np.ndarray  # (n_levels, n_targets)

    def __post_init__(self) -> None:
        super().__post_init__()
        ShapeChecker(n=len(self.levels))("means", self.means, "n k")

    @classmethod
    def learn(
        cls, position: int, column: Column, y: np.ndarray | None = None, weights: Weights = None
    ) -> tuple[TargetMean, np.ndarray]:
        """Means; those of a training row come from nine tenths of the rows, without its own."""
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
        """Means, as in `TargetMean`; the size of a training row's level counts the other rows."""
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
