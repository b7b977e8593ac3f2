"""``bandfall explore``."""

from __future__ import annotations

import time
import webbrowser
from contextlib import closing, suppress
from pathlib import Path

from bandfall._cli.options import Choices, Roles, Style, argument, command, option
from bandfall._cli.outputs import check_out, is_page, write_page
from bandfall._cli.pages import model_of, studied, target_of
from bandfall._cli.terminal import InputError, note, print_json
from bandfall._explore import render_playground
from bandfall._explore.page import WhatIf, render_explorer
from bandfall._explore.server import Explorer

PLAYGROUND = Path("playground.html")


@command(
    without="keep weights time group max_seconds",
    source=argument("MODEL|DATA", "Model file made by fit, or a table; without it, a playground."),
    data=argument("DATA", "Table to explore the model with; it must contain the target."),
    targets=option("--target", "COL", "Column to predict, if a table is given."),
    out=option("--out", "FILE", "HTML page to write; without it, the page is served locally."),
    show=option("--open/--no-open", "", "Open the page in the default browser."),
)
def explore(
    source: str | None = None,
    data: str | None = None,
    *,
    roles: Roles,
    out: Path | None = None,
    choices: Choices,
    style: Style,
    show: bool = True,
    force: bool = False,
    json: bool = False,
) -> None:
    """Watch a model learn in the browser: a playground, or a model of your data.

    Given a table, a model is trained. The page replays the training. It is served to this machine
    only, until you press Ctrl-C. With --out it is written to one file instead, which needs no
    server and no network. Without arguments, the page is a playground with its own exact solver,
    written to playground.html.
    """
    if source is None and roles.targets:
        raise InputError(f"--target {roles.targets[0]} needs the table that has this column")
    out = PLAYGROUND if source is None and out is None else out
    if out is not None:
        check_out(out, is_page, force=force, inputs=(source, data))
    if source is None:
        _write(render_playground(), out or PLAYGROUND, show, json)
        return
    stored = model_of(source, data, roles, style, choices)
    findings, _, _ = studied("explore", stored, data, style, choices.seed)
    what_if, notes = WhatIf(findings), stored.notes
    origin = str(notes.get("source", "unknown")) if data is None else Path(data).name
    target, live = target_of(notes), out is None
    page = render_explorer(findings, what_if, target=target, source=origin, live=live)
    if out is not None:
        _write(page, out, show, json)
    else:
        _serve(page, what_if, show, json)


def _serve(page: str, what_if: WhatIf, show: bool, json: bool) -> None:
    """Serve the page until Ctrl-C."""
    with closing(Explorer(page, what_if)) as explorer:
        if json:
            print_json({"address": explorer.address})
        else:
            note(f"exploring at {explorer.address} until Ctrl-C")
        if show:
            webbrowser.open(explorer.address)
        with suppress(KeyboardInterrupt):
            while True:
                time.sleep(3600)
    note("stopped")


def _write(page: str, out: Path, show: bool, json: bool) -> None:
    write_page(out, page)
    if json:
        print_json({"out": str(out)})
    opened = show and webbrowser.open(out.resolve().as_uri())
    if not json:
        note(f"wrote {out}" + ("" if opened else "; open it in a browser"))
