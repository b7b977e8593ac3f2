"""The command ``bandfall``: it imports a sub-command, one module of `bandfall._cli`, when asked."""

from __future__ import annotations

import io
import sys
from importlib import import_module
from typing import TYPE_CHECKING

from bandfall._version import __version__

if TYPE_CHECKING:
    import typer

# First lines of the help of each command, so that the list of commands needs none of them.
COMMANDS = {
    "demo": "Show the paper's result and a comparison with other models, on included data.",
    "fit": "Train a model on a table, write it to a file, and show it.",
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
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # "?" for what its encoding lacks
    try:
        app = build_app(tuple(name for name in sys.argv[1:] if name in COMMANDS)[:1])
    except KeyboardInterrupt:
        sys.stderr.write("bandfall: interrupted; nothing was written\n")
        raise SystemExit(_INTERRUPTED) from None
    except ImportError as error:
        if error.name not in ("typer", "rich", "pandas"):
            raise
        sys.stderr.write(_HINT)
        raise SystemExit(2) from None
    app(prog_name="bandfall")
