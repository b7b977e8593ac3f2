"""The demonstration: tables on stdout, progress on stderr, pictures in the folder."""

import csv
from importlib.resources import files
from importlib.util import find_spec

import numpy as np
import pytest

from bandfall import BandfallRegressor, KernelDescentRegressor, demo
from bandfall._paper.methods import score_split
from bandfall.datasets import paper_splits
from bandfall.demo import _small as small
from bandfall.demo import _yacht as yacht
from shared_files import data_directory


def quick_models():
    """Instead of those of the table."""
    return {
        yacht.OURS: BandfallRegressor(kernels="gaussian", max_rounds=0),
        "KGD-D: one fit, nothing chosen": KernelDescentRegressor(),
    }


def test_shows_tables_and_pictures(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(yacht, "models", quick_models)
    folder = tmp_path / "new" / "out"
    demo.main(folder)
    captured = capsys.readouterr()
    parts = ["1. Double descent", "2. Table 2", "3. A smooth table", "4. A noisy table"]
    places = [captured.out.index(part) for part in parts]
    assert places == sorted(places)
    assert captured.out.count("KGD-D: one fit, nothing chosen") == 4
    assert "mean over 8 splits" in captured.out
    assert captured.out.count("CC BY 4.0") == 2
    assert max(len(line) for line in captured.out.splitlines() if str(folder) not in line) <= 100
    assert "yacht" in captured.err
    assert "See it learn" in (folder / "playground.html").read_text(encoding="utf-8")
    assert ("bandfall explore" in captured.out) == (find_spec("typer") is not None)
    for name in ("demo.png", "falling.png"):
        assert str(folder / name) in captured.out
        assert (folder / name).read_bytes().startswith(b"\x89PNG")


def test_narrow_floor_interpolates_and_generalises_where_constant_bandwidth_does_not():
    sine = small.sine()
    _, X_test, _, y_test = sine
    fit = small.fit_floors(sine)[-1]
    assert fit.train_r2[-1] == pytest.approx(0.999, abs=1e-6)
    assert fit.descent.score(X_test, y_test) > 0.9 > 0.2 > fit.ridge.score(X_test, y_test)
    assert fit.test_r2[-1] == pytest.approx(fit.descent.score(X_test, y_test), rel=1e-12)
    assert np.all(np.diff(fit.train_r2) >= -1e-9)


def test_the_error_falls_twice_with_a_falling_bandwidth_only():
    results = [small.sweep(*draw) for draw in small.DRAWS]
    descent, ridge = (
        np.median([result[name] for result in results], axis=0)
        for name in ("descent_test", "ridge_test")
    )
    assert descent[0] < descent[1] > descent[2] < descent[3] - 0.1
    assert ridge[1] > ridge[2] > ridge[3]


@pytest.mark.parametrize("name", small.SETS)
def test_small_tables_are_the_first_splits_of_the_paper(name):
    split = small.split(name, 3)
    whole = paper_splits(name, n_splits=4, data_home=data_directory())[3]
    for part in ("X_train", "y_train", "X_test", "y_test"):
        np.testing.assert_allclose(getattr(split, part), getattr(whole, part), atol=2e-3, rtol=1e-3)
    ours = small.scores(name, 3)
    theirs = score_split(whole, 3, "gaussian", ["KGD-D", "KRR-CV", "KRR-MML", "KGF-CV"])
    theirs["KGD-D"] = theirs["KGD-D 0.1"]
    for method in small.METHODS:
        assert ours[method][0] == pytest.approx(theirs[method]["test_r2"], abs=5e-3)


@pytest.mark.parametrize(("name", "columns"), [("superconductors", 82), ("power", 8)])
def test_small_tables_have_their_rows(name, columns):
    text = files("bandfall.demo").joinpath(f"{name}.csv").read_text(encoding="utf-8")
    rows = list(csv.reader(text.splitlines()))
    assert len(rows) == 1001
    assert {len(row) for row in rows} == {columns}


def test_refuses_a_file_as_folder(tmp_path):
    (tmp_path / "taken").write_text("")
    with pytest.raises(FileExistsError, match="taken"):
        demo.main(tmp_path / "taken")


def test_hulls_are_held_out_as_a_whole():
    X, y, hulls = yacht.load_yacht()
    assert X.shape == (308, 6)
    assert np.all(np.bincount(hulls) == 14)
    split = yacht.split_hulls(0)
    assert not set(split.hulls) & set(split.test_hulls)
    assert len(split.y) + len(split.y_test) == len(y)


def test_the_flagship_is_first_on_the_real_table():
    scores = {name: yacht.score(yacht.YACHT, name, 0) for name in yacht.models()}
    assert min(scores, key=lambda name: scores[name].rmse) == yacht.OURS
    assert scores[yacht.OURS].r2 > 0.99
