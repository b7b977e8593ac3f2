"""Experiments: tasks to compute, and functions that turn results into a figure or a table."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from bandfall._paper.captions import CAPTIONS
from bandfall._paper.layout import TextTable
from bandfall._paper.store import Entry
from bandfall.datasets import Split, paper_splits
from bandfall.datasets._real import load_table
from bandfall.datasets._sources import SOURCES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Result = Entry  # result of a task: numbers, strings, lists and dicts of these
Results = Mapping[str, Result]  # by task key

AGREES = "agrees"
DIFFERS = "differs"
NOT_JUDGED = "not judged"


def plotted(X: np.ndarray, y: np.ndarray, grid: np.ndarray, truth: np.ndarray) -> Result:
    """The part of a result that `draw_fit` draws besides fits."""
    lists = {"x": X[:, 0], "y": y, "x_grid": grid[:, 0], "truth": truth}
    return {name: values.tolist() for name, values in lists.items()}


@dataclass(frozen=True)
class Task:
    """One piece of work, independent of all others."""

    key: str  # unique within its experiment; a resumed run finds finished tasks by it
    # Defined at the top of a module, so that any joblib backend can send it to a worker.
    function: Callable[..., Result]
    arguments: Mapping[str, object] = field(repr=False)  # its keyword arguments
    cost: float = 1.0  # approximate seconds on one core, for the progress bar


@dataclass(frozen=True)
class Size:
    """How much of the paper to run."""

    seeds: float = 1.0  # share of the paper's seeds and splits, in (0, 1]
    n_floors: int = 100  # bandwidth floors σ_m per curve
    max_epochs: int = 10_000_000  # limit on the epochs of Figure 3's networks

    def count(self, published: int) -> int:
        """Number of seeds to run, of `published` seeds in the paper; at least two.

        Examples
        --------
        >>> Size(seeds=0.1).count(200)
        20
        """
        return max(min(2, published), round(self.seeds * published))


FULL = Size()
QUICK = Size(seeds=0.1, max_epochs=200_000)


class DataError(Exception):
    """A data set is missing or damaged; the message is for the user."""


class Data:
    """The real data sets, read on first use; see `bandfall.datasets.load_cpu` for `data_home`."""

    def __init__(self, data_home: str | os.PathLike[str] | None = None):
        self.data_home = data_home
        self.table_shape = cache(self._table_shape)
        self._splits = cache(self._read_splits)

    def splits(
        self, dataset: str, n_splits: int, size: int | None = None, n_train: int | None = None
    ) -> Sequence[Split]:
        """The first `n_splits` of the paper's splits, see `bandfall.datasets.paper_splits`."""
        return self._splits(dataset, size, n_train)[:n_splits]

    def _read_splits(self, dataset: str, size: int | None, n_train: int | None) -> list[Split]:
        with _data_errors():
            return paper_splits(dataset, size=size, n_train=n_train, data_home=self.data_home)

    def _table_shape(self, dataset: str) -> tuple[int, int]:
        with _data_errors():
            rows, columns = load_table(SOURCES[dataset], data_home=self.data_home).shape
        return rows, columns


@contextmanager
def _data_errors() -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, ImportError) as error:
        raise DataError(str(error)) from error


@dataclass(frozen=True)
class Comparison:
    """One published cell and our numbers for it."""

    cell: Entry  # identifies the cell: data set, method, speed, kernel
    # Numbers by name, such as median, lower, upper, p_value.
    ours: Entry
    published: Entry
    verdict: str  # "agrees", "differs", "not judged"
    reason: str = ""  # for the verdict


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, checked with numbers."""

    text: str
    evidence: str  # with numbers
    holds: bool | None  # None if the run was too small to judge


@dataclass(frozen=True)
class Outcome:
    """The result of an experiment."""

    tables: Sequence[TextTable] = ()  # the first in the paper's arrangement
    figure: Figure | None = None
    comparisons: Sequence[Comparison] = ()
    claims: Sequence[Claim] = ()
    notes: Sequence[str] = ()  # remarks for the reader


@dataclass(frozen=True)
class Experiment:
    """A figure or a table of the paper, declared."""

    name: str  # as on the command line
    title: str  # one line
    tasks: Callable[[Data, Size], Sequence[Task]]
    # Called with the results of these tasks, in their order.
    summarise: Callable[[Results, Size], Outcome]
    requires: tuple[str, ...] = ()  # modules beyond the package's own dependencies
    seeded: bool = True  # whether results depend on the size of a run

    @property
    def caption(self) -> str:
        """The caption in the report."""
        return CAPTIONS.get(self.name, "")
