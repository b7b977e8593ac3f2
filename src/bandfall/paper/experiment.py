"""What an experiment is: tasks to compute, and how their results become a figure or a table."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from bandfall.datasets import Split, paper_splits
from bandfall.datasets.real import load_table
from bandfall.datasets.sources import SOURCES
from bandfall.paper.captions import CAPTIONS
from bandfall.paper.layout import TextTable
from bandfall.paper.store import Entry

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Result = Entry  # result of a task: numbers, strings, lists and dicts of these
Results = Mapping[str, Result]  # by task key

AGREES = "agrees"
DIFFERS = "differs"
NOT_JUDGED = "not judged"


def plotted(X: np.ndarray, y: np.ndarray, grid: np.ndarray, truth: np.ndarray) -> Result:
    """The part of a result that `draw_fit` draws beside fits."""
    lists = {"x": X[:, 0], "y": y, "x_grid": grid[:, 0], "truth": truth}
    return {name: values.tolist() for name, values in lists.items()}


@dataclass(frozen=True)
class Task:
    """One piece of work, independent of all others.

    Parameters
    ----------
    key : str
        Unique within its experiment; a resumed run finds finished tasks by it.
    function : callable
        Defined at the top of a module, so that any joblib backend can send it to a worker.
    arguments : mapping
        Its keyword arguments.
    cost : float
        Rough seconds on one core: the unit of the progress bar.
    """

    key: str
    function: Callable[..., Result]
    arguments: Mapping[str, object] = field(repr=False)
    cost: float = 1.0


@dataclass(frozen=True)
class Size:
    """How much of the paper to run.

    Parameters
    ----------
    seeds : float
        Share of the paper's seeds and splits, in (0, 1].
    n_floors : int
        Bandwidth floors σ_m per curve.
    max_epochs : int
        Limit on the epochs of Figure 3's networks.
    """

    seeds: float = 1.0
    n_floors: int = 100
    max_epochs: int = 10_000_000

    def count(self, published: int) -> int:
        """How many of the paper's `published` seeds to run; at least two.

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
    """The real data sets, read on first use.

    Parameters
    ----------
    data_home : str or path, optional
        See `bandfall.datasets.load_cpu`.
    """

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
    """One published number beside ours.

    Parameters
    ----------
    cell : dict
        What names the cell: data set, method, speed, kernel.
    ours, published : dict
        Numbers of the same names, such as median, lower, upper, p_value.
    verdict : {"agrees", "differs", "not judged"}
    reason : str
        What decided it.
    """

    cell: Entry
    ours: Entry
    published: Entry
    verdict: str
    reason: str = ""


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper as a check with numbers.

    Parameters
    ----------
    text : str
        The claim.
    evidence : str
        The numbers.
    holds : bool or None
        None where the run was too small to judge.
    """

    text: str
    evidence: str
    holds: bool | None


@dataclass(frozen=True)
class Outcome:
    """What an experiment comes to.

    Parameters
    ----------
    tables : sequence of TextTable
        The first in the paper's arrangement.
    figure : matplotlib figure, optional
    comparisons, claims, notes
        Published numbers, the paper's sentences, and remarks for the reader.
    """

    tables: Sequence[TextTable] = ()
    figure: Figure | None = None
    comparisons: Sequence[Comparison] = ()
    claims: Sequence[Claim] = ()
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Experiment:
    """A figure or a table of the paper, declared.

    Parameters
    ----------
    name : str
        As on the command line.
    title : str
        One line.
    tasks : callable (Data, Size) -> sequence of Task
    summarise : callable (Results, Size) -> Outcome
        Sees the results of exactly these tasks, in their order.
    requires : tuple of str
        Modules beyond the package's own dependencies.
    seeded : bool
        Whether the size of a run changes it; if not, any run of it is complete.
    """

    name: str
    title: str
    tasks: Callable[[Data, Size], Sequence[Task]]
    summarise: Callable[[Results, Size], Outcome]
    requires: tuple[str, ...] = ()
    seeded: bool = True

    @property
    def caption(self) -> str:
        """What it shows, for the report."""
        return CAPTIONS.get(self.name, "")
