"""The command ``bandfall``: a registry of the sub-commands in `bandfall._cli`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from bandfall import _startup as startup
from bandfall._version import __version__

if TYPE_CHECKING:
    import typer

_HINT = (
    "bandfall: the command line needs typer, rich and pandas; in a copy of the repository: "
    "pip install '.[cli]'\n"
)


def build_app() -> typer.Typer:
    """The application with all its commands."""
    import typer

    from bandfall._cli.compare import compare
    from bandfall._cli.demo import demo
    from bandfall._cli.explore import explore
    from bandfall._cli.fit import fit
    from bandfall._cli.inspect import inspect
    from bandfall._cli.paper import app as paper
    from bandfall._cli.predict import predict
    from bandfall._cli.report import report

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

    for command in (demo, fit, predict, inspect, report, explore, compare):
        app.command()(command)
    app.add_typer(paper, name="paper")
    return app


def main() -> None:
    """Entry point: run the application, or print one line about a missing package."""
    try:
        import pandas  # noqa: F401
        import rich  # noqa: F401
        import typer  # noqa: F401
    except ImportError:
        startup.ready()
        sys.stderr.write(_HINT)
        raise SystemExit(2) from None
    from bandfall._cli.terminal import Watchdog

    with Watchdog():
        app = build_app()
        startup.ready()
        app(prog_name="bandfall")
