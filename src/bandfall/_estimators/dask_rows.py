"""Rows of dask arrays and dataframes: gathered block by block, or predicted on their workers."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeAlias, TypeGuard

import numpy as np

from bandfall._products.base import GIBIBYTE
from bandfall._products.dask_cluster import is_cluster, log
from bandfall._typing import Array, Estimator, JsonDict

if TYPE_CHECKING:
    import pandas
    from dask.delayed import Delayed

DaskRows: TypeAlias = Array  # a dask array, dataframe or series


def is_dask(rows: object) -> TypeGuard[DaskRows]:
    """Whether rows are a dask array, dataframe or series."""
    return type(rows).__module__.split(".")[0] in ("dask", "dask_expr") and hasattr(
        rows, "to_delayed"
    )


def gathered(rows: DaskRows) -> np.ndarray | pandas.DataFrame | pandas.Series:
    """Convert a dask array to a NumPy array, and a dask dataframe or series to pandas.

    Blocks are fetched one by one, so that an array is never held twice.
    """
    blocks, sizes = _blocks(rows)
    if np.isnan(sizes).any():
        log.info("gathering %d blocks of unknown size", len(blocks))
    else:
        log.info("gathering %d blocks: %.3f GiB", len(blocks), rows.nbytes / GIBIBYTE)
    if not _is_array(rows):
        import pandas

        return pandas.concat([block.compute() for block in blocks])
    if np.isnan(sizes).any():
        return np.concatenate([block.compute() for block in blocks])
    result = np.empty(rows.shape, rows.dtype)
    start = 0
    for block, size in zip(blocks, sizes, strict=True):
        result[start : start + size] = block.compute()
        start += size
    return result


def lazily(
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
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # placeholders may look odd
        template = method(model, _placeholder(rows), *more, **named)
        several = not isinstance(template, np.ndarray)
        kind = tuple if isinstance(template, tuple) else list
        like = _joined(template)
    blocks, sizes = _blocks(rows)
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
    return kind(answer[:, i] for i in range(like.shape[1])) if several else answer


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


def row_blocks(rows: DaskRows) -> list[Delayed]:
    """Delayed blocks of whole rows."""
    return _blocks(rows)[0]


def _blocks(rows: DaskRows) -> tuple[list[Delayed], np.ndarray]:
    """Delayed blocks of whole rows, and their numbers of rows, NaN if unknown."""
    if not _is_array(rows):
        blocks = rows.to_delayed()
        return list(blocks), np.full(len(blocks), np.nan)
    if rows.ndim > 1:
        rows = rows.rechunk(dict.fromkeys(range(1, rows.ndim), -1))
    sizes = np.array(rows.chunks[0])
    return list(rows.to_delayed().reshape(-1)), sizes


def _placeholder(rows: DaskRows) -> object:
    """A few rows with the same columns, to find shape and dtype of a result."""
    if not _is_array(rows):
        return rows._meta_nonempty
    return np.zeros((1, *rows.shape[1:]), rows.dtype)


def _is_array(rows: DaskRows) -> bool:
    """Whether rows are an array, not a dataframe or series."""
    return hasattr(rows, "chunks")
