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

from bandfall._cli import options
from bandfall._cli.columns import Features, require_columns
from bandfall._cli.outputs import PREDICTION, check_out, is_predictions, write_page
from bandfall._cli.read_table import Style, name_of
from bandfall._cli.rows import targets_of
from bandfall._cli.stored import features_of, noted_words, only_numbers, read_for, trained_on
from bandfall._cli.terminal import Bar, InputError, note, one_line_errors, print_json
from bandfall._cli.training import score_words
from bandfall._estimators.view import answers_of, last_step, story_of
from bandfall._files import ModelFile, read_model_file
from bandfall._targets import Classes
from bandfall._targets.scores import unseen_words
from bandfall._typing import Estimator, JsonDict

_OUT = "CSV file to write; - or nothing for standard output."
_ESCAPE = "Write ' before text that a spreadsheet would run as a formula."


def predict(
    model: options.ModelFile,
    data: options.Data,
    out: Annotated[Path | None, options.option("--out", "FILE", _OUT)] = None,
    interval: options.Interval = None,
    novelty: options.Novelty = False,
    keep: options.Keep = None,
    escape: Annotated[
        bool, options.option("--escape-formulas/--no-escape-formulas", "", _ESCAPE)
    ] = True,
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
        stored, source = read_model_file(model), name_of(data)
        _check_options(interval, novelty, stored.estimator)
        table, style = read_for(data, stored, Style(sep, decimal, encoding))
        require_columns(table, keep or [], source)
        always = [name for name in noted_words(stored.notes, "keep") if name in table.columns]
        kept = table[list(dict.fromkeys([*always, *(keep or [])]))]
        with style.as_usual():
            rows = features_of(table, stored, source)
        with Bar("predict") as bar:
            answers = _answers(stored.estimator, rows, source, bar)
        if style.remarks:
            note(f"{source}: {style.remarks}")
        result: JsonDict = {"n_rows": len(table)}
        with style.as_usual():
            _score(table, rows, answers, stored, source, result)
        predictions, names, others = _columns(stored, rows, answers, interval, novelty, source)
        others = others.set_index(table.index)
        if json and out is None:
            result["predictions"] = (predictions[:, 0] if len(names) == 1 else predictions).tolist()
            others = pd.concat([others, kept], axis=1)
            result |= {"kept": _json_columns(others)} if others.shape[1] else {}
        else:
            numbers = pd.DataFrame(predictions, columns=names, index=table.index)
            numbers = pd.concat([numbers, others], axis=1).map(_short)
            _write(pd.concat([kept, numbers], axis=1), out, escape)
            result |= {"out": str(out)} if out is not None else {}
        if json:
            print_json(result)
        elif out is not None:
            note(f"wrote {len(predictions):,} predictions to {out}")


def _write(table: pd.DataFrame, out: Path | None, escape: bool) -> None:
    """Write the result as CSV to a file or standard output."""
    if escape:
        table = table.map(_escaped).rename(columns=_escaped)
    text = io.StringIO()
    table.to_csv(text, index=False)
    if out is None:
        sys.stdout.write(text.getvalue())
    else:
        write_page(out, text.getvalue())


def _columns(
    stored: ModelFile,
    rows: Features,
    answers: np.ndarray,
    interval: float | None,
    novelty: bool,
    source: str,
) -> tuple[np.ndarray, list[str], pd.DataFrame]:
    """Predictions, their headers, and the columns beside them."""
    target, estimator = story_of(stored.estimator).target, stored.estimator
    if isinstance(target, Classes):
        predictions = target.labels[answers.argmax(axis=1), None].astype(object)
        others = pd.DataFrame(answers, columns=[f"probability_{one}" for one in target.labels])
    else:
        predictions, others = answers, pd.DataFrame(index=range(len(answers)))
    names = _names(predictions, stored.notes)
    if interval is not None:
        with Bar("predict: intervals"):
            others = _intervals(estimator, rows, interval, names)
    if novelty:
        with Bar("predict: novelty"):
            others["novelty"] = _novelty(estimator, rows, source)
    return predictions, names, others


def _check_options(interval: float | None, novelty: bool, estimator: Estimator) -> None:
    """Raise InputError if the model cannot give what is asked."""
    story, name = story_of(estimator), type(last_step(estimator)).__name__
    if interval is not None:
        if not 0 < interval < 1:
            raise InputError(f"--interval must be between 0 and 1; got {interval}")
        if story.target.classes:
            raise InputError(
                "--interval: this model predicts classes; the result has their probabilities "
                "instead"
            )
        if story.intervals is None:
            raise InputError(f"--interval: {name} has no intervals; train with --model auto")
    if novelty and story.average is None:
        raise InputError(f"--novelty: {name} cannot measure it; train with --model auto")


def _answers(estimator: Estimator, rows: Features, source: str, bar: Bar) -> np.ndarray:
    """Predictions (m, k) or probabilities (m, c), NaN for rows that the model cannot predict."""
    complete = np.ones(len(rows), dtype=bool)
    if only_numbers(estimator):
        complete = ~pd.DataFrame(rows).isna().any(axis=1).to_numpy()
    try:
        pieces = list(_batches(estimator, rows, np.flatnonzero(complete), bar))
    except ValueError as error:  # names the column that is wrong
        raise InputError(f"{source}: {error}") from error
    predicted = np.concatenate(pieces) if pieces else np.zeros((0, 1))
    answers = np.full((len(rows), predicted.shape[1]), np.nan)
    answers[complete] = predicted
    return answers


def _batches(
    estimator: Estimator, rows: Features, positions: np.ndarray, bar: Bar
) -> Iterator[np.ndarray]:
    """Answers for batches of rows; warnings refer to all rows, not to a batch."""
    size = min(max(-(-len(positions) // 50), 2_000), 50_000)
    encoders = list(story_of(estimator).encoders.values())
    warned = len(positions) > size and encoders
    if warned:
        encoders[0].transform(rows)
    for begin in range(0, len(positions), size):
        bar.update(begin / len(positions))
        batch = positions[begin : begin + size]
        with warnings.catch_warnings():
            if warned:
                warnings.simplefilter("ignore")
            few = rows.iloc[batch] if isinstance(rows, pd.DataFrame) else rows[batch]
            yield answers_of(estimator, few)


def _names(predictions: np.ndarray, notes: JsonDict) -> list[str]:
    """Headers of the predictions."""
    k, targets = predictions.shape[1], noted_words(notes, "targets")
    if k == 1:
        return [PREDICTION]
    suffixes = targets if len(targets) == k else range(1, k + 1)
    return [f"{PREDICTION}_{suffix}" for suffix in suffixes]


def _intervals(
    estimator: Estimator, rows: Features, interval: float, names: list[str]
) -> pd.DataFrame:
    """Columns "lower" and "upper" for every prediction, named after the predictions."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ends = np.asarray(last_step(estimator).predict_interval(rows, interval))
    if any("too few" in str(warning.message) for warning in caught):
        n_rows = last_step(estimator).interval_["n_rows"]
        note(
            f"{n_rows:,} held-out rows are too few for --interval {interval}: "
            "the intervals are infinite"
        )
    suffixes = [name.removeprefix(PREDICTION) for name in names]
    headers = [f"{end}{suffix}" for suffix in suffixes for end in ("lower", "upper")]
    return pd.DataFrame(ends.reshape(len(ends), -1), columns=headers)


def _novelty(estimator: Estimator, rows: Features, source: str) -> np.ndarray:
    """Novelty of each row; prints a note if many rows are far from the training rows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # noted with the predictions
        novelty = np.asarray(last_step(estimator).novelty(rows))
    share = float(np.mean(novelty > 1))
    if share > 0.1:
        note(f"{share:.0%} of the rows in {source} are far from the training rows: see novelty")
    return novelty


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
    target, names = story_of(stored.estimator).target, noted_words(stored.notes, "targets")
    n_columns = 1 if target.classes else answers.shape[1]
    if len(names) != n_columns or not set(names) <= set(table.columns):
        return
    try:
        y = targets_of([table[name] for name in names], source, classes=bool(target.classes))
    except InputError as error:
        note(f"no score: {error}")
        return
    scored = answered & ~pd.isna(y).any(axis=1)
    seen = trained_on(stored.notes, rows, y) & scored
    n_seen, n_scored = int(seen.sum()), int(scored.sum())
    if n_seen:
        result["n_training_rows"] = n_seen
        if n_scored - n_seen < 2:
            note(
                f"the model was trained on the rows in {source}, so this score is not a test of it"
            )
        else:
            note(
                f"the model was trained on {n_seen:,} of the {n_scored:,} rows in {source}; the "
                "score leaves them out"
            )
            scored, n_scored = scored & ~seen, n_scored - n_seen
    if n_scored < 2:
        return
    values = target.read(y[scored, 0] if target.classes else y[scored])
    scores = result["scores"] = target.scores(values, answers[scored])
    words = f"R² {score_words(scores['r2'], n_scored)}" if "r2" in scores else ""
    words = words or f"{scores['accuracy']:.1%} of {n_scored:,} rows are right"
    note(f"score against the target in {source}: {words}")
    if isinstance(target, Classes) and scores["n_unseen"]:
        note(unseen_words(y[scored, 0], target.labels))


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


def _escaped(value: object) -> object:
    """Text that begins like a formula, after an apostrophe; numbers and other text unchanged.

    Examples
    --------
    >>> _escaped("=1+1"), _escaped("-0.5"), _escaped("high"), _escaped(-0.5)
    ("'=1+1", '-0.5', 'high', -0.5)
    """
    if not isinstance(value, str) or not value.startswith(("=", "+", "-", "@", "\t", "\r")):
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value


def _json_columns(table: pd.DataFrame) -> JsonDict:
    """The columns as values that JSON can represent."""
    known = table.notna()
    return {
        str(name): [_plain(value) if there else None for value, there in zip(*pair, strict=True)]
        for name in table
        for pair in [(table[name], known[name])]
    }


def _plain(value: object) -> str | int | float | bool:
    value = value.item() if isinstance(value, np.generic) else value
    return value if isinstance(value, str | int | float | bool) else str(value)
