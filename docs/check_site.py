"""Follow every link within the built site, and see that no page fetches anything from elsewhere.

Usage: python docs/check_site.py build/docs
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# What a browser fetches by itself; links that people may follow to other sites are fine.
FETCHED = {("script", "src"), ("link", "href"), ("img", "src"), ("iframe", "src")}
PLAYGROUND = "playground.html"  # keeps its state behind the #


class Page(HTMLParser):
    """The anchors of a page, and what it links to."""

    def __init__(self, text: str):
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[tuple[str, bool]] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        """Remember anchors and links."""
        for name, value in attrs:
            if name in ("id", "name") and value:
                self.anchors.add(value)
            if name in ("href", "src") and value:
                self.links.append((value, (tag, name) in FETCHED))


def problems(site: Path):
    """A sentence for every link that leads nowhere, or out of the site while loading."""
    pages = {
        path: Page(path.read_text(encoding="utf-8"))
        for path in site.rglob("*.html")
        if "_static" not in path.parts  # the theme's own templates
    }
    if not pages:
        yield f"{site} has no pages"
    for path, page in pages.items():
        place = path.relative_to(site)
        for link, fetched in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                if fetched and parts.scheme != "data":
                    yield f"{place} fetches {link}"
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if target.is_dir():
                target /= "index.html"
            if not target.exists():
                yield f"{place} links to {link}, which does not exist"
            elif parts.fragment and target in pages and target.name != PLAYGROUND:
                yield from missing_heading(place, link, pages[target], unquote(parts.fragment))


def missing_heading(place: Path, link: str, page: Page, anchor: str):
    """The complaint, where the page has no such anchor."""
    if anchor not in page.anchors:
        yield f"{place} links to {link}: no such heading"


def main(site: str) -> int:
    """Print all problems; the exit status says whether there were any."""
    found = sorted(set(problems(Path(site).resolve())))
    print("\n".join(found) or "every link within the site leads somewhere")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
