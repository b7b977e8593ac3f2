"""``bandfall demo``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from bandfall._cli.options import option
from bandfall._cli.terminal import one_line_errors


@one_line_errors()
def demo(
    out: Annotated[Path, option("--out", "FOLDER", "Folder for the pictures.")] = Path("out"),
) -> None:
    """Show the paper's result and a comparison with other models, on data that ship inside."""
    from bandfall import demo as demonstration

    demonstration.main(["--out", str(out)])
