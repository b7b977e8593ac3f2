"""Rows of a report: columns of tables as pandas columns, and rows with changed values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from bandfall._drawing.chart import Axis, number
from bandfall._typing import Unchecked
from bandfall.tables import Schema, read_table
from bandfall.tables._table import Column

MISSING = "–"  # in tables
NO_VALUE = "missing"  # as a value that a feature can take
_DAY = 86400.0


class LabelledRows(NamedTuple):
    """Features (n, d) and target (n,)."""

    X: pd.DataFrame
    y: np.ndarray

    @property
    def weights(self) -> None:
        """None: reports weight all rows equally."""
        return

    def as_table(self, schema: Schema | None = None) -> LabelledRows:
        """The rows numbered from 0, with text converted to numbers or times as in `schema`."""
        X = pd.DataFrame(self.X).reset_index(drop=True)
        if schema is not None and any(reading.style for reading in schema.readings):
            columns = schema.check(read_table(X), warn=False).columns
            for j, reading in enumerate(schema.readings):
                if reading.style and not reading.dropped:
                    X.isetitem(j, series_of(columns[j]))
        return LabelledRows(X, self.y)

    def take(self, rows: np.ndarray) -> LabelledRows:
        """Some of the rows."""
        return LabelledRows(self.X.iloc[rows].reset_index(drop=True), self.y[rows])

    def sample(self, n: int, seed: int) -> LabelledRows:
        """At most `n` rows, chosen at random."""
        if len(self.y) <= n:
            return self
        return self.take(np.sort(np.random.default_rng(seed).permutation(len(self.y))[:n]))


def series_of(column: Column) -> pd.Series:
    """Convert a column of a `Table` to a pandas series."""
    values = column.values
    if column.kind == "category":
        levels = np.append(np.array(column.levels, dtype=object), [None])
        return pd.Series(levels[values])
    if column.kind == "datetime":
        return pd.Series(pd.to_datetime(values, unit="s"))
    if column.kind == "duration":
        return pd.Series(pd.to_timedelta(values, unit="s"))
    if column.kind == "boolean":
        truth = pd.Series(values).astype("boolean")
        return truth if truth.isna().any() else truth.astype(bool)
    return pd.Series(values)


def kind_of(column: pd.Series) -> str:
    """The kind of a column: number, boolean, datetime, duration, or text for anything else."""
    types, dtype = pd.api.types, column.dtype
    if types.is_bool_dtype(dtype):
        return "boolean"
    if types.is_numeric_dtype(dtype):
        return "number"
    if types.is_datetime64_any_dtype(dtype):
        return "datetime"
    return "duration" if types.is_timedelta64_dtype(dtype) else "text"


def places(column: pd.Series) -> np.ndarray | None:
    """A column as floats, NaN for missing values; None for booleans and categories.

    Durations are in hours, dates in seconds since 1970 in local time.
    """
    kind = kind_of(column)
    if kind == "datetime":
        naive = column if column.dt.tz is None else column.dt.tz_localize(None)
        column = (naive - pd.Timestamp(0)) / pd.Timedelta(seconds=1)
    elif kind == "duration":
        column = column / pd.Timedelta(hours=1)
    elif kind != "number":
        return None
    return column.to_numpy(dtype=np.float64, na_value=np.nan)


def shown(value: Unchecked, missing: str = MISSING) -> str:
    """A value of any column as readable text."""
    if value is None or (np.asarray(value).ndim == 0 and pd.isna(value)):
        return missing
    if isinstance(value, pd.Timestamp):
        return f"{value:%Y-%m-%d %H:%M}".removesuffix(" 00:00")
    if isinstance(value, pd.Timedelta):
        return str(value.round("s")).removeprefix("0 days ")
    if isinstance(value, int | float | np.number) and not isinstance(value, bool | np.bool_):
        return number(float(value))
    return str(value)


@dataclass(frozen=True)
class Points:
    """Values of one column at which a model is evaluated.

    If the column has missing values, so do these: the last one, which has no place on the grid.
    """

    kind: str  # "number", "datetime", "duration", "level"
    grid: np.ndarray  # (n_points,), as `places`; 0, 1, 2, … for levels
    values: pd.Series  # in the dtype of the column
    labels: list[str]

    @property
    def missing(self) -> bool:
        """Whether the last value is a missing one beside the grid."""
        return len(self.values) > len(self.grid)

    @property
    def axis(self) -> Axis:
        """The axis for these points."""
        low, high = float(self.grid[0]), float(self.grid[-1])
        if self.kind == "level":
            return Axis("", low - 0.5, high + 0.5, names=tuple(self.labels))
        name = "hours" if self.kind == "duration" else ""
        return Axis(name, low, high, dates=self.kind == "datetime")


def points_along(column: pd.Series, n_points: int = 81, n_levels: int = 12) -> Points:
    """Points from the 1 % to the 99 % quantile of a column, or its most frequent levels.

    Points of dates are whole days or minutes, from the first date to the last.
    """
    known, kind = places(column), kind_of(column)
    if known is None:
        kind, grid, levels = "level", np.zeros(0), _in_order(column.dropna(), n_levels)
        values = pd.Series(levels, dtype=column.dtype)
    else:
        known, dates = known[~np.isnan(known)], kind == "datetime"
        unit = 1.0 if not dates else _DAY if np.all(known % _DAY == 0) else 60.0
        ends = [0.0, 1.0] if dates else [0.01, 0.99]
        low, high = np.quantile(known, ends) if len(known) else (0.0, 0.0)
        if low == high:
            low, high = low - unit, high + unit
        grid = np.linspace(low, high, n_points)
        if dates:
            grid = unit * np.unique(np.round(grid / unit))
        values = _of_places(grid, column)
    if column.isna().any():
        gap = pd.Series([None], dtype=values.dtype)
        values = pd.concat([values, gap], ignore_index=True)
    grid = np.arange(len(values), dtype=float) if kind == "level" else grid
    return Points(kind, grid, values, [shown(value, NO_VALUE) for value in values])


def _of_places(places: np.ndarray, like: pd.Series) -> pd.Series:
    """The inverse of `places`: numbers, or dates or durations in the dtype of a column."""
    kind = kind_of(like)
    if kind == "number":
        return pd.Series(places)
    if kind == "duration":
        return pd.Series(pd.to_timedelta(places, unit="h")).astype(like.dtype)
    made = pd.Series(pd.to_datetime(places, unit="s"))
    zone = getattr(like.dtype, "tz", None)
    if zone is not None:
        made = made.dt.tz_localize(zone, ambiguous="NaT", nonexistent="NaT")
    return made.astype(like.dtype)


def _in_order(known: pd.Series, n_levels: int) -> list[object]:
    """The most frequent levels, in the order of an ordered category or of their text."""
    frequent = list(known.value_counts().index[:n_levels])
    if isinstance(known.dtype, pd.CategoricalDtype) and known.dtype.ordered:
        return [level for level in known.dtype.categories if level in frequent]
    return sorted(frequent, key=str)


def moved_along(X: pd.DataFrame, rows: list[int], j: int, values: pd.Series) -> pd.DataFrame:
    """Copies of some rows, each with every one of these values in column j."""
    repeated = X.iloc[np.repeat(rows, len(values))].reset_index(drop=True)
    repeated.isetitem(j, pd.concat([values] * len(rows), ignore_index=True))
    return repeated


def shuffled_along(
    X: pd.DataFrame, j: int, n_repeats: int, random: np.random.Generator
) -> pd.DataFrame:
    """Concatenated copies of the rows, with column j shuffled in each copy."""
    shuffled = pd.concat([X] * n_repeats, ignore_index=True)
    orders = np.concatenate([random.permutation(len(X)) for _ in range(n_repeats)])
    shuffled.isetitem(j, X.iloc[orders, j].reset_index(drop=True))
    return shuffled


def typical_row(X: pd.DataFrame) -> int:
    """The row nearest to the medians of all numbers and to the most frequent other values."""
    distance = np.zeros(len(X))
    for column in (X.iloc[:, j].reset_index(drop=True) for j in range(X.shape[1])):
        values = places(column)
        if not column.notna().any():
            continue
        if values is None:
            # Before pandas 3 a comparison with a missing value is missing, not False.
            same = column == column.mode().iloc[0]
            distance += 1.0 - same.to_numpy(dtype=float, na_value=0.0)
        else:
            spread = np.nan_to_num(values).std() or 1.0
            away = ((values - np.nanmedian(values)) / spread) ** 2
            distance += np.where(np.isnan(away), 1.0, away)
    return int(np.argmin(distance))
