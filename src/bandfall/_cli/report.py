"""``bandfall report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from bandfall._cli import options
from bandfall._cli.outputs import check_out, is_page, write_page
from bandfall._cli.pages import model_of, studied, target_of
from bandfall._cli.read_table import Style
from bandfall._cli.rivals import rivals_for, score_rivals
from bandfall._cli.rows import Roles
from bandfall._cli.terminal import note, one_line_errors, print_json
from bandfall._cli.training import Choices
from bandfall._estimators.view import last_step, step_names
from bandfall._files import ModelFile
from bandfall.report import Findings, LabelledRows, RivalScore, render_page

OURS = "bandfall (this model)"
PAGE = Path("report.html")
_SOURCE = "Model file, or a table to train a model on."
_DATA = "Rows for a model file: new ones, or the training rows if the file has none."
_RIVALS = "Score other models too."


@one_line_errors()
def report(
    source: Annotated[str, typer.Argument(metavar="MODEL|DATA", help=_SOURCE)],
    data: Annotated[str | None, typer.Argument(metavar="DATA", help=_DATA)] = None,
    out: Annotated[Path, options.option("--out", "FILE", "HTML page to write.")] = PAGE,
    target: options.PageTarget = None,
    with_rivals: Annotated[bool, options.option("--rivals/--no-rivals", "", _RIVALS)] = True,
    model: options.Model = "auto",
    task: options.Task = "auto",
    test_fraction: options.Fraction = 0.2,
    drop: options.Drop = None,
    weights: options.Weights = None,
    time_split: options.Time = None,
    group: options.Group = None,
    max_rows: options.Rows = None,
    seed: options.Seed = 0,
    device: options.Device = "auto",
    na: options.Missing = None,
    text: options.Text = None,
    sep: options.Separator = None,
    decimal: options.Decimal = None,
    encoding: options.Encoding = None,
    force: options.Force = False,
    json: options.Json = False,
) -> None:
    """Write one HTML page about a model: score, rivals, path, features, errors, slices.

    For classes, it shows log-loss, AUC, calibration and confusion. A model file contains the rows
    that the model was trained and scored on, so it is all that is needed; one that was saved in
    Python needs a table with these rows. Given a table alone, a model is trained as in fit and not
    saved. The page needs no network and no server.
    """
    check_out(out, is_page, force=force, inputs=(source, data))
    style = Style(sep, decimal, encoding, text or [], na or [])
    roles = Roles([target] if target else [], drop or [], [], weights, time_split, group)
    choices = Choices(model, device, test_fraction, max_rows, seed, task)
    stored = model_of(source, data, roles, style, choices)(None)
    findings, train, unseen = studied("report", stored, data, style, seed)
    results = []
    if with_rivals and unseen is not None and len(findings.target.classes) != 1:
        results = _compared(stored, findings, train, unseen, seed)
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
    """Lines about a model, for the end of the page."""
    notes, last = stored.notes, last_step(stored.estimator)
    details = {
        "estimator": " → ".join(step_names(stored.estimator)),
        "parameters": ", ".join(f"{k}={v!r}" for k, v in last.get_params(deep=False).items()),
    }
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
