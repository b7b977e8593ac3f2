"""The schema of the training rows, and the check that new rows have it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bandfall._checks import ShapeChecker, check_instance
from bandfall._warnings import warn_caller
from bandfall.tables._reading import read_column
from bandfall.tables._table import Column, Reading, Table, label

_FAR = 1.0  # values farther outside the training range, in units of that range, cause a warning


@dataclass(frozen=True, eq=False)
class Schema:
    """Names, kinds, levels and ranges of a table.

    Attributes
    ----------
    names : list of str or None
        None for arrays.
    readings : list of Reading
        One per column.
    low, high : ndarray of shape (d,)
        Smallest and largest training value; NaN for categories and columns without values.
    levels : list of tuple
        Levels of each category, with None for missing values; empty for other columns.
    """

    names: list[str] | None
    readings: list[Reading]
    low: np.ndarray
    high: np.ndarray
    levels: list[tuple[str | None, ...]]

    def __post_init__(self) -> None:
        if not self.readings:
            raise ValueError("the schema has no columns")
        if self.names is not None:
            check_instance("names", self.names, list)
            for name in self.names:
                check_instance("names", name, str)
            if len(self.names) != self.width or len(set(self.names)) < self.width:
                raise ValueError("names do not fit the columns")
        shapes = ShapeChecker(d=self.width)
        for name, values in (("low", self.low), ("high", self.high)):
            shapes(name, values, "d", allowed="any")
            if np.isinf(values).any():
                raise ValueError(f"{name} must be finite or missing")

    @property
    def kinds(self) -> list[str]:
        """The kind of each column."""
        return [reading.kind for reading in self.readings]

    @property
    def width(self) -> int:
        """Number of columns."""
        return len(self.readings)

    def label(self, position: int) -> str:
        """Name of a column in messages."""
        return label(self.names, position)

    def check(self, table: Table, *, warn: bool = True) -> Table:
        """The columns of `table` with the order and the kinds of the training rows.

        Columns are matched by name if both have names, else by position. Additional columns are
        ignored, and unused columns may be missing.

        Raises
        ------
        ValueError
            If a column is missing or of another kind; names it.

        Warns
        -----
        UserWarning
            Once, if values are far outside the training range; names the columns.
        """
        table = self._aligned(table)
        if table.matrix is None or not self._plain:
            columns = [self._read(column, j) for j, column in enumerate(table.columns)]
            table = Table(self.names, None, columns)
        if warn:
            self._warn_of_range(table)
        return table

    @cached_property
    def _plain(self) -> bool:
        """Whether all used columns are numbers."""
        return all(one.kind == "number" or one.dropped for one in self.readings)

    @cached_property
    def _limits(self) -> tuple[np.ndarray, np.ndarray]:
        """Limits beyond which values are far outside; infinite if unknown."""
        reach = _FAR * (self.high - self.low)
        unused = np.array([bool(one.dropped) for one in self.readings]) | ~(reach > 0)
        return (
            np.where(unused, -np.inf, self.low - reach),
            np.where(unused, np.inf, self.high + reach),
        )

    def _aligned(self, table: Table) -> Table:
        if self.names is None or table.names is None or table.names == self.names:
            if table.width != self.width:
                raise ValueError(
                    f"X has {table.width} features, but the model was fitted to {self.width}"
                )
            return table
        places = {name: j for j, name in enumerate(table.names)}
        missing = [
            name
            for name, reading in zip(self.names, self.readings, strict=True)
            if name not in places and not reading.dropped
        ]
        if missing:
            raise ValueError(f"X lacks the columns {', '.join(map(repr, missing))}")
        if all(name in places for name in self.names):
            return table.select([places[name] for name in self.names], self.names)
        columns, empty = table.columns, Column("number", np.full(len(table), np.nan))
        found = [columns[places[name]] if name in places else empty for name in self.names]
        return Table(self.names, None, found)

    def _read(self, column: Column, position: int) -> Column:
        reading = self.readings[position]
        if reading.dropped:
            return column
        levels = self.levels[position]
        known = levels.__contains__ if levels else None
        return read_column(column, reading, self.label(position), known)

    def _warn_of_range(self, table: Table) -> None:
        low, high = self._limits
        if table.matrix is not None:
            far = ((table.matrix < low) | (table.matrix > high)).any(axis=0)
            if not far.any():
                return
            positions = [int(j) for j in np.flatnonzero(far)]
        else:
            columns = enumerate(table.columns)
            positions = [j for j, column in columns if self._is_far(column, j)]
        if positions:
            named = ", ".join(
                f"{self.label(j)} (training: {self.low[j]:.6g} to {self.high[j]:.6g})"
                for j in positions
            )
            warn_caller(f"values far outside the range of the training rows: {named}")

    def _is_far(self, column: Column, position: int) -> bool:
        if self.readings[position].kind == "category" or self.readings[position].dropped:
            return False
        low, high = (limits[position] for limits in self._limits)
        return bool(np.any((column.values < low) | (column.values > high)))
