"""Commands and pages of models in several leaves: inspect, predict, report and explore."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from bandfall import BandfallClassifier, BandfallRegressor
from bandfall._cli.main import build_app

FEW = {"leaf_rows": 150, "kernels": "gaussian", "n_members": 1, "search_rows": 100, "max_rounds": 0}


def call(*arguments):
    result = CliRunner().invoke(build_app(), [str(one) for one in arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture(scope="module", params=["numbers", "classes"])
def model(request, tmp_path_factory):
    """A model file whose training rows are in several leaves."""
    folder = tmp_path_factory.mktemp(request.param)
    random = np.random.default_rng(0)
    table = pd.DataFrame(random.uniform(-1, 1, size=(600, 3)), columns=list("abc"))
    y = np.sin(3 * table["a"]) + table["b"] * table["c"] + 0.1 * random.standard_normal(600)
    table["y"] = y if request.param == "numbers" else np.where(y > 0, "high", "low")
    table.to_csv(folder / "table.csv", index=False)
    with pytest.MonkeyPatch.context() as patch:
        for kind in (BandfallRegressor, BandfallClassifier):
            usual = kind.__init__.__kwdefaults__
            patch.setattr(kind.__init__, "__kwdefaults__", {**usual, **FEW})
        call("fit", folder / "table.csv", "--target", "y", "--out", folder / "model")
    return folder / "model"


def test_inspect_counts_leaves(model):
    assert json.loads(call("inspect", model, "--json"))["path"]["n_leaves"] > 2
    assert "leaves" in call("inspect", model)


def test_predictions(model):
    out = model.parent / "predictions.csv"
    call("predict", model, model.parent / "table.csv", "--out", out)
    assert len(pd.read_csv(out)) == 600


def test_report(model):
    page = model.parent / "report.html"
    call("report", model, "--out", page, "--no-rivals")
    assert "Which features matter" in page.read_text()
    assert re.search(r"training rows in \d+ leaves", page.read_text())


def test_explore(model):
    page = model.parent / "explore.html"
    call("explore", model, "--out", page)
    assert "<html" in page.read_text()[:1000]
