"""Encoded tables for a search; no column depends on the target of a held-out row."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from bandfall._typing import Weights
from bandfall.tables import Table, TableEncoder

_COMPARED_ROWS = 2000


class Encoded:
    """Columns that do not depend on the target, and so not on the choice of held-out rows.

    Z (n, width) comes from the encoder; column j of the view is column ``order[j]`` of Z.
    """

    def __init__(self, Z: np.ndarray, order: np.ndarray | None = None):
        self._order = np.arange(Z.shape[1]) if order is None else order
        self.Z = Z if order is None else np.take(Z, order, axis=1)

    @property
    def places(self) -> np.ndarray:
        """Position in the view of each column of the encoder, shape (width,)."""
        return np.argsort(self._order)

    @property
    def variances(self) -> np.ndarray:
        """Variance of each column of the encoder, over all rows, shape (width,)."""
        return self.Z.var(axis=0, dtype=np.float64)[self.places]

    def columns(self, train: np.ndarray, new: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Encoded training rows and new rows."""
        return self.Z[train], self.Z[new]


View: TypeAlias = Encoded  # a table under one encoding


class TargetEncoded(Encoded):
    """Columns of which some are mean targets, which are learned separately for every part.

    The encoder was fitted to all rows; Z is the result of its `fit_transform`.
    """

    def __init__(
        self,
        encoder: TableEncoder,
        table: Table,
        y: np.ndarray,
        weights: Weights,
        Z: np.ndarray,
        order: np.ndarray | None = None,
    ):
        super().__init__(Z, order)
        self._encoder = encoder
        self._table = encoder.schema.check(table, warn=False)
        self._y = y
        self._weights = weights
        self._known: dict[bytes, tuple[np.ndarray, np.ndarray, np.ndarray]] = {}

    def columns(self, train: np.ndarray, new: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rows of Z, with mean targets learned from all rows that are not new.

        Levels with few rows need all of them, even if a search trains on some rows alone.
        """
        if not len(new):
            return super().columns(train, new)
        key = new.tobytes()
        if key not in self._known:
            self._known[key] = self._learn(new)
        others, Z, Z_new = self._known[key]
        return Z[np.searchsorted(others, train)], Z_new

    def _learn(self, new: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        others = np.setdiff1d(np.arange(len(self._y)), new)
        Z, Z_new = super().columns(others, new)
        weights = None if self._weights is None else self._weights[others]
        for columns, encoded, encoded_new in self._encoder.relearned(
            self._table.take(others), self._y[others], weights, self._table.take(new)
        ):
            Z[:, self.places[columns]] = encoded
            Z_new[:, self.places[columns]] = encoded_new
        return others, Z, Z_new


def order_by_content(Z: np.ndarray) -> np.ndarray:
    """An order of the columns of Z that depends only on their values, not on their positions.

    Sums over columns round differently in another order, and rounding can decide between models
    that are nearly equal.

    Examples
    --------
    >>> Z = np.array([[3.0, 1.0, 2.0]])
    >>> np.array_equal(Z[:, order_by_content(Z)], Z[:, ::-1][:, order_by_content(Z[:, ::-1])])
    True
    """
    keys = [column.tobytes() for column in Z[:_COMPARED_ROWS].T]
    return np.array(sorted(range(len(keys)), key=keys.__getitem__), dtype=int)
