"""``bandfall fit``."""

from __future__ import annotations

from pathlib import Path

import typer

from bandfall._cli.inspect import show
from bandfall._cli.options import Choices, command, option
from bandfall._cli.rows import quoted
from bandfall._cli.stored import model_notes
from bandfall._cli.terminal import INTERRUPTED, check_out, note
from bandfall._cli.training import Trained, train_on
from bandfall._estimators.view import story_of
from bandfall._files import save_model
from bandfall.tables._kinds import ID

MODEL = Path("model.bandfall")


@command(required="targets", out=option("--out", "FILE", "Model file to write."))
def fit(data: str, *, choices: Choices, out: Path = MODEL, json: bool = False) -> None:
    """Train a model on a table, write it to a file, and show it.

    Every column is a feature unless you say otherwise: numbers, text, dates, booleans, with or
    without missing values (with --model kgdd, only numbers in complete rows). Rows without a
    target are left out. If the target is text or booleans, a classifier is trained. Ctrl-C
    finishes early with the best model so far; a second Ctrl-C stops without one.
    """
    check_out(out, (data,))
    trained = train_on(data, choices)
    save_model(trained.estimator, out, notes=model_notes(trained))
    _note_ids(trained)
    show(str(out), {"interrupted": trained.interrupted}, json)
    if trained.interrupted:
        note(f"interrupted: {out} holds the model found so far")
        raise typer.Exit(INTERRUPTED)


def _note_ids(trained: Trained) -> None:
    """Print hints about columns that look like ids."""
    encoder = next(iter(story_of(trained.estimator).encoders.values()), None)
    if encoder is None:
        return
    names = [str(name) for name in trained.rows.X.columns]
    for name, one in zip(names, encoder.schema.readings, strict=True):
        if one.dropped == ID:
            note(f"to copy {name!r} into the predictions, use predict --keep {quoted(name)}")
    for name in [names[j] for j in encoder.suspicious or []]:
        note(
            f"{name!r} looks like an id and is used as a feature; if it is an id, train with "
            f"--drop {quoted(name)}"
        )
