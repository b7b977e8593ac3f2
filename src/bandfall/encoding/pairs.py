"""Pairs of categories by the mean target of their rows: what no single column shows."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import ClassVar

import numpy as np

from bandfall.checks import ShapeChecker, check_instance
from bandfall.encoding.base import CategoryEncoding, register
from bandfall.encoding.onehot import OneHot
from bandfall.encoding.target_mean import out_of_fold, smoothed_means
from bandfall.graphs import Graph

_ROWS_PER_CELL = 5  # least mean number of rows per pair of levels
_FEWEST_CELLS = 6  # two levels by two are one contrast, which a kernel finds without
_MAX_CELLS = 10_000
_MAX_PAIRS, _MAX_WIDTH = 10, 60
_SWEEPS = 3
_CLEAR = 4.0  # standard deviations that a pair must explain beyond chance


@register("pairs")
@dataclass(frozen=True, eq=False)
class OneHotWithPairs(OneHot):
    """One column a level, beside which the encoder learns mean targets of pairs of columns."""

    with_pairs: ClassVar[bool] = True


@dataclass(frozen=True, eq=False)
class PairMean:
    """One number a target: the smoothed mean of two levels that meet, as in `TargetMean`."""

    first: int  # the input columns
    second: int
    # (n_first + 1, n_second + 1, n_targets): by positions of levels; the last of each for unknown
    # ones. Zero where none was seen.
    means: np.ndarray

    def __post_init__(self) -> None:
        check_instance("first", self.first, int)
        check_instance("second", self.second, int)
        ShapeChecker()("means", self.means, "a b k")

    @classmethod
    def learn(
        cls,
        pair: tuple[CategoryEncoding, CategoryEncoding],
        places: tuple[np.ndarray, np.ndarray],
        y: np.ndarray,
        weights: np.ndarray,
    ) -> tuple[PairMean, np.ndarray]:
        """The encoding of rows with these positions of levels, and the rows in it, (n, k).

        As in `TargetMean`, no number of a row contains its own target.
        """
        shape = tuple(len(one.levels) + 1 for one in pair)
        cells = cell_numbers(*places, shape)
        n_cells = shape[0] * shape[1]
        means = smoothed_means(cells, y, weights, n_cells).reshape(*shape, -1)
        means[-1], means[:, -1] = 0.0, 0.0  # unknown levels are neutral
        encoded = out_of_fold(cells, y, weights, n_cells)
        return cls(pair[0].position, pair[1].position, means), encoded

    @property
    def width(self) -> int:
        """Number of encoded columns."""
        return self.means.shape[2]

    def transform(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Encoded rows from positions of levels, −1 for unknown ones, shape (m, n_targets)."""
        return self.means[first, second]

    def onnx(self, graph: Graph, first: str, second: str) -> str:
        """Add `transform` to an ONNX graph, from positions as float64."""
        n_first, n_second, k = self.means.shape
        a, b = graph.symbol(first), graph.symbol(second)
        cell = (a + (a < 0) * n_first) * n_second + b + (b < 0) * n_second
        table = graph.constant(self.means.reshape(-1, k), np.float64)
        return graph.op("Gather", table, graph.whole(cell.name), axis=0)


def cell_numbers(first: np.ndarray, second: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers of the cells of a table of this shape; −1 is the last row or column."""
    return first % shape[0] * shape[1] + second % shape[1]


def telling_pairs(
    levels: list[CategoryEncoding], places: list[np.ndarray], y: np.ndarray, weights: np.ndarray
) -> list[tuple[int, int]]:
    """Numbers of the pairs of columns that explain most of what single columns leave.

    Pairs with enough rows per cell are ranked by Σ_c n_c mean_c² of the residual of an additive
    model of all columns; by chance it is about σ² for every cell.
    """
    residual = _additive_residual(levels, places, y, weights)
    variance = np.average(residual**2, axis=0, weights=weights)
    found = []
    for i, j in combinations(range(len(levels)), 2):
        shape = (len(levels[i].levels) + 1, len(levels[j].levels) + 1)
        if (shape[0] - 1) * (shape[1] - 1) < _FEWEST_CELLS or shape[0] * shape[1] > _MAX_CELLS:
            continue
        cells = cell_numbers(places[i], places[j], shape)
        sizes = np.bincount(cells, weights=weights, minlength=shape[0] * shape[1])
        n_cells = np.count_nonzero(sizes)
        if n_cells * _ROWS_PER_CELL > len(y):
            continue
        beyond, varied = 0.0, np.flatnonzero(variance > 0)
        for k in varied:
            sums = np.bincount(cells, weights=weights * residual[:, k], minlength=len(sizes))
            beyond += float(np.sum(sums**2 / np.maximum(sizes, 1e-300))) / variance[k] - n_cells
        if beyond > _CLEAR * np.sqrt(2.0 * n_cells * len(varied)):
            found.append((beyond, i, j))
    most = max(1, min(_MAX_PAIRS, _MAX_WIDTH // y.shape[1]))
    return [(i, j) for _, i, j in sorted(found, reverse=True)[:most]]


def _additive_residual(
    levels: list[CategoryEncoding], places: list[np.ndarray], y: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """y less a sum of effects of single columns, in a few sweeps of backfitting."""
    residual = y - np.average(y, axis=0, weights=weights)
    for _ in range(_SWEEPS):
        for one, place in zip(levels, places, strict=True):
            n_levels = len(one.levels) + 1
            known = place % n_levels
            sizes = np.bincount(known, weights=weights, minlength=n_levels)
            for k in range(y.shape[1]):
                sums = np.bincount(known, weights=weights * residual[:, k], minlength=n_levels)
                residual[:, k] -= (sums / np.maximum(sizes, 1e-300))[known]
    return residual
