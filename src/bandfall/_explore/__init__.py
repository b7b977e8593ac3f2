"""Pages to play with: watch a model learn in the browser.

The playground needs nothing but this package; the explorer of models (`page`, `server`) needs what
the commands need.
"""

from __future__ import annotations

from bandfall._drawing import POLICY, filled_page, read_resource, style_sheet
from bandfall._version import __version__

_PACKAGE = "bandfall._explore"
# The engine runs in a worker made from its own text, so that the page also works from disk.
_POLICY = f"{POLICY}; worker-src blob:"
ENGINE = ("krylov.js", "solver.js", "film.js", "worker.js")
SCRIPTS = ("data.js", "plot.js", "state.js", "playground.js", "controls.js")


def render_playground() -> str:
    """The page as HTML; it holds everything it needs.

    Examples
    --------
    >>> page = render_playground()
    >>> page.startswith("<!doctype html>") and len(page.encode()) < 200_000
    True
    """
    parts = {
        "version": __version__,
        "policy": _POLICY,
        "style": style_sheet(_PACKAGE, "playground.css"),
        "engine": _joined(ENGINE),
        "script": _joined(SCRIPTS),
    }
    return filled_page(_PACKAGE, "playground.html", parts)


def _joined(names: tuple[str, ...]) -> str:
    return "".join(read_resource(_PACKAGE, name) for name in names)
