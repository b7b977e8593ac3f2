"""Columns of a table that a command names: found, and read as numbers; errors name the row.

Rows are counted from 1, without the header.
"""

from __future__ import annotations

import difflib
from typing import TypeAlias

import numpy as np
import pandas as pd

from bandfall._cli.terminal import InputError
from bandfall.report._columns import kind_of
from bandfall.tables import _text as text
from bandfall.tables import read_table
from bandfall.tables._kinds import prepare_table
from bandfall.tables._table import LARGEST

Features: TypeAlias = pd.DataFrame | np.ndarray  # rows as an estimator takes them


def require_columns(table: pd.DataFrame, columns: list[str], name: str) -> None:
    """Raise InputError unless the table has all `columns`."""
    missing = [column for column in columns if column not in table.columns]
    if not missing:
        return
    known = [str(column) for column in table.columns]
    plain = missing[0].strip().casefold()
    close = [column for column in known if column.casefold() == plain]
    close = close or difflib.get_close_matches(missing[0], known, 1)
    hint = f"; did you mean {close[0]!r}?" if close and len(missing) == 1 else ""
    there = ", ".join(known[:10]) + (", …" if len(known) > 10 else "")
    plural = "columns" if len(missing) > 1 else "column"
    listed = ", ".join(map(repr, missing))
    raise InputError(f"{name} has no {plural} {listed}{hint} (it has: {there})")


def check_plain(table: pd.DataFrame, name: str) -> None:
    """Raise InputError if a column holds lists or other nested values."""
    for column in table.columns:
        values = table[column] if table[column].dtype == object else ()
        if any(isinstance(value, list | dict | np.ndarray) for value in values):
            raise InputError(
                f"column {column!r} of {name} holds lists or other nested values; split them into "
                f"columns, or leave it out with --drop {quoted(column)}"
            )


def check_finite(table: pd.DataFrame, name: str) -> None:
    """Raise InputError if a number is infinite."""
    for column in table.columns:
        if kind_of(table[column]) == "number":
            remedy = f"; leave the field empty, or the column out with --drop {quoted(column)}"
            refuse(
                np.isinf(_floats(table[column])), table[column], name, "an infinite value", remedy
            )


def refuse(wrong: np.ndarray, column: pd.Series, name: str, what: str, remedy: str = "") -> None:
    """Raise InputError with the first wrong row, if there is any."""
    if wrong.any():
        row = column.index[int(np.argmax(wrong))] + 1
        raise InputError(f"column {column.name!r} of {name} has {what} in row {row}{remedy}")


def quoted(name: object) -> str:
    """A name, quoted if a shell needs it."""
    return f"'{name}'" if set(' ()[]*?;&|$#!<>"\\') & set(str(name)) else str(name)


def target_numbers(column: pd.Series, name: str) -> np.ndarray:
    """A target as numbers, NaN for missing values."""
    check_plain(column.to_frame(), name)
    repeated = 2 * column.nunique() <= column.count()
    hint = "; for classes, use --task classification" if repeated else ""
    values = _numbers(column, name, f"a target must be a number{hint}")
    huge = np.abs(values) > LARGEST
    refuse(huge, column, name, f"a value beyond ±{LARGEST:g}", "; use a larger unit")
    return values


def target_labels(column: pd.Series) -> np.ndarray:
    """Classes as text, None for missing values; whole numbers without decimals."""
    form = "{:.15g}".format if kind_of(column) == "number" else str
    missing = column.isna().to_numpy()
    labels = [None if gone else form(value) for value, gone in zip(column, missing, strict=True)]
    return np.array(labels, dtype=object)


def feature_numbers(table: pd.DataFrame, name: str, *, remedy: str) -> np.ndarray:
    """All features as float64, NaN for missing values, for models that take only numbers.

    In `remedy`, "{}" stands for the name of a wrong column.
    """
    numbers = np.empty(table.shape)
    for j, column in enumerate(table.columns):
        numbers[:, j] = _numbers(table[column], name, remedy.replace("{}", quoted(column)))
    return numbers


def weight_numbers(column: pd.Series, name: str) -> np.ndarray:
    """Weights of rows: finite, none missing, none negative, not all zero."""
    weights = _numbers(column, name, "weights must be numbers")
    wrong = np.isnan(weights) | (weights < 0)
    first = weights[np.argmax(wrong)]
    what = "no value" if np.isnan(first) else f"{first:g}"
    refuse(wrong, column, name, what, "; weights must be 0 or more")
    if not weights.any():
        raise InputError(f"column {column.name!r} of {name} gives every row the weight 0")
    return weights


def times(column: pd.Series, name: str) -> np.ndarray:
    """Numbers that order rows in time, from numbers, dates, or dates written as text."""
    read = prepare_table(read_table(column.to_frame()), warn=False).columns[0]
    if read.kind not in ("number", "datetime"):
        doubtful = text.is_ambiguous_date(read.levels)
        wrong = "dates whose day and month are in doubt" if doubtful else repr(str(column.iloc[0]))
        raise InputError(
            f"column {column.name!r} of {name} has {wrong}; --time-split needs numbers, or dates "
            "as 2024-12-31"
        )
    values = np.asarray(read.values, dtype=np.float64)
    refuse(np.isnan(values), column, name, "no value", "; --time-split needs one in every row")
    return values


def _numbers(column: pd.Series, name: str, remedy: str) -> np.ndarray:
    """A column as numbers; text is read as by the estimators."""
    if (kind := kind_of(column)) in ("number", "boolean"):
        values = _floats(column)
        refuse(np.isinf(values), column, name, "an infinite value")
        return values
    check_plain(column.to_frame(), name)
    levels = [str(level) for level in column.dropna().unique()]
    style = text.number_style(levels) or "point"
    for level in levels:
        if kind != "text" or not (text.is_number(level, style) or text.is_gap(level)):
            shown = level if len(level) <= 30 else level[:27] + "…"
            wrong = np.array([str(value) == level for value in column])
            refuse(wrong, column, name, repr(shown), f", where a number should be; {remedy}")
    return _at_levels(column, text.read(levels, style))


def _floats(column: pd.Series) -> np.ndarray:
    return column.to_numpy(dtype=np.float64, na_value=np.nan)


def _at_levels(column: pd.Series, values: np.ndarray) -> np.ndarray:
    """The values of the levels of a column in each row, NaN for missing ones."""
    known = dict(zip(column.dropna().unique(), values, strict=True))
    return column.astype(object).map(known).to_numpy(dtype=np.float64, na_value=np.nan)
