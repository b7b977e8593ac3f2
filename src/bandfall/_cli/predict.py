"""``bandfall predict``."""

from __future__ import annotations

import io
import math
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
from sklearn.utils import get_tags

from bandfall._cli import options
from bandfall._cli.columns import Features, check_finite, feature_numbers, require_columns
from bandfall._cli.intervals import check_interval, check_novelty, interval_columns, novelty_column
from bandfall._cli.kept_rows import trained_on
from bandfall._cli.outputs import PREDICTION, check_out, is_predictions, write_page
from bandfall._cli.read_table import Style, name_of, read_file
from bandfall._cli.rows import targets_of
from bandfall._cli.terminal import Bar, InputError, note, one_line_errors, print_json
from bandfall._cli.training import score_words
from bandfall._estimators.view import answers_of, feature_names_of, last_step, story_of
from bandfall._files import ModelFile, read_model_file
from bandfall._targets import Classes
from bandfall._targets.scores import unseen_words
from bandfall._typing import Estimator, JsonDict
from bandfall.report._columns import kind_of

MIN_BATCH, MAX_BATCH = 2_000, 50_000  # rows to predict at a time
N_BATCHES = 50  # steps of the progress bar
_OUT = "CSV file to write; - or nothing for standard output."


def predict(
    model: options.ModelFile,
    data: options.Data,
    out: Annotated[Path | None, options.option("--out", "FILE", _OUT)] = None,
    interval: options.Interval = None,
    novelty: options.Novelty = False,
    keep: options.Keep = None,
    sep: options.Separator = None,
    decimal: options.Decimal = None,
    encoding: options.Encoding = None,
    force: options.Force = False,
    json: options.Json = False,
) -> None:
    """Predict the target for every row of a table.

    Columns are matched by name: their order does not matter, and additional columns are ignored.
    Columns named with --keep, here or in fit, come first in the result. Numbers are written with
    six digits; --json prints all digits. Models made with --model kgdd or krr-cv leave predictions
    of incomplete rows empty. If the table also has the target, the score is printed on standard
    error; rows that the model was trained on do not count.
    """
    with one_line_errors():
        out = None if out is not None and str(out) == "-" else out
        if out is not None:
            check_out(out, is_predictions, force=force, inputs=(model, data))
        stored = read_model_file(model)
        check_interval(interval, stored.estimator)
        check_novelty(novelty, stored.estimator)
        kinds = strings_of(stored.notes.get("kinds"))
        text = [name for name, kind in kinds.items() if kind == "text"]
        table, style = read_file(
            data, Style(sep, decimal, encoding), text=text, missing=missing_words(stored.notes)
        )
        kept = _kept_columns(table, stored, keep or [], name_of(data))
        with style.as_usual():
            rows = features_of(table, stored, kinds, name_of(data))
        result: JsonDict = {"n_rows": len(table)}
        with Bar("predict") as bar:
            answers = _answers(stored.estimator, rows, name_of(data), bar)
        if style.remarks:
            note(f"{name_of(data)}: {style.remarks}")
        with style.as_usual():
            _score(table, rows, answers, stored, name_of(data), result)
        predictions, others = answers, pd.DataFrame(index=table.index)
        target = story_of(stored.estimator).target
        if isinstance(target, Classes):
            predictions = target.labels[answers.argmax(axis=1), None].astype(object)
            others = pd.DataFrame(answers, columns=[f"probability_{one}" for one in target.labels])
        names = _names(predictions, stored.notes)
        if interval is not None:
            with Bar("predict: intervals"):
                others = interval_columns(stored.estimator, rows, interval, names)
        if novelty:
            with Bar("predict: novelty"):
                far = novelty_column(stored.estimator, rows, name_of(data))
            others = pd.concat([others.set_index(far.index), far], axis=1)
        others = others.set_index(table.index)
        _write(predictions, table[kept], others, names, out, result, json)


