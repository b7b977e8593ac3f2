"""Validators of parameters, and of values from files, which may come from anyone; warnings.

Errors name the parameter, its value and what is allowed. Warnings point at the line of the caller,
not at a line of this library.
"""

from __future__ import annotations

import math
import numbers
import sys
import warnings
from collections.abc import Mapping
from typing import TypeVar

import numpy as np

from bandfall._typing import Unchecked

T = TypeVar("T")

# Packages that call this library on behalf of a user.
_INSIDE = frozenset(("bandfall", "sklearn", "joblib", "contextlib", "functools"))


def check_names(
    name: str, state: Mapping[str, object], known: set[str], required: set[str]
) -> None:
    """Raise ValueError unless required ⊆ names of `state` ⊆ known."""
    unknown = sorted(set(state) - known)
    if unknown:
        raise ValueError(f"{name} has unknown fields: {', '.join(unknown)}")
    missing = sorted(required - set(state))
    if missing:
        raise ValueError(f"{name} lacks fields: {', '.join(missing)}")


def check_instance(name: str, value: Unchecked, *types: type[T]) -> T:
    """Return `value`; raise TypeError unless it has one of the types. A bool is not an int."""
    wrong = isinstance(value, bool) and bool not in types
    if wrong or not isinstance(value, types):
        wanted = " or ".join(t.__name__ for t in types)
        raise TypeError(f"{name} must be {wanted}; got {type(value).__name__}")
    return value


def check_positions(name: str, values: Unchecked, end: int | None = None) -> None:
    """Raise unless `values` is a vector of integers from 0 to below `end`."""
    values = check_instance(name, values, np.ndarray)
    if values.dtype.kind != "i" or values.ndim != 1:
        raise ValueError(f"{name} must hold integers")
    if np.any(values < 0) or (end is not None and np.any(values >= end)):
        raise ValueError(f"{name} points outside its columns")


def check_sizes(name: str, values: np.ndarray, power: float = 0.5) -> None:
    """Raise unless sums and squares of the values stay in the range of their dtype."""
    largest = float(np.abs(values).max(initial=0.0))
    if not largest <= float(np.finfo(values.dtype).max) ** power / max(values.size, 1):
        raise ValueError(f"{name} has values as large as {largest:.3g}, too large to predict with")


def check_choice(name: str, value: object, *allowed: str) -> None:
    """Raise ValueError unless a parameter has one of the allowed values."""
    if value not in allowed:
        raise ValueError(f"{name}={value!r} is unknown; allowed: {', '.join(map(repr, allowed))}")


class ShapeChecker:
    """Checks arrays whose shapes share named dimensions, as in ``check("X", X, "n d")``."""

    def __init__(self, **sizes: int):
        self.sizes = sizes

    def __call__(
        self, name: str, array: Unchecked, dimensions: str, *, allowed: str = "finite"
    ) -> None:
        """Raise unless `array` is a float array of these dimensions with allowed values.

        `allowed` is "finite", "infinite" (infinities too) or "any" (NaN too).
        """
        array = check_instance(name, array, np.ndarray)
        names = dimensions.split()
        if array.dtype.kind != "f" or array.ndim != len(names):
            raise ValueError(f"{name} must be a float array with {len(names)} dimensions")
        for dimension, size in zip(names, array.shape, strict=True):
            if self.sizes.setdefault(dimension, size) != size:
                raise ValueError(
                    f"{name} has shape {array.shape}, which does not fit "
                    f"{dimension} = {self.sizes[dimension]}"
                )
        if allowed == "finite" and not np.isfinite(array).all():
            raise ValueError(f"{name} must be finite")
        if allowed == "infinite" and np.isnan(array).any():
            raise ValueError(f"{name} has NaN")


def check_number(
    name: str,
    value: object,
    low: float = -math.inf,
    high: float = math.inf,
    *,
    low_open: bool = False,
    allow_none: bool = False,
    finite: bool = False,
    integer: bool = False,
) -> None:
    """Raise unless `value` is a real number in the interval.

    Without `high` it holds inf, unless the number must be `finite` or an `integer`.
    """
    if value is None and allow_none:
        return
    low_open, high_open = low_open or low == -math.inf, high == math.inf and (finite or integer)
    kind, expected = ("an integer", numbers.Integral) if integer else ("a number", numbers.Real)
    interval = f"{'(' if low_open else '['}{low}, {high}{')' if high_open else ']'}"
    allowed = f"{kind} in {interval}" + " or None" * allow_none
    if isinstance(value, bool | np.bool_) or not isinstance(value, expected):
        raise TypeError(f"{name}={value!r} must be {allowed}; got {type(value).__name__}")
    open_ends = [low] * low_open + [high] * high_open
    if value in open_ends or not low <= float(value) <= high:  # NaN is never inside
        raise ValueError(f"{name}={value!r} must be {allowed}")


def warn_caller(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the innermost line outside this library and scikit-learn."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in _INSIDE:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
