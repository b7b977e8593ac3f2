"""Mean targets of categories."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from bandfall._checks import ShapeChecker
from bandfall._typing import Weights
from bandfall.tables._base import CategoryEncoding, levels_by_size, register
from bandfall.tables._table import Column

_FOLDS = 10


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
    parts = np.random.default_rng(0).permutation(len(y)) % min(_FOLDS, len(y))
    for part in range(min(_FOLDS, len(y))):
        own, others = parts == part, parts != part
        found = smoothed_means(places[others], y[others], weights[others], n_levels)
        encoded[own] = found[places[own]]
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