def missing_words(notes: JsonDict) -> list[str]:
    """Words that stood for a missing value in the training rows."""
    words = notes.get("missing")
    return [word for word in words if isinstance(word, str)] if isinstance(words, list) else []


def strings_of(value: object) -> dict[str, str]:
    """The pairs of text in a value from a file, which may have any type."""
    pairs = value.items() if isinstance(value, dict) else ()
    return {str(name): kind for name, kind in pairs if isinstance(kind, str)}


def _kept_columns(
    table: pd.DataFrame, stored: ModelFile, asked: list[str], source: str
) -> list[str]:
    """Columns to copy into the result: those of --keep, here and in training."""
    require_columns(table, asked, source)
    always = stored.notes.get("keep")
    always = always if isinstance(always, list) else []
    there = [name for name in always if isinstance(name, str) and name in table.columns]
    return list(dict.fromkeys([*there, *asked]))


def features_of(
    table: pd.DataFrame, stored: ModelFile, kinds: dict[str, str], source: str
) -> Features:
    """The columns of the model, converted to the kinds that it was trained with."""
    estimator = stored.estimator
    names = feature_names_of(estimator)
    if names is None:
        targets = _targets(stored.notes)
        columns = [column for column in table.columns if column not in targets]
        if len(columns) != estimator.n_features_in_:
            raise InputError(
                f"{source} has {len(columns)} columns; the model was trained without column names "
                f"and needs {estimator.n_features_in_}"
            )
        return feature_numbers(table[columns], source, remedy="correct it")
    require_columns(table, names, source)
    rows = table[names].copy()
    for column in rows.columns:
        kind = kinds.get(column, "number" if _only_numbers(estimator) else None)
        if kind == "number" and kind_of(rows[column]) != "number":
            rows[column] = feature_numbers(rows[[column]], source, remedy="correct it")[:, 0]
    check_finite(rows, source)
    return rows


def _only_numbers(estimator: Estimator) -> bool:
    """Whether a model needs complete rows of numbers."""
    return not get_tags(last_step(estimator)).input_tags.allow_nan


def _answers(estimator: Estimator, rows: Features, source: str, bar: Bar) -> np.ndarray:
    """Predictions (m, k) or probabilities (m, c), NaN for rows that the model cannot predict."""
    known = np.ones(len(rows), dtype=bool)
    if _only_numbers(estimator):
        known = ~pd.DataFrame(rows).isna().any(axis=1).to_numpy()
    try:
        pieces = list(_batches(estimator, rows, np.flatnonzero(known), bar))
    except ValueError as error:  # names the column that is wrong
        raise InputError(f"{source}: {error}") from error
    found = np.concatenate(pieces) if pieces else np.zeros((0, 1))
    answers = np.full((len(rows), found.shape[1]), np.nan)
    answers[known] = found
    return answers


