"""The documentation stays true: its code runs, its links and pictures exist."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

FENCE = re.compile(r"^```python[ \t]*(.*?)\n(.*?)^```", re.MULTILINE | re.DOTALL)
ANY_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


def name(page):
    return str(page.relative_to(ROOT))


def blocks(page):
    """Code of the page's python blocks, padded so that tracebacks name the page's own lines."""
    text = page.read_text(encoding="utf-8")
    for match in FENCE.finditer(text):
        if match[1].strip() != "skip":
            yield "\n" * text.count("\n", 0, match.start(2)) + match[2]


def anchors(page):
    """Heading anchors as GitHub makes them."""
    text = ANY_FENCE.sub("", page.read_text(encoding="utf-8"))
    for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE):
        yield re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_code_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    namespace = {"__name__": "__main__"}
    for block in blocks(page):
        for package in ("torch", "shap"):
            if f"import {package}" in block:
                pytest.importorskip(package, reason=f"this block of the page needs {package}")
        exec(compile(block, str(page), "exec"), namespace)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_relative_links_exist(page):
    text = ANY_FENCE.sub("", page.read_text(encoding="utf-8"))
    for link in LINK.findall(text):
        if re.match(r"[a-z]+:", link):
            continue  # another site
        target, _, anchor = link.partition("#")
        found = (page.parent / target).resolve() if target else page
        assert found.exists(), f"{name(page)} links to {link}, which does not exist"
        if anchor:
            assert anchor in set(anchors(found)), f"{name(page)}: no heading for {link}"


def test_manual_of_the_command_line_is_in_step():
    """docs/cli.md is what docs/make_cli_page.py makes of the commands as they are."""
    code = (ROOT / "docs" / "make_cli_page.py").read_text(encoding="utf-8")
    namespace = {"__name__": "make_cli_page", "__file__": str(ROOT / "docs" / "make_cli_page.py")}
    exec(compile(code, "make_cli_page.py", "exec"), namespace)
    assert (ROOT / "docs" / "cli.md").read_text(encoding="utf-8") == namespace["manual"]()


def test_the_picture_of_the_layers_is_in_step():
    """docs/images/layers.svg is what docs/make_layers_figure.py makes of pyproject.toml."""
    script = ROOT / "docs" / "make_layers_figure.py"
    namespace = {"__name__": "make_layers_figure", "__file__": str(script)}
    exec(compile(script.read_text(encoding="utf-8"), str(script), "exec"), namespace)
    picture = ROOT / "docs" / "images" / "layers.svg"
    assert picture.read_text(encoding="utf-8") == namespace["svg"]()


def test_the_index_of_equations_names_tests_that_exist():
    page = (ROOT / "docs" / "equations.md").read_text(encoding="utf-8")
    named = re.findall(r"`([\w/]*test_\w+\.py)(?:::(\w+))?`(?:, `(test_\w+)`)?", page)
    assert len(named) > 50
    for file, *functions in named:
        text = (ROOT / "tests" / file).read_text(encoding="utf-8")
        for function in filter(None, functions):
            assert f"def {function}(" in text, f"{file}::{function}"
