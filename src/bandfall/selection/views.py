"""A table under one encoding, with no target of a held-out row in any column."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from bandfall.encoding import Table, TableEncoder

_COMPARED_ROWS = 2000


class Encoded:
    """Columns that do not depend on the target: the same whichever rows are held out.

    Z (n, width) is as the encoder gives it; `order` tells where in Z each column of the view is.
    """

    def __init__(self, Z: np.ndarray, order: np.ndarray | None = None):
        self._order = np.arange(Z.shape[1]) if order is None else order
        self.Z = Z if order is None else np.take(Z, order, axis=1)

    @property
    def places(self) -> np.ndarray:
        """Where in the view each column of the encoder is, shape (width,)."""
        return np.argsort(self._order)

    @property
    def variances(self) -> np.ndarray:
        """Of each column of the encoder, over all rows, shape (width,)."""
        return self.Z.var(axis=0, dtype=np.float64)[self.places]

    def columns(self, train: np.ndarray, new: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Encoded training rows and new rows."""
        return self.Z[train], self.Z[new]


View: TypeAlias = Encoded  # a table under one encoding


class TargetEncoded(Encoded):
    """Columns some of which are mean targets: those are learned anew for every part.

    The encoder was fitted to all rows, and gave Z when it learned.
    """

    def __init__(
        self,
        encoder: TableEncoder,
        table: Table,
        y: np.ndarray,
        weights: np.ndarray | None,
        Z: np.ndarray,
        order: np.ndarray | None = None,
    ):
        super().__init__(Z, order)
        self._encoder = encoder
        self._table = encoder.schema.check(table, warn=False)
        self._y = y
        self._weights = weights
        self._known: dict[tuple[bytes, bytes], tuple[np.ndarray, np.ndarray]] = {}

    def columns(self, train: np.ndarray, new: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rows of Z, mean targets replaced by those of the training rows."""
        if not len(new):
            return super().columns(train, new)
        key = (train.tobytes(), new.tobytes())
        if key not in self._known:
            self._known[key] = self._learn(train, new)
        return self._known[key]

    def _learn(self, train: np.ndarray, new: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        Z, Z_new = super().columns(train, new)
        weights = None if self._weights is None else self._weights[train]
        own, others = self._table.take(train), self._table.take(new)
        for columns, encoded, encoded_new in self._encoder.relearned(
            own, self._y[train], weights, others
        ):
            Z[:, self.places[columns]] = encoded
            Z_new[:, self.places[columns]] = encoded_new
        return Z, Z_new


def order_by_content(Z: np.ndarray) -> np.ndarray:
    """Columns of Z in an order that follows from their values, not from where they stand.

    Sums over columns round differently in another order, and rounding tips choices between
    models that are all but equal.

    Examples
    --------
    >>> Z = np.array([[3.0, 1.0, 2.0]])
    >>> np.array_equal(Z[:, order_by_content(Z)], Z[:, ::-1][:, order_by_content(Z[:, ::-1])])
    True
    """
    keys = [column.tobytes() for column in Z[:_COMPARED_ROWS].T]
    return np.array(sorted(range(len(keys)), key=keys.__getitem__), dtype=int)
