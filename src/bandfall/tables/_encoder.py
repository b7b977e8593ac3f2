"""The encoder of tables: one encoding per column, learned from training rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from bandfall._typing import DTypeLike, TableLike, Weights
from bandfall._warnings import warn_caller
from bandfall.tables._base import CATEGORIES, NUMBERS, CategoryEncoding
from bandfall.tables._cycles import Cycles
from bandfall.tables._fitted import FittedEncoding
from bandfall.tables._missing import MissingValues
from bandfall.tables._onehot import OneHot
from bandfall.tables._pairs import PairMean, telling_pairs
from bandfall.tables._reading import looks_like_id, prepare_table
from bandfall.tables._schema import Schema
from bandfall.tables._sizes import TargetMeanAndSize, has_many_levels
from bandfall.tables._table import Reading, Table, read_table
from bandfall.tables._target_mean import plain_targets, row_weights

_NAMED = 5  # unknown levels listed in a warning


@dataclass
class TableEncoder:
    """Turns tables into numeric columns that distances can be computed from.

    Numbers and durations: missing values become the median, with an indicator column; then
    `numbers` applies. Dates: a number, and sine and cosine of the time of day, week and year if the
    training rows cover them. Booleans: 0 and 1. Categories: `categories` applies; missing values
    are a separate level. Text that holds numbers or dates is converted, and ids are dropped, both
    with a warning. Columns without values and constant columns are dropped too.

    Parameters
    ----------
    numbers : {"standard", "quantile", "steps"}
        Zero mean and unit variance; normal quantiles; or ramps between quantiles, a unary code.
    categories : {"onehot", "target", "pairs", "sizes"}
        One column per level, with a shared column for the rarest; the smoothed mean target of a
        level, for categories with at least three levels; one column per level (from 2,000 rows on
        "sizes", for more than thirty levels), and the smoothed mean targets of the pairs of columns
        that add most to single columns; or the smoothed mean targets of a level and of all levels
        that are about as frequent.
    n_steps : int, default=12
        Maximum number of ramps per number, for "steps".
    fitted : FittedEncoding, optional
        The learned encoding.
    suspicious : list of int
        Columns of whole numbers that look like ids; they are kept.

    Examples
    --------
    >>> table = read_table({"age": [30, 40, 50, None], "sex": ["f", "m", "f", "f"]})
    >>> encoder = TableEncoder()
    >>> encoder.fit_transform(table).round(2)
    array([[-1.41, -0.58,  1.  ,  0.  ],
           [ 0.  , -0.58,  0.  ,  1.  ],
           [ 1.41, -0.58,  1.  ,  0.  ],
           [ 0.  ,  1.73,  1.  ,  0.  ]])
    >>> encoder.names_out
    ['age', 'age_missing', 'sex_f', 'sex_m']
    >>> encoder.describe()
    ['age: number → 2 columns (missing)', 'sex: 2 levels → 2 columns']
    """

    numbers: str = "standard"
    categories: str = "onehot"
    n_steps: int = 12
    fitted: FittedEncoding | None = None
    suspicious: list[int] | None = None

    def __post_init__(self) -> None:
        if self.numbers not in NUMBERS:
            raise ValueError(f"numbers={self.numbers!r} must be one of {', '.join(NUMBERS)}")
        if self.categories not in CATEGORIES:
            raise ValueError(
                f"categories={self.categories!r} must be one of {', '.join(CATEGORIES)}"
            )
        if isinstance(self.n_steps, bool) or not 1 <= self.n_steps <= 1000:
            raise ValueError(f"n_steps={self.n_steps!r} must be in [1, 1000]")

    def fit_transform(
        self,
        table: TableLike,
        y: np.ndarray | None = None,
        weights: Weights = None,
        dtype: DTypeLike = np.float64,
        *,
        warn: bool = True,
    ) -> np.ndarray:
        """Learn the encoding, and encode the training rows.

        Parameters
        ----------
        table : Table, or an argument of `read_table`
            Call `prepare_table` first if several encoders learn from it, or from parts of it.
        y : ndarray of shape (n,) or (n, k), optional
            Targets, for categories="target" and "pairs". The mean targets of a training row are
            learned from other rows.
        weights : ndarray of shape (n,), optional
            Weights of rows in mean targets.
        dtype : dtype
            Dtype of encoded rows, here and in `transform`.
        warn : bool
            Whether to warn about text that is read as numbers and about dropped ids.

        Returns
        -------
        ndarray of shape (n, width)
        """
        table = prepare_table(read_table(table), warn=warn)
        self.fitted, encoded = _learn(self, table, y, weights, np.dtype(dtype))
        columns = table.columns
        self.suspicious = [
            j
            for j, reading in enumerate(table.readings)
            if reading.kind == "number" and not reading.dropped and looks_like_id(columns[j].values)
        ]
        return self.fitted.kept([encoded])

    def transform(self, table: TableLike, *, warn: bool = True) -> np.ndarray:
        """Encode rows, shape (m, width).

        Values far outside the range of the training rows are clipped at a million standard
        deviations ("standard") or at the last quantile ("quantile"), or level off after one more
        step ("steps"). Unknown levels are encoded like rare levels if the category has any, else as
        zeros.

        Raises
        ------
        ValueError
            If a column is missing or of another kind; names it.

        Warns
        -----
        UserWarning
            Once for unknown categories and once for values far outside; names the columns.
        """
        fitted = self._known
        checked = fitted.schema.check(read_table(table), warn=warn)
        encoded, unseen = fitted.transform(checked)
        if unseen and warn:
            named = ", ".join(
                f"{fitted.schema.label(j)} ({_some(levels)})" for j, levels in unseen.items()
            )
            warn_caller(f"categories never seen in training: {named}")
        return encoded

    def jacobian(self, table: TableLike) -> np.ndarray:
        """∂z/∂x of each encoded column by its input column, at rows, shape (m, width).

        Zero for indicators of missing values, NaN for booleans and categories; dates per second.
        """
        fitted = self._known
        return fitted.jacobian(fitted.schema.check(read_table(table), warn=False))

    def slopes(self) -> np.ndarray:
        """∂z/∂x if it is the same at all rows, else NaN, shape (width,)."""
        return self._known.slopes()

    @property
    def uses_target(self) -> bool:
        """Whether the encoding depends on the targets."""
        fitted = self._known
        return bool(fitted.pairs) or any(one.uses_target for one in fitted.categories)

    def relearned(
        self, table: Table, y: np.ndarray, weights: Weights, new: Table
    ) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Learn the columns that depend on targets again, from some rows.

        Parameters
        ----------
        table, new : Table
            Checked training rows and new rows.
        y : ndarray of shape (n, k)
        weights : ndarray of shape (n,) or None

        Returns
        -------
        list of (columns, training rows, new rows)
            Indices of encoded columns, and their values.
        """
        return self._known.relearned(table, y, weights, new)

    @property
    def schema(self) -> Schema:
        """Names, kinds, levels and ranges of the training rows."""
        return self._known.schema

    @property
    def width(self) -> int:
        """Number of encoded columns."""
        return len(self._known.outputs)

    @property
    def sources(self) -> np.ndarray:
        """Input column of each encoded column, shape (width,)."""
        return np.array([output.source for output in self._known.outputs], dtype=int)

    @property
    def blocks(self) -> np.ndarray:
        """Number of the block of each encoded column, shape (width,).

        A block holds the columns of a category, the steps of a number, or sine and cosine of a
        cycle.
        """
        numbers: dict[tuple[int, str], int] = {}
        keys = [(output.source, output.part) for output in self._known.outputs]
        return np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=int)

    @property
    def names_out(self) -> list[str]:
        """Names of the encoded columns."""
        return [output.name for output in self._known.outputs]

    def describe(self) -> list[str]:
        """One line for each input column."""
        return self._known.describe()

    @property
    def _known(self) -> FittedEncoding:
        if self.fitted is None:
            raise ValueError("this TableEncoder is not fitted: call fit_transform")
        return self.fitted


