"""Pages to play with: the playground, and (`page`, `server`) the explorer of a fitted model."""

from __future__ import annotations

from bandfall._drawing import POLICY, filled, read_resource, whole_page

_PACKAGE = "bandfall._explore"
ENGINE = ("krylov.js", "solver.js", "film.js")
SCRIPTS = ("data.js", "plot.js", "playground.js", "controls.js")


def render_playground() -> str:
    """The playground as HTML; it holds everything it needs."""
    engine, script = (
        "".join(read_resource(_PACKAGE, n) for n in names) for names in (ENGINE, SCRIPTS)
    )
    return whole_page(
        "See it learn: the bandfall playground",
        filled(read_resource(_PACKAGE, "playground.html"), engine=engine),
        style=read_resource(_PACKAGE, "playground.css"),
        script=script,
        # The engine runs in a worker made from its own text, so that the page works from disk.
        policy=f"{POLICY}; worker-src blob:",
    )
