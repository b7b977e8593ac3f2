"""``bandfall fit``."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from rich.text import Text

from bandfall._cli import options
from bandfall._cli.classes import Task, accuracy_words
from bandfall._cli.columns import quoted
from bandfall._cli.outputs import check_out, is_model, write_or_keep
from bandfall._cli.read_table import Style
from bandfall._cli.rows import Dataset, Roles, split_words
from bandfall._cli.stored import model_notes
from bandfall._cli.terminal import (
    INTERRUPTED,
    Bar,
    InputError,
    counted,
    note,
    one_line_errors,
    print_json,
    print_pairs,
)
from bandfall._cli.training import (
    MAX_ROWS,
    Choices,
    Device,
    ModelChoice,
    Trained,
    score_words,
    train_on,
    why_ended,
)
from bandfall._drawing.axes import number
from bandfall._estimators.view import Story, answers_of, last_step, story_of
from bandfall._files import save_model
from bandfall._targets.scores import Scores
from bandfall._typing import JsonDict
from bandfall.descent import Status
from bandfall.tables._kinds import ID

MODEL = Path("model.bandfall")
_CHECKPOINT = "Save the progress of --model kgdd here after every stage."
_RESUME = "Continue from --checkpoint, if that file exists."


def fit(
    data: options.Data,
    target: options.Target,
    out: Annotated[Path, options.option("--out", "FILE", "Model file to write.")] = MODEL,
    model: options.Model = ModelChoice.AUTO,
    task: options.Task = Task.AUTO,
    test_fraction: options.Fraction = 0.2,
    drop: options.Drop = None,
    keep: options.Keep = None,
    weights: options.Weights = None,
    time_split: options.Time = None,
    group: options.Group = None,
    max_rows: options.FitRows = None,
    max_seconds: options.Seconds = None,
    seed: options.Seed = 0,
    device: options.Device = Device.AUTO,
    checkpoint: Annotated[Path | None, options.option("--checkpoint", "FILE", _CHECKPOINT)] = None,
    resume: Annotated[bool, options.option("--resume", "", _RESUME)] = False,
    na: options.Missing = None,
    text: options.Text = None,
    sep: options.Separator = None,
    decimal: options.Decimal = None,
    encoding: options.Encoding = None,
    force: options.Force = False,
    json: options.Json = False,
) -> None:
    """Train a model on a table and write it to a file.

    Every column is a feature unless you say otherwise: numbers, text, dates, booleans, with or
    without missing values (with --model kgdd and krr-cv, only numbers in complete rows). Rows
    without a target are left out. If the target is text or booleans, a classifier is trained.
    Ctrl-C finishes early with the best model so far; a second Ctrl-C stops without one.
    """
    with one_line_errors():
        check_out(out, is_model, force=force, inputs=(data,))
        _check_checkpoint(checkpoint, resume, model)
        roles = Roles(
            target, drop or [], keep or [], weights, time_split, group, text or [], na or []
        )
        most = max_rows or (MAX_ROWS[model] if model is ModelChoice.KRR_CV else None)
        choices = Choices(model, device, test_fraction, most, seed, task, max_seconds, checkpoint)
        trained = train_on(data, roles, Style(sep, decimal, encoding), choices)
        results = (out, trained, _tested(trained), story_of(trained.estimator))
        notes = {**model_notes(trained), "seed": seed}
        write_or_keep(out, partial(save_model, trained.estimator, notes=notes))
        _note_ids(trained.rows, story_of(trained.estimator))
        print_json(_result(*results)) if json else _show(*results)
        if trained.interrupted:
            note(f"interrupted: {out} holds the model found so far")
            raise typer.Exit(INTERRUPTED)


def _check_checkpoint(file: Path | None, resume: bool, model: ModelChoice) -> None:
    """Refuse to overwrite the checkpoint of an interrupted run unless --resume is given."""
    if file is None:
        if resume:
            raise InputError("--resume needs --checkpoint, the file to continue from")
        return
    if model is not ModelChoice.KGDD:
        raise InputError(f"--checkpoint works with --model kgdd only, not {model}")
    if file.exists() and not resume:
        raise InputError(f"{file} exists already; use --resume to continue from it")


class Tested(NamedTuple):
    """Scores on the held-out rows, for all targets together and for each."""

    n_rows: int
    scores: Scores
    by_target: dict[str, Scores]


def _result(out: Path, trained: Trained, tested: Tested | None, story: Story) -> JsonDict:
    """The result as JSON values."""
    rows = trained.rows
    result: JsonDict = {
        "model": str(out),
        "estimator": type(last_step(trained.estimator)).__name__,
        "targets": rows.roles.targets,
        "n_train": len(rows),
        "n_test": 0 if tested is None else tested.n_rows,
        "n_dropped": rows.n_dropped,
        "n_without_target": rows.n_without_target,
        "n_features": rows.X.shape[1],
        "reading": {
            "separator": rows.style.separator,
            "decimal": rows.style.decimal,
            "encoding": rows.style.encoding,
        },
        "seconds": trained.seconds,
        "interrupted": trained.interrupted,
    }
    if story.path is not None:
        result["status"], result["train_r2"] = story.path.status.value, story.path.r2
    if story.skipped:
        result["skipped"] = list(story.skipped)
    if rows.has_classes:
        result["classes"] = story.target.classes
    if tested is not None:
        several = {"targets": tested.by_target} if len(tested.by_target) > 1 else {}
        result["test"] = {**tested.scores, **several}
    return result


def _tested(trained: Trained) -> Tested | None:
    held_out = trained.held_out
    if held_out is None:
        return None
    target, names = story_of(trained.estimator).target, held_out.roles.targets
    with Bar("fit: scoring the held-out rows"):
        y, answers = target.read(held_out.y), answers_of(trained.estimator, held_out.X)
    scores = target.scores(y, answers, held_out.weights)
    if len(names) == 1:
        return Tested(len(held_out), scores, {names[0]: scores})
    by_target = {
        name: target.scores(y[:, [j]], answers[:, [j]], held_out.weights)
        for j, name in enumerate(names)
    }
    return Tested(len(held_out), scores, by_target)


def _note_ids(rows: Dataset, story: Story) -> None:
    """Print hints about columns that look like ids."""
    encoder = next(iter(story.encoders.values()), None)
    if encoder is None:
        return
    names = [str(name) for name in rows.X.columns]
    dropped = [j for j, one in enumerate(encoder.schema.readings) if one.dropped == ID]
    for name in [names[j] for j in dropped[:3]]:
        note(f"to copy {name!r} into the predictions, use predict --keep {quoted(name)}")
    for name in [names[j] for j in (encoder.suspicious or [])[:3]]:
        note(
            f"{name!r} looks like an id and is used as a feature; if it is an id, train with "
            f"--keep {quoted(name)}, which copies it into the predictions"
        )


def _show(out: Path, trained: Trained, tested: Tested | None, story: Story) -> None:
    """Print the result as text."""
    rows, path = trained.rows, story.path
    encoder = next(iter(story.encoders.values()), None)
    n_unused = sum(bool(one.dropped) for one in encoder.schema.readings) if encoder else 0
    unused = f" ({n_unused} left out)" if n_unused else ""
    part = f"{len(path.X):,} of " if path is not None and len(path.X) < len(rows) else ""
    pairs: list[tuple[str, str | Text]] = [
        ("target", rows.target),
        ("trained on", f"{part}{len(rows):,} rows × {counted(rows.X.shape[1], 'feature')}{unused}"),
        ("estimator", type(last_step(trained.estimator)).__name__),
        *(_score_pairs(tested, rows) if tested is not None else []),
    ]
    if path is not None and path.status is Status.CONSTANT_TARGET:
        pairs.append(("training", "the target is constant: every prediction is its value"))
    elif path is not None and not rows.has_classes:
        pairs.append(("training R²", f"{path.r2:.4f} ({why_ended(story, path.status)})"))
    pairs += [("skipped", what) for what in story.skipped]
    pairs += [("time", f"{trained.seconds:.1f} s"), ("model", str(out))]
    print_pairs(pairs)


def _score_pairs(tested: Tested, rows: Dataset) -> Iterator[tuple[str, Text]]:
    """The scores on held-out rows, in bold, and how these rows were chosen."""
    n_rows, roles = tested.n_rows, rows.roles
    if rows.has_classes:
        score, _, rest = accuracy_words(tested.scores, n_rows).partition(" ")
        yield "held-out accuracy", Text.assemble((score, "bold"), f" {rest}")
        return
    how = "" if roles.time is None and roles.group is None else f", {split_words(roles)}"
    for name, scores in tested.by_target.items():
        score, _, rest = score_words(scores["r2"], n_rows).partition(" ")
        rest = f" {rest}{how} (mean absolute error {number(scores['mae'])})"
        head = f"held-out R² {name}" if len(tested.by_target) > 1 else "held-out R²"
        yield head, Text.assemble((score, "bold"), rest)
