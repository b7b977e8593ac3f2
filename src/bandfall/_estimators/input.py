"""What users pass: arrays of any library, frames, targets, weights and groups, validated.

Input arrays of any library are converted to NumPy arrays at the edge, and results for the rows of X
are returned as the same kind of array as X, on the same device. Fitted attributes are always NumPy
arrays. Blocks of dask arrays and dataframes stay on their workers, except in a fit, and predictions
for them are dask arrays.
"""

from __future__ import annotations

import copy
import datetime
import inspect
import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import wraps
from typing import TYPE_CHECKING, TypeAlias, TypeGuard

import numpy as np
from sklearn.utils import check_consistent_length, column_or_1d
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from bandfall._checks import warn_caller
from bandfall._products.base import GIBIBYTE, distinct_rows
from bandfall._products.device import is_cluster
from bandfall._targets import Target
from bandfall._targets.losses import training_weights
from bandfall._targets.numbers import check_variation
from bandfall._typing import Array, ArrayLike, Estimator, JsonDict, TableLike, Weights
from bandfall.tables import Table, prepare_table, read_table
from bandfall.tables._table import is_frame, is_missing

if TYPE_CHECKING:
    import torch
    from dask.delayed import Delayed

DaskRows: TypeAlias = Array  # a dask array, dataframe or series

FLOATS = (np.float64, np.float32)
_MANY_COPIES = 0.5  # share of all rows


@dataclass(frozen=True)
class TrainingTable:
    """Validated rows to train on."""

    table: Table
    target: Target  # learned from y, not yet coded
    values: np.ndarray  # (n,) or (n, k): the target
    weights: Weights  # (n,)
    groups: np.ndarray | None  # (n,): group or time of each row
    dtype: np.dtype  # of the features
    numbers: np.ndarray | None = None  # indices of these rows in X, in order; None for all
    ordered: bool = False  # whether groups are times, of which the latest are held out

    def __len__(self) -> int:
        return len(self.values)

    def take(self, rows: np.ndarray) -> TrainingTable:
        """The table with some of the rows."""
        return replace(
            self,
            table=self.table.take(rows),
            values=self.values[rows],
            weights=None if self.weights is None else training_weights(self.weights[rows]),
            groups=None if self.groups is None else self.groups[rows],
            numbers=rows if self.numbers is None else self.numbers[rows],
        )

    def group_numbers(self) -> np.ndarray | None:
        """Groups as 0, 1, …, in the order of time if they are times."""
        if self.groups is None or not self.ordered:
            return None if self.groups is None else group_numbers(self.groups)
        times, numbers = np.unique(self.groups, return_inverse=True)
        if len(times) < 2:
            raise ValueError(
                "time must hold at least two times, so that later rows can be held out"
            )
        return numbers


def training_table(
    estimator: Estimator,
    kind: type[Target],
    X: TableLike,
    y: ArrayLike,
    sample_weight: ArrayLike | None,
    groups: ArrayLike | None,
    time: str | ArrayLike | None = None,
    class_weight: dict[object, float] | str | None = None,
) -> TrainingTable:
    """Validate the arguments of `fit`, without rows of weight zero.

    Stores names and number of features on the estimator.
    """
    X = _as_table(X)
    _refuse_missing_targets(y)
    if _holds_more_than_numbers(X):
        table, dtype = _read(estimator, X, reset=True), np.dtype(np.float64)
        target, values = kind.learn(y)
        if len(values) != len(table):
            raise ValueError(f"y has {len(values)} rows, but X has {len(table)}")
    else:
        rows, y = validate_data(
            estimator, X, y, dtype=FLOATS, ensure_all_finite="allow-nan", **kind.checks
        )
        target, values = kind.learn(y)
        table, dtype = read_table(rows), rows.dtype
    weights = None
    if sample_weight is not None or class_weight is not None:
        weights = _check_sample_weight(sample_weight, values, ensure_non_negative=True)
    if class_weight is not None:
        weights = weights * compute_sample_weight(class_weight, np.ravel(y))
    if groups is not None and time is not None:
        raise ValueError("give groups or time, not both: either decides which rows are held out")
    known = None if groups is None else column_or_1d(groups)
    if time is not None:
        known = _times(table, time)
    if known is not None:
        check_consistent_length(values, known)
    rows = TrainingTable(table, target, values, weights, known, dtype, ordered=time is not None)
    if weights is None:
        return rows
    used = used_rows(weights)
    rows = rows.take(used)
    return replace(rows, numbers=None) if len(used) == len(values) else rows


