"""``bandfall explore``."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from bandfall.commands.outputs import ForceOption, check_out, is_page
from bandfall.commands.terminal import JsonOption, note, one_line_errors, print_json
from bandfall.explore import render_playground
from bandfall.persistence.atomic import write_atomically

OpenOption = Annotated[
    bool, typer.Option("--open/--no-open", help="Show the page in the usual browser.")
]


def explore(
    out: Annotated[Path, typer.Option("--out", help="HTML page to write.")] = Path(
        "playground.html"
    ),
    show: OpenOption = True,
    force: ForceOption = False,
    json: JsonOption = False,
) -> None:
    """Watch a model learn in the browser: a page to play with.

    The page holds its own exact solver for points on a line; it needs no network and no server.
    """
    with one_line_errors():
        check_out(out, is_page, force=force)
        write_atomically(out, render_playground().encode())
        if json:
            print_json({"out": str(out)})
        opened = show and webbrowser.open(out.resolve().as_uri())
        if not json:
            note(f"wrote {out}" + ("" if opened else "; open it in a browser"))