def encode_all(encoders: Mapping[str, TableEncoder], table: TableLike) -> dict[str, np.ndarray]:
    """Encode new rows with several encoders that learned from the same table.

    The table is read and checked once, and warnings are issued once.
    """
    names = list(encoders)
    table = encoders[names[0]].schema.check(read_table(table), warn=False)
    return {name: encoders[name].transform(table, warn=name == names[0]) for name in names}


def _positions(readings: list[Reading], *kinds: str) -> np.ndarray:
    found = [j for j, one in enumerate(readings) if one.kind in kinds and not one.dropped]
    return np.array(found, dtype=int)


def _learn(
    encoder: TableEncoder, table: Table, y: np.ndarray | None, weights: Weights, dtype: np.dtype
) -> tuple[FittedEncoding, np.ndarray]:
    """The encoding of a prepared table, and its encoded rows, including constant columns."""
    columns, readings = table.columns, table.readings
    numeric = _positions(readings, "number", "datetime", "duration")
    boolean = _positions(readings, "boolean")
    values = np.empty((len(table), len(numeric) + len(boolean)))
    for i, j in enumerate([*numeric, *boolean]):
        values[:, i] = columns[j].values
    missing = MissingValues.learn(values)
    filled, marks = missing.split(values)
    scaled = np.concatenate([filled[:, : len(numeric)], marks], axis=1)
    known = np.ones(scaled.shape, dtype=bool)
    known[:, : len(numeric)] = ~np.isnan(values[:, : len(numeric)])
    scaling = NUMBERS[encoder.numbers].learn(scaled, known, encoder.n_steps)
    parts = [scaling.transform(scaled), filled[:, len(numeric) :]]
    cycles = []
    for i, j in enumerate(numeric):
        if readings[j].kind == "datetime":
            seconds = values[:, i]
            cycles.append(Cycles.learn(int(j), seconds[~np.isnan(seconds)]))
            parts.append(cycles[-1].transform(filled[:, i]))
    categories, encoded = _learn_categories(encoder, table, y, weights)
    parts += encoded
    pairs, encoded = _learn_pairs(encoder, table, categories, y, weights)
    parts += encoded
    everything = np.concatenate(parts, axis=1)
    fitted = FittedEncoding(
        _schema(table, categories),
        dtype,
        numeric,
        boolean,
        missing,
        scaling,
        cycles,
        categories,
        np.ptp(everything, axis=0) > 0 if everything.size else np.zeros(0, dtype=bool),
        pairs,
    )
    return fitted, everything


