"""Conversion of Python values to JSON and arrays, and back; only for registered classes.

Plain JSON values stand for themselves. Everything else is an object with the key "$":

    {"$": "array", "name": ...}                  an array of the file
    {"$": "float", "value": "inf"}               a value that JSON lacks
    {"$": "tuple" | "strings", "items": [...]}
    {"$": "dict", "items": [[key, value], ...]}   a dict with keys that are not text
    {"$": "dtype", "name": ...}
    {"$": "kernel", "name": ..., "p": ..., "exponent": ...}   p, exponent: unless default
    {"$": "object", "class": ..., "state": {...}}   an object of a registered class
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import singledispatch
from typing import Any, Generic, TypeVar

import numpy as np

from bandfall._files.container import Arrays, ModelFileError
from bandfall._typing import State, Unchecked
from bandfall.kernels._kernel import Kernel, get_kernel

T = TypeVar("T")

MAX_DEPTH = 32
_TAG = "$"
_SPECIAL = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}
_DTYPES = {"float32": np.dtype(np.float32), "float64": np.dtype(np.float64)}


@dataclass(frozen=True)
class Component(Generic[T]):
    """Conversion of objects of one class to a storable state, and back."""

    cls: type[T]
    to_state: Callable[[T], State]
    # The state may come from anyone: raises ValueError or TypeError unless it is usable.
    from_state: Callable[[State], T]


_REGISTRY: dict[str, Component[Any]] = {}  # of all classes


def register(component: Component[T]) -> None:
    """Allow objects of a class in model files, under the name of the class."""
    _REGISTRY[component.cls.__name__] = component


@singledispatch
def encode(value: Any, arrays: Arrays, where: str) -> Unchecked:
    """JSON for `value`; adds its arrays to `arrays` under names that start with `where`."""
    component = _REGISTRY.get(type(value).__name__)
    if component is None or type(value) is not component.cls:
        raise _unstorable(where, value)
    state = encode(component.to_state(value), arrays, where)
    return {_TAG: "object", "class": component.cls.__name__, "state": state}


@encode.register(type(None) | bool | str | int)
def _(value: Unchecked, arrays: Arrays, where: str) -> Unchecked:
    return value


@encode.register
def _(value: np.generic, arrays: Arrays, where: str) -> Unchecked:
    return encode(value.item(), arrays, where)


@encode.register
def _(value: float, arrays: Arrays, where: str) -> Unchecked:
    return value if math.isfinite(value) else {_TAG: "float", "value": repr(value)}


@encode.register
def _(value: list, arrays: Arrays, where: str) -> Unchecked:
    return [encode(item, arrays, f"{where}.{i}") for i, item in enumerate(value)]


@encode.register
def _(value: tuple, arrays: Arrays, where: str) -> Unchecked:
    return {_TAG: "tuple", "items": encode(list(value), arrays, where)}


@encode.register
def _(value: dict, arrays: Arrays, where: str) -> Unchecked:
    if all(isinstance(key, str) and key != _TAG for key in value):
        return {key: encode(item, arrays, f"{where}.{key}") for key, item in value.items()}
    pairs = [list(pair) for pair in value.items()]
    return {_TAG: "dict", "items": encode(pairs, arrays, where)}


@encode.register
def _(value: np.dtype, arrays: Arrays, where: str) -> Unchecked:
    if value.name not in _DTYPES:
        raise _unstorable(where, value)
    return {_TAG: "dtype", "name": value.name}


@encode.register
def _(value: Kernel, arrays: Arrays, where: str) -> Unchecked:
    if not value.built_in:
        raise _unstorable(where, value)
    return {_TAG: "kernel", **value.parameters()}


@encode.register
def _(value: np.ndarray, arrays: Arrays, where: str) -> Unchecked:
    if value.dtype == object or value.dtype.kind == "U":
        if value.ndim != 1 or not all(isinstance(item, str) for item in value):
            raise _unstorable(where, value)
        return {_TAG: "strings", "items": [str(item) for item in value]}
    arrays[where] = value
    return {_TAG: "array", "name": where}


def _unstorable(where: str, value: Unchecked) -> ModelFileError:
    return ModelFileError(
        f"{where} is {_shortened(value)}, which a model file cannot hold: it contains numbers and "
        "known classes, never code. Use names and numbers as parameters, or pickle"
    )


def _shortened(value: Unchecked) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else text[:77] + "..."


def decode(value: Unchecked, arrays: Arrays, depth: int = 0) -> Unchecked:
    """The inverse of `encode`; raises ModelFileError if that is not possible."""
    if depth > MAX_DEPTH:
        raise ModelFileError("its values are nested too deeply")
    if isinstance(value, list):
        return [decode(item, arrays, depth + 1) for item in value]
    if not isinstance(value, dict):
        return value
    if _TAG not in value:
        return {key: decode(item, arrays, depth + 1) for key, item in value.items()}
    decoder = _DECODERS.get(value[_TAG]) if isinstance(value[_TAG], str) else None
    if decoder is None:
        raise ModelFileError(f"it has a value of unknown kind {_shortened(value[_TAG])}")
    try:
        return decoder(value, arrays, depth)
    except KeyError as error:
        raise ModelFileError(f"it refers to {error}, which is missing") from None


def _decode_array(value: dict, arrays: Arrays, depth: int) -> np.ndarray:
    if not isinstance(value["name"], str):
        raise ModelFileError("it has an array without a name")
    return arrays[value["name"]]


def _decode_tuple(value: dict, arrays: Arrays, depth: int) -> tuple:
    return tuple(decode(item, arrays, depth + 2) for item in _list(value["items"]))


def _decode_dict(value: dict, arrays: Arrays, depth: int) -> dict:
    pairs = [_list(pair) for pair in _list(value["items"])]
    if any(len(pair) != 2 or not isinstance(pair[0], str | int | float) for pair in pairs):
        raise ModelFileError("it has a dict with unusable keys")
    return {key: decode(item, arrays, depth + 2) for key, item in pairs}


def _decode_strings(value: dict, arrays: Arrays, depth: int) -> np.ndarray:
    items = _list(value["items"])
    if not all(isinstance(item, str) for item in items):
        raise ModelFileError("it has a list of names with something else in it")
    strings = np.empty(len(items), dtype=object)
    strings[:] = items
    return strings


def _decode_object(value: dict, arrays: Arrays, depth: int) -> Unchecked:
    name, state = value["class"], value["state"]
    if not isinstance(name, str) or name not in _REGISTRY:
        raise ModelFileError(
            f"it holds an object of class {_shortened(name)}, which this version does not know; "
            f"known: {', '.join(sorted(_REGISTRY))}"
        )
    if not isinstance(state, dict):
        raise ModelFileError(f"its {name} has no state")
    values = {key: decode(item, arrays, depth + 1) for key, item in state.items()}
    try:
        return _REGISTRY[name].from_state(values)
    except ModelFileError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise ModelFileError(f"its {name} is not usable: {error}") from None


def _list(value: Unchecked) -> list:
    if not isinstance(value, list):
        raise ModelFileError("it has something else where a list should be")
    return value


def _decode_kernel(value: dict, arrays: Arrays, depth: int) -> Kernel:
    try:
        return get_kernel(_key(value["name"]), p=value.get("p"), exponent=value.get("exponent"))
    except ValueError as error:
        raise ModelFileError(f"its kernel is not usable: {error}") from None


_DECODERS: dict[str, Callable[[dict, Arrays, int], object]] = {
    "array": _decode_array,
    "float": lambda value, arrays, depth: _SPECIAL[_key(value["value"])],
    "tuple": _decode_tuple,
    "dict": _decode_dict,
    "strings": _decode_strings,
    "dtype": lambda value, arrays, depth: _DTYPES[_key(value["name"])],
    "kernel": _decode_kernel,
    "object": _decode_object,
}


def _key(value: Unchecked) -> str:
    if not isinstance(value, str):
        raise ModelFileError("it has something else where a name should be")
    return value
