"""``bandfall fit --task`` and ``predict`` for classes."""

import json

import numpy as np
import pandas as pd
import pytest

from bandfall import BandfallClassifier, load_model
from bandfall.commands import training
from shell import call, frame, one_line, quick_flagship


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    def quick_classifier(**parameters):
        return BandfallClassifier(kernels=("gaussian",), max_rounds=0, **parameters)

    monkeypatch.setattr(training.bandfall, "BandfallClassifier", quick_classifier)
    monkeypatch.setattr(training.bandfall, "BandfallRegressor", quick_flagship)


@pytest.fixture
def csv(tmp_path):
    table = frame(80)
    table["y"] = np.where(table["y"] > 0.5, "high", "low")
    table.loc[3, "y"] = None
    table.to_csv(tmp_path / "d.csv", index=False)
    return tmp_path / "d.csv"


def test_text_makes_a_classifier_and_that_is_said(csv, tmp_path):
    done = call("fit", csv, "--target", "y", "--out", tmp_path / "m")
    assert done.exit_code == 0, done.output
    assert "2 classes" in done.stderr
    assert "held-out accuracy" in done.stdout
    model = load_model(tmp_path / "m")
    assert list(model.classes_) == ["high", "low"]
    assert call("inspect", tmp_path / "m").exit_code == 0


def test_predictions_have_probabilities_and_a_score(csv, tmp_path):
    call("fit", csv, "--target", "y", "--out", tmp_path / "m")
    done = call("predict", tmp_path / "m", csv, "--keep", "width")
    assert done.exit_code == 0, done.output
    assert "79 rows are right" in done.stderr
    (tmp_path / "p.csv").write_text(done.stdout, encoding="utf-8")
    table = pd.read_csv(tmp_path / "p.csv")
    assert list(table.columns) == ["prediction", "probability_high", "probability_low", "width"]
    expected = load_model(tmp_path / "m").predict_proba(pd.read_csv(csv)[["width", "höhe"]])
    np.testing.assert_allclose(table.iloc[:, 1:3], expected, rtol=1e-9)
    done = call("predict", tmp_path / "m", csv, "--json")
    result = json.loads(done.stdout)
    assert set(result["predictions"]) == {"high", "low"}
    assert 0.5 < result["scores"]["accuracy"] <= 1.0


def test_numbers_can_be_classes(tmp_path):
    table = frame(80)
    table["y"] = np.where(table["y"] > 0.5, 2, 1)
    table.to_csv(tmp_path / "d.csv", index=False)
    options = ("--target", "y", "--out", tmp_path / "m", "--force")
    done = call("fit", tmp_path / "d.csv", *options)
    assert "only 2 values" in done.stderr
    done = call("fit", tmp_path / "d.csv", *options, "--task", "classification", "--json")
    assert json.loads(done.stdout)["classes"] == ["1", "2"]


def test_what_cannot_be_is_one_line(csv, tmp_path):
    fit = ("fit", csv, "--target", "y", "--out", tmp_path / "m")
    done = call(*fit, "--task", "regression")
    assert "a target must be a number" in one_line(done)
    done = call(*fit, "--task", "classification", "--model", "kgdd")
    assert done.exit_code == 2
    assert "--model auto" in done.stderr.splitlines()[-1]
    done = call(*fit, "--target", "width", "--task", "classification")
    assert "one --target" in one_line(done)
    call(*fit)
    assert "classes" in one_line(call("report", tmp_path / "m", "--out", tmp_path / "r.html"))
    assert "--interval" in one_line(call("predict", tmp_path / "m", csv, "--interval", "0.9"))


def test_a_slip_of_the_pen_makes_no_classes(tmp_path):
    table = frame(60).astype({"y": object})
    table.loc[7, "y"] = "3.x"
    table.to_csv(tmp_path / "d.csv", index=False)
    done = call("fit", tmp_path / "d.csv", "--target", "y", "--out", tmp_path / "m")
    assert "3.x" in one_line(done)
