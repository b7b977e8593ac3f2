"""A learned encoding of whole tables, composed of the encodings of columns."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from bandfall._checks import check_instance, check_positions
from bandfall._typing import Weights
from bandfall.tables._base import CategoryEncoding, NumberEncoding
from bandfall.tables._cycles import Cycles
from bandfall.tables._missing import MissingValues
from bandfall.tables._pairs import PairMean
from bandfall.tables._schema import Schema
from bandfall.tables._table import Table
from bandfall.tables._target_mean import plain_targets, row_weights
from bandfall.tables._text import style_words

_NUMERIC = ("number", "datetime", "duration")


@dataclass(frozen=True)
class EncodedColumn:
    """Describes one encoded column."""

    source: int  # the input column
    part: str  # of its encoding: "number", "missing", "category", …
    name: str


@dataclass(frozen=True, eq=False)
class FittedEncoding:
    """The encoding of a table, as learned from the training rows.

    The columns come in this order: numbers, indicators of missing values, booleans, cycles of
    dates, categories, pairs. Columns that are constant in training are left out.

    Attributes
    ----------
    schema : Schema
    dtype : dtype
        Dtype of encoded rows.
    numeric, boolean : ndarray of int
        Positions of numbers, datetimes and durations, and of booleans.
    missing : MissingValues
        For the numeric columns, followed by the boolean ones.
    scaling : NumberEncoding
        For the numeric columns, followed by the indicators.
    cycles : list of Cycles
    categories : list of CategoryEncoding
    used : ndarray of bool, shape (n_encoded,)
        Which encoded columns are kept.
    pairs : list of PairMean
        Pairs of categories.
    """

    schema: Schema
    dtype: np.dtype
    numeric: np.ndarray
    boolean: np.ndarray
    missing: MissingValues
    scaling: NumberEncoding
    cycles: list[Cycles]
    categories: list[CategoryEncoding]
    used: np.ndarray
    pairs: list[PairMean] = field(default_factory=list)

    def __post_init__(self) -> None:
        check_instance("dtype", self.dtype, np.dtype)
        self._check_positions("numeric", self.numeric, *_NUMERIC)
        self._check_positions("boolean", self.boolean, "boolean")
        dates, groups = (
            np.array([one.position for one in part], dtype=int)
            for part in (self.cycles, self.categories)
        )
        self._check_positions("cycles", dates, "datetime")
        self._check_positions("categories", groups, "category")
        if not np.isin(dates, self.numeric).all():
            raise ValueError("cycles names columns that are not numeric")
        encoded = {*self.numeric.tolist(), *self.boolean.tolist(), *groups.tolist()}
        if encoded != {j for j, one in enumerate(self.schema.readings) if not one.dropped}:
            raise ValueError("some columns are not encoded")
        if len(self.missing.fill) != len(self.numeric) + len(self.boolean):
            raise ValueError("fill does not fit the columns")
        if not self.scaling.takes(len(self.numeric) + len(self.missing.marked)):
            raise ValueError("scaling does not fit the columns")
        for pair in self.pairs:
            if not {pair.first, pair.second} <= set(groups.tolist()):
                raise ValueError("a pair names columns of another kind")
            sizes = [len(self._by_position[j].levels) for j in (pair.first, pair.second)]
            if np.any(pair.cells >= sizes):
                raise ValueError("the means of a pair do not fit its levels")
        check_instance("used", self.used, np.ndarray)
        if self.used.dtype != bool or self.used.shape != (len(self.all_outputs),):
            raise ValueError("used does not fit the columns")

    def _check_positions(self, name: str, values: np.ndarray, *kinds: str) -> None:
        """Raise ValueError unless these are distinct columns of these kinds, not dropped."""
        readings = self.schema.readings
        check_positions(name, values, len(readings))
        if len(np.unique(values)) < len(values):
            raise ValueError(f"{name} names a column twice")
        if any(readings[j].kind not in kinds or readings[j].dropped for j in values):
            raise ValueError(f"{name} names columns of another kind")

    def transform(self, table: Table) -> tuple[np.ndarray, dict[int, list[str | None]]]:
        """Encoded rows of a checked table, and unknown levels by input column."""
        filled, marks = self.missing.split(self.numbers(table))
        unseen: dict[int, list[str | None]] = {}
        parts = [self.scaling.transform(self.scaled_columns(filled, marks))]
        if len(self.boolean):
            parts.append(filled[:, len(self.numeric) :])
        parts += [one.transform(filled[:, i]) for i, one in self._dates]
        for one in self.categories:
            column = table.columns[one.position]
            encoded, rows = one.transform(column)
            parts.append(encoded)
            if len(rows):
                names = (*column.levels, None)
                unseen[one.position] = [names[code] for code in np.unique(column.values[rows])]
        parts += [pair.transform(*self._places(pair, table)) for pair in self.pairs]
        return self.kept(parts), unseen

    def relearned(
        self, table: Table, y: np.ndarray, weights: Weights, new: Table
    ) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """See `TableEncoder.relearned`."""
        found = []
        for one in self.categories:
            if one.uses_target:
                own, others = table.columns[one.position], new.columns[one.position]
                again, encoded = one.learn(one.position, own, y, weights)
                columns = self._numbers_of(one.position, "category")
                found.append((columns, encoded, again.transform(others)[0]))
        for pair in self.pairs:
            places, new_places = self._places(pair, table), self._places(pair, new)
            singles = (self._by_position[pair.first], self._by_position[pair.second])
            n_rows = len(table)
            mean, encoded = PairMean.learn(
                singles, places, plain_targets(y, n_rows), row_weights(weights, n_rows)
            )
            columns = self._numbers_of(pair.first, self._part(pair))
            found.append((columns, encoded, mean.transform(*new_places)))
        # Columns that are constant over all rows are left out.
        return [one for one in found if len(one[0]) == one[1].shape[1]]

    def _places(self, pair: PairMean, table: Table) -> tuple[np.ndarray, np.ndarray]:
        """Positions of the levels of both columns of a pair, −1 for unknown ones."""
        one, other = self._by_position[pair.first], self._by_position[pair.second]
        columns = table.columns
        return one.places(columns[one.position]), other.places(columns[other.position])

    @cached_property
    def _by_position(self) -> dict[int, CategoryEncoding]:
        return {one.position: one for one in self.categories}

    def _part(self, pair: PairMean) -> str:
        names = self.schema.names or [f"x{j}" for j in range(self.schema.width)]
        return f"with {names[pair.second]}"

    def _numbers_of(self, position: int, part: str) -> np.ndarray:
        """Indices of the kept columns of one part of an input column."""
        pairs = enumerate(self.outputs)
        return np.array([i for i, one in pairs if (one.source, one.part) == (position, part)], int)

    def jacobian(self, table: Table) -> np.ndarray:
        """See `TableEncoder.jacobian`."""
        filled, marks = self.missing.split(self.numbers(table))
        slopes = self.scaling.jacobian(self.scaled_columns(filled, marks))
        slopes = np.where(self.scaling.columns < len(self.numeric), slopes, 0.0)
        parts = [slopes, np.full((len(filled), len(self.boolean)), np.nan)]
        parts += [one.jacobian(filled[:, i]) for i, one in self._dates]
        parts += [np.full((len(filled), one.width), np.nan) for one in self.categories]
        parts += [np.full((len(filled), pair.width), np.nan) for pair in self.pairs]
        return np.concatenate(parts, axis=1)[:, self.used]

    def slopes(self) -> np.ndarray:
        """See `TableEncoder.slopes`."""
        slopes = np.full(len(self.used), np.nan)
        numbers = self.scaling.columns < len(self.numeric)
        slopes[: len(numbers)][numbers] = self.scaling.slopes[numbers]
        slopes = slopes[self.used]
        for _, one in self._dates:
            slopes[[output.source == one.position for output in self.outputs]] = np.nan
        return slopes

    def numbers(self, table: Table) -> np.ndarray:
        """Numeric and boolean columns of a checked table, with NaN for missing values."""
        if table.matrix is not None:
            everything = len(self.numeric) == table.matrix.shape[1]
            return table.matrix if everything else table.matrix[:, self.numeric]
        positions = [*self.numeric, *self.boolean]
        values = np.empty((len(table), len(positions)))
        for i, position in enumerate(positions):
            values[:, i] = table.columns[position].values
        return values

    def scaled_columns(self, filled: np.ndarray, marks: np.ndarray) -> np.ndarray:
        """The input of `scaling`: numbers without gaps, then indicators."""
        if not len(self.boolean) and not marks.shape[1]:
            return filled
        return np.concatenate([filled[:, : len(self.numeric)], marks], axis=1)

    def kept(self, parts: list[np.ndarray]) -> np.ndarray:
        """The columns in use, in the dtype of the encoding."""
        encoded = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
        if not self._all_used:
            encoded = encoded[:, self.used]
        return encoded.astype(self.dtype, copy=False)

    @cached_property
    def _all_used(self) -> bool:
        return bool(self.used.all())

    @cached_property
    def _dates(self) -> list[tuple[int, Cycles]]:
        """Cycles, each with the index of its column among the numeric ones."""
        places = {int(position): i for i, position in enumerate(self.numeric)}
        return [(places[one.position], one) for one in self.cycles]

    @cached_property
    def outputs(self) -> list[EncodedColumn]:
        """Descriptions of the kept columns."""
        return [one for one, used in zip(self.all_outputs, self.used, strict=True) if used]

    @cached_property
    def all_outputs(self) -> list[EncodedColumn]:
        """Descriptions of all encoded columns, kept or not."""
        names = self.schema.names or [f"x{j}" for j in range(self.schema.width)]
        positions = [*self.numeric, *self.boolean]
        marked = [positions[i] for i in self.missing.marked]
        outputs, counts = [], np.zeros(len(self.numeric) + len(marked), dtype=int)
        n_ramps = np.bincount(self.scaling.columns, minlength=len(counts))
        for i in self.scaling.columns:
            step = f"{self.scaling.suffix}{counts[i] + 1}" if self.scaling.suffix else ""
            counts[i] += 1
            if i < len(self.numeric):
                outputs.append(EncodedColumn(positions[i], "number", names[positions[i]] + step))
            else:
                source = marked[i - len(self.numeric)]
                step = step if n_ramps[i] > 1 else ""
                outputs.append(EncodedColumn(source, "missing", f"{names[source]}_missing{step}"))
        outputs += [EncodedColumn(j, "boolean", names[j]) for j in self.boolean]
        for cycles in self.cycles:
            for period in cycles.periods:
                name = f"{names[cycles.position]}_{period}"
                outputs += [
                    EncodedColumn(cycles.position, period, f"{name}_{f}") for f in ("sin", "cos")
                ]
        for one in self.categories:
            name = names[one.position]
            outputs += [
                EncodedColumn(one.position, "category", f"{name}_{s}") for s in one.suffixes
            ]
        for pair in self.pairs:
            name = f"{names[pair.first]}_{names[pair.second]}_mean"
            suffixes = [""] if pair.width == 1 else [str(i) for i in range(pair.width)]
            outputs += [EncodedColumn(pair.first, self._part(pair), name + s) for s in suffixes]
        return outputs

    def describe(self) -> list[str]:
        """One line for each input column."""
        return [self._line(j) for j in range(self.schema.width)]

    def _line(self, position: int) -> str:
        reading, levels = self.schema.readings[position], self.schema.levels[position]
        name = self.schema.names[position] if self.schema.names else f"x{position}"
        parts = [output.part for output in self.outputs if output.source == position]
        kind = f"{len(levels)} levels" if levels else reading.kind
        if reading.style:
            kind += f" from text ({style_words(reading.style)})"
        if reading.dropped or not parts:
            return f"{name}: {kind}, dropped: {reading.dropped or 'constant'}"
        extras = [part for part in dict.fromkeys(parts) if part not in ("number", "category")]
        extra = f" ({', '.join(extras)})" if extras and extras != ["boolean"] else ""
        columns = "1 column" if len(parts) == 1 else f"{len(parts)} columns"
        return f"{name}: {kind} → {columns}{extra}"