def _batches(
    estimator: Estimator, rows: Features, known: np.ndarray, bar: Bar
) -> Iterator[np.ndarray]:
    """Answers for batches of rows; warnings refer to all rows, not to a batch."""
    if not len(known):
        return
    size = min(max(-(-len(known) // N_BATCHES), MIN_BATCH), MAX_BATCH)
    several = len(known) > size
    encoders = list(story_of(estimator).encoders.values())
    if several and encoders:
        encoders[0].transform(rows)
    for begin in range(0, len(known), size):
        bar.update(begin / len(known))
        places = known[begin : begin + size]
        with warnings.catch_warnings():
            if several and encoders:
                warnings.simplefilter("ignore")
            few = rows.iloc[places] if isinstance(rows, pd.DataFrame) else rows[places]
            yield answers_of(estimator, few)


def _targets(notes: JsonDict) -> list[str]:
    targets = notes.get("targets", [notes.get("target")])
    return [one for one in targets if isinstance(one, str)] if isinstance(targets, list) else []


def _names(predictions: np.ndarray, notes: JsonDict) -> list[str]:
    """Headers of the predictions."""
    k, targets = predictions.shape[1], _targets(notes)
    if k == 1:
        return [PREDICTION]
    suffixes = targets if len(targets) == k else range(1, k + 1)
    return [f"{PREDICTION}_{suffix}" for suffix in suffixes]


def _score(
    table: pd.DataFrame,
    rows: Features,
    answers: np.ndarray,
    stored: ModelFile,
    source: str,
    result: JsonDict,
) -> None:
    """Print a note about rows without prediction, and the score if the table has the target."""
    answered = np.isfinite(answers).all(axis=1)
    if not answered.all():
        result["n_missing"] = int(np.sum(~answered))
        note(f"{result['n_missing']:,} rows with missing features have no prediction")
    target, names = story_of(stored.estimator).target, _targets(stored.notes)
    n_columns = 1 if target.classes else answers.shape[1]
    if len(names) != n_columns or not set(names) <= set(table.columns):
        return
    try:
        y = targets_of([table[one] for one in names], source, classes=bool(target.classes))
    except InputError as error:
        note(f"no score: {error}")
        return
    scored = answered & ~pd.isna(y).any(axis=1)
    scored = _new_rows(scored, rows, y, stored.notes, source, result)
    n_scored = int(scored.sum())
    if n_scored < 2:
        return
    values = target.read(y[scored, 0] if target.classes else y[scored])
    scores = result["scores"] = target.scores(values, answers[scored])
    words = f"R² {score_words(scores['r2'], n_scored)}" if "r2" in scores else ""
    words = words or f"{scores['accuracy']:.1%} of {n_scored:,} rows are right"
    note(f"score against the target in {source}: {words}")
    if isinstance(target, Classes) and scores["n_unseen"]:
        note(unseen_words(y[scored, 0], target.labels))


def _new_rows(
    scored: np.ndarray,
    rows: Features,
    y: np.ndarray,
    notes: JsonDict,
    source: str,
    result: JsonDict,
) -> np.ndarray:
    """Rows to score: those that the model was not trained on, or all if it has seen them all."""
    seen = trained_on(notes, rows, y) & scored
    n_seen, n_scored = int(seen.sum()), int(scored.sum())
    if not n_seen:
        return scored
    result["n_training_rows"] = n_seen
    if n_scored - n_seen < 2:
        note(f"the model was trained on the rows in {source}, so this score is not a test of it")
        return scored
    note(
        f"the model was trained on {n_seen:,} of the {n_scored:,} rows in {source}; the score "
        "leaves them out"
    )
    return scored & ~seen


def _write(
    predictions: np.ndarray,
    kept: pd.DataFrame,
    others: pd.DataFrame,
    names: list[str],
    out: Path | None,
    result: JsonDict,
    json: bool,
) -> None:
    if out is None and json:
        result["predictions"] = (predictions[:, 0] if len(names) == 1 else predictions).tolist()
        others = pd.concat([others, kept], axis=1)
        if others.shape[1]:
            result["kept"] = {
                column: [None if missing else _plain(value) for value, missing in pairs]
                for column in others.columns
                for pairs in [zip(others[column], others[column].isna(), strict=True)]
            }
    else:
        table = pd.DataFrame(predictions, columns=names, index=kept.index)
        numbers = pd.concat([table, others], axis=1).map(_short)
        text = io.StringIO()
        pd.concat([kept, numbers], axis=1).to_csv(text, index=False)
        if out is None:
            sys.stdout.write(text.getvalue())
        else:
            write_page(out, text.getvalue())
            result["out"] = str(out)
    if json:
        print_json(result)
    elif out is not None:
        note(f"wrote {len(predictions):,} predictions to {out}")


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


def _plain(value: object) -> str | int | float | bool:
    """A value that JSON can represent."""
    value = value.item() if isinstance(value, np.generic) else value
    return value if isinstance(value, str | int | float | bool) else str(value)
