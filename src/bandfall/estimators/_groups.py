"""Rows that belong together, as the user names them."""

from __future__ import annotations

import numpy as np
from sklearn.utils import check_consistent_length, column_or_1d

from bandfall.operators.base import distinct_rows
from bandfall.typing import ArrayLike, Unchecked
from bandfall.warning import warn_caller

_MANY_COPIES = 0.5  # of all rows


def group_values(groups: ArrayLike, y: np.ndarray) -> np.ndarray:
    """What every row of y belongs to, shape (n,)."""
    values = column_or_1d(groups)
    check_consistent_length(y, values)
    return values


def group_numbers(values: np.ndarray | None) -> np.ndarray | None:
    """The groups as 0, 1, …, shape (n,); a missing value is a group of its own.

    Examples
    --------
    >>> group_numbers(np.array(["b", "a", "b"])).tolist()
    [0, 1, 0]
    """
    if values is None:
        return None
    numbers: dict[object, int] = {}
    found = [
        numbers.setdefault(number if _is_missing(value) else (value,), len(numbers))
        for number, value in enumerate(values.tolist())
    ]
    if len(numbers) < 2:
        raise ValueError("groups must name at least two groups, so that one can be held out")
    return np.array(found)


def warn_of_copies(columns: np.ndarray, targets: np.ndarray) -> None:
    """Warn if most rows are copies of earlier rows in features and target alike."""
    if not columns.shape[1]:  # without features no two rows can be told apart
        return
    n_distinct = len(distinct_rows(np.column_stack([columns, targets]))[0])
    n_copies = len(columns) - n_distinct
    if n_copies > _MANY_COPIES * len(columns):
        warn_caller(
            f"{n_copies:,} of {len(columns):,} rows repeat an earlier row, target included. If "
            "they are copies (an up-sampled table), the held-out score is too good: pass groups= "
            "to fit, with one value for all copies of a row",
        )


def _is_missing(value: Unchecked) -> bool:
    return value is None or value != value
