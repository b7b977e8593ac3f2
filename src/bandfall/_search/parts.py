"""Rows under every encoding, and parts of them: rows to train on, and others to judge by."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from bandfall._models.metric import scaled
from bandfall._products import HOST, Backend
from bandfall._search.settings import Settings
from bandfall._targets.losses import evidence_weights
from bandfall._typing import Weights
from bandfall.descent._path import column_means, column_norms, column_units
from bandfall.tables import Table, TableEncoder


class Encoded:
    """Columns that do not depend on the target, and so not on the choice of held-out rows."""

    def __init__(self, Z: np.ndarray):
        self.Z = Z

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
        key = new.tobytes()
        if key not in self._known:
            others = np.setdiff1d(np.arange(len(self._y)), new)
            Z, Z_new = super().columns(others, new)
            weights = None if self._weights is None else self._weights[others]
            for columns, encoded, encoded_new in self._encoder.relearned(
                self._table.take(others), self._y[others], weights, self._table.take(new)
            ):
                Z[:, columns], Z_new[:, columns] = encoded, encoded_new
            self._known[key] = others, Z, Z_new
        others, Z, Z_new = self._known[key]
        return Z[np.searchsorted(others, train)], Z_new


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


@dataclass(frozen=True, eq=False)
class Part:
    """Some rows to train on, and others to judge by."""

    rows: Rows
    train: np.ndarray
    held_out: np.ndarray

    def __len__(self) -> int:
        """Number of training rows."""
        return len(self.train)

    @cached_property
    def y(self) -> np.ndarray:
        """Targets of the held-out rows, (m, k)."""
        return self.rows.y[self.held_out]

    @cached_property
    def evidence(self) -> np.ndarray:
        """How much the held-out rows count, (m,)."""
        return self.rows.evidence[self.held_out]

    @cached_property
    def train_weights(self) -> np.ndarray | None:
        """Weights of the training rows, (n,)."""
        return None if self.rows.weights is None else self.rows.weights[self.train]

    @cached_property
    def offset(self) -> np.ndarray:
        """Means of the training targets, (k,)."""
        return column_means(self.rows.y[self.train], self.train_weights)

    @cached_property
    def scale(self) -> np.ndarray:
        """Norms of the centred training targets, (k,); 0 where they are constant."""
        return column_norms(self.rows.y[self.train], self.offset, self.train_weights)

    @cached_property
    def _root_weights(self) -> np.ndarray:
        weights = self.train_weights
        return np.ones((len(self), 1)) if weights is None else np.sqrt(weights)[:, None]

    @cached_property
    def to_units(self) -> np.ndarray:
        """Factors from coefficients of `target` to those of y, shape (n, 1, k)."""
        return self._root_weights[:, None] * column_units(self.scale)

    @cached_property
    def target(self) -> np.ndarray:
        """Centred, weighted targets (n, k), of unit norm in all: these are trained."""
        units = np.where(self.scale > 0, column_units(self.scale), np.inf)  # rounding is no target
        return self._root_weights * (self.rows.y[self.train] - self.offset) / units

    def columns(self, encoding: str) -> tuple[np.ndarray, np.ndarray]:
        """Encoded training rows and held-out rows."""
        return self.rows.views[encoding].columns(self.train, self.held_out)

    def scaled(self, encoding: str, root: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Training rows and held-out rows in a metric."""
        X, X_new = self.columns(encoding)
        return scaled(X, root), scaled(X_new, root)


def joined_weights(parts: Sequence[Part]) -> np.ndarray | None:
    """Weights of the held-out rows of all parts; None where all count alike."""
    if parts[0].rows.weights is None:
        return None
    return np.concatenate([part.evidence for part in parts])


def joined_targets(parts: Sequence[Part]) -> np.ndarray:
    """Targets of the held-out rows of all parts, shape (m, k)."""
    return np.concatenate([part.y for part in parts])