def used_rows(weights: np.ndarray) -> np.ndarray:
    """Indices of the rows whose weight is not zero; raises ValueError if there are none."""
    used = np.flatnonzero(weights > 0)
    if not len(used):
        raise ValueError("sample_weight must be positive for at least one row")
    return used


def new_table(estimator: Estimator, X: TableLike) -> Table:
    """Validate rows to predict."""
    check_is_fitted(estimator)
    X = _as_table(X)
    if _holds_more_than_numbers(X):
        return _read(estimator, X, reset=False)
    X = validate_data(estimator, X, reset=False, dtype=FLOATS, ensure_all_finite="allow-nan")
    return read_table(X)


def _read(estimator: Estimator, X: TableLike, *, reset: bool) -> Table:
    """Read a frame or an array of objects; store its names, or compare them with those of `fit`."""
    table = read_table(X)
    if isinstance(X, np.ndarray) or hasattr(X, "__dataframe__"):
        validate_data(estimator, X, reset=reset, skip_check_array=True)
    elif reset:
        estimator.n_features_in_ = table.width
        estimator.feature_names_in_ = np.asarray(table.names, dtype=object)
    return table


def _as_table(X: TableLike) -> TableLike:
    """X, or an array of objects for lists of rows that contain text; refuses what is no table."""
    refuse_series(X)
    dicts = isinstance(X, list | tuple) and len(X) > 0 and isinstance(X[0], dict)
    if dicts or (isinstance(X, np.ndarray) and X.dtype.names is not None):
        raise TypeError("rows as dicts or records are not supported; use pandas.DataFrame(X)")
    if not isinstance(X, list | tuple) or not all(isinstance(row, list | tuple) for row in X):
        return X
    if not any(isinstance(value, str) for row in X for value in row):
        return X
    lengths = {len(row) for row in X}
    if len(lengths) > 1:
        raise ValueError(f"the rows of X have different lengths: {sorted(lengths)}")
    objects = np.empty((len(X), *lengths), dtype=object)
    objects[:] = X
    return objects


def _holds_more_than_numbers(X: TableLike) -> bool:
    """Whether X is a frame, or an array with text or times in it."""
    if not isinstance(X, np.ndarray) or X.ndim != 2:
        return is_frame(X)
    kinds = (str, datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64)
    objects = X.dtype == object and any(isinstance(value, kinds) for value in X.flat)
    return objects or X.dtype.kind in "US"


def _refuse_missing_targets(y: ArrayLike) -> None:
    """Raise ValueError if targets are missing."""
    values = np.asarray(y)
    if values.ndim == 0 or values.dtype.kind not in "fO":
        return
    is_nan = np.isnan if values.dtype.kind == "f" else np.frompyfunc(is_missing, 1, 1)
    missing = is_nan(values).astype(bool)
    if not missing.any():
        return
    rows = np.flatnonzero(missing.reshape(len(missing), -1).any(axis=1))
    raise ValueError(
        f"Input y contains NaN: {len(rows):,} of {len(values):,} rows have no target, first "
        f"row {rows[0]}; remove these rows before fit"
    )


def _times(table: Table, time: str | ArrayLike) -> np.ndarray:
    """The times of rows as numbers (n,), from a column of the table or from an array."""
    if not isinstance(time, str):
        column = read_table({"time": np.ravel(time)}).columns[0]
    elif table.names is not None and time in table.names:
        column = table.columns[table.names.index(time)]
    else:
        raise ValueError(f"time={time!r} is not a column of X")
    column = prepare_table(Table(["time"], parts=[column]), warn=False).columns[0]
    if column.kind == "category" or np.isnan(column.values).any():
        raise ValueError("time must hold a number or a date for each row")
    return column.values


def group_numbers(values: np.ndarray) -> np.ndarray:
    """The groups as 0, 1, …, shape (n,); every missing value is a separate group.

    Examples
    --------
    >>> group_numbers(np.array(["b", "a", "b"])).tolist()
    [0, 1, 0]
    """
    numbers: dict[object, int] = {}
    found = [
        numbers.setdefault(row if value is None or value != value else (value,), len(numbers))
        for row, value in enumerate(values.tolist())
    ]
    if len(numbers) < 2:
        raise ValueError("groups must name at least two groups, so that one can be held out")
    return np.array(found)


def warn_of_copies(columns: np.ndarray, targets: np.ndarray) -> None:
    """Warn if most rows are copies of earlier rows, including the target."""
    if not columns.shape[1]:  # without features all rows are equal
        return
    n_distinct = len(distinct_rows(np.column_stack([columns, targets]))[0])
    n_copies = len(columns) - n_distinct
    if n_copies > _MANY_COPIES * len(columns):
        warn_caller(
            f"{n_copies:,} of {len(columns):,} rows repeat an earlier row, target included. If "
            "they are copies (an up-sampled table), the held-out score is too good: put all "
            "copies of a row into one group (groups= in Python, --group in a shell)",
        )


