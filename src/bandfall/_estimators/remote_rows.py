"""Rows of dask arrays and dataframes that a fit leaves on the workers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from bandfall._estimators.arrays import DaskRows, as_numpy, is_dask, row_blocks
from bandfall._fitting.remote_leaves import fit_remote_members, sample_numbers
from bandfall._models.member import Member
from bandfall._products.dask_cluster import is_cluster, log
from bandfall._search.averaging import Tuned
from bandfall._search.clock import Clock
from bandfall._search.rows import Rows
from bandfall._targets import Target
from bandfall._typing import ArrayLike, TableLike
from bandfall.tables import TableEncoder

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
        cls, kind: type[Target], X: DaskRows, y: ArrayLike, device: str | None, leaf_rows: int
    ) -> RemoteRows | None:
        """None unless X has more rows than a leaf and the workers of a cluster train."""
        if device is None or not is_cluster(device):
            return None
        from bandfall._products.dask_blocks import Blocks, computed
        from bandfall._products.dask_cluster import connect

        client = connect(device)
        blocks = Blocks(client, computed(client, X, row_blocks(X)[0]))
        if len(blocks) <= leaf_rows:
            return None
        if is_dask(y):
            y = np.concatenate(blocks.gathered(computed(client, y, row_blocks(y)[0])))
        target, values = kind.learn(as_numpy(y))
        if len(values) != len(blocks):
            raise ValueError(f"y has {len(values)} rows, but X has {len(blocks)}")
        numbers = sample_numbers(len(blocks))
        log.info("%d rows stay on the workers, %d come here", len(blocks), len(numbers))
        return cls(blocks, target, values, numbers)

    def sample(self) -> tuple[TableLike, np.ndarray]:
        """Features and target of the sample, in the form that users pass."""
        return self.blocks.take(self.numbers), self.values[self.numbers]

    def fit_members(
        self,
        sample: Rows,
        dtype: np.dtype,
        encoders: Mapping[str, TableEncoder],
        tuned: Tuned,
        clock: Clock,
    ) -> tuple[Rows, list[Member], Tuned]:
        """All rows, and the chosen models, fitted to them on the workers; see `fit_members`."""
        target, codes = self.target.coded(self.values, None, dtype)
        strata = target.strata(self.values)
        # All rows, but views (encoded columns) of the sample only.
        rows = replace(sample, y=codes, groups=np.arange(len(codes)), strata=strata)
        return rows, *fit_remote_members(self.blocks, rows, sample, encoders, tuned, clock)
