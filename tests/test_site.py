"""The site has every public name and every page, and its examples are pages."""

import ast
import importlib
import pathlib
import re
import runpy

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
REFERENCE = (ROOT / "docs" / "api" / "index.md").read_text(encoding="utf-8")
EXAMPLES = sorted((ROOT / "examples").glob("plot_*.py"))
MODULES = sorted(set(re.findall(r"^\.\. currentmodule:: (.*)$", REFERENCE, re.MULTILINE)))


def listed(module):
    """Names that the reference lists for a module."""
    for part in REFERENCE.split(".. currentmodule:: ")[1:]:
        name, _, rest = part.partition("\n")
        if name == module:
            yield from re.findall(r"^   (\w+)$", rest.partition("```")[0], re.MULTILINE)


@pytest.mark.parametrize("module", MODULES)
def test_the_reference_lists_every_public_name(module):
    if module == "bandfall.neural":
        pytest.importorskip("torch")
    found = importlib.import_module(module)
    # Constants have no page; what `bandfall` itself exports is listed there only.
    public = {name for name in found.__all__ if callable(getattr(found, name))}
    elsewhere = set() if module == "bandfall" else set(importlib.import_module("bandfall").__all__)
    assert public - elsewhere == set(listed(module))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_examples_are_pages(example):
    """A title underlined in full, and sentences below it: what the gallery makes a page of."""
    docstring = ast.get_docstring(ast.parse(example.read_text(encoding="utf-8")))
    title, underline, _, *text = docstring.splitlines()
    assert underline == "=" * len(title)
    assert text


def test_every_page_is_in_a_table_of_contents():
    """Sphinx warns too, but this needs no Sphinx."""
    pages = list((ROOT / "docs").glob("*.md"))
    contents = "\n".join(
        block
        for page in pages
        for block in re.findall(r"^```{toctree}$(.*?)^```", page.read_text("utf-8"), re.M | re.S)
    )
    for page in pages:
        assert page.stem == "index" or re.search(rf"^{page.stem}$", contents, re.M), page.name


def test_a_site_without_pages_does_not_pass_the_check(tmp_path, capsys):
    check = runpy.run_path(str(ROOT / "docs" / "check_site.py"))
    assert check["main"](str(tmp_path / "nowhere"))
    assert "has no pages" in capsys.readouterr().out
    (tmp_path / "index.html").write_text('<a href="#here" id="here">here</a>', encoding="utf-8")
    assert not check["main"](str(tmp_path))
