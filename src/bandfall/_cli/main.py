"""The command ``bandfall``: it imports a sub-command, one module of `bandfall._cli`, when asked."""

from __future__ import annotations

import codecs
import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from threading import Timer
from typing import TYPE_CHECKING
from unicodedata import normalize

from bandfall._version import __version__

if TYPE_CHECKING:
    import typer

# First lines of the help of each command, so that the list of commands needs none of them.
COMMANDS = {
    "demo": "Show the paper's result and a comparison with other models, on included data.",
    "fit": "Train a model on a table and write it to a file.",
    "predict": "Predict the target for every row of a table.",
    "inspect": "Show what a model file contains: estimator, path, features, score, size and "
    "versions.",
    "report": "Write one HTML page about a model: score, rivals, path, features, errors, slices.",
    "explore": "Watch a model learn in the browser: a playground, or a model of your data.",
    "compare": "Score bandfall and its rivals on the same held-out rows.",
    "paper": "Reproduce the paper's figures and tables.",
}
_HINT = (
    "bandfall: the command line needs typer, rich and pandas; in a copy of the repository: "
    "pip install '.[cli]'\n"
)
_INTERRUPTED = 130  # exit status that shells use for Ctrl-C


def build_app(names: tuple[str, ...] = tuple(COMMANDS)) -> typer.Typer:
    """The application with these commands; of all others it has only the name and one line."""
    import typer

    app = typer.Typer(
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode="markdown",
    )

    def show_version(wanted: bool) -> None:
        if wanted:
            sys.stdout.write(f"bandfall {__version__}\n")
            raise typer.Exit

    @app.callback()
    def main_options(
        version: bool = typer.Option(
            False,
            "--version",
            metavar="",
            help="Show the version.",
            callback=show_version,
            is_eager=True,
        ),
    ) -> None:
        """Regression and classification for tables, without tuning."""

    for name, text in COMMANDS.items():
        if name not in names:
            app.command(name, help=text)(lambda: None)
            continue
        module = import_module(f"bandfall._cli.{name}")
        if name == "paper":
            app.add_typer(module.app, name=name)
        else:
            app.command(name)(getattr(module, name))
    return app


def main() -> None:
    """Entry point: run the application, or print one line about a missing package."""
    codecs.register_error("bandfall", _plain)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="bandfall")
    try:
        with start_shown():
            app = build_app(tuple(name for name in sys.argv[1:] if name in COMMANDS)[:1])
            from bandfall._cli.terminal import Watchdog
    except KeyboardInterrupt:
        sys.stderr.write("bandfall: interrupted; nothing was written\n")
        raise SystemExit(_INTERRUPTED) from None
    except ImportError as error:
        if error.name not in ("typer", "rich", "pandas"):
            raise
        sys.stderr.write(_HINT)
        raise SystemExit(2) from None
    with Watchdog():
        app(prog_name="bandfall")


def _plain(error: UnicodeError) -> tuple[str, int]:
    """Plain characters for those that a stream cannot write: R2 for R², ? where there are none."""
    assert isinstance(error, UnicodeEncodeError)
    signs = {"→": "->", "×": "x", "–": "-", "−": "-", "…": "...", "±": "+-"}
    text = error.object[error.start : error.end]
    plain = (signs.get(c) or normalize("NFKD", c).encode("ascii", "ignore").decode() for c in text)
    return "".join(sign or "?" for sign in plain), error.end


@contextmanager
def start_shown(after: float = 1.0) -> Iterator[None]:
    """Show a line in a terminal if the imports take more than `after` seconds."""
    screen = sys.stderr
    timer = Timer(after, lambda: screen.write("bandfall: starting …\r"))
    timer.daemon = True
    shown = screen is not None and screen.isatty()
    if shown:
        timer.start()
    try:
        yield
    finally:
        timer.cancel()
        if shown:
            screen.write("\x1b[K")  # clears the line
            screen.flush()
