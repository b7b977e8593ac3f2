"""Experiments: tasks to compute, and functions that turn results into a figure or a table."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from bandfall.datasets import Split, paper_splits
from bandfall.datasets._real import features_and_target, load_table
from bandfall.datasets._sources import SOURCES
from bandfall.datasets._splits import CPU_SIZES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Numbers, strings, lists and dicts of these by name: the result of a task; all results by task.
Entry: TypeAlias = dict[str, Any]

DATASETS = {
    "cpu": "CPU Run Time",
    "power": "Power Consumption",
    "superconductors": "Superconductors",
    "uk_temperature": "U.K. Temperature",
}
KERNELS = {
    "gaussian": "Gaussian",
    "matern12": "ν = 1/2 (Laplace)",
    "matern32": "ν = 3/2",
    "matern52": "ν = 5/2",
    "cauchy": "Cauchy",
}
AGREES = "agrees"
DIFFERS = "differs"
HOLDS = "holds"
FAILS = "fails"
NOT_JUDGED = "not judged"


def plotted(X: np.ndarray, y: np.ndarray, grid: np.ndarray, truth: np.ndarray) -> Entry:
    """The part of a result that `draw_fit` draws besides fits."""
    lists = {"x": X[:, 0], "y": y, "x_grid": grid[:, 0], "truth": truth}
    return {name: values.tolist() for name, values in lists.items()}


def sets_of(results: Entry) -> list[str]:
    """The data sets that results were computed on: the first parts of their keys."""
    return list(dict.fromkeys(key.partition("/")[0] for key in results))


@dataclass(frozen=True)
class Task:
    """One piece of work, independent of all others."""

    key: str  # unique within its experiment; begins with the data set if there is one
    # Defined at the top of a module, so that any joblib backend can send it to a worker.
    function: Callable[..., Entry]
    arguments: Mapping[str, object] = field(repr=False)  # its keyword arguments
    cost: float = 1.0  # approximate seconds on one core, for the progress bar


@dataclass(frozen=True)
class Size:
    """How much of the paper to run."""

    seeds: float = 1.0  # share of the paper's seeds and splits, in (0, 1]
    n_floors: int = 100  # bandwidth floors σ_m per curve
    max_epochs: int = 10_000_000  # limit on the epochs of Figure 3's networks

    def count(self, published: int) -> int:
        """Number of seeds to run, of `published` seeds in the paper; at least two."""
        return max(min(2, published), round(self.seeds * published))


FULL = Size()
QUICK = Size(seeds=0.1, max_epochs=200_000)


class Data:
    """Some of the real data sets, each read once."""

    def __init__(
        self,
        data_home: str | os.PathLike[str] | None = None,
        sets: Iterable[str] = tuple(DATASETS),
    ):
        self.sets = tuple(sets)
        self._data_home = data_home
        self._table = cache(lambda dataset: load_table(SOURCES[dataset], data_home))

    def available(self) -> tuple[Data, dict[str, str]]:
        """The sets that can be read, and for each of the others what to do about it."""
        missing = {}
        for dataset in self.sets:
            try:
                self._table(dataset)
            except (OSError, ValueError, ImportError) as error:
                missing[dataset] = str(error)
        found = Data(self._data_home, [name for name in self.sets if name not in missing])
        found._table = self._table
        return found, missing

    def splits(
        self, dataset: str, n_splits: int, size: int | None = None, n_train: int | None = None
    ) -> Sequence[Split]:
        """The first `n_splits` of the paper's splits, see `bandfall.datasets.paper_splits`."""
        X, y = features_and_target(SOURCES[dataset], self._table(dataset))
        published = CPU_SIZES if dataset == "cpu" else 100
        return paper_splits(X, y, size=size or published, n_train=n_train)[:n_splits]

    def each_split(
        self, counts: Mapping[str, int], size: int | None = None, n_train: int | None = None
    ) -> list[tuple[str, int, Split]]:
        """(data set, number, split) for this number of splits of each set."""
        return [
            (dataset, number, split)
            for dataset in self.sets
            for number, split in enumerate(self.splits(dataset, counts[dataset], size, n_train))
        ]

    def table_shape(self, dataset: str) -> tuple[int, int]:
        """Rows and columns of a table, the target included."""
        rows, columns = self._table(dataset).shape
        return rows, columns


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

    @property
    def verdict(self) -> str:
        """`holds` in words."""
        return {True: HOLDS, False: FAILS, None: NOT_JUDGED}[self.holds]


@dataclass(frozen=True)
class TextTable:
    """Rows of text under a header.

    >>> table = TextTable("t", "A table.", ["method", "R²"], [["KGD-D", "**0.80**"]])
    >>> print(table.markdown())
    | method | R² |
    | --- | --- |
    | KGD-D | **0.80** |
    """

    name: str  # the file is called after it
    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]  # ``**text**`` is bold; ``$…$`` is mathematics, kept unchanged

    def markdown(self) -> str:
        """A Markdown table without its caption."""
        lines = [self.header, ["---"] * len(self.header), *self.rows]
        return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def plain(text: str) -> str:
    """A cell without markup."""
    return text.replace("**", "").replace("$", "")


@dataclass(frozen=True)
class Outcome:
    """The result of an experiment."""

    # The first is in the paper's arrangement.
    tables: Sequence[TextTable] = field(default_factory=list)
    figure: Figure | None = field(default=None, compare=False)
    comparisons: Sequence[Comparison] = field(default_factory=list)
    claims: Sequence[Claim] = field(default_factory=list)
    notes: Sequence[str] = field(default_factory=list)  # remarks for the reader


@dataclass(frozen=True)
class Experiment:
    """A figure or a table of the paper, declared."""

    name: str  # as on the command line
    title: str  # one line
    tasks: Callable[[Data, Size], Sequence[Task]]
    # Called with the results of these tasks by key, in their order.
    summarise: Callable[[Entry, Size], Outcome]
    requires: tuple[str, ...] = ()  # modules beyond the package's own dependencies
    seeded: bool = True  # whether results depend on the size of a run; its part is not judged
    real_data: bool = False  # whether it is run on the real data sets

    @property
    def caption(self) -> str:
        """The caption in the report."""
        return str(resource("captions.json").get(self.name, ""))


@cache
def resource(name: str) -> Entry:
    """A JSON file of this room."""
    contents: Entry = json.loads(files(__package__).joinpath(name).read_text(encoding="utf-8"))
    return contents
