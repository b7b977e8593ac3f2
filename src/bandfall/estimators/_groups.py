"""Rows that belong together, as the user names them."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_consistent_length, column_or_1d


def group_values(groups: Any, y: np.ndarray) -> np.ndarray:
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
    numbers: dict[Any, int] = {}
    found = [
        numbers.setdefault(number if _is_missing(value) else (value,), len(numbers))
        for number, value in enumerate(values.tolist())
    ]
    if len(numbers) < 2:
        raise ValueError("groups must name at least two groups, so that one can be held out")
    return np.array(found)


def in_order_of_appearance(labels: np.ndarray) -> np.ndarray:
    """The same groups, numbered as they come: not by values, nor by the order of columns.

    Examples
    --------
    >>> in_order_of_appearance(np.array([2, 0, 2, 1])).tolist()
    [0, 1, 0, 2]
    """
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse]


def _is_missing(value: Any) -> bool:
    return value is None or value != value
