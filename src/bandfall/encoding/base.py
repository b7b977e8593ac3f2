"""The interface of encodings, and the registry of their names.

An encoding is a frozen dataclass of arrays in a file of its own. Its fields are stored in model
files as they are, so `__post_init__` raises ValueError or TypeError unless they make a working
encoding: a file may come from anyone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, TypeVar

import numpy as np

from bandfall.checks import check_instance
from bandfall.encoding.table import Column
from bandfall.graphs import Graph

MAX_LEVELS = 10_000  # most levels that a model keeps; rarer ones count as never seen

Encoding = TypeVar("Encoding", bound="type[NumberEncoding] | type[CategoryEncoding]")


@dataclass(frozen=True, eq=False)
class NumberEncoding(ABC):
    """Complete columns of numbers as other columns of numbers."""

    name: ClassVar[str]
    suffix: ClassVar[str] = ""  # of output names, with a number, if a feature has several columns

    @classmethod
    @abstractmethod
    def learn(cls, values: np.ndarray, known: np.ndarray, n_steps: int) -> NumberEncoding:
        """Learn from training rows.

        Parameters
        ----------
        values : ndarray of shape (n, p)
            Without gaps: medians are in place of missing values.
        known : ndarray of bool, shape (n, p)
            Which values were not missing.
        n_steps : int
            How many columns a feature may have at most, for encodings that have several.
        """

    @abstractmethod
    def transform(self, values: np.ndarray) -> np.ndarray:
        """Encoded rows, shape (m, width)."""

    @abstractmethod
    def jacobian(self, values: np.ndarray) -> np.ndarray:
        """dz/dx at rows, of each encoded column by its input column, shape (m, width)."""

    if TYPE_CHECKING:  # a field or a property

        @property
        def columns(self) -> np.ndarray:
            """The input column of each encoded one, rising, shape (width,)."""

    @property
    def slopes(self) -> np.ndarray:
        """dz/dx if it is the same at all rows, else NaN, shape (width,)."""
        return np.full(len(self.columns), np.nan)

    def takes(self, n_columns: int) -> bool:
        """Whether the encoding is one of `n_columns` input columns."""
        return len(self.columns) == n_columns

    @abstractmethod
    def onnx(self, graph: Graph, columns: str) -> str:
        """Add `transform` to an ONNX graph.

        Parameters
        ----------
        graph : bandfall.onnx_export.builder.Graph
        columns : str
            Name of the float64 values in it, shape (m, p).

        Returns
        -------
        str
            Name of the encoded rows, shape (m, width).
        """


@dataclass(frozen=True, eq=False)
class CategoryEncoding(ABC):
    """One column of levels as columns of numbers: a row of a table for each level.

    Attributes
    ----------
    position : int
        The input column.
    levels : tuple of str or None
        None stands for missing values.
    """

    name: ClassVar[str]
    uses_target: ClassVar[bool] = False
    fewest_levels: ClassVar[int] = 1  # columns with fewer are one-hot encoded
    with_pairs: ClassVar[bool] = False  # whether mean targets of pairs of columns are added

    position: int
    levels: tuple[str | None, ...]

    def __post_init__(self) -> None:
        check_instance("position", self.position, int)
        check_instance("levels", self.levels, tuple)
        for level in self.levels:
            check_instance("levels", level, str, type(None))
        if not self.levels or "" in self.levels or len(set(self.levels)) < len(self.levels):
            raise ValueError("levels must differ, and none be empty")

    @classmethod
    @abstractmethod
    def learn(
        cls,
        position: int,
        column: Column,
        y: np.ndarray | None = None,
        weights: np.ndarray | None = None,
    ) -> tuple[CategoryEncoding, np.ndarray]:
        """The encoding of a column of training rows, and the encoded training rows.

        Parameters
        ----------
        position : int
        column : Column
        y : ndarray of shape (n, k) or None
            Targets. If the encoding depends on them, encoded training rows must not: the numbers
            of a row come from the targets of other rows.
        weights : ndarray of shape (n,) or None
        """

    @property
    @abstractmethod
    def table(self) -> np.ndarray:
        """What each level becomes, shape (n_levels + 1, width); the last row: unknown levels."""

    @property
    @abstractmethod
    def suffixes(self) -> list[str]:
        """What is added to the name of the input column, one for each encoded column."""

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
        return np.array(lookup, dtype=np.int64)[column.values]  # −1, missing, is the last

    @cached_property
    def index(self) -> dict[str, int]:
        """Position of each level; that of missing values under no text, which no level has."""
        return {level or "": i for i, level in enumerate(self.levels)}


def levels_by_size(column: Column) -> tuple[str | None, ...]:
    """Levels that rows have, None for missing ones, the most frequent first, then by name."""
    counts = np.bincount(column.values + 1, minlength=len(column.levels) + 1)
    names = [None, *column.levels]
    order = sorted(np.flatnonzero(counts), key=lambda i: (-counts[i], str(names[i])))
    return tuple(names[i] for i in order[:MAX_LEVELS])


NUMBERS: dict[str, type[NumberEncoding]] = {}
CATEGORIES: dict[str, type[CategoryEncoding]] = {}


def register(name: str) -> Callable[[Encoding], Encoding]:
    """Make an encoding known as a value of `numbers` or `categories`, in model files too."""

    def named(cls: Encoding) -> Encoding:
        cls.name = name
        if issubclass(cls, NumberEncoding):
            NUMBERS[name] = cls
        else:
            CATEGORIES[name] = cls
        return cls

    return named
