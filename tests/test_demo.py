"""The demonstration: a table on stdout, progress on stderr, a picture in the folder."""

from importlib.util import find_spec

import numpy as np
import pytest

from bandfall import BandfallRegressor, KernelDescentRegressor, demo
from bandfall.demo import _falling as falling
from bandfall.demo import _yacht as yacht


@pytest.fixture
def small_demo(monkeypatch):
    """The demonstration with quick models and one split of each data set."""
    splits = {name: parts[:1] for name, parts in demo.splits().items()}
    monkeypatch.setattr(demo, "splits", lambda: splits)
    monkeypatch.setattr(demo, "models", quick_models)


def quick_models():
    """Instead of those of the table."""
    return {
        demo.OURS: BandfallRegressor(kernels="gaussian", max_rounds=0),
        "KGD-D, no tuning": KernelDescentRegressor(),
    }


def test_writes_table_and_picture(small_demo, tmp_path, capsys):
    folder = tmp_path / "new" / "out"
    assert demo.main(["--out", str(folder)]) == 0
    captured = capsys.readouterr()
    assert captured.out.count("KGD-D, no tuning") == len(demo.splits())
    assert "test R²" in captured.out
    assert str(folder / "demo.png") in captured.out
    assert "yacht" in captured.err
    assert "CC BY 4.0" in captured.out
    assert str(folder / "playground.html") in captured.out
    assert "See it learn" in (folder / "playground.html").read_text(encoding="utf-8")
    assert ("bandfall explore" in captured.out) == (find_spec("typer") is not None)
    for name in ("demo.png", "falling.png"):
        assert (folder / name).read_bytes().startswith(b"\x89PNG")


def test_every_model_of_the_table_has_a_name_that_fits():
    scores = [demo.Score(demo.YACHT, name, 0.5, 1.0, 1.0) for name in demo.models()]
    assert {len(line) for line in demo.table(scores).splitlines()} == {80}


def test_narrow_floor_interpolates_and_generalises_where_constant_bandwidth_does_not():
    sine = falling.sine()
    _, X_test, _, y_test = sine
    fit = falling.fit_floors(sine)[-1]
    assert fit.train_r2[-1] == pytest.approx(0.999, abs=1e-6)
    assert fit.descent.score(X_test, y_test) > 0.9 > 0.2 > fit.ridge.score(X_test, y_test)
    assert fit.test_r2[-1] == pytest.approx(fit.descent.score(X_test, y_test), rel=1e-12)
    assert np.all(np.diff(fit.train_r2) >= -1e-9)


def test_refuses_a_file_as_folder(tmp_path, capsys):
    (tmp_path / "taken").write_text("")
    with pytest.raises(SystemExit, match="2"):
        demo.main(["--out", str(tmp_path / "taken")])
    assert "--out" in capsys.readouterr().err


def test_hulls_are_held_out_as_a_whole():
    X, y, hulls = yacht.load_yacht()
    assert X.shape == (308, 6)
    assert np.all(np.bincount(hulls) == 14)
    split = yacht.split_hulls(0)
    assert not set(split.hulls) & set(split.test_hulls)
    assert len(split.y) + len(split.y_test) == len(y)


def test_the_flagship_is_first_on_the_real_table():
    part = demo.splits()[demo.YACHT][0]
    scores = {}
    for name, model in demo.models().items():
        model.fit(part.X, part.y, **({"groups": part.groups} if name == demo.OURS else {}))
        scores[name] = model.score(part.X_test, part.y_test)
    assert max(scores, key=scores.get) == demo.OURS
    assert scores[demo.OURS] > 0.99
