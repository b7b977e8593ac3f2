"""Style sheets and scripts of the package, for pages."""

from __future__ import annotations

from importlib.resources import files

# A page fetches nothing: it works offline, and opening it sends no request.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"


def read_resource(package: str, name: str) -> str:
    """The text of a file in the folder of a package."""
    return files(package).joinpath(name).read_text(encoding="utf-8")


def filled_page(package: str, name: str, parts: dict[str, str]) -> str:
    """A page of a package, in which parts replace their names in double braces."""
    page = read_resource(package, name)
    for part, text in parts.items():
        page = page.replace("{{" + part + "}}", text)
    return page


def style_sheet(package: str, name: str) -> str:
    """The common style sheet, followed by that of a page."""
    return read_resource("bandfall._drawing", "style.css") + read_resource(package, name)
