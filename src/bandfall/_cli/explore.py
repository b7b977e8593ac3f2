"""``bandfall explore``."""

from __future__ import annotations

import time
import webbrowser
from contextlib import closing, suppress
from pathlib import Path

from bandfall._cli.options import argument, command, option
from bandfall._cli.report import DATA, studied
from bandfall._cli.terminal import check_out, note, print_json
from bandfall._explore import render_playground
from bandfall._explore.page import WhatIf, render_explorer
from bandfall._explore.server import Explorer
from bandfall._files import read_model_file
from bandfall._files.atomic import write_atomically

PLAYGROUND = Path("playground.html")


@command(
    file=argument("MODEL", "Model file made by fit; without it, a playground."),
    data=DATA,
    out=option("--out", "FILE", "HTML page to write; without it, the page is served locally."),
    show=option("--open/--no-open", "", "Open the page in the default browser."),
)
def explore(
    file: str | None = None,
    data: str | None = None,
    *,
    out: Path | None = None,
    show: bool = True,
    json: bool = False,
) -> None:
    """Watch a model learn in the browser: a playground, or a model of your data.

    Given a model file, the page replays its training and answers what-ifs. It is served to this
    machine only, until you press Ctrl-C. With --out it is written to one file instead, which needs
    no server and no network. Without arguments, the page is a playground with its own exact
    solver, written to playground.html.
    """
    out = PLAYGROUND if file is None and out is None else out
    if out is not None:
        check_out(out, (file, data))
    if file is None:
        page = render_playground()
    else:
        stored = read_model_file(file)
        findings, _, _ = studied(stored, data)
        target, source = stored.notes.get("target", "target"), data or stored.notes.get("source")
        what_if, live = WhatIf(findings), out is None
        page = render_explorer(
            findings, what_if, target=str(target), source=Path(str(source)).name, live=live
        )
    if out is not None:
        write_atomically(out, page.encode())
        if json:
            print_json({"out": str(out)})
        opened = show and webbrowser.open(out.resolve().as_uri())
        if not json:
            note(f"wrote {out}" + ("" if opened else "; open it in a browser"))
        return
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
