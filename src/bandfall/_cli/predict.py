"""``bandfall predict``."""

from __future__ import annotations

import math
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

from bandfall._cli.options import Style, command, option
from bandfall._cli.outputs import PREDICTION, check_out, is_predictions, write_page
from bandfall._cli.read_table import name_of
from bandfall._cli.rows import Features, require_columns, targets_of
from bandfall._cli.stored import features_of, noted_words, only_numbers, read_for, trained_on
from bandfall._cli.terminal import Bar, InputError, note, print_json
from bandfall._cli.training import score_words
from bandfall._estimators.view import answers_of, last_step, story_of
from bandfall._files import ModelFile, read_model_file
from bandfall._targets import Classes
from bandfall._targets.scores import unseen_words
from bandfall._typing import Estimator, JsonDict

_INTERVAL = "Add an interval (lower, upper) that contains the target for this share of rows: 0.9."
_NOVELTY = "Add the distance of each row to the training rows; values above 1 are unusual."
_ESCAPE = "Write ' before text that a spreadsheet would run as a formula."


@command(
    without="text missing",
    out=option("--out", "FILE", "CSV file to write; - or nothing for standard output."),
    interval=option("--interval", "SHARE", _INTERVAL),
    novelty=option("--novelty", "", _NOVELTY),
    escape=option("--escape-formulas/--no-escape-formulas", "", _ESCAPE),
)
def predict(
    file: str,
    data: str,
    *,
    out: Path | None = None,
    interval: float | None = None,
    novelty: bool = False,
    keep: list[str] | None = None,
    escape: bool = True,
    style: Style,
    force: bool = False,
    json: bool = False,
) -> None:
    """Predict the target for every row of a table.

    Columns are matched by name: their order does not matter, and additional columns are ignored.
    Columns named with --keep, here or in fit, come first in the result. Numbers are written with
    six digits; --json prints all digits. Models made with --model kgdd or krr-cv leave predictions
    of incomplete rows empty. If the table also has the target, the score is printed on standard
    error; rows that the model was trained on do not count.
    """
    out = None if out is not None and str(out) == "-" else out
    if out is not None:
        check_out(out, is_predictions, force=force, inputs=(file, data))
    stored, source = read_model_file(file), name_of(data)
    _check_options(interval, novelty, stored.estimator)
    table, style = read_for(data, stored, style)
    require_columns(table, keep or [], source)
    always = [name for name in noted_words(stored.notes, "keep") if name in table.columns]
    kept = table[list(dict.fromkeys([*always, *(keep or [])]))]
    with style.as_usual():
        rows = features_of(table, stored, source)
        answers = _answers(stored.estimator, rows, source)
        facts = _facts(table, rows, answers, stored, source)
    predictions, others = _columns(stored, rows, answers, interval, novelty, source)
    result: JsonDict = {"n_rows": len(table), **facts}
    if json and out is None:
        result |= _as_json(predictions, pd.concat([others, kept], axis=1))
    else:
        written = pd.concat([kept, predictions.map(_short), others.map(_short)], axis=1)
        if escape:
            written = written.map(_escaped).rename(columns=_escaped)
        text = written.to_csv(index=False)
        if out is None:
            sys.stdout.write(text)
        else:
            write_page(out, text)
            result["out"] = str(out)
    if json:
        print_json(result)
    elif out is not None:
        note(f"wrote {len(predictions):,} predictions to {out}")


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


