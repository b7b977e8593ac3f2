"""Models for pages: read from a file, or trained on a table and not saved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from bandfall._cli.kept_rows import unpack_rows
from bandfall._cli.read_table import Style
from bandfall._cli.rows import Roles
from bandfall._cli.terminal import InputError
from bandfall._cli.training import MAX_ROWS, Choices, model_notes, train_on
from bandfall._estimators.view import feature_names_of, last_step, step_names
from bandfall._files import ModelFile
from bandfall.report import LabelledRows


def model_of(
    source: str,
    target: str | None,
    roles: Roles,
    style: Style,
    choices: Choices,
    progress: Callable[[float], None] | None = None,
) -> ModelFile:
    """Train a model on a table; return it in the form of a model file."""
    if target is None:
        raise InputError(missing_target(source))
    choices = replace(choices, max_rows=choices.max_rows or MAX_ROWS[choices.model])
    trained = train_on(source, replace(roles, targets=[target]), style, choices, progress)
    notes = model_notes(trained)
    if trained.interrupted:
        notes["interrupted"] = True
    return ModelFile(trained.estimator, notes)


def missing_target(source: str) -> str:
    """The message for a table without --target."""
    if source != "-" and not Path(source).exists():
        return f"{source} does not exist"
    what = "is not a bandfall model" if source != "-" else "is a table"
    return f"{source} {what}; to train a model on this table, name the column to predict: --target"


def kept_rows_of(stored: ModelFile) -> tuple[LabelledRows, LabelledRows | None, list[str]]:
    """Training rows, held-out rows and names of features in a model file."""
    estimator, notes = stored.estimator, stored.notes
    rows = notes.get("train")
    if not isinstance(rows, dict) or not {"X", "y"} <= set(rows):
        raise InputError(
            "the model file contains no rows to report on: make it with `bandfall fit`, or call "
            "save_model with notes={'train': {'X': X, 'y': y}, 'test': ...}"
        )
    names = feature_names_of(estimator)
    train_rows = LabelledRows(*unpack_rows(rows, names))
    held_out = notes.get("test")
    test_rows = LabelledRows(*unpack_rows(held_out, names)) if isinstance(held_out, dict) else None
    if train_rows.y.ndim == 2:
        raise InputError("a report is about one target; train a model with one --target for it")
    if names is None:
        features = [f"feature {j + 1}" for j in range(train_rows.X.shape[1])]
    else:
        features = [str(name) for name in train_rows.X.columns]
    return train_rows, test_rows, features


def model_details(stored: ModelFile) -> dict[str, str]:
    """Lines about a model, for the end of a page."""
    last = last_step(stored.estimator)
    details = {
        "estimator": " → ".join(step_names(stored.estimator)),
        "parameters": ", ".join(f"{k}={v!r}" for k, v in last.get_params(deep=False).items()),
    }
    if stored.notes.get("n_dropped"):
        details["rows left out"] = f"{stored.notes['n_dropped']:,}, for missing values"
    if stored.notes.get("n_without_target"):
        details["rows without a target"] = f"{stored.notes['n_without_target']:,}, left out"
    if stored.notes.get("split"):
        details["rows held out"] = str(stored.notes["split"])
    if stored.notes.get("interrupted"):
        details["interrupted"] = "Ctrl-C ended training; this is the best model until then"
    if "seconds" in stored.notes:
        details["training time"] = f"{stored.notes['seconds']:.2f} s"
    if stored.versions:
        details["written by"] = ", ".join(f"{k} {v}" for k, v in stored.versions.items())
    return details
