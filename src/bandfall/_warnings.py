"""Warnings that point at the line of the caller, not at a line of this library."""

from __future__ import annotations

import sys
import warnings
from contextvars import ContextVar
from types import FrameType

# Packages that call this library on behalf of a user.
_INSIDE = frozenset(("bandfall", "sklearn", "joblib", "contextlib", "functools"))

_caller: ContextVar[FrameType | None] = ContextVar("caller", default=None)


def warn_caller(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the innermost line outside this library and scikit-learn."""
    frame = _frame_outside()
    if frame.f_back is None or _package(frame) == "threading":  # in a thread of a fit
        frame = _caller.get() or frame
    warnings.warn_explicit(
        message,
        category,
        filename=frame.f_code.co_filename,
        lineno=frame.f_lineno,
        module=frame.f_globals.get("__name__", ""),
        registry=frame.f_globals.setdefault("__warningregistry__", {}),
    )


def remember_caller() -> None:
    """Let threads that copy this context warn at the line that is calling the library now."""
    _caller.set(_frame_outside())


def _frame_outside() -> FrameType:
    frame = sys._getframe(2)
    while frame.f_back is not None and _package(frame) in _INSIDE:
        frame = frame.f_back
    return frame


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).split(".")[0]
