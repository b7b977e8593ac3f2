"""Rows in the notes of a model file, for `inspect`, `report` and `explore`.

A column is an array of numbers, or an array of levels and an array of their positions. Text is
stored as bytes in an array, because the header of a model file, which holds text, is small.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pandas as pd

from bandfall._cli.columns import Features
from bandfall._cli.terminal import InputError
from bandfall._typing import JsonDict, Unchecked
from bandfall.report._columns import kind_of, places, series_of
from bandfall.tables import Column

_WORD = 8  # bytes of the integers that hold text


def pack_rows(X: pd.DataFrame, y: np.ndarray) -> JsonDict:
    """Features and targets as arrays: a matrix if all features are numbers; classes as text."""
    if y.dtype == object:
        return {**pack_rows(X, np.zeros(len(y))), "y": _pack(pd.Series(y), "text")}
    kinds = [kind_of(X[column]) for column in X.columns]
    if set(kinds) == {"number"}:
        return {"X": X.to_numpy(dtype=np.float64, na_value=np.nan), "y": y}
    return {
        "X": [_pack(X[name], kind) for name, kind in zip(X.columns, kinds, strict=True)],
        "y": y,
    }


def unpack_rows(kept: Unchecked, names: Sequence[str] | None) -> tuple[pd.DataFrame, np.ndarray]:
    """The arguments of `pack_rows`, under the names of the features; InputError if unreadable."""
    try:
        if not isinstance(kept, dict):
            raise TypeError("there are no rows")
        X, y = kept["X"], _targets(kept["y"])
        if isinstance(X, np.ndarray):
            frame = pd.DataFrame(X, columns=names)
        else:
            columns = [_unpack(column) for column in X]
            if {len(column) for column in columns} != {len(y)}:
                raise ValueError("columns and targets differ in length")
            labels = range(len(columns)) if names is None else names
            frame = pd.DataFrame(dict(zip(labels, columns, strict=True)))
        if len(frame) != len(y) or y.ndim not in (1, 2) or not len(y):
            raise ValueError("rows and targets differ in length")
    except (KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
        raise InputError(f"the rows kept in the model file cannot be read: {error}") from None
    return frame, y


def trained_on(notes: JsonDict, X: Features, y: np.ndarray) -> np.ndarray:
    """Which rows, with their targets, are among the training rows in the notes of a model file."""
    table = pd.DataFrame(X)
    try:
        X_train, y_train = unpack_rows(notes.get("train"), list(table.columns))
    except InputError:  # a file without rows
        return np.zeros(len(table), dtype=bool)
    return np.isin(_row_keys(table, y), _row_keys(X_train, y_train))


def _row_keys(X: pd.DataFrame, y: np.ndarray) -> np.ndarray:
    """A hash of each row; numbers are compared by value, everything else as text."""
    targets = pd.DataFrame(y.reshape(len(y), -1)).add_prefix("target ")
    table = pd.concat([X.reset_index(drop=True), targets], axis=1)
    columns = {}
    for place in range(table.shape[1]):
        column = table.iloc[:, place]
        if kind_of(column) in ("number", "boolean"):
            columns[place] = pd.Series(column.to_numpy(dtype=np.float64, na_value=np.nan))
        else:
            columns[place] = column.astype(object).where(column.notna(), None).map(str)
    keys: np.ndarray = pd.util.hash_pandas_object(pd.DataFrame(columns), index=False).to_numpy()
    return keys


def _targets(kept: Unchecked) -> np.ndarray:
    """Numbers, or classes as text."""
    if not isinstance(kept, dict):
        return np.asarray(kept, dtype=np.float64)
    labels = _unpack(kept)
    if labels.isna().any() or not all(isinstance(label, str) for label in labels):
        raise ValueError("a row has no class")
    return labels.to_numpy().astype(str)


def _pack(column: pd.Series, kind: str) -> JsonDict:
    if kind == "boolean":
        return {"kind": kind, "values": column.to_numpy(dtype=np.float64, na_value=np.nan)}
    if kind != "text":
        return {"kind": kind, "values": places(column)}
    codes, levels = pd.factorize(column.astype(object))
    encoded = [str(level).encode("utf-8", "surrogatepass") for level in levels]
    data = b"".join(encoded)
    words = np.frombuffer(data + bytes(-len(data) % _WORD), dtype="<i8")
    return {
        "kind": "text",
        "values": codes.astype(np.int64),
        "ends": np.cumsum([len(one) for one in encoded], dtype=np.int64),
        "text": words.astype(np.int64),
    }


def _unpack(column: Unchecked) -> pd.Series:
    if not isinstance(column, dict):
        raise TypeError("a column is not a dict")
    kind, values = column["kind"], np.asarray(column["values"])
    if values.ndim != 1:
        raise ValueError("a column has several dimensions")
    if kind in ("number", "boolean", "datetime", "duration"):
        return series_of(Column(kind, values.astype(np.float64)))
    if kind != "text":
        raise ValueError(f"a column of unknown kind {kind!r}")
    levels = _levels(np.asarray(column["ends"]), np.asarray(column["text"]))
    if len(values) and not -1 <= values.min() <= values.max() < len(levels):
        raise ValueError("a column refers to missing levels")
    return series_of(Column("category", values.astype(np.int64), tuple(levels)))


def _levels(ends: np.ndarray, text: np.ndarray) -> list[str]:
    data = text.astype("<i8").tobytes()
    bounds = [0, *(int(end) for end in ends)]
    if any(a > b for a, b in pairwise(bounds)) or bounds[-1] > len(data):
        raise ValueError("the levels of a column do not fit its text")
    return [data[a:b].decode("utf-8", "surrogatepass") for a, b in pairwise(bounds)]
