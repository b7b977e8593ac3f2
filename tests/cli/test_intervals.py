"""``bandfall predict --interval`` and ``--novelty``."""

import json

import numpy as np
import pandas as pd
import pytest

from bandfall import load_model
from shell import Y, call, frame, one_line

pytestmark = pytest.mark.usefixtures("quick_models")


@pytest.fixture
def csv(tmp_path):
    frame().to_csv(tmp_path / "d.csv", index=False)
    return tmp_path / "d.csv"


@pytest.fixture
def model(tmp_path, csv):
    done = call("fit", csv, "--target", "y", "--out", tmp_path / "m")
    assert done.exit_code == 0, done.output
    return tmp_path / "m"


def test_ends_stand_beside_the_predictions(model, csv, tmp_path):
    done = call("predict", model, csv, "--interval", "0.9", "--out", tmp_path / "p.csv")
    assert done.exit_code == 0, done.output
    table = pd.read_csv(tmp_path / "p.csv")
    assert list(table.columns) == ["prediction", "lower", "upper"]
    expected = load_model(model).predict_interval(frame()[["width", "höhe"]], 0.9)
    np.testing.assert_allclose(table[["lower", "upper"]], expected, rtol=5e-6)
    assert np.all(table["lower"] <= table["prediction"])


def test_several_targets_and_json(tmp_path):
    frame().assign(z=lambda t: -t["y"]).to_csv(tmp_path / "d.csv", index=False)
    call("fit", tmp_path / "d.csv", "--target", "y", "--target", "z", "--out", tmp_path / "m")
    done = call("predict", tmp_path / "m", tmp_path / "d.csv", "--interval", "0.8", "--json")
    assert set(json.loads(done.stdout)["kept"]) == {"lower_y", "upper_y", "lower_z", "upper_z"}


def test_what_cannot_be_is_one_line(model, csv, tmp_path):
    assert "between 0 and 1" in one_line(call("predict", model, csv, "--interval", "90"))
    call("fit", csv, *Y, "--out", tmp_path / "kgdd")
    complaint = one_line(call("predict", tmp_path / "kgdd", csv, "--interval", "0.9"))
    assert "--model auto has" in complaint


def test_too_few_rows_get_a_note(model, csv):
    done = call("predict", model, csv, "--interval", "0.999")
    assert done.exit_code == 0
    assert "too few" in done.stderr


def test_novelty_stands_beside_the_predictions(model, tmp_path):
    rows = frame()[["width", "höhe"]]
    rows.to_csv(tmp_path / "near.csv", index=False)
    done = call("predict", model, tmp_path / "near.csv", "--novelty", "--out", tmp_path / "p.csv")
    assert done.exit_code == 0, done.output
    table = pd.read_csv(tmp_path / "p.csv")
    assert list(table.columns) == ["prediction", "novelty"]
    np.testing.assert_allclose(
        table["novelty"], load_model(model).novelty(rows), rtol=5e-6, atol=1e-9
    )


def test_many_novel_rows_get_a_note(model, tmp_path):
    (frame()[["width", "höhe"]] + 1000.0).to_csv(tmp_path / "far.csv", index=False)
    done = call("predict", model, tmp_path / "far.csv", "--novelty", "--interval", "0.9")
    assert done.exit_code == 0, done.output
    assert "far from the training rows" in done.stderr
    assert done.stdout.splitlines()[0] == "prediction,lower,upper,novelty"


def test_models_without_novelty_fail_in_one_line(csv, tmp_path):
    call("fit", csv, *Y, "--out", tmp_path / "kgdd")
    assert "--model auto" in one_line(call("predict", tmp_path / "kgdd", csv, "--novelty"))
