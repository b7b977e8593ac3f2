"""``bandfall explore``."""

from __future__ import annotations

import time
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from bandfall._cli import options
from bandfall._cli.classes import Task
from bandfall._cli.outputs import check_out, is_page, write_page
from bandfall._cli.read_table import Style
from bandfall._cli.rows import Roles
from bandfall._cli.stored import check_page_source, model_for_page, page_rows
from bandfall._cli.terminal import Bar, InputError, note, one_line_errors, print_json
from bandfall._cli.training import Choices, Device, ModelChoice
from bandfall._explore import render_playground
from bandfall._explore.page import WhatIf, render_explorer
from bandfall._explore.server import Explorer
from bandfall._files import ModelFile
from bandfall.report import study

_SOURCE = "Model file made by fit, or a table; without it, a playground."
_DATA = "Table to explore the model with; it must contain the target."
_OUT = "HTML page to write; without it, the page is served locally."
PLAYGROUND = Path("playground.html")
SHARE_OF_TRAINING = 0.9  # of the time until the page is ready; the rest computes its contents


def explore(
    source: Annotated[str | None, typer.Argument(metavar="MODEL|DATA", help=_SOURCE)] = None,
    data: Annotated[str | None, typer.Argument(metavar="DATA", help=_DATA)] = None,
    out: Annotated[Path | None, options.option("--out", "FILE", _OUT)] = None,
    target: options.PageTarget = None,
    model: options.Model = ModelChoice.AUTO,
    task: options.Task = Task.AUTO,
    test_fraction: options.Fraction = 0.2,
    drop: options.Drop = None,
    max_rows: options.Rows = None,
    seed: options.Seed = 0,
    device: options.Device = Device.AUTO,
    na: options.Missing = None,
    text: options.Text = None,
    sep: options.Separator = None,
    decimal: options.Decimal = None,
    encoding: options.Encoding = None,
    show: options.Open = True,
    force: options.Force = False,
    json: options.Json = False,
) -> None:
    """Watch a model learn in the browser: a playground, or a model of your data.

    Given a table, a model is trained while the page shows the progress. Given a model file, the
    page replays its training. The page is served to this machine only, until you press Ctrl-C. With
    --out it is written to one file instead, which needs no server and no network. Without
    arguments, the page is a playground with its own exact solver, written to playground.html.
    """
    with one_line_errors():
        style = Style(sep, decimal, encoding)
        if source is None:
            if target is not None:
                raise InputError(f"--target {target} needs the table that has this column")
            out = PLAYGROUND if out is None else out
            check_out(out, is_page, force=force)
            _write(render_playground(), out, show, json)
            return
        if out is not None:
            inputs = (source,) if data is None else (source, data)
            check_out(out, is_page, force=force, inputs=inputs)
        choices = Choices(model, device, test_fraction, max_rows, seed, task)
        ours = check_page_source(source, data, target)
        targets = [target] if target is not None and not ours else []
        roles = Roles(targets, drop or [], text=text or [], missing=na or [])
        get_model = partial(model_for_page, source, roles, style, choices)
        if out is not None:
            page, _ = _explorer_page(get_model(), data, style, seed, live=False)
            _write(page, out, show, json)
        else:
            _serve(get_model, target or Path(source).name, data, style, seed, show, json)


def _write(page: str, out: Path, show: bool, json: bool) -> None:
    write_page(out, page)
    if json:
        print_json({"out": str(out)})
    opened = show and webbrowser.open(out.resolve().as_uri())
    if not json:
        note(f"wrote {out}" + ("" if opened else "; open it in a browser"))


def _explorer_page(
    stored: ModelFile,
    data: str | None,
    style: Style,
    seed: int,
    progress: Callable[[float], None] | None = None,
    *,
    live: bool,
) -> tuple[str, WhatIf]:
    """The page about a model, and the `WhatIf` that answers its requests."""
    train_rows, test_rows, features = page_rows(stored, data, style)
    with Bar("explore: the model", progress) as bar:
        findings = study(
            stored.estimator, train_rows, test_rows, features, seed=seed, progress=bar.update
        )
    what_if = WhatIf(findings)
    page = render_explorer(
        findings,
        what_if,
        target=str(stored.notes.get("target", "target")),
        source=str(stored.notes.get("source", "unknown")) if data is None else Path(data).name,
        live=live,
    )
    return page, what_if


def _serve(
    get_model: Callable[..., ModelFile],
    target: str,
    data: str | None,
    style: Style,
    seed: int,
    show: bool,
    json: bool,
) -> None:
    """Serve progress, then the page, until Ctrl-C."""
    explorer = Explorer(target)
    try:
        if json:
            print_json({"address": explorer.address})
        else:
            note(f"exploring at {explorer.address} until Ctrl-C")
        if show:
            webbrowser.open(explorer.address)
        stored = get_model(progress=lambda share: explorer.progress(SHARE_OF_TRAINING * share))

        def progress(share: float) -> None:
            explorer.progress(SHARE_OF_TRAINING + (1.0 - SHARE_OF_TRAINING) * share)

        explorer.show(*_explorer_page(stored, data, style, seed, progress, live=True))
        with suppress(KeyboardInterrupt):
            while True:
                time.sleep(3600)
    finally:
        explorer.close()
    note("stopped")
