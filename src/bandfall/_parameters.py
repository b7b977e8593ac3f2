"""Checks of single parameters: errors that name the parameter, its value and what is allowed."""

from __future__ import annotations

import math
import numbers

import numpy as np


def check_number(
    name: str,
    value: object,
    *,
    low: float | None = None,
    high: float | None = None,
    low_open: bool = False,
    allow_none: bool = False,
    finite: bool = False,
    integer: bool = False,
) -> None:
    """Raise unless `value` is a real number in the interval; names parameter, value, interval.

    An interval without `high` holds inf, unless the number must be `finite` or an `integer`.
    """
    if value is None and allow_none:
        return
    unlimited = "inf)" if finite or integer else "inf]"
    left = "(" if low_open or low is None else "["
    right = unlimited if high is None else f"{high}]"
    kind, expected = ("an integer", numbers.Integral) if integer else ("a number", numbers.Real)
    allowed = f"{kind} in {left}{'-inf' if low is None else low}, {right}"
    allowed += " or None" if allow_none else ""
    if isinstance(value, bool | np.bool_) or not isinstance(value, expected):
        raise TypeError(f"{name}={value!r} must be {allowed}; got {type(value).__name__}")
    number = float(value)
    inside = (low is None or number > low or (number == low and not low_open)) and (
        number <= high if high is not None else number < math.inf or not finite
    )
    if not inside:  # NaN is never inside
        raise ValueError(f"{name}={value!r} must be {allowed}")


def check_flag(name: str, value: object) -> None:
    """Raise unless `value` is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name}={value!r} must be True or False; got {type(value).__name__}")
