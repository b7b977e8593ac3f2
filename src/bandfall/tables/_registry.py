"""The interface of encodings, and the registry of their names.

An encoding is a frozen dataclass of arrays, in its own file. Model files store its fields.
Because a file may come from anyone, `__post_init__` raises ValueError or TypeError unless the
fields make a working encoding.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, TypeVar

import numpy as np

from bandfall._typing import Weights
from bandfall.tables._table import Column

if TYPE_CHECKING:
    from bandfall._graphs import Graph

MAX_LEVELS = 10_000  # maximum number of levels in a model; rarer levels count as unknown

Encoding = TypeVar("Encoding", bound="type[NumberEncoding] | type[CategoryEncoding]")


@dataclass(frozen=True, eq=False)
class NumberEncoding(ABC):
    """Encodes columns of numbers, without missing values, as other columns of numbers."""

    name: ClassVar[str]
    suffix: ClassVar[str] = ""  # of output names, before a number, if a feature has several columns

    @classmethod
    @abstractmethod
    def learn(cls, values: np.ndarray, known: np.ndarray, n_steps: int) -> NumberEncoding:
        """Learn from training rows.

        Parameters
        ----------
        values : ndarray of shape (n, p)
            Medians replace missing values.
        known : ndarray of bool, shape (n, p)
            Which values were not missing.
        n_steps : int
            Maximum number of columns per feature, for encodings that have several.
        """

    @abstractmethod
    def transform(self, values: np.ndarray) -> np.ndarray:
        """Encoded rows, shape (m, width)."""

    @abstractmethod
    def jacobian(self, values: np.ndarray) -> np.ndarray:
        """dz/dx of each encoded column by its input column, at rows, shape (m, width)."""

    if TYPE_CHECKING:  # a field or a property

        @property
        def columns(self) -> np.ndarray:
            """The input column of each encoded column, rising, shape (width,)."""

    def takes(self, n_columns: int) -> bool:
        """Whether the encoding was learned from `n_columns` input columns."""
        return len(self.columns) == n_columns

    @abstractmethod
    def onnx(self, graph: Graph, columns: str) -> str:
        """Add `transform` to an ONNX graph.

        Parameters
        ----------
        graph : bandfall._graphs.Graph
        columns : str
            Name of the float64 values in it, shape (m, p).

        Returns
        -------
        str
            Name of the encoded rows, shape (m, width).
        """


@dataclass(frozen=True, eq=False)
class CategoryEncoding(ABC):
    """Encodes a category as columns of numbers, by looking up each level in a table.

    Attributes
    ----------
    position : int
        The input column.
    levels : tuple of str or None
        None stands for missing values.
    """

    name: ClassVar[str]
    uses_target: ClassVar[bool] = False
    fewest_levels: ClassVar[int] = 1  # columns with fewer levels are one-hot encoded
    with_pairs: ClassVar[bool] = False  # whether the encoder adds mean targets of pairs of columns

    position: int
    levels: tuple[str | None, ...]

    def __post_init__(self) -> None:
        if not self.levels or "" in self.levels or len(set(self.levels)) < len(self.levels):
            raise ValueError("levels must be distinct and not empty")

    @classmethod
    @abstractmethod
    def learn(
        cls, position: int, column: Column, y: np.ndarray | None = None, weights: Weights = None
    ) -> tuple[CategoryEncoding, np.ndarray]:
        """Learn the encoding of a column; return it and the encoded training rows.

        Parameters
        ----------
        position : int
        column : Column
        y : ndarray of shape (n, k) or None
            Targets. If the encoding depends on them, the numbers of a training row must come from
            the targets of other rows.
        weights : ndarray of shape (n,) or None
        """

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
        lookup = [self.index.get(level, -1) for level in (*column.levels, "")]
        return np.array(lookup, dtype=np.int64)[column.values]  # −1 (missing) takes the last entry

    @cached_property
    def index(self) -> dict[str, int]:
        """Position of each level; the key "" stands for missing values."""
        return {level or "": i for i, level in enumerate(self.levels)}


def levels_by_size(column: Column) -> tuple[str | None, ...]:
    """Levels that occur, None for missing values, by frequency, then by name."""
    counts = np.bincount(column.values + 1, minlength=len(column.levels) + 1)
    names = [None, *column.levels]
    order = sorted(np.flatnonzero(counts), key=lambda i: (-counts[i], str(names[i])))
    return tuple(names[i] for i in order[:MAX_LEVELS])


NUMBERS: dict[str, type[NumberEncoding]] = {}
CATEGORIES: dict[str, type[CategoryEncoding]] = {}


def register(name: str) -> Callable[[Encoding], Encoding]:
    """Register an encoding as a value of `numbers` or `categories`, also for model files."""

    def named(cls: Encoding) -> Encoding:
        cls.name = name
        if issubclass(cls, NumberEncoding):
            NUMBERS[name] = cls
        else:
            CATEGORIES[name] = cls
        return cls

    return named
