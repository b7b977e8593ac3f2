"""``bandfall demo``."""

from __future__ import annotations

from pathlib import Path

from bandfall._cli.options import command, option


@command(out=option("--out", "FOLDER", "Folder for the pictures."))
def demo(*, out: Path = Path("out")) -> None:
    """Show the paper's result and a comparison with other models, on included data."""
    from bandfall import demo as demonstration

    demonstration.main(["--out", str(out)])
