"""``bandfall explore``: what it writes, and what it refuses."""

import json

import pytest

from shell import call


@pytest.fixture(autouse=True)
def opened(monkeypatch, tmp_path):
    """No browser is opened in tests; what would have been is kept."""
    addresses = []
    monkeypatch.setattr(
        "bandfall._cli.explore.webbrowser.open", lambda a: addresses.append(a) or True
    )
    monkeypatch.chdir(tmp_path)
    return addresses


class TestPlayground:
    def test_writes_and_opens_the_page(self, tmp_path, opened):
        done = call("explore")
        assert done.exit_code == 0, done.output
        assert opened == [(tmp_path / "playground.html").as_uri()]
        assert "See it learn" in (tmp_path / "playground.html").read_text(encoding="utf-8")

    def test_out_and_no_open(self, tmp_path, opened):
        done = call("explore", "--out", tmp_path / "p.html", "--no-open", "--json")
        assert json.loads(done.stdout) == {"out": str(tmp_path / "p.html")}
        assert opened == []
