"""Single columns of a table as numbers: targets, weights, times; errors name the row."""

from __future__ import annotations

import numpy as np
import pandas as pd

from bandfall._cli.tables import check_plain, quoted, refuse
from bandfall._cli.terminal import InputError
from bandfall.report._columns import kind_of, places
from bandfall.tables import _text as text
from bandfall.tables._table import LARGEST


def target_numbers(column: pd.Series, name: str) -> np.ndarray:
    """A target as numbers, NaN for missing values."""
    check_plain(column.to_frame(), name)
    repeated = 2 * column.nunique() <= column.count()
    hint = "; for classes, use --task classification" if repeated else ""
    values = _numbers(column, name, f"a target must be a number{hint}")
    what, remedy = f"is beyond ±{LARGEST:g}", "use a larger unit"
    refuse(np.abs(values) > LARGEST, column, name, what, remedy)
    return values


def feature_numbers(table: pd.DataFrame, name: str, *, remedy: str) -> np.ndarray:
    """All features as float64, NaN for missing values, for models that take only numbers.

    In `remedy`, "{}" stands for the name of a wrong column.
    """
    numbers = np.empty(table.shape)
    for j, column in enumerate(table.columns):
        hint = remedy.replace("{}", quoted(column))
        numbers[:, j] = _numbers(table[column], name, hint)
    return numbers


def weight_numbers(column: pd.Series, name: str) -> np.ndarray:
    """Weights of rows: finite, none missing, none negative, not all zero."""
    weights = _numbers(column, name, "weights must be numbers")
    wrong = np.isnan(weights) | (weights < 0)
    first = weights[np.argmax(wrong)]
    what = "has no value" if np.isnan(first) else f"has {first:g}"
    refuse(wrong, column, name, what, "weights must be 0 or more")
    if not weights.any():
        raise InputError(f"column {column.name!r} of {name} gives every row the weight 0")
    return weights


def times(column: pd.Series, name: str) -> np.ndarray:
    """Numbers that order rows in time, from numbers, dates, or dates written as text."""
    values = places(column) if kind_of(column) in ("number", "datetime") else None
    values = _dates(column, name) if values is None else values
    remedy = "--time-split needs one in every row"
    refuse(np.isnan(values), column, name, "has no value", remedy)
    return values


def _dates(column: pd.Series, name: str) -> np.ndarray:
    """Dates written as text, in seconds since 1970."""
    levels = [str(level) for level in column.dropna().unique()]
    style = text.date_style(levels)
    if style is None:
        wrong = "dates whose day and month are in doubt"
        if not text.is_ambiguous_date(levels):
            odd = [text.date_style([level]) is None for level in levels]
            wrong = repr(levels[int(np.argmax(odd))]) if levels else "no value"
        raise InputError(
            f"column {column.name!r} of {name} has {wrong}; --time-split needs numbers, or dates "
            "as 2024-12-31"
        )
    found = dict(zip(levels, text.dates(levels, style), strict=True))
    return np.array([found.get(str(value), np.nan) for value in column])


def _numbers(column: pd.Series, name: str, remedy: str) -> np.ndarray:
    kind = kind_of(column)
    if kind in ("number", "boolean"):
        values = column.to_numpy(dtype=np.float64, na_value=np.nan)
        refuse(np.isinf(values), column, name, "has an infinite value")
        return values
    check_plain(column.to_frame(), name)
    levels = [str(level) for level in column.dropna().unique()]
    style = text.number_style(levels) or "point"
    values = text.plain_numbers(levels, style)
    if values is None:
        odd = {one for one in levels if not text.is_number(one, style) and not text.is_gap(one)}
        if odd or kind != "text":
            wrong = column.map(lambda value: kind != "text" or str(value) in odd).to_numpy(bool)
            raise InputError(
                f"column {column.name!r} of {name} has {_first(column, wrong)}, where a number "
                f"should be; {remedy}"
            )
        values = text.numbers(levels, style)
    found = dict(zip(levels, values, strict=True))
    parsed = np.array([found.get(str(value), np.nan) for value in column])
    refuse(np.isinf(parsed), column, name, "has an infinite value")
    return parsed


def _first(column: pd.Series, wrong: np.ndarray) -> str:
    at = int(np.argmax(wrong))
    text = str(column.iloc[at])
    return f"{text if len(text) <= 30 else text[:27] + '…'!r} in row {column.index[at] + 1}"
