"""Methods that public estimators inherit carry the name of the public class in error messages."""

from __future__ import annotations

import inspect
from functools import update_wrapper
from types import CellType, FunctionType
from typing import Any


class PublicNames:
    """Subclasses listed in ``bandfall.estimators`` own copies of what they inherit from it.

    Python names the class that defines a method when arguments are wrong: "SelfTuning.fit()
    missing 1 required positional argument". A copy is named after the class that people use.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name in dir(cls):
            method = inspect.getattr_static(cls, name)
            shown = name == "__init__" or not name.startswith("_")
            inherited = isinstance(method, FunctionType) and name not in vars(cls)
            if shown and inherited and method.__module__.startswith("bandfall."):
                setattr(cls, name, _renamed(method, f"{cls.__name__}.{name}"))


def _renamed(function: FunctionType, name: str) -> FunctionType:
    """A copy with another qualified name; a function that it wraps is copied, too."""
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
