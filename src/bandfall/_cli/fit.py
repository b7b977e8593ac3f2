"""``bandfall fit``."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import typer
from rich.text import Text

from bandfall._cli.options import Choices, Roles, Style, command, option
from bandfall._cli.outputs import check_out, is_model, write_or_keep
from bandfall._cli.rows import Dataset, quoted
from bandfall._cli.stored import model_notes
from bandfall._cli.terminal import (
    INTERRUPTED,
    Bar,
    counted,
    note,
    print_json,
    print_pairs,
)
from bandfall._cli.training import Trained, score_words, train_on, training_pairs
from bandfall._drawing.chart import number
from bandfall._estimators.view import Story, answers_of, last_step, story_of
from bandfall._files import save_model
from bandfall._typing import JsonDict, State
from bandfall.tables._kinds import ID

MODEL = Path("model.bandfall")


@command(
    required="targets",
    out=option("--out", "FILE", "Model file to write."),
)
def fit(
    data: str,
    *,
    roles: Roles,
    out: Path = MODEL,
    choices: Choices,
    style: Style,
    force: bool = False,
    json: bool = False,
) -> None:
    """Train a model on a table and write it to a file.

    Every column is a feature unless you say otherwise: numbers, text, dates, booleans, with or
    without missing values (with --model kgdd and krr-cv, only numbers in complete rows). Rows
    without a target are left out. If the target is text or booleans, a classifier is trained.
    Ctrl-C finishes early with the best model so far; a second Ctrl-C stops without one.
    """
    check_out(out, is_model, force=force, inputs=(data,))
    if choices.model == "krr-cv":
        choices = choices.with_most_rows()
    trained = train_on(data, roles, style, choices)
    story = story_of(trained.estimator)
    tested = _tested(trained, story)
    notes = {**model_notes(trained), "seed": choices.seed}
    write_or_keep(out, partial(save_model, trained.estimator, notes=notes))
    _note_ids(trained.rows, story)
    if json:
        print_json(_result(out, trained, tested, story))
    else:
        print_pairs(_pairs(out, trained, tested, story))
    if trained.interrupted:
        note(f"interrupted: {out} holds the model found so far")
        raise typer.Exit(INTERRUPTED)


def _tested(trained: Trained, story: Story) -> JsonDict | None:
    """Scores on the held-out rows, for all targets together and, if there are several, for each."""
    held_out, target = trained.held_out, story.target
    if held_out is None:
        return None
    with Bar("fit: scoring the held-out rows"):
        y, answers = target.read(held_out.y), answers_of(trained.estimator, held_out.X)
    tested: JsonDict = dict(target.scores(y, answers, held_out.weights))
    if len(held_out.roles.targets) > 1:
        tested["targets"] = {
            name: target.scores(y[:, [j]], answers[:, [j]], held_out.weights)
            for j, name in enumerate(held_out.roles.targets)
        }
    return tested


def _result(out: Path, trained: Trained, tested: JsonDict | None, story: Story) -> JsonDict:
    """The result as JSON values."""
    rows = trained.rows
    result: JsonDict = {
        "model": str(out),
        "estimator": type(last_step(trained.estimator)).__name__,
        "targets": rows.roles.targets,
        "n_train": len(rows),
        "n_test": 0 if trained.held_out is None else len(trained.held_out),
        "n_dropped": rows.n_dropped,
        "n_without_target": rows.n_without_target,
        "n_features": rows.X.shape[1],
        "reading": {
            name: getattr(rows.style, name) for name in ("separator", "decimal", "encoding")
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
        result["test"] = tested
    return result


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


def _pairs(
    out: Path, trained: Trained, tested: JsonDict | None, story: Story
) -> Iterator[tuple[str, str | Text]]:
    """The result as text: names and values."""
    rows, path = trained.rows, story.path
    encoder = next(iter(story.encoders.values()), None)
    n_unused = sum(bool(one.dropped) for one in encoder.schema.readings) if encoder else 0
    unused = f" ({n_unused} left out)" if n_unused else ""
    part = f"{len(path.X):,} of " if path is not None and len(path.X) < len(rows) else ""
    yield "target", rows.target
    features = f"{counted(rows.X.shape[1], 'feature')}{unused}"
    yield "trained on", f"{part}{len(rows):,} rows × {features}"
    yield "estimator", type(last_step(trained.estimator)).__name__
    if trained.held_out is not None and tested is not None:
        yield from _score_pairs(tested, trained.held_out)
    yield from training_pairs(story)
    yield "time", f"{trained.seconds:.1f} s"
    yield "model", str(out)


def _score_pairs(tested: State, rows: Dataset) -> Iterator[tuple[str, Text]]:
    """The scores on held-out rows, in bold, and how these rows were chosen."""
    roles, head = rows.roles, "held-out accuracy" if rows.has_classes else "held-out R²"
    how = "" if roles.time is None and roles.group is None else f", {roles.split_words}"
    for name, scores in tested.get("targets", {"": tested}).items():
        score, _, rest = score_words(scores, len(rows)).partition(" ")
        if not rows.has_classes:
            rest += f"{how} (mean absolute error {number(scores['mae'])})"
        yield f"{head} {name}".strip(), Text.assemble((score, "bold"), f" {rest}")
