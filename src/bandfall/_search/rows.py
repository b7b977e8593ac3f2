"""All training rows as the search sees them, under every encoding."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from bandfall._products import HOST, Backend
from bandfall._search.settings import Settings
from bandfall._targets.losses import evidence_weights
from bandfall._typing import Weights
from bandfall.tables import Table, TableEncoder


class Encoded:
    """Columns that do not depend on the target, and so not on the choice of held-out rows."""

    def __init__(self, Z: np.ndarray):
        self.Z = Z

    @property
    def variances(self) -> np.ndarray:
        """Variance of each column over all rows, shape (width,)."""
        return self.Z.var(axis=0, dtype=np.float64)

    def columns(self, train: np.ndarray, new: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Encoded training rows and new rows."""
        return self.Z[train], self.Z[new]


class TargetEncoded(Encoded):
    """Columns of which some are mean targets, which are learned separately for every part.

    The encoder was fitted to all rows; Z is the result of its `fit_transform`.
    """

    def __init__(
        self, encoder: TableEncoder, table: Table, y: np.ndarray, weights: Weights, Z: np.ndarray
    ):
        super().__init__(Z)
        self._encoder, self._table = encoder, encoder.schema.check(table, warn=False)
        self._y, self._weights = y, weights
        self._known: dict[bytes, tuple[np.ndarray, np.ndarray, np.ndarray]] = {}

    def columns(self, train: np.ndarray, new: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rows of Z, with mean targets learned from all rows that are not new.

        Levels with few rows need all of them, even if a search trains on some rows alone.
        """
        if not len(new):
            return super().columns(train, new)
        if new.tobytes() not in self._known:
            self._known[new.tobytes()] = self._learn(new)
        others, Z, Z_new = self._known[new.tobytes()]
        return Z[np.searchsorted(others, train)], Z_new

    def _learn(self, new: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        others = np.setdiff1d(np.arange(len(self._y)), new)
        Z, Z_new = super().columns(others, new)
        weights = None if self._weights is None else self._weights[others]
        for columns, encoded, encoded_new in self._encoder.relearned(
            self._table.take(others), self._y[others], weights, self._table.take(new)
        ):
            Z[:, columns], Z_new[:, columns] = encoded, encoded_new
        return others, Z, Z_new


@dataclass(frozen=True, eq=False)
class Rows:
    """All training rows."""

    views: Mapping[str, Encoded]  # by name of the encoding
    y: np.ndarray  # (n, k), float64: of zero mean and unit variance
    groups: np.ndarray  # (n,): 0, 1, …; rows of a group are held out together
    weights: np.ndarray | None = None  # (n,): in training, about of mean one
    backend: Backend = HOST
    strata: np.ndarray | None = None  # (n,): classes; every part gets its share of each
    leaf_rows: int = sys.maxsize  # largest final fit; more rows are divided into leaves
    settings: Settings = field(default_factory=Settings)
    ordered: bool = False  # whether groups are times: the last are held out

    def __len__(self) -> int:
        return len(self.y)

    @cached_property
    def evidence(self) -> np.ndarray:
        """How much rows count where they are held out, shape (n,)."""
        return np.ones(len(self)) if self.weights is None else evidence_weights(self.weights)

    def n_columns(self, encoding: str) -> int:
        """Number of columns of an encoding."""
        return self.views[encoding].Z.shape[1]

    def final_share(self, n_rows: int) -> float:
        """Kernel entries of a final fit to `n_rows` rows, relative to those of one leaf."""
        if n_rows <= self.leaf_rows:
            return 1.0
        n_paths = self.settings.leaf_paths + float(n_rows < self.settings.again_rows)
        return n_paths * min(1.0, self.settings.overlapping * self.leaf_rows / n_rows)
