"""Arrays of other libraries: converted to NumPy at the edge, and results converted back.

The rule, for every estimator: input arrays of any library are converted to NumPy arrays, and
results for the rows of X are returned as the same kind of array as X, on the same device. Fitted
attributes (`path_`, `coefficients_`, …) are always NumPy arrays. Blocks of dask arrays and
dataframes stay on their workers, except in a fit, and predictions for them are dask arrays.
"""

from __future__ import annotations

import copy
import inspect
import math
import warnings
from collections.abc import Callable, Iterator
from functools import wraps
from typing import TYPE_CHECKING, TypeAlias, TypeGuard

import numpy as np

from bandfall._products.base import GIBIBYTE
from bandfall._products.dask_cluster import is_cluster, log
from bandfall._typing import Array, Estimator, JsonDict

if TYPE_CHECKING:
    import torch
    from dask.delayed import Delayed

DaskRows: TypeAlias = Array  # a dask array, dataframe or series


def answer_in_kind(cls: type) -> None:
    """Make the public methods of a class accept any kind of array X and return the same kind.

    Methods are wrapped when the class is created, as scikit-learn does for `set_output`, so that
    estimators need no code for it. Only `fit` converts arrays itself, within its memory budget.
    """
    for name, method in list(vars(cls).items()):
        if name.startswith("_") or name == "fit" or not inspect.isfunction(method):
            continue
        if list(inspect.signature(method).parameters)[1:2] == ["X"]:
            setattr(cls, name, _in_kind_of_rows(method))


def _in_kind_of_rows(method: Callable[..., object]) -> Callable[..., object]:
    at_once = "y" in inspect.signature(method).parameters  # scores need all rows

    @wraps(method)
    def wrapped(self: Estimator, *arguments: object, **named: object) -> object:
        rows = arguments[0] if arguments else named.get("X")
        if is_dask(rows) and not at_once:
            others = {name: value for name, value in named.items() if name != "X"}
            return _lazily(method, self, rows, *arguments[1:], **others)
        arrays = {name: as_numpy(value) for name, value in named.items()}
        return _answer(method(self, *map(as_numpy, arguments), **arrays), rows)

    return wrapped


def _answer(result: object, rows: object) -> object:
    """Convert an array, or every array of an iterator, to the kind of `rows`."""
    if isinstance(result, Iterator):
        return (_answer(part, rows) for part in result)
    return in_kind(result, rows) if isinstance(result, np.ndarray) else result


def as_numpy(array: Array, budget: float = math.inf) -> Array:
    """Convert tensors, dask collections and arrays of the array API to NumPy; keep anything else.

    Tensors on a GPU are copied to the host, blocks on a cluster to this process. Masked values
    become NaN. Raises MemoryError for a dask array of more bytes than the budget.
    """
    if isinstance(array, np.ma.MaskedArray) and array.dtype.kind in "biuf":
        dtype = array.dtype if array.dtype.kind == "f" else np.dtype(np.float64)
        return np.ma.filled(array.astype(dtype), np.nan) if np.any(array.mask) else array.data
    if _is_torch(array):
        return array.detach().cpu().numpy()
    if is_dask(array):
        n_bytes = array.nbytes if hasattr(array, "chunks") else 0  # unknown of a dataframe
        if n_bytes > budget:
            raise MemoryError(
                f"a fit gathers all rows in this process: this dask array has "
                f"{n_bytes / GIBIBYTE:.3f} GiB, over the memory_budget of "
                f"{budget / GIBIBYTE:.3f} GiB; raise memory_budget, or fit float32 or fewer rows"
            )
        log.info("gathering %d blocks", array.npartitions)
        return array.compute()
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


def is_dask(rows: object) -> TypeGuard[DaskRows]:
    """Whether rows are a dask array, dataframe or series."""
    return type(rows).__module__.split(".")[0] in ("dask", "dask_expr") and hasattr(
        rows, "to_delayed"
    )


def _lazily(
    method: Callable[..., object],
    estimator: Estimator,
    rows: DaskRows,
    *more: object,
    **named: object,
) -> object:
    """The results of a method as dask arrays, computed block by block.

    An iterator becomes a list, and a tuple stays a tuple; their arrays are computed together.
    """
    import dask
    import dask.array

    model = copy.copy(estimator)
    if is_cluster(getattr(model, "device", None)):
        model.device = None  # workers compute their blocks locally
    is_array = hasattr(rows, "chunks")
    example = np.zeros((1, *rows.shape[1:]), rows.dtype) if is_array else rows._meta_nonempty
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the example may look odd
        template = method(model, example, *more, **named)
        like = _joined(template)
    blocks, sizes = row_blocks(rows)
    at_block = dask.delayed(_at_block, name="bandfall-predict", pure=False)
    shared = dask.delayed(model, traverse=False)
    answer = dask.array.concatenate(
        [
            dask.array.from_delayed(
                at_block(shared, method.__name__, block, like[:0], more, named),
                (size, *like.shape[1:]),
                like.dtype,
            )
            for block, size in zip(blocks, sizes, strict=True)
        ],
        allow_unknown_chunksizes=True,
    )
    if isinstance(template, np.ndarray):
        return answer
    kind = tuple if isinstance(template, tuple) else list
    return kind(answer[:, i] for i in range(like.shape[1]))


def _at_block(
    model: Estimator,
    method: str,
    block: Array,
    nothing: np.ndarray,
    more: tuple[object, ...],
    named: JsonDict,
) -> np.ndarray:
    if not len(block):  # partitions may be empty, but estimators refuse empty tables
        return nothing
    return _joined(getattr(model, method)(block, *more, **named)).astype(nothing.dtype, copy=False)


def _joined(answer: object) -> np.ndarray:
    """One array with rows first; several arrays are stacked along the second axis."""
    if isinstance(answer, Iterator | tuple | list):
        return np.stack(list(answer), axis=1)
    return np.asarray(answer)


def row_blocks(rows: DaskRows) -> tuple[list[Delayed], np.ndarray]:
    """Delayed blocks of whole rows, and their numbers of rows, NaN if unknown."""
    if not hasattr(rows, "chunks"):
        blocks = rows.to_delayed()
        return list(blocks), np.full(len(blocks), np.nan)
    if rows.ndim > 1:
        rows = rows.rechunk(dict.fromkeys(range(1, rows.ndim), -1))
    return list(rows.to_delayed().reshape(-1)), np.array(rows.chunks[0])
