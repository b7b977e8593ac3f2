"""What pyproject.toml promises is what is installed, tested and shipped."""

import pathlib
import re
import tomllib

import pytest

import bandfall

ROOT = pathlib.Path(__file__).resolve().parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
MINIMUM = re.compile(r"^([\w-]+)(?:\[[\w,]+\])?>=([\d.]+)(?:;.*)?$")


def declared_minima():
    """Name and version of every ``name>=version`` in dependencies, extras and groups."""
    project = PYPROJECT["project"]
    lists = [
        project["dependencies"],
        *project["optional-dependencies"].values(),
        PYPROJECT["dependency-groups"]["demo"],
        PYPROJECT["dependency-groups"]["suite"],
    ]
    for requirements in lists:
        for requirement in requirements:
            if not (match := MINIMUM.match(requirement)):
                assert "==" in requirement or requirement.startswith("bandfall["), requirement
                continue
            yield match.groups()


def oldest():
    """The pins of constraints-oldest.txt."""
    text = (ROOT / "constraints-oldest.txt").read_text(encoding="utf-8")
    return dict(re.findall(r"^([\w-]+)==([\d.]+)$", text, re.MULTILINE))


@pytest.mark.parametrize(("name", "version"), sorted(set(declared_minima())))
def test_oldest_versions_are_the_declared_minima(name, version):
    """numpy>=1.26 is tested with the first 1.26 that this Python can have."""
    assert (oldest()[name] + ".").startswith(version + ".")


def test_one_minimum_for_each_dependency():
    names = [name for name, _ in set(declared_minima())]
    assert len(names) == len(set(names))


def test_types_are_announced():
    assert (pathlib.Path(bandfall.__file__).parent / "py.typed").is_file()
    assert "Typing :: Typed" in PYPROJECT["project"]["classifiers"]


def test_version_is_the_one_to_cite():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {bandfall.__version__}\n" in citation
    questions = (ROOT / "docs" / "faq.md").read_text(encoding="utf-8")
    assert f"Version {bandfall.__version__}." in questions
    switcher = (ROOT / "docs" / "_static" / "switcher.json").read_text(encoding="utf-8")
    assert f'"version": "{bandfall.__version__}"' in switcher


def test_readme_is_readable_at_the_package_index():
    """It knows no relative links; as long as the project has no address, there are no others."""
    if "urls" not in PYPROJECT["project"]:
        pages = (ROOT / "docs" / "development.md").read_text(encoding="utf-8")
        assert "add `[project.urls]`" in pages
        return
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"\]\((?!https://|#)[^)]*\)", readme) == []
