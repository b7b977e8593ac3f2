"""The site has every public name and every page, and its examples are pages."""

import ast
import importlib
import pathlib
import re
import runpy
from itertools import pairwise

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
REFERENCE = (ROOT / "docs" / "api" / "index.md").read_text(encoding="utf-8")
EXAMPLES = sorted((ROOT / "examples").glob("*/plot_*.py"))
SITE = ROOT / "build" / "docs"
PAGES = sorted(page for page in (ROOT / "docs").glob("*.md") if page.stem != "changelog")
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


def test_every_example_has_a_number_and_a_picture_of_its_own():
    numbers = [example.stem.split("_")[1] for example in EXAMPLES]
    assert sorted(numbers) == [f"{i:02}" for i in range(1, len(EXAMPLES) + 1)]
    for example in EXAMPLES:
        assert re.search(r"plt\.subplots|Display\.from_", example.read_text(encoding="utf-8")), (
            example
        )
    groups = {example.parent for example in EXAMPLES}
    assert all((group / "README.rst").exists() for group in groups)
    order = (ROOT / "docs" / "conf.py").read_text(encoding="utf-8")
    assert all(f'"{group.name}"' in order for group in groups)


def headings(page):
    """Levels and titles of a page, code left out."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    return [(len(signs), title) for signs, title in re.findall(r"^(#+) (.*)$", text, re.M)]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_headings_go_down_one_level_at_a_time(page):
    levels = [level for level, _ in headings(page)]
    assert levels.count(1) == 1
    assert levels[0] == 1
    assert all(b <= a + 1 for a, b in pairwise(levels))


@pytest.mark.parametrize(
    "word",
    [
        "SHAP",
        "partial dependence",
        "reproducib",
        "importance",
        "hyperparameter",
        "confidence interval",
        "missing values",
        "license",
        "GPU",
        "Algorithm 1",
        "double descent",
    ],
)
def test_what_people_search_for_is_in_a_heading(word):
    """The search of the site ranks titles first."""
    assert any(word.lower() in title.lower() for page in PAGES for _, title in headings(page))


class TestLanding:
    @pytest.fixture
    def landing(self):
        return runpy.run_path(str(ROOT / "docs" / "landing.py"))

    def test_shows_the_ratios_of_the_table(self, landing):
        text = (ROOT / "docs" / "choosing.md").read_text(encoding="utf-8")
        found = landing["ratios"](text)
        assert len(found) >= 15
        assert list(found.values()) == sorted(found.values())
        ahead = sum(ratio < 1 for ratio in found.values())
        assert f"best tuned booster on {ahead} of {len(found)} sets" in text
        picture = landing["picture"](found)
        for name, ratio in found.items():
            assert f">{name}</text>" in picture
            assert f">{ratio:.2f}</text>" in picture
        words = landing["words"](found)
        assert f"On {len(found)} public tables," in words
        assert f"on {ahead}." in words
        assert "without mv" in words
        assert "designed on these tables" in words

    def test_a_table_that_is_gone_is_named(self, landing):
        with pytest.raises(ValueError, match="ratio"):
            landing["ratios"]("# How it chooses\n\nno table")

    def test_the_page_has_a_place_for_it(self, landing):
        assert landing["MARK"] in (ROOT / "docs" / "index.md").read_text(encoding="utf-8")


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


@pytest.mark.browser
@pytest.mark.skipif(not (SITE / "index.html").exists(), reason="no site is built: make docs")
@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("dark", [False, True])
def test_the_built_site_fits_and_is_accessible(chromium, width, dark):
    for name in ("index.html", "guide.html", "auto_examples/index.html"):
        chromium.open((SITE / name).as_uri(), width=width, dark=dark)
        assert chromium.too_wide() <= 0, name
        outside = chromium.run(
            "return [...document.querySelectorAll('.bd-header *')].filter((one) => {"
            "const box = one.getBoundingClientRect();"
            "return box.width > 0 && (box.right > innerWidth + 1 || box.left < -1); })"
            ".map((one) => one.className)"
        )
        assert outside == [], name
    chromium.open((SITE / "index.html").as_uri(), width=width, dark=dark)
    assert chromium.overlaps() == []
    # The theme's own header and boxes of code are not ours to judge.
    assert [one for one in chromium.serious_issues() if "ratios" in one or "card" in one] == []


def test_a_site_without_pages_does_not_pass_the_check(tmp_path, capsys):
    check = runpy.run_path(str(ROOT / "docs" / "check_site.py"))
    assert check["main"](str(tmp_path / "nowhere"))
    assert "has no pages" in capsys.readouterr().out
    (tmp_path / "index.html").write_text('<a href="#here" id="here">here</a>', encoding="utf-8")
    assert not check["main"](str(tmp_path))
