"""Rows of dask arrays and dataframes that a fit leaves on the workers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from bandfall.backends.cluster import is_cluster, log
from bandfall.estimators._arrays import as_numpy
from bandfall.estimators._dask_rows import is_dask, row_blocks
from bandfall.selection.leaves_there import sample_numbers
from bandfall.selection.parts import Rows
from bandfall.targets import Target
from bandfall.typing import ArrayLike, TableLike

if TYPE_CHECKING:
    from bandfall.backends.blocks import Blocks


@dataclass(frozen=True)
class Elsewhere:
    """All rows of a fit, of which a sample was brought here.

    Attributes
    ----------
    blocks : Blocks
        The features.
    target : Target
        As it was learned from all rows.
    values : ndarray of shape (n,) or (n, k)
        Of the target, for all rows: a model holds them anyway.
    numbers : ndarray of int
        Of the rows in the sample.
    """

    blocks: Blocks
    target: Target
    values: np.ndarray
    numbers: np.ndarray

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

    def coded(self, dtype: np.dtype) -> tuple[Target, np.ndarray]:
        """See `Target.coded`: of all rows."""
        return self.target.coded(self.values, None, dtype)

    def rows(self, sample: Rows, target: Target, dtype: np.dtype) -> Rows:
        """All rows but their columns, which views hold of the sample alone."""
        codes = self.coded(dtype)[1]
        groups = np.arange(len(codes))
        return replace(sample, y=codes, groups=groups, strata=target.strata(self.values))
