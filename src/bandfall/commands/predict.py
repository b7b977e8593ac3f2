"""``bandfall predict``."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer

from bandfall.commands.outputs import (
    PREDICTION,
    ForceOption,
    check_out,
    is_predictions,
)
from bandfall.commands.tables import read_chunks, require_columns, to_numbers
from bandfall.commands.terminal import (
    InputError,
    JsonOption,
    note,
    one_line_errors,
    print_json,
)
from bandfall.commands.training import DataArgument, scores
from bandfall.persistence import ModelFile, read_model_file
from bandfall.persistence.atomic import write_atomically

ModelArgument = Annotated[str, typer.Argument(metavar="MODEL", help="Model file made by fit.")]


def predict(
    model: ModelArgument,
    data: DataArgument,
    out: Annotated[
        Path | None, typer.Option("--out", help="CSV file to write [default: standard output].")
    ] = None,
    force: ForceOption = False,
    json: JsonOption = False,
) -> None:
    """Predict the rows of a table, in their order.

    Columns are found by name: their order does not matter and further ones are ignored. Rows
    with missing features get an empty prediction. Where the table has the target column too,
    the score is told on standard error.
    """
    with one_line_errors():
        if out is not None:
            check_out(out, is_predictions, force=force, inputs=(model, data))
        stored = read_model_file(model)
        pieces, targets = [], []
        for predictions, y in _predict_chunks(stored, data):
            pieces.append(predictions)
            targets.append(y)
        predictions, y = np.concatenate(pieces), np.concatenate(targets)
        result: dict[str, Any] = {"n_rows": len(predictions)}
        known = np.isfinite(predictions).all(axis=1)
        if not known.all():
            result["n_missing"] = int(np.sum(~known))
            note(f"{result['n_missing']:,} rows with missing features have no prediction")
        scored = known & np.isfinite(y)
        if scored.sum() > 1 and predictions.shape[1] == 1:
            result["scores"] = scores(y[scored], predictions[scored, 0])
            note(f"R² {result['scores']['r2']:.4f} on {scored.sum():,} rows with their target")
        _write(predictions, out, result, json)


def _predict_chunks(stored: ModelFile, data: str) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Predictions (m, k) and, where the target is there, its values (m,), piece by piece."""
    estimator = stored.estimator
    name = "standard input" if data == "-" else data
    target = stored.notes.get("target")
    names = getattr(estimator, "feature_names_in_", None)
    for chunk in read_chunks(data):
        columns = _feature_columns(chunk, names, estimator.n_features_in_, target, name)
        X = to_numbers(chunk[columns], name)
        complete = ~np.isnan(X).any(axis=1)
        rows: Any = X[complete] if names is None else pd.DataFrame(X[complete], columns=names)
        predicted = estimator.predict(rows) if complete.any() else np.zeros((0, 1))
        predicted = predicted.reshape(len(predicted), -1)
        predictions = np.full((len(X), predicted.shape[1]), np.nan)
        predictions[complete] = predicted
        y = np.full(len(X), np.nan)
        if target in chunk.columns:
            y = to_numbers(chunk[[target]], name)[:, 0]
        yield predictions, y


def _feature_columns(
    chunk: pd.DataFrame, names: Any, n_features: int, target: str | None, source: str
) -> list[str]:
    if names is not None:
        require_columns(chunk, list(names), source)
        return list(names)
    columns = [column for column in chunk.columns if column != target]
    if len(columns) != n_features:
        raise InputError(
            f"{source} has {len(columns)} columns; the model, which knows no names, needs "
            f"{n_features}"
        )
    return columns


def _write(predictions: np.ndarray, out: Path | None, result: dict[str, Any], json: bool) -> None:
    k = predictions.shape[1]
    names = [PREDICTION] if k == 1 else [f"{PREDICTION}_{i + 1}" for i in range(k)]
    if out is None and json:
        result["predictions"] = (predictions[:, 0] if k == 1 else predictions).tolist()
    else:
        text = io.StringIO()
        pd.DataFrame(predictions, columns=names).to_csv(text, index=False)
        if out is None:
            sys.stdout.write(text.getvalue())
        else:
            write_atomically(out, text.getvalue().encode())
            result["out"] = str(out)
    if json:
        print_json(result)
    elif out is not None:
        note(f"wrote {len(predictions):,} predictions to {out}")
