"""Warnings that point at the line of the caller, not at a line of this library."""

from __future__ import annotations

import sys
import warnings

# Packages that call this library on behalf of a user.
_INSIDE = frozenset(("bandfall", "sklearn", "joblib", "contextlib", "functools"))


def warn_caller(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the innermost line outside this library and scikit-learn."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in _INSIDE:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
