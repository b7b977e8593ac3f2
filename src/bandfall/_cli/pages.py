"""Pages about a model, of `bandfall report` and `bandfall explore`: its source and its rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from bandfall._cli.options import Choices, Roles, Style
from bandfall._cli.outputs import is_model
from bandfall._cli.read_table import name_of
from bandfall._cli.rows import require_columns, targets_of
from bandfall._cli.stored import features_of, model_notes, read_for, trained_on, unpack_rows
from bandfall._cli.terminal import Bar, InputError, note
from bandfall._cli.training import train_on
from bandfall._estimators.view import feature_names_of, story_of
from bandfall._files import ModelFile, read_model_file
from bandfall._typing import JsonDict
from bandfall.report._columns import LabelledRows
from bandfall.report._findings import Findings, study


def model_of(
    source: str, data: str | None, roles: Roles, style: Style, choices: Choices
) -> ModelFile:
    """The model in the file `source`, or one that is trained on that table."""
    for file in (source, data):
        if file not in ("-", None) and not Path(file).exists():
            raise InputError(f"{file} does not exist")
    if source != "-" and Path(source).is_file() and is_model(Path(source)):
        return read_model_file(source)
    what = "is not a bandfall model" if source != "-" else "is a table"
    if data is not None:
        raise InputError(f"{source} {what}; only one table can be named")
    if len(roles.targets) != 1:
        raise InputError(
            f"{source} {what}; to train a model on this table, name the column to predict: --target"
        )
    trained = train_on(source, roles, style, choices.with_most_rows())
    return ModelFile(trained.estimator, model_notes(trained) | {"interrupted": trained.interrupted})


def studied(
    command: str,
    stored: ModelFile,
    data: str | None,
    style: Style,
    seed: int,
) -> tuple[Findings, LabelledRows, LabelledRows | None]:
    """The findings about a model, its training rows and the unseen rows."""
    train, unseen = _page_rows(stored, data, style)
    if train.y.ndim == 2:
        raise InputError("a report is about one target; train a model with one --target for it")
    with Bar(f"{command}: the model") as bar:
        findings = study(stored.estimator, train, unseen, seed=seed, progress=bar.reach)
    return findings, train, unseen


def _page_rows(
    stored: ModelFile, data: str | None, style: Style
) -> tuple[LabelledRows, LabelledRows | None]:
    """Training rows and unseen rows, which are in the model file.

    The rows of a table are unseen, unless the model was trained on them; if the model file has no
    rows, as after `model.save`, they are the training rows.
    """
    notes, names = stored.notes, feature_names_of(stored.estimator)
    if not isinstance(notes.get("train"), dict) or names is None:
        if data is not None:
            return _labelled(data, stored, style), None
        columns = f"the {stored.estimator.n_features_in_} columns of the features"
        if names is not None:
            columns = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
        raise InputError(
            "the model file contains no rows to report on: name a table with the rows that the "
            f"model was trained on, as in `bandfall report MODEL DATA`, with the column "
            f"{target_of(notes)!r} and {columns}"
        )
    train, test = LabelledRows(*unpack_rows(notes["train"], names)), notes.get("test")
    unseen = LabelledRows(*unpack_rows(test, names)) if isinstance(test, dict) else None
    if data is None or train.y.ndim == 2:
        return train, unseen
    rows, name = _labelled(data, stored, style), name_of(data)
    seen = trained_on(notes, *rows)
    if not seen.any():
        return train, rows
    if np.sum(~seen) < 2:
        note(
            f"the model was trained on the rows in {name}; the page is about rows that were held "
            "out in fit"
        )
        return train, unseen
    note(
        f"the model was trained on {seen.sum():,} of the {len(seen):,} rows in {name}; the page "
        "leaves them out"
    )
    return train, LabelledRows(rows.X[~seen], rows.y[~seen])


def _labelled(data: str, stored: ModelFile, style: Style) -> LabelledRows:
    """Features and target of a table, under the column names of the model."""
    name, target = name_of(data), target_of(stored.notes)
    table, style = read_for(data, stored, style)
    require_columns(table, [target], name)
    classes = bool(story_of(stored.estimator).target.classes)
    with style.as_usual():
        y = targets_of([table[target]], name, classes=classes)[:, 0]
        known = ~pd.isna(y)
        if not known.any():
            raise InputError(f"no row of {name} has a value in the target {target!r}")
        rows = features_of(table[known], stored, name)
    return LabelledRows(rows, y[known].astype(str) if classes else y[known])


def target_of(notes: JsonDict) -> str:
    """The target, for titles."""
    return str(notes.get("target", "target"))
