"""Checks of single parameters: errors that name the parameter, its value and what is allowed."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np


def check_number(
    name: str,
    value: Any,
    *,
    low: float | None = None,
    high: float | None = None,
    low_open: bool = False,
    allow_none: bool = False,
) -> None:
    """Raise unless `value` is a real number in the interval; names parameter, value, interval."""
    if value is None and allow_none:
        return
    left = "(" if low_open or low is None else "["
    interval = f"{left}{'-inf' if low is None else low}, {'inf' if high is None else high}]"
    allowed = f"a number in {interval}" + (" or None" if allow_none else "")
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name}={value!r} must be {allowed}; got {type(value).__name__}")
    number = float(value)
    inside = (low is None or number > low or (number == low and not low_open)) and (
        high is None or number <= high
    )
    if not inside:  # NaN is never inside
        raise ValueError(f"{name}={value!r} must be {allowed}")


def check_flag(name: str, value: object) -> None:
    """Raise unless `value` is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name}={value!r} must be True or False; got {type(value).__name__}")