def _answers(estimator: Estimator, rows: Features, source: str) -> np.ndarray:
    """Predictions (m, k) or probabilities (m, c), NaN for rows that the model cannot predict.

    Rows are predicted in batches, so that the bar moves; warnings refer to all rows.
    """
    table, encoders = pd.DataFrame(rows), list(story_of(estimator).encoders.values())
    complete = np.ones(len(table), dtype=bool)
    if only_numbers(estimator):
        complete = ~table.isna().any(axis=1).to_numpy()
    positions = np.flatnonzero(complete)
    size = min(max(-(-len(positions) // 50), 2_000), 50_000)
    warned = len(positions) > size and encoders
    pieces = [np.zeros((0, 1))]
    try:
        with Bar("predict") as bar, warnings.catch_warnings():
            if warned:
                encoders[0].transform(rows)
                warnings.simplefilter("ignore")
            for begin in range(0, len(positions), size):
                bar.reach(begin / len(positions))
                batch = table.iloc[positions[begin : begin + size]]
                few = batch if isinstance(rows, pd.DataFrame) else batch.to_numpy()
                pieces.append(answers_of(estimator, few))
    except ValueError as error:  # names the column that is wrong
        raise InputError(f"{source}: {error}") from error
    answers = np.full((len(table), pieces[-1].shape[1]), np.nan)
    answers[complete] = np.concatenate(pieces[1:] or pieces)
    return answers


def _columns(
    stored: ModelFile,
    rows: Features,
    answers: np.ndarray,
    interval: float | None,
    novelty: bool,
    source: str,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Predictions, and the columns beside them."""
    estimator, target = stored.estimator, story_of(stored.estimator).target
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
            with Bar("predict: intervals"):
                ends = np.asarray(last_step(estimator).predict_interval(rows, interval))
            headers = [f"{end}{suffix}" for suffix in suffixes for end in ("lower", "upper")]
            others = pd.DataFrame(ends.reshape(len(ends), -1), columns=headers)
    if novelty:
        with Bar("predict: novelty"):
            others["novelty"] = np.asarray(last_step(estimator).novelty(rows))
        if (share := float(np.mean(others["novelty"] > 1))) > 0.1:
            note(f"{share:.0%} of the rows in {source} are far from the training rows: see novelty")
    return predictions, others


def _facts(
    table: pd.DataFrame, rows: Features, answers: np.ndarray, stored: ModelFile, source: str
) -> JsonDict:
    """Rows without prediction, and the score if the table has the target; prints notes of both."""
    facts: JsonDict = {}
    answered = np.isfinite(answers).all(axis=1)
    if not answered.all():
        facts["n_missing"] = int(np.sum(~answered))
        note(f"{facts['n_missing']:,} rows with missing features have no prediction")
    target, y = story_of(stored.estimator).target, _targets_in(table, answers, stored, source)
    if y is None:
        return facts
    scored = answered & ~pd.isna(y).any(axis=1)
    seen = trained_on(stored.notes, rows, y) & scored
    n_seen, n_scored = int(seen.sum()), int(scored.sum())
    if n_seen:
        facts["n_training_rows"] = n_seen
    if n_seen and n_scored - n_seen < 2:
        note(f"the model was trained on the rows in {source}, so this score is not a test of it")
    elif n_seen:
        note(
            f"the model was trained on {n_seen:,} of the {n_scored:,} rows in {source}; the score "
            "leaves them out"
        )
        scored, n_scored = scored & ~seen, n_scored - n_seen
    if n_scored < 2:
        return facts
    values = target.read(y[scored, 0] if target.classes else y[scored])
    scores = facts["scores"] = target.scores(values, answers[scored])
    if "r2" in scores:
        words = f"R² {score_words(scores, n_scored)}"
    else:
        words = f"{scores['accuracy']:.1%} of {n_scored:,} rows are right"
    note(f"score against the target in {source}: {words}")
    if isinstance(target, Classes) and scores["n_unseen"]:
        note(unseen_words(y[scored, 0], target.labels))
    return facts


def _targets_in(
    table: pd.DataFrame, answers: np.ndarray, stored: ModelFile, source: str
) -> np.ndarray | None:
    """The targets (m, k), if the table has them and they can be read."""
    target, names = story_of(stored.estimator).target, noted_words(stored.notes, "targets")
    n_columns = 1 if target.classes else answers.shape[1]
    if len(names) != n_columns or not set(names) <= set(table.columns):
        return None
    try:
        return targets_of([table[name] for name in names], source, classes=bool(target.classes))
    except InputError as error:
        note(f"no score: {error}")
        return None


def _as_json(predictions: pd.DataFrame, others: pd.DataFrame) -> JsonDict:
    values, others = predictions.to_numpy(), others.astype(object)
    result: JsonDict = {"predictions": (values[:, 0] if values.shape[1] == 1 else values).tolist()}
    if others.shape[1]:
        result["kept"] = others.where(others.notna(), None).to_dict("list")
    return result


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