def _learn_categories(
    encoder: TableEncoder, table: Table, y: np.ndarray | None, weights: Weights
) -> tuple[list[CategoryEncoding], list[np.ndarray]]:
    categories, parts = [], []
    for j in _positions(table.readings, "category"):
        column, cls = table.columns[j], CATEGORIES[encoder.categories]
        if len(np.unique(column.values)) < cls.fewest_levels:
            cls = OneHot
        learned, encoded = cls.learn(int(j), column, y, weights)
        if cls.with_pairs and has_many_levels(learned, len(table)):
            learned, encoded = TargetMeanAndSize.learn(int(j), column, y, weights)
        categories.append(learned)
        parts.append(encoded)
    return categories, parts


def _learn_pairs(
    encoder: TableEncoder,
    table: Table,
    categories: list[CategoryEncoding],
    y: np.ndarray | None,
    weights: Weights,
) -> tuple[list[PairMean], list[np.ndarray]]:
    if not CATEGORIES[encoder.categories].with_pairs or len(categories) < 2:
        return [], []
    if y is None:
        raise ValueError(f"categories={encoder.categories!r} needs the targets y")
    y, weights = plain_targets(y, len(table)), row_weights(weights, len(table))
    places = [one.places(table.columns[one.position]) for one in categories]
    found = [
        PairMean.learn((categories[i], categories[j]), (places[i], places[j]), y, weights)
        for i, j in telling_pairs(categories, places, y, weights)
    ]
    return [pair for pair, _ in found], [encoded for _, encoded in found]


def _schema(table: Table, categories: list[CategoryEncoding]) -> Schema:
    """The schema of a prepared table."""
    low, high = np.full((2, table.width), np.nan)
    for j, column in enumerate(table.columns):
        if column.kind != "category" and not column.missing.all():
            low[j], high[j] = np.nanmin(column.values), np.nanmax(column.values)
    levels: list[tuple[str | None, ...]] = [()] * table.width
    for one in categories:
        levels[one.position] = one.levels
    return Schema(table.names, table.readings, low, high, levels)


def _some(levels: list[str | None]) -> str:
    names = ["missing" if level is None else repr(level) for level in levels[:_NAMED]]
    more = len(levels) - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "")
