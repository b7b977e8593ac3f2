"""``bandfall demo``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from bandfall._cli.options import option
from bandfall._cli.terminal import fail, one_line_errors


def demo(
    out: Annotated[Path, option("--out", "FOLDER", "Folder for the pictures.")] = Path("out"),
) -> None:
    """Compare bandfall with other models on built-in data: a table and two pictures."""
    with one_line_errors():
        from bandfall import demo as demonstration

        try:
            import matplotlib  # noqa: F401
        except ImportError:
            fail("the pictures need matplotlib: pip install matplotlib")
        if demonstration.main(["--out", str(out)]):
            fail("the demonstration failed", 1)
