"""``bandfall predict``."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.utils import get_tags

from bandfall._cli.options import command, option
from bandfall._cli.read_table import name_of
from bandfall._cli.rows import require_columns
from bandfall._cli.stored import features_of, noted_words, read_for
from bandfall._cli.terminal import Bar, InputError, check_out, note, print_json
from bandfall._estimators.view import answers_of, last_step, story_of
from bandfall._files import ModelFile, read_model_file
from bandfall._files.atomic import write_atomically
from bandfall._targets import Classes
from bandfall._typing import JsonDict
from bandfall.tables._text import usual_style

PREDICTION = "prediction"
_INTERVAL = "Add an interval (lower, upper) that contains the target for this share of rows: 0.9."
_NOVELTY = "Add the distance of each row to the training rows; values above 1 are unusual."
_KEEP = "Column to copy into the predictions, such as an id; repeatable."


@command(
    out=option("--out", "FILE", "CSV file to write; without it, standard output."),
    interval=option("--interval", "SHARE", _INTERVAL),
    novelty=option("--novelty", "", _NOVELTY),
    keep=option("--keep", "COL", _KEEP),
)
def predict(
    file: str,
    data: str,
    *,
    out: Path | None = None,
    interval: float | None = None,
    novelty: bool = False,
    keep: list[str] | None = None,
    json: bool = False,
) -> None:
    """Predict the target for every row of a table.

    Columns are matched by name: their order does not matter, and additional columns are ignored.
    Columns named with --keep come first in the result. Numbers are written with six digits; --json
    prints all digits. For a score on new rows that have the target, use `bandfall report`.
    """
    if out is not None:
        check_out(out, (file, data))
    stored, source = read_model_file(file), name_of(data)
    _check_options(stored, interval, novelty)
    table, style = read_for(data, stored)
    require_columns(table, keep or [], source)
    kept = table[keep or []]
    with Bar("predict"), usual_style(style):
        rows = features_of(table, stored, source)
        if not get_tags(last_step(stored.estimator)).input_tags.allow_nan:
            _check_complete(rows, source)
        try:
            predictions, others = _columns(stored, rows, interval, novelty)
        except ValueError as error:  # names the column that is wrong
            raise InputError(f"{source}: {error}") from error
    if taken := {*kept} & {*predictions, *others}:
        raise InputError(f"--keep {min(taken)}: the predictions have a column of this name, too")
    result: JsonDict = {"n_rows": len(table)}
    if json and out is None:
        result["predictions"] = predictions.squeeze(axis=1).to_numpy().tolist()
        beside = pd.concat([others, kept], axis=1).astype(object)
        result["kept"] = beside.where(beside.notna(), None).to_dict("list")
    else:
        text = pd.concat([kept, predictions.map(_short), others.map(_short)], axis=1)
        if out is None:
            sys.stdout.write(text.to_csv(index=False))
        else:
            write_atomically(out, text.to_csv(index=False).encode())
            result["out"] = str(out)
    if json:
        print_json(result)
    elif out is not None:
        note(f"wrote {len(predictions):,} predictions to {out}")


def _check_options(stored: ModelFile, interval: float | None, novelty: bool) -> None:
    """Raise InputError if the model cannot give what is asked."""
    story, name = story_of(stored.estimator), type(last_step(stored.estimator)).__name__
    if interval is not None and not 0 < interval < 1:
        raise InputError(f"--interval must be between 0 and 1; got {interval}")
    if interval is not None and story.intervals is None:
        raise InputError(f"--interval: {name} has none; regression with --model auto has")
    if novelty and story.average is None:
        raise InputError(f"--novelty: {name} cannot measure it; train with --model auto")


def _check_complete(rows: pd.DataFrame | np.ndarray, source: str) -> None:
    missing = pd.isna(rows).to_numpy() if isinstance(rows, pd.DataFrame) else np.isnan(rows)
    if missing.any():
        raise InputError(
            f"{source} has missing values in row {np.argmax(missing.any(axis=1)) + 1}, which this "
            "model cannot use; models made with --model auto can"
        )


def _columns(
    stored: ModelFile, rows: pd.DataFrame | np.ndarray, interval: float | None, novelty: bool
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Predictions, and the columns beside them."""
    estimator, target = stored.estimator, story_of(stored.estimator).target
    answers = answers_of(estimator, rows)
    if isinstance(target, Classes):
        labels = target.labels[answers.argmax(axis=1), None].astype(object)
        predictions = pd.DataFrame(labels, columns=[PREDICTION])
        others = pd.DataFrame(answers, columns=[f"probability_{one}" for one in target.labels])
    else:
        k, targets = answers.shape[1], noted_words(stored.notes, "targets")
        names = targets if len(targets) == k else [str(j) for j in range(1, k + 1)]
        suffixes = [f"_{name}" for name in names] if k > 1 else [""]
        predictions = pd.DataFrame(answers, columns=[PREDICTION + suffix for suffix in suffixes])
        others = pd.DataFrame(index=predictions.index)
        if interval is not None:
            ends = np.asarray(last_step(estimator).predict_interval(rows, interval))
            headers = [f"{end}{suffix}" for suffix in suffixes for end in ("lower", "upper")]
            others = pd.DataFrame(ends.reshape(len(ends), -1), columns=headers)
    if novelty:
        others["novelty"] = np.asarray(last_step(estimator).novelty(rows))
        if (share := float(np.mean(others["novelty"] > 1))) > 0.1:
            note(f"{share:.0%} of the rows are far from the training rows: see novelty")
    return predictions, others


def _short(value: object) -> object:
    """A number with six digits, in plain notation below 1e15; any other value unchanged.

    Examples
    --------
    >>> _short(158818.70052690268), _short(0.123456789), _short(12345678.9), _short("high")
    ('158819', '0.123457', '12345679', 'high')
    """
    if not isinstance(value, float) or not math.isfinite(value):
        return value
    return f"{value:.0f}" if 1e6 <= abs(value) < 1e15 else f"{value:.6g}"
