"""Inherited methods that carry the name of the public class in error messages."""

from __future__ import annotations

import inspect
from functools import update_wrapper
from types import CellType, FunctionType


def own_methods(cls: type) -> None:
    """Give a class copies of the public methods that it inherits, under its own name.

    If arguments are wrong, Python names the class that defines a method: "SelfTuning.fit() missing
    1 required positional argument". The copy names the public class instead.
    """
    for name in dir(cls):
        method = inspect.getattr_static(cls, name)
        shown = name == "__init__" or not name.startswith("_")
        inherited = isinstance(method, FunctionType) and name not in vars(cls)
        if shown and inherited and method.__module__.startswith("bandfall."):
            setattr(cls, name, _renamed(method, f"{cls.__name__}.{name}"))


def _renamed(function: FunctionType, name: str) -> FunctionType:
    """A copy with another qualified name, and a copy of the function that it wraps."""
    inner, closure = getattr(function, "__wrapped__", None), function.__closure__
    if isinstance(inner, FunctionType):
        copy = _renamed(inner, name)
        cells = closure or ()
        closure = tuple(CellType(copy) if one.cell_contents is inner else one for one in cells)
        inner = copy
    renamed = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, closure
    )
    renamed.__kwdefaults__ = function.__kwdefaults__
    update_wrapper(renamed, function)
    renamed.__qualname__ = name
    vars(renamed).pop("__wrapped__")
    if inner is not None:
        vars(renamed)["__wrapped__"] = inner
    return renamed
