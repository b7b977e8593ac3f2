"""``bandfall demo``."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from bandfall._cli.options import command, option
from bandfall._cli.terminal import InputError


@command(out=option("--out", "FOLDER", "Folder for the pictures."))
def demo(*, out: Path = Path("out")) -> None:
    """Show the paper's result and a comparison with other models, on included data."""
    from bandfall import demo as demonstration

    if find_spec("matplotlib") is None:
        raise InputError("the pictures need matplotlib: pip install matplotlib")
    demonstration.main(out)
