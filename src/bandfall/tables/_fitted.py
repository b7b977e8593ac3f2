"""A learned encoding of whole tables, composed of the encodings of columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from bandfall._checks import ShapeChecker, check_positions
from bandfall._typing import Weights
from bandfall.tables._categories import CategoryEncoding, plain_targets, row_weights
from bandfall.tables._kinds import Schema, positions
from bandfall.tables._numbers import Cycles, NumberEncoding
from bandfall.tables._pairs import PairMean
from bandfall.tables._table import Table
from bandfall.tables._text import STYLE_WORDS


class EncodedColumn(NamedTuple):
    """Describes one encoded column."""

    source: int  # the input column
    part: str  # of its encoding: "number", "missing", "category", …
    name: str


@dataclass(frozen=True, eq=False)
class FittedEncoding:
    """The encoding of a table, as learned from the training rows.

    The columns come in this order: numbers, indicators of missing values, booleans, cycles of
    dates, categories, pairs. Columns that are constant in training are left out.
    """

    schema: Schema
    dtype: np.dtype  # of encoded rows
    fill: np.ndarray  # medians of numeric columns (numbers, dates, durations), then of booleans
    marked: np.ndarray  # those of these columns that have an indicator of missing values
    scaling: NumberEncoding  # for the numeric columns, followed by the indicators
    cycles: list[Cycles]  # one for each column of dates
    categories: list[CategoryEncoding]  # one for each category
    order: np.ndarray  # (width,): which encoded columns are kept, in the order of the result
    pairs: list[PairMean] = field(default_factory=list)

    def __post_init__(self) -> None:
        for name, parts, kind in (
            ("cycles", self.cycles, "datetime"),
            ("categories", self.categories, "category"),
        ):
            if [part.position for part in parts] != positions(self.schema.readings, kind):
                raise ValueError(f"{name} must be learned from all columns of kind {kind}")
        n_columns = len(self.numeric) + len(self.boolean)
        ShapeChecker(columns=n_columns)("fill", self.fill, "columns")
        check_positions("marked", self.marked, n_columns)
        if np.any(np.diff(self.marked) <= 0):
            raise ValueError("marked must rise")
        columns, n_scaled = self.scaling.columns, len(self.numeric) + len(self.marked)
        # Steps have several columns or, for a constant, none.
        if np.any(columns >= n_scaled) or not (self.scaling.suffix or len(columns) == n_scaled):
            raise ValueError("scaling was learned from another number of columns")
        for pair in self.pairs:
            if not {pair.first, pair.second} <= set(self._by_position):
                raise ValueError("a pair names columns of another kind")
            sizes = [len(self._by_position[j].levels) for j in (pair.first, pair.second)]
            if np.any(pair.cells >= sizes):
                raise ValueError("the means of a pair do not fit its levels")
        check_positions("order", self.order, len(self._all_outputs))
        if len(np.unique(self.order)) < len(self.order):
            raise ValueError("order names a column twice")

    @cached_property
    def numeric(self) -> list[int]:
        """Positions of numbers, datetimes and durations."""
        return positions(self.schema.readings, "number", "datetime", "duration")

    @cached_property
    def boolean(self) -> list[int]:
        """Positions of booleans."""
        return positions(self.schema.readings, "boolean")

    def transform(self, table: Table) -> tuple[np.ndarray, dict[int, list[str | None]]]:
        """Encoded rows of a checked table, and unknown levels by input column."""
        unseen: dict[int, list[str | None]] = {}
        parts = self.number_parts(table)
        for one in self.categories:
            column = table.columns[one.position]
            encoded, rows = one.transform(column)
            parts.append(encoded)
            if len(rows):
                names = (*column.levels, None)
                unseen[one.position] = [names[code] for code in np.unique(column.values[rows])]
        parts += [pair.transform(*self._places(pair, table)) for pair in self.pairs]
        return self.kept(parts), unseen

    def number_parts(self, table: Table) -> list[np.ndarray]:
        """Encoded numbers, booleans and dates of a checked table."""
        filled, scaled = self._filled(table)
        parts = [self.scaling.transform(scaled)]
        if self.boolean:
            parts.append(filled[:, len(self.numeric) :])
        return parts + [one.transform(filled[:, i]) for i, one in self._dates]

    def kept(self, parts: list[np.ndarray]) -> np.ndarray:
        """The columns of the result, in the dtype of the encoding."""
        encoded = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
        if not np.array_equal(self.order, np.arange(encoded.shape[1])):
            encoded = np.take(encoded, self.order, axis=1)
        return encoded.astype(self.dtype, copy=False)

    def relearned(
        self, table: Table, y: np.ndarray, weights: Weights, new: Table
    ) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Learn the columns that depend on targets again, from some checked rows.

        Returns their indices among the encoded columns, and their values for these and new rows.
        """
        targets, row_shares = plain_targets(y, len(table)), row_weights(weights, len(table))
        # The place of each column in the result; columns of categories and pairs are the last.
        places = np.full(len(self._all_outputs), -1)
        places[self.order] = np.arange(len(self.order))
        end = len(places) - sum(one.width for one in self._others)
        learned = []
        for one in self._others:
            columns, end = places[end : end + one.width], end + one.width
            if not one.uses_target or np.any(columns < 0):  # constant columns are left out
                continue
            if isinstance(one, PairMean):
                known = self._places(one, table)
                pair, encoded = PairMean.learn(one.first, one.second, *known, targets, row_shares)
                later = pair.transform(*self._places(one, new))
            else:
                j = one.position
                category, encoded = one.learn(j, table.columns[j], y, weights)
                later = category.transform(new.columns[j])[0]
            learned.append((columns, encoded, later))
        return learned

    def jacobian(self, table: Table) -> np.ndarray:
        """See `TableEncoder.jacobian`."""
        filled, scaled = self._filled(table)
        slopes = self.scaling.jacobian(scaled)
        slopes = np.where(self.scaling.columns < len(self.numeric), slopes, 0.0)
        dates = [one.jacobian(filled[:, i]) for i, one in self._dates]
        n_others = sum(one.width for one in self._others)
        booleans, others = (
            np.full((len(filled), n), np.nan) for n in (len(self.boolean), n_others)
        )
        return np.concatenate([slopes, booleans, *dates, others], axis=1)[:, self.order]

    def _filled(self, table: Table) -> tuple[np.ndarray, np.ndarray]:
        """Numbers and booleans without gaps, and the input of `scaling`: numbers and indicators."""
        values = table.numbers([*self.numeric, *self.boolean])
        missing = np.isnan(values)
        filled = np.where(missing, self.fill, values)
        if not self.boolean and not len(self.marked):
            return filled, filled
        marks = missing[:, self.marked].astype(np.float64)
        return filled, np.concatenate([filled[:, : len(self.numeric)], marks], axis=1)

    def _places(self, pair: PairMean, table: Table) -> tuple[np.ndarray, np.ndarray]:
        """Positions of the levels of both columns of a pair, −1 for unknown ones."""
        i, j = pair.first, pair.second
        columns, encodings = table.columns, self._by_position
        return encodings[i].places(columns[i]), encodings[j].places(columns[j])

    @cached_property
    def _others(self) -> list[CategoryEncoding | PairMean]:
        return [*self.categories, *self.pairs]

    @cached_property
    def _by_position(self) -> dict[int, CategoryEncoding]:
        return {one.position: one for one in self.categories}

    @cached_property
    def _dates(self) -> list[tuple[int, Cycles]]:
        """Cycles, each with the index of its column among the numeric ones."""
        return [(self.numeric.index(one.position), one) for one in self.cycles]

    @cached_property
    def outputs(self) -> list[EncodedColumn]:
        """Descriptions of the columns, in the order of the result."""
        return [self._all_outputs[i] for i in self.order]

    @cached_property
    def _all_outputs(self) -> list[EncodedColumn]:
        """Descriptions of all encoded columns, kept or not."""
        names = self._names
        outputs = [*self._number_outputs(names)]
        outputs += [EncodedColumn(j, "boolean", names[j]) for j in self.boolean]
        for cycles in self.cycles:
            j, parts = cycles.position, [(p, f) for p in cycles.periods for f in ("sin", "cos")]
            outputs += [EncodedColumn(j, p, f"{names[j]}_{p}_{f}") for p, f in parts]
        for category in self.categories:
            j = category.position
            outputs += [EncodedColumn(j, "category", f"{names[j]}_{s}") for s in category.suffixes]
        for pair in self.pairs:
            part, name = (
                f"with {names[pair.second]}",
                f"{names[pair.first]}_{names[pair.second]}_mean",
            )
            ends = [""] if pair.width == 1 else [str(i) for i in range(pair.width)]
            outputs += [EncodedColumn(pair.first, part, name + end) for end in ends]
        return outputs

    def _number_outputs(self, names: list[str]) -> Iterator[EncodedColumn]:
        """Numbers, then indicators of missing values; those with several columns are numbered."""
        filled = [*self.numeric, *self.boolean]
        sources = [(j, "number", names[j]) for j in self.numeric]
        marked = [filled[i] for i in self.marked]
        sources += [(j, "missing", f"{names[j]}_missing") for j in marked]
        n_columns = np.bincount(self.scaling.columns, minlength=len(sources))
        for (j, part, name), n in zip(sources, n_columns, strict=True):
            numbered = self.scaling.suffix and (part == "number" or n > 1)
            for k in range(n):
                yield EncodedColumn(
                    j, part, name + f"{self.scaling.suffix}{k + 1}" * bool(numbered)
                )

    @cached_property
    def _names(self) -> list[str]:
        return self.schema.names or [f"x{j}" for j in range(self.schema.width)]

    def describe(self) -> list[str]:
        """One line for each input column."""
        lines = []
        for j, (reading, levels) in enumerate(
            zip(self.schema.readings, self.schema.levels, strict=True)
        ):
            parts = [output.part for output in self.outputs if output.source == j]
            line = f"{self._names[j]}: " + (f"{len(levels)} levels" if levels else reading.kind)
            if reading.style:
                line += f" from text ({STYLE_WORDS.get(reading.style, reading.style)})"
            if reading.dropped or not parts:
                lines.append(f"{line}, dropped: {reading.dropped or 'constant'}")
                continue
            extras = [part for part in dict.fromkeys(parts) if part not in ("number", "category")]
            extra = f" ({', '.join(extras)})" if extras and extras != ["boolean"] else ""
            columns = "1 column" if len(parts) == 1 else f"{len(parts)} columns"
            lines.append(f"{line} → {columns}{extra}")
        return lines
