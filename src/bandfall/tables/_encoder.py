"""The encoder of tables: one encoding per column, learned from training rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from bandfall._checks import check_choice, warn_caller
from bandfall._typing import DTypeLike, TableLike, Weights
from bandfall.tables._categories import (
    CategoryEncoding,
    OneHot,
    TargetMean,
    TargetMeanAndSize,
    has_many_levels,
    plain_targets,
    row_weights,
)
from bandfall.tables._fitted import FittedEncoding
from bandfall.tables._kinds import Schema, looks_like_id, positions, prepare_table
from bandfall.tables._numbers import NUMBERS, Cycles
from bandfall.tables._pairs import PairMean, telling_pairs
from bandfall.tables._table import Table, read_table

CATEGORIES = ("onehot", "target", "pairs")


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
    categories : {"onehot", "target", "pairs"}
        One column per level, with a shared column for the rarest; the smoothed mean target of a
        level, for categories with at least three levels; or one column per level (from 2,000 rows
        on, mean targets of the level and of levels as frequent, for more than thirty levels), and
        the smoothed mean targets of the pairs of columns that add most to single columns.
    n_steps : int, default=12
        Maximum number of ramps per number, for "steps".

    Examples
    --------
    >>> encoder = TableEncoder()
    >>> encoder.fit_transform({"age": [30, None], "sex": ["f", "m"]}).shape, encoder.names_out
    ((2, 3), ['age_missing', 'sex_f', 'sex_m'])
    """

    numbers: str = "standard"
    categories: str = "onehot"
    n_steps: int = 12
    fitted: FittedEncoding | None = None
    suspicious: list[int] | None = None  # columns of whole numbers that look like ids; kept

    def __post_init__(self) -> None:
        check_choice("numbers", self.numbers, *NUMBERS)
        check_choice("categories", self.categories, *CATEGORIES)
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
        by_content: bool = False,
    ) -> np.ndarray:
        """Learn the encoding, and encode the training rows.

        Call `prepare_table` first if several encoders learn from a table, or from parts of it.
        Targets y (n,) or (n, k) are for categories="target" and "pairs"; the mean targets of a
        training row are learned from other rows. `dtype` is that of encoded rows, here and in
        `transform`. With `by_content`, encoded columns are ordered by their values, so that models
        do not depend on the order of the input columns.
        """
        table = prepare_table(read_table(table), warn=warn)
        self.fitted, encoded = _learn(self, table, y, weights, np.dtype(dtype))
        Z = self.fitted.kept([encoded])
        if by_content:
            # Sums over columns round differently in another order, and rounding can decide between
            # models that are nearly equal.
            keys = [column.tobytes() for column in Z[:2000].T]
            order = np.array(sorted(range(len(keys)), key=keys.__getitem__), dtype=int)
            self.fitted = replace(self.fitted, order=self.fitted.order[order])
            Z = np.take(Z, order, axis=1)
        columns = table.columns
        self.suspicious = [
            j
            for j, reading in enumerate(table.readings)
            if reading.kind == "number" and not reading.dropped and looks_like_id(columns[j].values)
        ]
        return Z

    def transform(self, table: TableLike, *, warn: bool = True) -> np.ndarray:
        """Encode rows, shape (m, width).

        Raises ValueError if a column is missing or of another kind. Warns once about unknown
        categories, and once about values far outside the training range.
        """
        checked = self.schema.check(read_table(table), warn=warn)
        return self.transform_checked(checked, warn=warn)

    def transform_checked(self, table: Table, *, warn: bool = True) -> np.ndarray:
        """Encode rows of a table that `schema.check` returned."""
        encoded, unseen = self._known.transform(table)
        if unseen and warn:
            named = ", ".join(
                f"{self.schema.label(j)} ({_some(levels)})" for j, levels in unseen.items()
            )
            warn_caller(f"categories never seen in training: {named}")
        return encoded

    def jacobian(self, table: TableLike) -> np.ndarray:
        """∂z/∂x of each encoded column by its input column, at rows, shape (m, width).

        Zero for indicators of missing values, NaN for booleans and categories; dates per second.
        """
        return self._known.jacobian(self.schema.check(read_table(table), warn=False))

    @property
    def uses_target(self) -> bool:
        """Whether the encoding depends on the targets."""
        fitted = self._known
        return bool(fitted.pairs) or any(one.uses_target for one in fitted.categories)

    def relearned(
        self, table: Table, y: np.ndarray, weights: Weights, new: Table
    ) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """See `FittedEncoding.relearned`."""
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
    first = next(iter(encoders))
    checked = encoders[first].schema.check(read_table(table))
    return {
        name: encoder.transform_checked(checked, warn=name == first)
        for name, encoder in encoders.items()
    }


