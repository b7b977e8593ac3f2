"""``bandfall demo``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from bandfall._cli.options import option
from bandfall._cli.terminal import fail, one_line_errors


def demo(
    out: Annotated[Path, option("--out", "FOLDER", "Folder for the pictures.")] = Path("out"),
) -> None:
    """Show the paper's result and a comparison with other models, on data that ship inside."""
    with one_line_errors():
        from bandfall import demo as demonstration

        try:
            import matplotlib  # noqa: F401
        except ImportError:
            fail("the pictures need matplotlib: pip install matplotlib")
        if demonstration.main(["--out", str(out)]):
            fail("the demonstration failed", 1)
