"""Arrays of other libraries: converted to NumPy at the edge, and results converted back.

The rule, for every estimator: input arrays of any library are converted to NumPy arrays, and
results for the rows of X are returned as the same kind of array as X, on the same device. Fitted
attributes (`path_`, `coefficients_`, …) are always NumPy arrays. Blocks of dask arrays and
dataframes stay on their workers, except in a fit, and predictions for them are dask arrays.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import wraps
from typing import TYPE_CHECKING, TypeGuard

import numpy as np

from bandfall._estimators.dask_rows import gathered, is_dask, lazily
from bandfall._typing import Array, Estimator

if TYPE_CHECKING:
    import torch


def answer_in_kind(cls: type) -> None:
    """Make the public methods of a class accept any kind of array X and return the same kind.

    Methods are wrapped when the class is created, as scikit-learn does for `set_output`, so that
    estimators need no code for it.
    """
    for name, method in list(vars(cls).items()):
        if not name.startswith("_") and inspect.isfunction(method) and _takes_rows(method):
            setattr(cls, name, _in_kind_of_rows(method))


def _takes_rows(method: Callable[..., object]) -> bool:
    return list(inspect.signature(method).parameters)[1:2] == ["X"]


def _in_kind_of_rows(method: Callable[..., object]) -> Callable[..., object]:
    at_once = "y" in inspect.signature(method).parameters  # fit and score need all rows

    @wraps(method)
    def wrapped(self: Estimator, *arguments: object, **named: object) -> object:
        rows = arguments[0] if arguments else named.get("X")
        if is_dask(rows) and not at_once:
            others = {name: value for name, value in named.items() if name != "X"}
            return lazily(method, self, rows, *arguments[1:], **others)
        if method.__name__ == "fit" and getattr(self, "_keeps_remote_rows", False):
            return method(self, *arguments, **named)  # it decides which rows to gather
        arrays = {name: as_numpy(value) for name, value in named.items()}
        return _answer(method(self, *map(as_numpy, arguments), **arrays), rows)

    return wrapped


def _answer(result: object, rows: object) -> object:
    """Convert an array, or every array of an iterator, to the kind of `rows`."""
    if isinstance(result, Iterator):
        return (_answer(part, rows) for part in result)
    return in_kind(result, rows) if isinstance(result, np.ndarray) else result


def as_numpy(array: Array) -> Array:
    """Convert tensors, dask collections and arrays of the array API to NumPy; keep anything else.

    Tensors on a GPU are copied to the host, blocks on a cluster to this process. Masked values
    become NaN.
    """
    if isinstance(array, np.ma.MaskedArray) and array.dtype.kind in "biuf":
        dtype = array.dtype if array.dtype.kind == "f" else np.dtype(np.float64)
        return np.ma.filled(array.astype(dtype), np.nan) if np.any(array.mask) else array.data
    if _is_torch(array):
        return array.detach().cpu().numpy()
    if is_dask(array):
        return gathered(array)
    if isinstance(array, np.ndarray | np.generic) or not hasattr(array, "__array_namespace__"):
        return array
    try:
        return np.from_dlpack(array)
    except (BufferError, RuntimeError, TypeError):  # on a device NumPy cannot reach
        return np.from_dlpack(array.to_device("cpu"))


def in_kind(result: np.ndarray, like: Array) -> Array:
    """Convert `result` to the array type and device of `like`."""
    if _is_torch(like):
        import torch

        return torch.from_numpy(np.ascontiguousarray(result)).to(like.device)
    if isinstance(like, np.ndarray) or is_dask(like) or not hasattr(like, "__array_namespace__"):
        return result
    return like.__array_namespace__().asarray(result, device=like.device)


def _is_torch(array: object) -> TypeGuard[torch.Tensor]:
    return type(array).__module__.split(".")[0] == "torch" and hasattr(array, "detach")