def _learn(
    encoder: TableEncoder, table: Table, y: np.ndarray | None, weights: Weights, dtype: np.dtype
) -> tuple[FittedEncoding, np.ndarray]:
    """The encoding of a prepared table, and its encoded rows, including constant columns."""
    readings = table.readings
    numeric = positions(readings, "number", "datetime", "duration")
    values = table.numbers([*numeric, *positions(readings, "boolean")])
    missing, measured = np.isnan(values), slice(len(numeric))
    some, marked = ~missing.all(axis=0), np.flatnonzero(missing.any(axis=0))
    fill = np.zeros(values.shape[1])
    if some.any():
        fill[some] = np.nanmedian(values[:, some], axis=0)
    marks = missing[:, marked].astype(np.float64)
    scaled = np.concatenate([np.where(missing, fill, values)[:, measured], marks], axis=1)
    known = np.concatenate([~missing[:, measured], np.ones(marks.shape, bool)], axis=1)
    scaling = NUMBERS[encoder.numbers].learn(scaled, known, encoder.n_steps)
    cycles = [
        Cycles.learn(j, values[~np.isnan(values[:, i]), i])
        for i, j in enumerate(numeric)
        if readings[j].kind == "datetime"
    ]
    categories, encoded = _learn_categories(encoder, table, y, weights)
    pairs, of_pairs = _learn_pairs(encoder, table, categories, y, weights)
    nothing = np.zeros(0, dtype=int)
    schema, parts = _schema(table, categories), (scaling, cycles, categories, nothing, pairs)
    fitted = FittedEncoding(schema, dtype, fill, marked, *parts)
    Z = np.concatenate([*fitted.number_parts(table), *encoded, *of_pairs], axis=1)
    varied = np.flatnonzero(np.ptp(Z, axis=0) > 0) if Z.size else nothing
    return replace(fitted, order=varied), np.ascontiguousarray(Z)


def _learn_categories(
    encoder: TableEncoder, table: Table, y: np.ndarray | None, weights: Weights
) -> tuple[list[CategoryEncoding], list[np.ndarray]]:
    categories: list[CategoryEncoding] = []
    parts = []
    for j in positions(table.readings, "category"):
        column = table.columns[j]
        learned: CategoryEncoding
        learned, encoded = OneHot.learn(j, column)
        many = has_many_levels(learned, len(table))
        # Two levels are one contrast, as in one-hot columns.
        if encoder.categories == "target" and len(learned.levels) > 2:
            learned, encoded = TargetMean.learn(j, column, y, weights)
        elif encoder.categories == "pairs" and many:
            learned, encoded = TargetMeanAndSize.learn(j, column, y, weights)
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
    if encoder.categories != "pairs" or len(categories) < 2:
        return [], []
    if y is None:
        raise ValueError(f"categories={encoder.categories!r} needs the targets y")
    y, weights = plain_targets(y, len(table)), row_weights(weights, len(table))
    places = [category.places(table.columns[category.position]) for category in categories]
    learned = [
        PairMean.learn(
            categories[i].position, categories[j].position, places[i], places[j], y, weights
        )
        for i, j in telling_pairs(categories, places, y, weights)
    ]
    return [pair for pair, _ in learned], [encoded for _, encoded in learned]


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
    names = ["missing" if level is None else repr(level) for level in levels[:5]]
    more = len(levels) - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "")
