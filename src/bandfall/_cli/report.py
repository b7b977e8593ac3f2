"""``bandfall report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from bandfall._cli import options
from bandfall._cli.classes import Task
from bandfall._cli.outputs import check_out, is_page, write_page
from bandfall._cli.read_table import Style
from bandfall._cli.rivals import class_rivals, rivals, score_rivals
from bandfall._cli.rows import Roles
from bandfall._cli.stored import check_page_source, model_details, model_for_page, page_rows
from bandfall._cli.terminal import Bar, note, one_line_errors, print_json
from bandfall._cli.training import Choices, Device, ModelChoice
from bandfall._files import ModelFile
from bandfall.report import Findings, RivalScore, render_page, study

OURS = "bandfall (this model)"
PAGE = Path("report.html")
_SOURCE = "Model file, or a table to train a model on."
_DATA = "Rows for a model file: new ones, or the training rows if the file has none."
_RIVALS = "Score other models too."


def report(
    source: Annotated[str, typer.Argument(metavar="MODEL|DATA", help=_SOURCE)],
    data: Annotated[str | None, typer.Argument(metavar="DATA", help=_DATA)] = None,
    out: Annotated[Path, options.option("--out", "FILE", "HTML page to write.")] = PAGE,
    target: options.PageTarget = None,
    with_rivals: Annotated[bool, options.option("--rivals/--no-rivals", "", _RIVALS)] = True,
    model: options.Model = ModelChoice.AUTO,
    task: options.Task = Task.AUTO,
    test_fraction: options.Fraction = 0.2,
    drop: options.Drop = None,
    weights: options.Weights = None,
    time_split: options.Time = None,
    group: options.Group = None,
    max_rows: options.Rows = None,
    seed: options.Seed = 0,
    device: options.Device = Device.AUTO,
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
    with one_line_errors():
        check_out(out, is_page, force=force, inputs=(source, *([data] if data else [])))
        style = Style(sep, decimal, encoding)
        ours = check_page_source(source, data, target)
        targets = [target] if target is not None and not ours else []
        asked = Roles(targets, drop or [], [], weights, time_split, group, text or [], na or [])
        choices = Choices(model, device, test_fraction, max_rows, seed, task)
        stored = model_for_page(source, asked, style, choices)
        findings, results = _look(stored, data, style, seed, with_rivals)
        page = render_page(
            findings,
            target=str(stored.notes.get("target", "target")),
            source=str(stored.notes.get("source", "unknown")),
            details=model_details(stored),
            rivals=results,
            model_name=OURS,
        )
        write_page(out, page)
        if json:
            print_json({"out": str(out), **findings.scores, "held_out": findings.held_out})
        else:
            note(f"wrote {out}; open it in a browser")


def _look(
    stored: ModelFile, data: str | None, style: Style, seed: int, with_rivals: bool
) -> tuple[Findings, list[RivalScore]]:
    """Findings and rivals, for the rows in the model file or in a table."""
    train_rows, test_rows, features = page_rows(stored, data, style)
    with Bar("report: the model") as bar:
        findings = study(
            stored.estimator, train_rows, test_rows, features, seed=seed, progress=bar.update
        )
    if test_rows is None or not with_rivals or len(findings.target.classes) == 1:
        return findings, []
    models = class_rivals(train_rows.y, seed) if findings.target.classes else rivals(seed)
    seconds = stored.notes.get("seconds")
    ours = RivalScore.of(
        OURS,
        findings.outputs,
        test_rows.y,
        findings.target,
        seconds=seconds if isinstance(seconds, int | float) else np.nan,
        n_rows=len(train_rows.y),
    )
    decimal = "," if stored.notes.get("decimal") == "," else "."
    with Style(decimal=decimal).as_usual():
        return findings, [*score_rivals(models, train_rows, test_rows, seed=seed), ours]
