"""What tests of pages need is missed aloud where it must be there, elsewhere with a reason."""

import pytest

import browsers


@pytest.mark.parametrize(("required", "outcome"), [("1", "Failed"), ("", "Skipped")])
def test_a_missing_browser_fails_where_it_is_required(monkeypatch, required, outcome):
    monkeypatch.setenv("BANDFALL_REQUIRE_BROWSER", required)
    monkeypatch.setattr(browsers.shutil, "which", lambda name: None)
    expected = pytest.fail.Exception if outcome == "Failed" else pytest.skip.Exception
    with pytest.raises(expected, match="apt-get install chromium"):
        browsers.find_chromium()
    with pytest.raises(expected, match="apt-get install nodejs"):
        browsers.run_node("answer(1)")
