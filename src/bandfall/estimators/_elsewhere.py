"""Rows of dask arrays and dataframes that a fit leaves on the workers."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from bandfall.backends.cluster import is_cluster, log
from bandfall.estimators._arrays import as_numpy
from bandfall.estimators._dask_rows import is_dask, row_blocks
from bandfall.estimators._progress import FitProgress
from bandfall.estimators._tables import Encoders, Store, TrainingTable
from bandfall.selection.deadline import Deadline
from bandfall.selection.leaves_there import fit_members_there, sample_numbers
from bandfall.selection.members import Member
from bandfall.selection.parts import Rows
from bandfall.selection.tuning import Tuned
from bandfall.targets import Target
from bandfall.typing import ArrayLike, TableLike

if TYPE_CHECKING:
    from bandfall.backends.blocks import Blocks


@dataclass(frozen=True)
class Elsewhere:
    """All rows of a fit, of which a sample was brought here."""

    blocks: Blocks  # the features
    target: Target  # as it was learned from all rows
    values: np.ndarray  # (n,) or (n, k): the target of all rows, which a model holds anyway
    numbers: np.ndarray  # rows in the sample

    @classmethod
    def of(
        cls, kind: type[Target], X: TableLike, y: ArrayLike, device: str | None, leaf_rows: int
    ) -> Elsewhere | None:
        """None unless X is a dask array or dataframe of more than one leaf, and workers train."""
        if not is_dask(X) or device is None or not is_cluster(device):
            return None
        from bandfall.backends.blocks import Blocks
        from bandfall.backends.cluster import connect

        client = connect(device)
        blocks = Blocks(client, row_blocks(X))
        if len(blocks) <= leaf_rows:
            return None
        if is_dask(y):
            y = np.concatenate(blocks.gathered(client.compute(row_blocks(y))))
        target, values = kind.learn(as_numpy(y))
        if len(values) != len(blocks):
            raise ValueError(f"y of {len(values)} rows does not fit X with {len(blocks)} rows")
        numbers = sample_numbers(len(blocks))
        log.info("%d rows stay on the workers, %d come here", len(blocks), len(numbers))
        return cls(blocks, target, values, numbers)

    def sample(self) -> tuple[TableLike, np.ndarray]:
        """Features and target of the sample, as `fit` is given them."""
        return self.blocks.take(self.numbers), self.values[self.numbers]

    def sampled(self, table: TrainingTable) -> SampledTable:
        """The table of the sample, as a part of all rows."""
        values = self.values[self.numbers]
        own = {**vars(table), "target": self.target, "values": values}
        return SampledTable(**own, elsewhere=self)


@dataclass(frozen=True)
class SampledTable(TrainingTable):
    """Rows to search with, of many more that are on workers."""

    takes_mean_targets: ClassVar[bool] = False  # those of the sample would leak its own targets

    elsewhere: Elsewhere = field(kw_only=True)

    def affordable(self, deadline: Deadline) -> SampledTable:
        """All of them: a sample is small."""
        return self

    def coded(self, weights: np.ndarray | None) -> tuple[Target, np.ndarray]:
        """See `Target.coded`: as learned from all rows."""
        target, codes = self._coded_everywhere()
        return target, codes[self.elsewhere.numbers]

    def fit_chosen(
        self, rows: Rows, encoders: Encoders, tuned: Tuned, progress: FitProgress, store: Store
    ) -> tuple[Rows, list[Member], Tuned]:
        """Fit what the search chose to all rows, where they are; see `TrainingTable`."""
        target, codes = self._coded_everywhere()
        strata = target.strata(self.elsewhere.values)
        # All rows but their columns, which views hold of the sample alone.
        everything = replace(rows, y=codes, groups=np.arange(len(codes)), strata=strata)
        there = (self.elsewhere.blocks, everything, rows, encoders, tuned, progress.deadline)
        return everything, *fit_members_there(*there)

    def _coded_everywhere(self) -> tuple[Target, np.ndarray]:
        return self.elsewhere.target.coded(self.elsewhere.values, None, self.dtype)
