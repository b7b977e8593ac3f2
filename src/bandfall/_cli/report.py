"""``bandfall report``."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from bandfall._cli.compare import rivals_for, score_rivals
from bandfall._cli.options import Choices, Roles, Style, argument, command, option
from bandfall._cli.outputs import check_out, is_page, write_page
from bandfall._cli.pages import model_of, studied, target_of
from bandfall._cli.terminal import note, print_json
from bandfall._files import ModelFile
from bandfall.report._columns import LabelledRows
from bandfall.report._findings import Findings
from bandfall.report._page import render_page
from bandfall.report._score import RivalScore

OURS = "bandfall (this model)"
PAGE = Path("report.html")
_DATA = "Rows for a model file: new ones, or the training rows if the file has none."


@command(
    without="keep max_seconds",
    source=argument("MODEL|DATA", "Model file, or a table to train a model on."),
    data=argument("DATA", _DATA),
    targets=option("--target", "COL", "Column to predict, if a table is given."),
    out=option("--out", "FILE", "HTML page to write."),
    with_rivals=option("--rivals/--no-rivals", "", "Score other models too."),
)
def report(
    source: str,
    data: str | None = None,
    *,
    roles: Roles,
    out: Path = PAGE,
    with_rivals: bool = True,
    choices: Choices,
    style: Style,
    force: bool = False,
    json: bool = False,
) -> None:
    """Write one HTML page about a model: score, rivals, path, features, errors, slices.

    For classes, it shows log-loss, AUC, calibration and confusion. A model file contains the rows
    that the model was trained and scored on, so it is all that is needed; one that was saved in
    Python needs a table with these rows. Given a table alone, a model is trained as in fit and not
    saved. The page needs no network and no server.
    """
    check_out(out, is_page, force=force, inputs=(source, data))
    stored = model_of(source, data, roles, style, choices)
    findings, train, unseen = studied("report", stored, data, style, choices.seed)
    results = []
    if with_rivals and unseen is not None and len(findings.target.classes) != 1:
        results = _compared(stored, findings, train, unseen, choices.seed)
    page = render_page(
        findings,
        target=target_of(stored.notes),
        source=str(stored.notes.get("source", "unknown")),
        details=_details(stored),
        rivals=results,
        model_name=OURS,
    )
    write_page(out, page)
    if json:
        print_json({"out": str(out), **findings.scores, "held_out": findings.held_out})
    else:
        note(f"wrote {out}; open it in a browser")


def _compared(
    stored: ModelFile, findings: Findings, train: LabelledRows, unseen: LabelledRows, seed: int
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
    models = rivals_for(train.y, bool(findings.target.classes), seed)
    with Style(decimal="," if stored.notes.get("decimal") == "," else ".").as_usual():
        return [*score_rivals(models, train, unseen, seed=seed), ours]


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
