"""The demonstration: a table on stdout, progress on stderr, a picture in the folder."""

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge

from bandfall import KernelDescentRegressor, demo


@pytest.fixture
def small_demo(monkeypatch):
    """The demonstration without its grid search and with one split of each data set."""
    splits = {name: parts[:1] for name, parts in demo.splits().items()}
    models = {
        "KGD-D, no tuning": KernelDescentRegressor(),
        "KernelRidge": KernelRidge(kernel="rbf"),
    }
    monkeypatch.setattr(demo, "splits", lambda: splits)
    monkeypatch.setattr(demo, "models", lambda: models)


def test_writes_table_and_picture(small_demo, tmp_path, capsys):
    folder = tmp_path / "new" / "out"
    assert demo.main(["--out", str(folder)]) == 0
    captured = capsys.readouterr()
    assert captured.out.count("KGD-D, no tuning") == len(demo.splits())
    assert "test R²" in captured.out
    assert str(folder / "demo.png") in captured.out
    assert "floor 0.01" in captured.err
    assert str(folder / "playground.html") in captured.out
    assert "See it learn" in (folder / "playground.html").read_text(encoding="utf-8")
    assert (folder / "demo.png").read_bytes().startswith(b"\x89PNG")


def test_every_model_of_the_table_has_a_name_that_fits():
    scores = [demo.Score("sine, 20 rows", name, 0.5, 1.0) for name in demo.models()]
    assert {len(line) for line in demo.table(scores).splitlines()} == {80}


def test_narrow_floor_interpolates_and_generalises_where_constant_bandwidth_does_not():
    sine = demo.splits()["sine, 20 rows"][0]
    _, X_test, _, y_test = sine
    fit = demo.fit_floors(sine)[-1]
    assert fit.train_r2[-1] == pytest.approx(0.999, abs=1e-6)
    assert fit.descent.score(X_test, y_test) > 0.9 > 0.2 > fit.ridge.score(X_test, y_test)
    assert fit.test_r2[-1] == pytest.approx(fit.descent.score(X_test, y_test), rel=1e-12)
    assert np.all(np.diff(fit.train_r2) >= -1e-9)


def test_refuses_a_file_as_folder(tmp_path, capsys):
    (tmp_path / "taken").write_text("")
    with pytest.raises(SystemExit, match="2"):
        demo.main(["--out", str(tmp_path / "taken")])
    assert "--out" in capsys.readouterr().err
