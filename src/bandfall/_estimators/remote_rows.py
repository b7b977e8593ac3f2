"""Rows of dask arrays and dataframes that a fit leaves on the workers."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from bandfall._estimators.arrays import as_numpy
from bandfall._estimators.dask_rows import is_dask, row_blocks
from bandfall._estimators.progress import FitProgress
from bandfall._estimators.tables import Encoders, Store, TrainingTable
from bandfall._fitting.members import Member
from bandfall._fitting.remote_leaves import fit_remote_members, sample_numbers
from bandfall._products.dask_cluster import is_cluster, log
from bandfall._search.deadline import Deadline
from bandfall._search.parts import Rows
from bandfall._search.tuning import Tuned
from bandfall._targets import Target
from bandfall._typing import ArrayLike, TableLike, Weights

if TYPE_CHECKING:
    from bandfall._products.dask_blocks import Blocks


@dataclass(frozen=True)
class RemoteRows:
    """All rows of a fit; only a sample of them is gathered."""

    blocks: Blocks  # the features
    target: Target  # learned from all rows
    values: np.ndarray  # (n,) or (n, k): the target of all rows, which the model stores anyway
    numbers: np.ndarray  # indices of the rows in the sample

    @classmethod
    def of(
        cls, kind: type[Target], X: TableLike, y: ArrayLike, device: str | None, leaf_rows: int
    ) -> RemoteRows | None:
        """None unless X is a dask array or dataframe of more than one leaf and workers train."""
        if not is_dask(X) or device is None or not is_cluster(device):
            return None
        from bandfall._products.dask_blocks import Blocks, computed
        from bandfall._products.dask_cluster import connect

        client = connect(device)
        blocks = Blocks(client, computed(client, X, row_blocks(X)))
        if len(blocks) <= leaf_rows:
            return None
        if is_dask(y):
            y = np.concatenate(blocks.gathered(computed(client, y, row_blocks(y))))
        target, values = kind.learn(as_numpy(y))
        if len(values) != len(blocks):
            raise ValueError(f"y has {len(values)} rows, but X has {len(blocks)}")
        numbers = sample_numbers(len(blocks))
        log.info("%d rows stay on the workers, %d come here", len(blocks), len(numbers))
        return cls(blocks, target, values, numbers)

    def sample(self) -> tuple[TableLike, np.ndarray]:
        """Features and target of the sample, in the form that users pass."""
        return self.blocks.take(self.numbers), self.values[self.numbers]

    def sampled(self, table: TrainingTable) -> SampledTable:
        """The table of the sample, linked to all rows."""
        values = self.values[self.numbers]
        own = {**vars(table), "target": self.target, "values": values}
        return SampledTable(**own, remote=self)


@dataclass(frozen=True)
class SampledTable(TrainingTable):
    """A sample of rows for the search; all rows stay on workers."""

    takes_mean_targets: ClassVar[bool] = False  # mean targets of the sample would leak

    remote: RemoteRows = field(kw_only=True)

    def affordable(self, deadline: Deadline) -> SampledTable:
        """The whole sample, which is small."""
        return self

    def coded(self, weights: Weights) -> tuple[Target, np.ndarray]:
        """See `Target.coded`; learned from all rows."""
        target, codes = self._coded_everywhere()
        return target, codes[self.remote.numbers]

    def fit_chosen(
        self, rows: Rows, encoders: Encoders, tuned: Tuned, progress: FitProgress, store: Store
    ) -> tuple[Rows, list[Member], Tuned]:
        """Fit the chosen models to all rows, on the workers; see `TrainingTable`."""
        target, codes = self._coded_everywhere()
        strata = target.strata(self.remote.values)
        # All rows, but views (encoded columns) of the sample only.
        everything = replace(rows, y=codes, groups=np.arange(len(codes)), strata=strata)
        there = (self.remote.blocks, everything, rows, encoders, tuned, progress.deadline)
        return everything, *fit_remote_members(*there)

    def _coded_everywhere(self) -> tuple[Target, np.ndarray]:
        return self.remote.target.coded(self.remote.values, None, self.dtype)
