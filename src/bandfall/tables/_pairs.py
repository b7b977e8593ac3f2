"""Mean targets of pairs of categories, which show interactions of two columns."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from bandfall._checks import ShapeChecker, check_positions
from bandfall.tables._categories import (
    MAX_LEVELS,
    CategoryEncoding,
    has_many_levels,
    out_of_fold,
    smoothed_means,
)

if TYPE_CHECKING:
    from bandfall._graphs import Graph

_ROWS_PER_CELL = 5  # minimum of the mean number of rows per pair of levels
_FEWEST_CELLS = 6  # a kernel learns the single contrast of two levels by two without help
_MAX_PAIRS, _MAX_WIDTH = 10, 60
_SWEEPS = 3
_CLEAR = 4.0  # standard deviations by which a pair must exceed chance
# The same for columns of many levels.
_ROWS_OF_MANY, _MAX_OF_MANY, _CLEAR_OF_MANY = 1.1, 20, 3.0


@dataclass(frozen=True, eq=False)
class PairMean:
    """One number per target: the smoothed mean of a pair of levels, as in `TargetMean`."""

    uses_target: ClassVar[bool] = True

    first: int  # the input columns
    second: int
    cells: np.ndarray  # (q, 2): positions of levels that met in training, in rising order
    means: np.ndarray  # (q, n_targets)

    def __post_init__(self) -> None:
        check_positions("cells", self.cells.ravel(), MAX_LEVELS)
        if self.cells.ndim != 2 or self.cells.shape[1] != 2:
            raise ValueError("cells must be pairs")
        ShapeChecker(q=len(self.cells))("means", self.means, "q k")
        if np.any(np.diff(self._numbers) <= 0):
            raise ValueError("cells must rise")

    @classmethod
    def learn(
        cls,
        first: int,
        second: int,
        first_places: np.ndarray,
        second_places: np.ndarray,
        y: np.ndarray,
        weights: np.ndarray,
    ) -> tuple[PairMean, np.ndarray]:
        """Means from positions of levels, and the encoded rows, (n, k), as in `TargetMean`."""
        numbers, cells = np.unique(cell_numbers(first_places, second_places), return_inverse=True)
        means = smoothed_means(cells, y, weights, len(numbers))
        known = numbers >= 0  # unknown levels are neutral
        encoded = out_of_fold(cells, y, weights, len(numbers))
        both = np.stack(np.divmod(numbers[known], MAX_LEVELS), axis=1)
        return cls(first, second, both, means[known]), encoded

    @property
    def width(self) -> int:
        """Number of encoded columns."""
        return self.means.shape[1]

    def transform(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Encoded rows from positions of levels, −1 for unknown ones, shape (m, n_targets)."""
        wanted, table = cell_numbers(first, second), np.append(self._numbers, -1)
        found = np.searchsorted(self._numbers, wanted)
        return self._table[np.where(table[found] == wanted, found, len(self.cells))]

    def onnx(self, graph: Graph, first: str, second: str) -> str:
        """Add `transform` to an ONNX graph, from positions as float64."""
        a, b = graph.symbol(first), graph.symbol(second)
        known = (a >= 0) * (b >= 0)
        number = graph.whole((known * (a * MAX_LEVELS + b + 1) - 1).name)
        place = graph.op(
            "LabelEncoder",
            number,
            domain="ai.onnx.ml",
            keys_int64s=self._numbers.tolist(),
            values_int64s=list(range(len(self.cells))),
            default_int64=len(self.cells),
        )
        return graph.op("Gather", graph.constant(self._table, np.float64), place, axis=0)

    @cached_property
    def _numbers(self) -> np.ndarray:
        return cell_numbers(*self.cells.T)

    @cached_property
    def _table(self) -> np.ndarray:
        """Means of the cells, and zeros for those that were not seen."""
        return np.concatenate([self.means, np.zeros((1, self.width))])


def cell_numbers(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """A number for each pair of positions; −1 if one is −1."""
    return np.where((first < 0) | (second < 0), -1, first * MAX_LEVELS + second)


def telling_pairs(
    levels: list[CategoryEncoding], places: list[np.ndarray], y: np.ndarray, weights: np.ndarray
) -> list[tuple[int, int]]:
    """Indices of the pairs of columns that explain most of the residual of single columns.

    Pairs with enough rows per cell are ranked by Σ_c n_c mean_c² of the residual of an additive
    model of all columns. By chance, each cell contributes about σ²; if a column has many levels,
    chance is the contribution Σ_i r_i² / n_c of single rows, so that cells of one row do not count.
    """
    residual = _additive_residual(levels, places, y, weights)
    variance = np.average(residual**2, axis=0, weights=weights)
    varied, found = np.flatnonzero(variance > 0), []
    for i, j in combinations(range(len(levels)), 2):
        if len(levels[i].levels) * len(levels[j].levels) < _FEWEST_CELLS:
            continue
        many = has_many_levels(levels[i], len(y)) or has_many_levels(levels[j], len(y))
        numbers, cells = np.unique(cell_numbers(places[i], places[j]), return_inverse=True)
        n_cells = len(numbers)
        if n_cells * (_ROWS_OF_MANY if many else _ROWS_PER_CELL) > len(y):
            continue
        sizes = np.maximum(np.bincount(cells, weights=weights), 1e-300)
        beyond = 0.0
        for k in varied:
            one = weights * residual[:, k]
            total = np.sum(np.bincount(cells, weights=one) ** 2 / sizes) / variance[k]
            alone = np.sum(one**2 / sizes[cells]) / variance[k]
            beyond += float(total) - (float(alone) if many else n_cells)
        spread = np.sum(1.0 - 1.0 / np.bincount(cells)) if many else n_cells
        clear = _CLEAR_OF_MANY if many else _CLEAR
        if beyond > clear * np.sqrt(2.0 * spread * len(varied)):
            found.append((beyond, i, j))
    any_many = any(has_many_levels(one, len(y)) for one in levels)
    most = _MAX_OF_MANY if any_many else _MAX_PAIRS
    most = max(1, min(most, _MAX_WIDTH // y.shape[1]))
    return [(i, j) for _, i, j in sorted(found, reverse=True)[:most]]


def _additive_residual(
    levels: list[CategoryEncoding], places: list[np.ndarray], y: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """y minus the effects of single columns, by a few sweeps of backfitting.

    Effects of many levels are shrunk; otherwise the residual of a row with a unique level vanishes.
    """
    residual = y - np.average(y, axis=0, weights=weights)
    effects = [np.zeros((len(one.levels) + 1, y.shape[1])) for one in levels]
    for _ in range(_SWEEPS):
        for one, effect, place in zip(levels, effects, places, strict=True):
            known = place % len(effect)
            residual += effect[known]
            if has_many_levels(one, len(y)):
                spread = np.sqrt(np.average(residual**2, axis=0, weights=weights))
                effect[:] = spread * smoothed_means(known, residual, weights, len(effect))
            else:
                sizes = np.maximum(np.bincount(known, weights, minlength=len(effect)), 1e-300)
                for k in range(y.shape[1]):
                    sums = np.bincount(known, weights * residual[:, k], minlength=len(effect))
                    effect[:, k] = sums / sizes
            residual -= effect[known]
    return residual
