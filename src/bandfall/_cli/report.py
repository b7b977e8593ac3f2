"""``bandfall report``, and the rows that pages about a model show."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from bandfall._cli.compare import rivals_for, score_rivals
from bandfall._cli.options import argument, command, option
from bandfall._cli.read_table import name_of
from bandfall._cli.stored import labelled_rows, unpack_rows, without_training_rows
from bandfall._cli.terminal import Bar, InputError, check_out, note, print_json
from bandfall._estimators.view import feature_names_of, story_of
from bandfall._files import ModelFile, read_model_file
from bandfall._files.atomic import write_atomically
from bandfall.report._columns import LabelledRows
from bandfall.report._findings import Findings, study
from bandfall.report._page import render_page
from bandfall.report._score import RivalScore
from bandfall.tables._text import usual_style

OURS = "bandfall (this model)"
PAGE = Path("report.html")
DATA = argument("DATA", "New rows, or the training rows of a model that was saved in Python.")


@command(
    data=DATA,
    out=option("--out", "FILE", "HTML page to write."),
    rivals=option("--rivals/--no-rivals", "", "Score other models too."),
)
def report(
    file: str, data: str | None = None, *, out: Path = PAGE, rivals: bool = True, json: bool = False
) -> None:
    """Write one HTML page about a model: score, rivals, path, features, errors, slices.

    For classes, it shows log-loss, AUC, calibration and confusion. A model file made by fit
    contains the rows that the model was trained and scored on, so it is all that is needed; one
    that was saved in Python needs a table with its training rows. The page needs no network and no
    server.
    """
    check_out(out, (file, data))
    stored = read_model_file(file)
    findings, train, unseen = studied(stored, data)
    results = []
    if rivals and unseen is not None and len(findings.target.classes) != 1:
        results = _compared(stored, findings, train, unseen)
    page = render_page(
        findings,
        target=str(stored.notes.get("target", "target")),
        source=str(stored.notes.get("source", "unknown")),
        details=_details(stored),
        rivals=results,
        model_name=OURS,
    )
    write_atomically(out, page.encode())
    if json:
        print_json({"out": str(out), **findings.scores, "held_out": findings.held_out})
    else:
        note(f"wrote {out}; open it in a browser")


def studied(
    stored: ModelFile, data: str | None
) -> tuple[Findings, LabelledRows, LabelledRows | None]:
    """The findings about a model, its training rows and the unseen rows.

    Unseen are the rows of a table without those of training, or the rows that `fit` held out. If
    the model file has no rows, as after `model.save`, those of the table are the training rows.
    """
    notes, names, unseen = stored.notes, feature_names_of(stored.estimator), None
    target = story_of(stored.estimator).target
    if not target.classes and target.n_columns > 1:
        raise InputError("a page is about one target; train a model with one --target for it")
    rows = None if data is None else labelled_rows(data, stored)
    if isinstance(notes.get("train"), dict) and names is not None:
        train = LabelledRows(*unpack_rows(notes["train"], names)[:2])
        if rows is not None:
            unseen = without_training_rows(rows, stored, name_of(str(data)))
        elif isinstance(notes.get("test"), dict):
            unseen = LabelledRows(*unpack_rows(notes["test"], names)[:2])
    elif rows is not None:
        train = rows
    else:
        raise InputError(
            "the model file contains no rows: name a table with its training rows, as in "
            "`bandfall report MODEL DATA`"
        )
    if unseen is not None and len(unseen.y) < 2:
        raise InputError(f"{data} has fewer than two rows that the model was not trained on")
    with Bar("the page") as bar:
        return study(stored.estimator, train, unseen, progress=bar.reach), train, unseen


def _compared(
    stored: ModelFile, findings: Findings, train: LabelledRows, unseen: LabelledRows
) -> list[RivalScore]:
    """The scores of other models, and of this one."""
    seconds = stored.notes.get("seconds")
    ours = RivalScore.of(
        OURS,
        findings.outputs,
        unseen.y,
        findings.target,
        seconds=seconds if isinstance(seconds, int | float) else np.nan,
        n_rows=len(train.y),
    )
    models = rivals_for(train.y, bool(findings.target.classes))
    with usual_style("comma" if stored.notes.get("style") == "comma" else "point"):
        return [*score_rivals(models, train, unseen), ours]


def _details(stored: ModelFile) -> dict[str, str]:
    """Lines about the training, for the end of the page."""
    notes, details = stored.notes, {}
    for title, name, words in (
        ("rows left out", "n_dropped", "{:,}, for missing values"),
        ("rows without a target", "n_without_target", "{:,}, left out"),
        ("rows held out", "split", "{}"),
        ("interrupted", "interrupted", "Ctrl-C ended training; this is the best model until then"),
        ("training time", "seconds", "{:.2f} s"),
    ):
        if notes.get(name):
            details[title] = words.format(notes[name])
    if stored.versions:
        details["written by"] = ", ".join(f"{k} {v}" for k, v in stored.versions.items())
    return details
