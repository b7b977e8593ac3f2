"""The command ``bandfall``: a registry of sub-commands, each living with what it does."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import typer

_HINT = "bandfall: its commands need typer and rich: pip install 'bandfall[cli]'\n"


def build_app() -> typer.Typer:
    """The application with all its commands."""
    import typer

    from bandfall.paper.commands import app as paper

    app = typer.Typer(
        help="Kernel regression whose bandwidth falls to zero while it trains.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )

    @app.callback()
    def main_options() -> None:
        """Kernel regression whose bandwidth falls to zero while it trains."""

    app.add_typer(paper, name="paper")
    return app


def main() -> None:
    """Entry point: run the application, or say in one line what is not installed."""
    try:
        import rich  # noqa: F401
        import typer  # noqa: F401
    except ImportError:
        sys.stderr.write(_HINT)
        raise SystemExit(2) from None
    build_app()()
