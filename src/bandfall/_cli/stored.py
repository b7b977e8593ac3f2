"""Model files of commands: notes and rows beside the model, and rows of new tables for it.

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

from bandfall._checks import check_instance
from bandfall._cli.read_table import name_of, read_file
from bandfall._cli.rows import Dataset, numbers_of, require_columns, targets_of
from bandfall._cli.terminal import InputError, note
from bandfall._cli.training import Trained
from bandfall._estimators.view import feature_names_of, story_of
from bandfall._files import ModelFile
from bandfall._typing import JsonDict, Unchecked, Weights
from bandfall.report._columns import LabelledRows, kind_of, series_of
from bandfall.tables import read_table
from bandfall.tables._table import KINDS, Column, categories
from bandfall.tables._text import usual_style


def model_notes(trained: Trained) -> JsonDict:
    """Notes in a model file, for `predict`, `inspect`, `report` and `explore`."""
    rows, choices = trained.rows, trained.rows.choices
    notes: JsonDict = {
        "target": choices.target,
        "targets": list(choices.targets),
        "source": Path(rows.source).name,
        "style": rows.style,
        "missing": list(choices.missing),
        # A column without values may hold anything later.
        "kinds": {n: kind_of(x) if x.notna().any() else "text" for n, x in rows.X.items()},
        "n_dropped": rows.n_dropped,
        "n_without_target": rows.n_without_target,
        "split": choices.split_words,
        "seconds": trained.seconds,
        "interrupted": trained.interrupted,
        "train": pack_rows(rows),
    }
    if trained.held_out is not None:
        notes["test"] = pack_rows(trained.held_out)
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


def read_for(data: str, stored: ModelFile) -> tuple[pd.DataFrame, str]:
    """A table, read as the table that the model was trained on, and the style of its numbers."""
    text = [name for name, kind in noted_kinds(stored.notes).items() if kind == "text"]
    return read_file(data, text, noted_words(stored.notes, "missing"))


def features_of(table: pd.DataFrame, stored: ModelFile, source: str) -> pd.DataFrame | np.ndarray:
    """The columns of the model, converted to the kinds that it was trained with."""
    names = feature_names_of(stored.estimator)
    if names is None:
        targets = noted_words(stored.notes, "targets")
        columns = [column for column in table.columns if column not in targets]
        return np.column_stack([numbers_of(table[column], source) for column in columns])
    require_columns(table, names, source)
    rows, kinds = table[names].copy(), noted_kinds(stored.notes)
    for column in names:
        if kinds.get(column) == "number":
            rows[column] = numbers_of(rows[column], source)
    return rows


def labelled_rows(data: str, stored: ModelFile) -> LabelledRows:
    """Features and target of the rows of a table that have a target."""
    name, target = name_of(data), str(stored.notes.get("target", "target"))
    table, style = read_for(data, stored)
    require_columns(table, [target], name)
    classes = bool(story_of(stored.estimator).target.classes)
    with usual_style(style):
        y = targets_of([table[target]], name, classes=classes)[:, 0]
        known = ~pd.isna(y)
        if not known.any():
            raise InputError(f"no row of {name} has a value in the target {target!r}")
        rows = features_of(table[known], stored, name)
    return LabelledRows(pd.DataFrame(rows), y[known].astype(str) if classes else y[known])


def without_training_rows(rows: LabelledRows, stored: ModelFile, name: str) -> LabelledRows:
    """The rows of a table that are not among the training rows in a model file."""
    kept = stored.notes.get("train")
    if not isinstance(kept, dict):
        return rows
    X, y, _ = unpack_rows(kept, list(rows.X.columns))
    seen = np.isin(_row_keys(rows.X, rows.y), _row_keys(X, y))
    if seen.any():
        note(f"{seen.sum():,} of the {len(seen):,} rows in {name} trained the model: left out")
    return LabelledRows(rows.X[~seen], rows.y[~seen])


def _row_keys(X: pd.DataFrame, y: np.ndarray) -> np.ndarray:
    """A hash of each row; numbers are compared by value, categories as text."""
    columns = [
        series_of(column).map(str) if column.kind == "category" else pd.Series(column.values)
        for column in read_table(X).columns
    ]
    keys = pd.util.hash_pandas_object(pd.concat([*columns, pd.Series(y)], axis=1), index=False)
    return np.asarray(keys)


def pack_rows(rows: Dataset) -> JsonDict:
    """Features, then targets, in one matrix; the weights beside it."""
    columns = [*read_table(rows.X).columns]
    for target in rows.y.reshape(len(rows), -1).T:
        columns.append(categories(target) if rows.has_classes else Column("number", target))
    levels = json.dumps([column.levels for column in columns])
    return {
        "kinds": [column.kind for column in columns],
        "values": np.column_stack([column.values for column in columns]),
        "levels": np.frombuffer(levels.encode(), dtype=np.uint8),
        "weights": rows.weights,
    }


def unpack_rows(kept: Unchecked, names: Sequence[str]) -> tuple[pd.DataFrame, np.ndarray, Weights]:
    """Features under these names, targets and weights of `pack_rows`; InputError if unreadable."""
    try:
        kept = check_instance("rows", kept, dict)
        values = np.asarray(kept["values"], dtype=np.float64)
        levels = json.loads(np.asarray(kept["levels"], dtype=np.uint8).tobytes())
        if values.ndim != 2 or not len(values) or values.shape[1] <= len(names):
            raise ValueError(f"values of shape {values.shape} for {len(names)} features")
        columns = [_unpacked(*each) for each in zip(kept["kinds"], values.T, levels, strict=True)]
        weights = kept["weights"]
        if weights is not None and np.shape(weights) != (len(values),):
            raise ValueError("weights of another number of rows")
    except (KeyError, TypeError, ValueError, IndexError, OverflowError, RecursionError) as error:
        raise InputError(f"the rows kept in the model file cannot be read: {error}") from None
    targets = np.column_stack([column.to_numpy() for column in columns[len(names) :]])
    if targets.dtype == object:
        targets = targets.astype(str)
    features = pd.DataFrame(dict(zip(names, columns[: len(names)], strict=True)))
    return features, targets[:, 0] if targets.shape[1] == 1 else targets, weights


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
