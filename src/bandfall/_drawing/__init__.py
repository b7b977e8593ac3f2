"""Whole pages, made from the style sheets and scripts of the package."""

from __future__ import annotations

import re
from html import escape
from importlib.resources import files

from bandfall._version import __version__

# A page fetches nothing: it works offline, and opening it sends no request.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"


def read_resource(package: str, name: str) -> str:
    """The text of a file in the folder of a package."""
    return files(package).joinpath(name).read_text(encoding="utf-8")


def filled(template: str, **parts: str) -> str:
    """A template in which parts replace their names in double braces."""
    return re.sub(r"{{(\w+)}}", lambda name: parts[name[1]], template)


def whole_page(title: str, body: str, *, style: str, script: str, policy: str = POLICY) -> str:
    """A page that holds everything it needs, with the common style sheet before its own."""
    return filled(
        read_resource("bandfall._drawing", "page.html"),
        version=__version__,
        title=escape(title),
        body=body,
        style=read_resource("bandfall._drawing", "style.css") + style,
        script=script,
        policy=policy,
    )
