"""Conversion of Python values to JSON and arrays, and back; only for registered classes.

Plain JSON values stand for themselves. Everything else is an object with the key "$":

    {"$": "array", "name": ...}                  an array of the file
    {"$": "float", "value": "inf"}               a value that JSON lacks
    {"$": "tuple" | "strings", "items": [...]}
    {"$": "dict", "items": [[key, value], ...]}   a dict with keys that are not text
    {"$": "dtype" | "kernel", "name": ...}
    {"$": "object", "class": ..., "state": {...}}   an object of a registered class
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from enum import Enum
from functools import cache
from types import UnionType
from typing import TYPE_CHECKING, Any, get_args, get_origin, get_type_hints

import numpy as np

from bandfall._checks import check_names
from bandfall._files.container import Arrays, ModelFileError
from bandfall._typing import State, Unchecked
from bandfall.kernels._kernel import Kernel, get_kernel

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

MAX_DEPTH = 32
_TAG = "$"
_DTYPES = ("float32", "float64")


@dataclass(frozen=True)
class Component:
    """Conversion of objects of one class to a storable state, and back."""

    cls: type
    to_state: Callable[..., State]
    # The state may come from anyone: raises ValueError or TypeError unless it is usable.
    from_state: Callable[[State], object]


_REGISTRY: dict[str, Component] = {}  # all stored classes


def register(component: Component) -> None:
    """Allow objects of a class in model files, under the name of the class."""
    _REGISTRY[component.cls.__name__] = component


def register_dataclass(cls: type, check: Callable[..., None] = lambda made: None) -> None:
    """Allow objects of a dataclass, whose fields must have the annotated types.

    ``__post_init__``, or `check`, raises ValueError or TypeError if they do not fit together.
    """

    def from_state(state: State) -> object:
        hints = _hints(cls)
        required = {f.name for f in fields(cls) if f.default is f.default_factory is MISSING}
        check_names(cls.__name__, state, set(hints), required)
        for name, hint in hints.items():
            if isinstance(hint, type) and issubclass(hint, Enum):
                state[name] = hint(state[name])
        check_types(state, hints)
        for name, value in state.items():
            if isinstance(value, float) and math.isnan(value):
                raise ValueError(f"{name} is not a number")
        made = cls(**state)
        check(made)
        return made

    register(Component(cls, field_values, from_state))


def field_values(made: DataclassInstance) -> State:
    """Fields of a dataclass instance by name, not copied."""
    return {field.name: getattr(made, field.name) for field in fields(made)}


@cache
def _hints(cls: type) -> dict[str, Any]:
    """Types of the fields of a dataclass; solvers and schedules may be of any class."""
    hints = get_type_hints(cls, localns={"Solver": object, "Schedule": object})
    return {field.name: hints[field.name] for field in fields(cls)}


def check_types(values: Mapping[str, object], hints: Mapping[str, Any]) -> None:
    """Raise TypeError unless the values have the annotated types."""
    for name, value in values.items():
        if not _fits(value, hints[name]):
            wanted = getattr(hints[name], "__name__", str(hints[name]))
            raise TypeError(f"{name} must be {wanted}; got {_shortened(value)}")


def _fits(value: Unchecked, hint: Any) -> bool:
    """Whether a value has the type of an annotation; a bool is no number."""
    hint = getattr(hint, "__bound__", hint)  # of a type variable
    origin, inner = get_origin(hint) or hint, get_args(hint)
    if origin is Any:
        return True
    if origin is UnionType:
        return any(_fits(value, one) for one in inner)
    if isinstance(value, bool):
        return origin in (bool, object)
    if origin is float:
        return isinstance(value, int | float)
    if not isinstance(value, origin):
        return False
    if isinstance(value, dict) and inner:
        return all(_fits(key, inner[0]) and _fits(item, inner[1]) for key, item in value.items())
    return not (inner and isinstance(value, list | tuple)) or all(
        _fits(one, inner[0]) for one in value
    )


def encode(value: Any, arrays: Arrays, where: str) -> Unchecked:
    """JSON for `value`; adds its arrays to `arrays` under names that start with `where`."""
    match value:
        case np.generic():
            return encode(value.item(), arrays, where)
        case None | bool() | str() | int():
            return value
        case float():
            return value if math.isfinite(value) else {_TAG: "float", "value": repr(value)}
        case list():
            return [encode(item, arrays, f"{where}.{i}") for i, item in enumerate(value)]
        case tuple():
            return {_TAG: "tuple", "items": encode(list(value), arrays, where)}
        case dict() if all(isinstance(key, str) and key != _TAG for key in value):
            return {key: encode(item, arrays, f"{where}.{key}") for key, item in value.items()}
        case dict():
            pairs = [list(pair) for pair in value.items()]
            return {_TAG: "dict", "items": encode(pairs, arrays, where)}
        case np.dtype(name=name) if name in _DTYPES:
            return {_TAG: "dtype", "name": name}
        case Kernel(name=name, built_in=True):
            return {_TAG: "kernel", "name": name}
        case np.ndarray() if value.dtype.kind not in "OU":
            arrays[where] = value
            return {_TAG: "array", "name": where}
        case np.ndarray(ndim=1) if all(isinstance(item, str) for item in value):
            return {_TAG: "strings", "items": [str(item) for item in value]}
    component = _REGISTRY.get(type(value).__name__)
    if component is None or type(value) is not component.cls:
        raise ModelFileError(
            f"{where} is {_shortened(value)}, which a model file cannot hold: it contains numbers "
            "and known classes, never code. Use names and numbers as parameters, or pickle"
        )
    state = encode(component.to_state(value), arrays, where)
    return {_TAG: "object", "class": component.cls.__name__, "state": state}


def _shortened(value: Unchecked) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else text[:77] + "..."


def decode(value: Unchecked, arrays: Arrays, depth: int = 0) -> Unchecked:
    """The inverse of `encode`; raises ModelFileError if that is not possible."""
    if depth > MAX_DEPTH:
        raise ModelFileError("its values are nested too deeply")
    match value:
        case list():
            return [decode(item, arrays, depth + 1) for item in value]
        case {"$": "array", "name": str(name)} if name in arrays:
            return arrays[name]
        case {"$": "float", "value": "inf" | "-inf" | "nan" as number}:
            return float(number)
        case {"$": "tuple", "items": list(items)}:
            return tuple(decode(item, arrays, depth + 2) for item in items)
        case {"$": "dict", "items": list(items)} if all(map(_is_pair, items)):
            return {key: decode(item, arrays, depth + 2) for key, item in items}
        case {"$": "strings", "items": list(items)} if all(isinstance(one, str) for one in items):
            return np.array(items, dtype=object)
        case {"$": "dtype", "name": "float32" | "float64" as name}:
            return np.dtype(name)
        case {"$": "kernel", "name": str(name)}:
            try:
                return get_kernel(name)
            except ValueError as error:
                raise ModelFileError(f"its kernel is not usable: {error}") from None
        case {"$": "object", "class": name, "state": dict(state)}:
            return _made(
                name, {key: decode(item, arrays, depth + 1) for key, item in state.items()}
            )
        case {"$": _}:
            raise ModelFileError(f"it has a malformed value {_shortened(value)}")
        case dict():
            return {key: decode(item, arrays, depth + 1) for key, item in value.items()}
    return value


def _is_pair(value: Unchecked) -> bool:
    return isinstance(value, list) and len(value) == 2 and isinstance(value[0], str | int | float)


def _made(name: Unchecked, state: State) -> Unchecked:
    """The object of a class with this state."""
    component = _REGISTRY.get(name) if isinstance(name, str) else None
    if component is None:
        raise ModelFileError(
            f"it holds an object of class {_shortened(name)}, which this version does not know; "
            f"known: {', '.join(sorted(_REGISTRY))}"
        )
    try:
        return component.from_state(state)
    except ModelFileError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise ModelFileError(f"its {name} is not usable: {error}") from None