def refuse_series(X: TableLike) -> None:
    """Raise ValueError for a Series in place of a table."""
    if type(X).__name__ == "Series":
        raise ValueError(
            "X is a Series, not a table: write df.iloc[[i]] instead of df.iloc[i] for one row, "
            "df[['name']] instead of df['name'] for one column"
        )


def columns_without_numbers(X: TableLike) -> str:
    """Names and dtypes of a table's columns that hold no numbers, for an error message."""
    if not (hasattr(X, "dtypes") and hasattr(X, "columns")):
        return ""
    kinds = zip(X.columns, X.dtypes, strict=True)
    return ", ".join(
        f"{name!r} ({dtype})" for name, dtype in kinds if getattr(dtype, "kind", "O") not in "biuf"
    )


def check_magnitudes(X: np.ndarray, y: np.ndarray) -> None:
    """Raise ValueError if distances or sums would leave the range of the dtype."""
    check_distances(X)
    limits = np.finfo(X.dtype)
    spread = float(np.ptp(X, axis=0).max())
    if 0.0 < spread < (float(limits.tiny) / float(limits.eps)) ** 0.5:
        raise ValueError(
            f"X spans no more than {spread:.3g} in any feature, too little for distances in "
            f"{X.dtype}; rescale the features"
        )
    if y.dtype.kind not in "biuf":
        raise ValueError(f"y must hold numbers only; got dtype {y.dtype}")
    largest = float(np.abs(y, dtype=np.float64).max())
    if largest > float(limits.max) / (4.0 * len(y)):
        raise ValueError(
            f"y has values as large as {largest:.3g}, too large for sums in {X.dtype}; rescale "
            "the target"
        )
    check_variation(y, float(limits.tiny) / float(limits.eps), X.dtype)


def check_distances(X: np.ndarray) -> None:
    """Raise ValueError for features so large that squared distances would overflow."""
    largest = float(max(X.max(), -X.min()))
    allowed = (float(np.finfo(X.dtype).max) / (16.0 * X.shape[1])) ** 0.5
    if largest > allowed:
        raise ValueError(
            f"X has values as large as {largest:.3g}, too large for distances in {X.dtype}, where "
            f"at most {allowed:.3g} is allowed; rescale the features"
        )


def in_kind_of_rows(method: Callable[..., object]) -> Callable[..., object]:
    """A method that accepts any kind of array X, and returns arrays of the same kind."""
    at_once = "y" in inspect.signature(method).parameters  # scores need all rows

    @wraps(method)
    def wrapped(self: Estimator, *arguments: object, **named: object) -> object:
        rows = arguments[0] if arguments else named.get("X")
        if is_dask(rows) and not at_once:
            others = {name: value for name, value in named.items() if name != "X"}
            return _lazily(method, self, rows, *arguments[1:], **others)
        arrays = {name: as_numpy(value) for name, value in named.items()}
        return _in_kind(method(self, *map(as_numpy, arguments), **arrays), rows)

    return wrapped


def _in_kind(result: object, like: Array) -> object:
    """Convert an array, or every array of an iterator, to the array type and device of `like`."""
    if isinstance(result, Iterator):
        return (_in_kind(part, like) for part in result)
    if not isinstance(result, np.ndarray) or isinstance(like, np.ndarray) or is_dask(like):
        return result
    if _is_torch(like):
        import torch

        return torch.from_numpy(np.ascontiguousarray(result)).to(like.device)
    if not hasattr(like, "__array_namespace__"):
        return result
    return like.__array_namespace__().asarray(result, device=like.device)


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
        return array.compute()
    if isinstance(array, np.ndarray | np.generic) or not hasattr(array, "__array_namespace__"):
        return array
    try:
        return np.from_dlpack(array)
    except (BufferError, RuntimeError, TypeError):  # on a device NumPy cannot reach
        return np.from_dlpack(array.to_device("cpu"))


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
    blocks, sizes = _row_blocks(rows)
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


def _row_blocks(rows: DaskRows) -> tuple[list[Delayed], np.ndarray]:
    """Delayed blocks of whole rows, and their numbers of rows, NaN if unknown."""
    if not hasattr(rows, "chunks"):
        blocks = rows.to_delayed()
        return list(blocks), np.full(len(blocks), np.nan)
    if rows.ndim > 1:
        rows = rows.rechunk(dict.fromkeys(range(1, rows.ndim), -1))
    return list(rows.to_delayed().reshape(-1)), np.array(rows.chunks[0])
