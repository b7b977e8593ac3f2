"""Model files of commands: what they note beside the model, the rows they keep, rows of new tables.

Notes may come from anyone, so they are checked when read. Kept rows are one matrix of numbers, in
which text is replaced by the positions of its levels. The levels are JSON in an array, because the
header of a model file, which holds text, is small.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.utils import get_tags

from bandfall._checks import check_instance
from bandfall._cli.options import Style
from bandfall._cli.read_table import read_file
from bandfall._cli.rows import Features, check_finite, feature_numbers, require_columns
from bandfall._cli.terminal import InputError
from bandfall._cli.training import Trained
from bandfall._estimators.view import feature_names_of, last_step
from bandfall._files import ModelFile
from bandfall._typing import Estimator, JsonDict, Unchecked
from bandfall.report._columns import kind_of, series_of
from bandfall.tables import read_table
from bandfall.tables._table import KINDS, Column, categories


def model_notes(trained: Trained) -> JsonDict:
    """Notes in a model file, for `predict`, `inspect`, `report` and `explore`."""
    rows, roles = trained.rows, trained.rows.roles
    notes: JsonDict = {
        "target": rows.target,
        "targets": list(roles.targets),
        "source": Path(rows.source).name,
        "decimal": rows.style.decimal,
        "keep": list(roles.keep),
        "missing": list(rows.style.missing),
        # A column without values may hold anything later.
        "kinds": {n: kind_of(x) if x.notna().any() else "text" for n, x in rows.X.items()},
        "n_dropped": rows.n_dropped,
        "n_without_target": rows.n_without_target,
        "split": roles.split_words,
        "seconds": trained.seconds,
        "train": pack_rows(rows.X, rows.y),
    }
    if trained.held_out is not None:
        notes["test"] = pack_rows(trained.held_out.X, trained.held_out.y)
    return notes


def noted_words(notes: JsonDict, name: str) -> list[str]:
    """The texts in a list of the notes."""
    words = notes.get(name)
    return [word for word in words if isinstance(word, str)] if isinstance(words, list) else []


def noted_kinds(notes: JsonDict) -> dict[str, str]:
    """The kind of each feature, where it is noted."""
    kinds = notes.get("kinds")
    pairs = kinds.items() if isinstance(kinds, dict) else ()
    return {str(name): kind for name, kind in pairs if isinstance(kind, str)}


def read_for(data: str, stored: ModelFile, style: Style) -> tuple[pd.DataFrame, Style]:
    """A table, read as the table that the model was trained on."""
    text = [name for name, kind in noted_kinds(stored.notes).items() if kind == "text"]
    missing = noted_words(stored.notes, "missing")
    return read_file(data, Style(style.separator, style.decimal, style.encoding, text, missing))


def features_of(table: pd.DataFrame, stored: ModelFile, source: str) -> Features:
    """The columns of the model, converted to the kinds that it was trained with."""
    estimator = stored.estimator
    names = feature_names_of(estimator)
    if names is None:
        targets = noted_words(stored.notes, "targets")
        columns = [column for column in table.columns if column not in targets]
        if len(columns) != estimator.n_features_in_:
            raise InputError(
                f"{source} has {len(columns)} columns; the model was trained without column names "
                f"and needs {estimator.n_features_in_}"
            )
        return feature_numbers(table[columns], source, remedy="correct it")
    require_columns(table, names, source)
    rows, kinds = table[names].copy(), noted_kinds(stored.notes)
    for column in rows.columns:
        kind = kinds.get(column, "number" if only_numbers(estimator) else None)
        if kind == "number" and kind_of(rows[column]) != "number":
            rows[column] = feature_numbers(rows[[column]], source, remedy="correct it")[:, 0]
    check_finite(rows, source)
    return rows


def only_numbers(estimator: Estimator) -> bool:
    """Whether a model needs complete rows of numbers."""
    return not get_tags(last_step(estimator)).input_tags.allow_nan


def pack_rows(X: pd.DataFrame, y: np.ndarray) -> JsonDict:
    """Features and targets, which follow as further columns, in one matrix."""
    targets = y.reshape(len(y), -1).T
    classes = y.dtype == object
    columns = [*read_table(X).columns]
    columns += [categories(one) if classes else Column("number", one) for one in targets]
    levels = json.dumps([column.levels for column in columns])
    return {
        "kinds": [column.kind for column in columns],
        "values": np.column_stack([column.values for column in columns]),
        "levels": np.frombuffer(levels.encode(), dtype=np.uint8),
    }


def unpack_rows(kept: Unchecked, names: Sequence[str]) -> tuple[pd.DataFrame, np.ndarray]:
    """The arguments of `pack_rows`, under the names of the features; InputError if unreadable."""
    try:
        kept = check_instance("train or test", kept, dict)
        values = np.asarray(kept["values"], dtype=np.float64)
        levels = json.loads(np.asarray(kept["levels"], dtype=np.uint8).tobytes())
        if values.ndim != 2 or not len(values) or values.shape[1] <= len(names):
            raise ValueError(f"values of shape {values.shape} for {len(names)} features")
        columns = [_unpacked(*each) for each in zip(kept["kinds"], values.T, levels, strict=True)]
    except (KeyError, TypeError, ValueError, IndexError, OverflowError, RecursionError) as error:
        raise InputError(f"the rows kept in the model file cannot be read: {error}") from None
    targets = np.column_stack([column.to_numpy() for column in columns[len(names) :]])
    if targets.dtype == object:
        targets = targets.astype(str)
    features = dict(zip(names, columns[: len(names)], strict=True))
    return pd.DataFrame(features), targets[:, 0] if targets.shape[1] == 1 else targets


def _unpacked(kind: Unchecked, values: np.ndarray, levels: Unchecked) -> pd.Series:
    if kind not in KINDS:
        raise ValueError(f"a column of unknown kind {kind!r}")
    if kind != "category":
        return series_of(Column(kind, values))
    if not isinstance(levels, list) or not all(isinstance(level, str) for level in levels):
        raise ValueError("the levels of a column are not text")
    if not -1 <= values.min() <= values.max() < len(levels):
        raise ValueError("a column refers to missing levels")
    return series_of(Column(kind, values.astype(np.int64), tuple(levels)))


def trained_on(notes: JsonDict, X: Features, y: np.ndarray) -> np.ndarray:
    """Which rows, with their targets, are among the training rows in the notes of a model file."""
    table = pd.DataFrame(X)
    try:
        X_train, y_train = unpack_rows(notes.get("train"), list(table.columns))
    except InputError:  # a file without rows
        return np.zeros(len(table), dtype=bool)
    return np.isin(_row_keys(table, y), _row_keys(X_train, y_train))


def _row_keys(X: pd.DataFrame, y: np.ndarray) -> np.ndarray:
    """A hash of each row; numbers are compared by value, categories as text."""
    columns = [
        series_of(column).map(str) if column.kind == "category" else pd.Series(column.values)
        for column in read_table(X).columns
    ]
    targets = pd.DataFrame(y.reshape(len(y), -1))
    keys = pd.util.hash_pandas_object(pd.concat([*columns, targets], axis=1), index=False)
    return np.asarray(keys)
