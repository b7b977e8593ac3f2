"""Model files of commands: what they note beside the model, the rows they keep, rows of new tables.

A kept column is an array of numbers, or an array of levels and an array of their positions. Levels
are stored as JSON in an array, because the header of a model file, which holds text, is small.
Notes may come from anyone, so they are checked when read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.utils import get_tags

from bandfall._checks import check_instance
from bandfall._cli.columns import Features, check_finite, feature_numbers, require_columns
from bandfall._cli.outputs import is_model
from bandfall._cli.read_table import Style, name_of, read_file
from bandfall._cli.rows import Roles, split_words, targets_of
from bandfall._cli.terminal import InputError, note
from bandfall._cli.training import MAX_ROWS, Choices, Trained, train_on
from bandfall._estimators.view import feature_names_of, last_step, step_names, story_of
from bandfall._files import ModelFile, read_model_file
from bandfall._typing import Estimator, JsonDict, Unchecked
from bandfall.report import LabelledRows
from bandfall.report._columns import kind_of, series_of
from bandfall.tables import Column, read_table
from bandfall.tables._columns import categories


def model_notes(trained: Trained) -> JsonDict:
    """Notes in a model file, for `predict`, `inspect`, `report` and `explore`."""
    rows, roles = trained.rows, trained.rows.roles
    notes: JsonDict = {
        "target": rows.target,
        "targets": list(roles.targets),
        "source": Path(rows.source).name,
        "decimal": rows.style.decimal,
        "keep": list(roles.keep),
        "missing": list(roles.missing),
        "kinds": {name: kind_of(rows.X[name]) for name in rows.X.columns},
        "n_dropped": rows.n_dropped,
        "n_without_target": rows.n_without_target,
        "split": split_words(roles),
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


def check_page_source(source: str, data: str | None, target: str | None) -> bool:
    """Whether the source of a page is a model file, not a table; InputError if neither will do."""
    for file in (source, data):
        if file not in ("-", None) and not Path(file).exists():
            raise InputError(f"{file} does not exist")
    if source != "-" and Path(source).is_file() and is_model(Path(source)):
        return True
    what = "is not a bandfall model" if source != "-" else "is a table"
    if data is not None:
        raise InputError(f"{source} {what}; only one table can be named")
    if target is None:
        raise InputError(
            f"{source} {what}; to train a model on this table, name the column to predict: --target"
        )
    return False


def model_for_page(
    source: str,
    roles: Roles,
    style: Style,
    choices: Choices,
    progress: Callable[[float], None] | None = None,
) -> ModelFile:
    """The model in a file, or one that is trained on a table with a target in `roles`."""
    if not roles.targets:
        return read_model_file(source)
    choices = replace(choices, max_rows=choices.max_rows or MAX_ROWS[choices.model])
    trained = train_on(source, roles, style, choices, progress)
    interrupted = {"interrupted": True} if trained.interrupted else {}
    return ModelFile(trained.estimator, {**model_notes(trained), **interrupted})


def model_details(stored: ModelFile) -> dict[str, str]:
    """Lines about a model, for the end of a page."""
    notes, last = stored.notes, last_step(stored.estimator)
    details = {
        "estimator": " → ".join(step_names(stored.estimator)),
        "parameters": ", ".join(f"{k}={v!r}" for k, v in last.get_params(deep=False).items()),
    }
    for title, name, words in (
        ("rows left out", "n_dropped", "{:,}, for missing values"),
        ("rows without a target", "n_without_target", "{:,}, left out"),
        ("rows held out", "split", "{}"),
        ("interrupted", "interrupted", "Ctrl-C ended training; this is the best model until then"),
        ("training time", "seconds", "{:.2f} s"),
    ):
        if notes.get(name):
            details[title] = words.format(notes[name])
    if stored.versions:
        details["written by"] = ", ".join(f"{k} {v}" for k, v in stored.versions.items())
    return details


def read_for(data: str, stored: ModelFile, style: Style) -> tuple[pd.DataFrame, Style]:
    """A table, read as the table that the model was trained on."""
    text = [name for name, kind in noted_kinds(stored.notes).items() if kind == "text"]
    return read_file(data, style, text=text, missing=noted_words(stored.notes, "missing"))


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


def page_rows(
    stored: ModelFile, data: str | None, style: Style
) -> tuple[LabelledRows, LabelledRows | None, list[str]]:
    """Training rows, unseen rows and names of features for a page about a model.

    They are in the model file. The rows of a table are unseen, unless the model was trained on
    them; if the model file has no rows, as after `model.save`, they are the training rows.
    """
    notes, names = stored.notes, feature_names_of(stored.estimator)
    kept = isinstance(notes.get("train"), dict)
    if not kept and data is None:
        columns = f"the {stored.estimator.n_features_in_} columns of the features"
        if names is not None:
            columns = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
        raise InputError(
            "the model file contains no rows to report on: name a table with the rows that the "
            f"model was trained on, as in `bandfall report MODEL DATA`, with the column "
            f"{_target(notes)!r} and {columns}"
        )
    if not kept:
        assert data is not None
        train, unseen = _labelled(data, stored, style), None
    else:
        train = LabelledRows(*unpack_rows(notes["train"], names))
        test = notes.get("test")
        unseen = LabelledRows(*unpack_rows(test, names)) if isinstance(test, dict) else None
    if train.y.ndim == 2:
        raise InputError("a report is about one target; train a model with one --target for it")
    if kept and data is not None:
        unseen = _unseen(_labelled(data, stored, style), data, stored, unseen)
    if names is None:
        return train, unseen, [f"feature {j + 1}" for j in range(train.X.shape[1])]
    return train, unseen, [str(name) for name in train.X.columns]


def _target(notes: JsonDict) -> str:
    return str(notes.get("target", "target"))


def _labelled(data: str, stored: ModelFile, style: Style) -> LabelledRows:
    """Features and target of a table, under the column names of the model."""
    name, target = name_of(data), _target(stored.notes)
    table, style = read_for(data, stored, style)
    require_columns(table, [target], name)
    classes = bool(story_of(stored.estimator).target.classes)
    with style.as_usual():
        y = targets_of([table[target]], name, classes=classes)[:, 0]
        known = ~pd.isna(y)
        if not known.any():
            raise InputError(f"no row of {name} has a value in the target {target!r}")
        rows = features_of(table[known], stored, name)
    if style.remarks:
        note(f"{name}: {style.remarks}")
    return LabelledRows(rows, y[known].astype(str) if classes else y[known])


def _unseen(
    rows: LabelledRows, data: str, stored: ModelFile, held_out: LabelledRows | None
) -> LabelledRows | None:
    """The rows that the model was not trained on; `held_out` if it was trained on all."""
    seen = trained_on(stored.notes, *rows)
    if not seen.any():
        return rows
    if np.sum(~seen) < 2:
        note(
            f"the model was trained on the rows in {name_of(data)}; the page is about rows that "
            "were held out in fit"
        )
        return held_out
    note(
        f"the model was trained on {seen.sum():,} of the {len(seen):,} rows in {name_of(data)}; "
        "the page leaves them out"
    )
    return LabelledRows(rows.X[~seen], rows.y[~seen])


def pack_rows(X: pd.DataFrame, y: np.ndarray) -> JsonDict:
    """Features and targets as arrays: a matrix if all features are numbers; classes as text."""
    table = read_table(X)
    columns = [_pack(column) for column in table.parts]
    target = _pack(categories(y)) if y.dtype == object else y
    return {"X": columns if table.matrix is None else table.matrix, "y": target}


def unpack_rows(kept: Unchecked, names: Sequence[str] | None) -> tuple[pd.DataFrame, np.ndarray]:
    """The arguments of `pack_rows`, under the names of the features; InputError if unreadable."""
    try:
        kept = check_instance("train or test", kept, dict)
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
    except (KeyError, TypeError, ValueError, IndexError, OverflowError, RecursionError) as error:
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
    """A hash of each row; numbers are compared by value, categories as text."""
    columns = [
        series_of(column).map(str) if column.kind == "category" else pd.Series(column.values)
        for column in read_table(X).columns
    ]
    targets = pd.DataFrame(y.reshape(len(y), -1))
    keys = pd.util.hash_pandas_object(pd.concat([*columns, targets], axis=1), index=False)
    return np.asarray(keys)


def _targets(kept: Unchecked) -> np.ndarray:
    """Numbers, or classes as text."""
    if not isinstance(kept, dict):
        return np.asarray(kept, dtype=np.float64)
    labels = _unpack(kept)
    if not all(isinstance(label, str) for label in labels):
        raise ValueError("a row has no class")
    return labels.to_numpy().astype(str)


def _pack(column: Column) -> JsonDict:
    levels = np.frombuffer(json.dumps(column.levels).encode(), dtype=np.uint8)
    packed: JsonDict = {"kind": column.kind, "values": column.values}
    return {**packed, "levels": levels} if column.kind == "category" else packed


def _unpack(column: Unchecked) -> pd.Series:
    column = check_instance("a column", column, dict)
    kind, values = column["kind"], np.asarray(column["values"])
    if values.ndim != 1:
        raise ValueError("a column has several dimensions")
    if kind in ("number", "boolean", "datetime", "duration"):
        return series_of(Column(kind, values.astype(np.float64)))
    if kind != "category":
        raise ValueError(f"a column of unknown kind {kind!r}")
    levels = json.loads(np.asarray(column["levels"], dtype=np.uint8).tobytes())
    if not isinstance(levels, list) or not all(isinstance(level, str) for level in levels):
        raise ValueError("the levels of a column are not text")
    if len(values) and not -1 <= values.min() <= values.max() < len(levels):
        raise ValueError("a column refers to missing levels")
    return series_of(Column(kind, values.astype(np.int64), tuple(levels)))
