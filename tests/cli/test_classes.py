"""``bandfall fit --task`` and ``predict`` for classes."""

import json
import re

import numpy as np
import pandas as pd
import pytest

from bandfall import BandfallClassifier, load_model, save_model
from shell import call, frame, one_line

pytestmark = pytest.mark.usefixtures("quick_models")


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
    assert "2 text values: training a classifier" in done.stderr
    assert "held-out accuracy" in done.stdout
    model = load_model(tmp_path / "m")
    assert list(model.classes_) == ["high", "low"]
    shown = call("inspect", tmp_path / "m").stdout
    assert "high, low" in shown
    assert "held-out accuracy" in shown
    assert "held-out R²" not in shown


def test_inspect_shows_a_single_bandwidth_once_and_no_time_limit(tmp_path):
    model = BandfallClassifier(kernels="gaussian", max_rounds=0, n_members=1)
    for seed in range(20):
        X = np.random.default_rng(seed).normal(size=(80, 2))
        if model.fit(X, X.sum(axis=1) > 0).members_[0].candidate.width:
            break
    save_model(model, tmp_path / "m")
    shown = call("inspect", tmp_path / "m").stdout
    assert "1 stage of kernel gaussian, bandwidth" in shown
    assert "→ 1 column" in shown
    assert not re.search(r"bandwidth \S+ →", shown)
    assert "ended because" not in shown


def test_predictions_have_probabilities(csv, tmp_path):
    call("fit", csv, "--target", "y", "--out", tmp_path / "m")
    done = call("predict", tmp_path / "m", csv, "--keep", "width")
    assert done.exit_code == 0, done.output
    (tmp_path / "p.csv").write_text(done.stdout, encoding="utf-8")
    table = pd.read_csv(tmp_path / "p.csv")
    assert list(table.columns) == ["width", "prediction", "probability_high", "probability_low"]
    expected = load_model(tmp_path / "m").predict_proba(pd.read_csv(csv)[["width", "höhe"]])
    np.testing.assert_allclose(table.iloc[:, 2:], expected, rtol=5e-6)
    done = call("predict", tmp_path / "m", csv, "--json")
    result = json.loads(done.stdout)
    assert set(result["predictions"]) == {"high", "low"}


def test_numbers_can_be_classes(tmp_path):
    table = frame(80)
    table["y"] = np.where(table["y"] > 0.5, 2, 1)
    table.to_csv(tmp_path / "d.csv", index=False)
    options = ("--target", "y", "--out", tmp_path / "m")
    done = call("fit", tmp_path / "d.csv", *options)
    assert "only 2 values" in done.stderr
    done = call("fit", tmp_path / "d.csv", *options, "--task", "classification", "--json")
    assert json.loads(done.stdout)["classes"] == ["1", "2"]


def test_truth_values_are_classes(tmp_path):
    table = frame(60)
    table["y"] = table["y"] > 0.5
    table.to_csv(tmp_path / "d.csv", index=False)
    options = ("--target", "y", "--out", tmp_path / "m", "--json")
    done = call("fit", tmp_path / "d.csv", *options)
    assert "has 2 boolean values: training a classifier" in done.stderr
    assert json.loads(done.stdout)["classes"] == ["False", "True"]
    done = call("fit", tmp_path / "d.csv", *options, "--task", "regression")
    assert "classes" not in json.loads(done.stdout)


def test_without_test_rows_those_of_the_search_are_scored(csv, tmp_path):
    options = ("--target", "y", "--test-fraction", "0")
    done = call("fit", csv, *options, "--out", tmp_path / "m")
    assert done.exit_code == 0, done.output
    assert "held-out accuracy" not in done.stdout
    done = call("report", tmp_path / "m", "--out", tmp_path / "r.html", "--json")
    assert json.loads(done.stdout)["held_out"] is True  # by the search
    assert "no test rows were given" in (tmp_path / "r.html").read_text(encoding="utf-8")


def test_rivals_are_compared_by_their_probabilities(csv):
    done = call("compare", csv, "--target", "y", "--json")
    assert done.exit_code == 0, done.output
    models = {one["name"]: one for one in json.loads(done.stdout)["models"]}
    assert {"bandfall (self-tuning)", "support vectors (Platt)"} <= set(models)
    losses = [one["log_loss"] for one in models.values()]
    assert losses == sorted(losses)
    assert models["shares of the classes"]["auc"] == 0.5
    shown = call("compare", csv, "--target", "y")
    assert all(word in shown.stdout for word in ("log-loss", "AUC", "calibration error"))


def test_a_class_of_few_rows_has_fewer_rivals(csv, tmp_path):
    table = pd.read_csv(csv)
    table.loc[[5, 50], "y"] = "rare"
    table.to_csv(tmp_path / "rare.csv", index=False)
    done = call("compare", tmp_path / "rare.csv", "--target", "y", "--json")
    assert done.exit_code == 0, done.output
    assert "Platt" not in done.stdout


def test_one_class_cannot_be_compared(tmp_path):
    frame(40).assign(y="only").to_csv(tmp_path / "d.csv", index=False)
    options = ("--target", "y", "--task", "classification")
    assert "the same class" in one_line(call("compare", tmp_path / "d.csv", *options))


@pytest.mark.parametrize("rivals", [True, False])
def test_a_report_tells_of_classes(csv, tmp_path, rivals):
    call("fit", csv, "--target", "y", "--out", tmp_path / "m")
    option = "--rivals" if rivals else "--no-rivals"
    done = call("report", tmp_path / "m", "--out", tmp_path / "r.html", option)
    assert done.exit_code == 0, done.output
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    for name in ("score", "path", "calibration", "confusion", "slices", "features", "errors"):
        assert f'<section id="{name}">' in page
    assert ("support vectors (Platt)" in page) == rivals
    assert "R²" not in page.partition("<main>")[2]


def test_classes_can_be_explored(csv, tmp_path):
    out = ("--no-open", "--out", tmp_path / "e.html")
    call("fit", csv, "--target", "y", "--out", tmp_path / "m")
    for arguments in ((tmp_path / "m",), (tmp_path / "m", csv)):
        done = call("explore", *arguments, *out)
        assert done.exit_code == 0, done.output
        page = (tmp_path / "e.html").read_text(encoding="utf-8")
        assert '<section id="what-if">' in page
        assert '<section id="confusion">' in page


def test_what_cannot_be_is_one_line(csv, tmp_path):
    fit = ("fit", csv, "--target", "y", "--out", tmp_path / "m")
    done = call(*fit, "--task", "regression")
    assert "where a number should be" in one_line(done)
    done = call(*fit, "--task", "classification", "--model", "kgdd")
    assert done.exit_code == 2
    assert "--model auto" in done.stderr.splitlines()[-1]
    done = call(*fit, "--target", "width", "--task", "classification")
    assert "one --target" in one_line(done)
    done = call("fit", csv, "--target", "width", "--task", "classification")
    assert "80 different values in 80 rows" in one_line(done)
    call(*fit)
    assert "--interval" in one_line(call("predict", tmp_path / "m", csv, "--interval", "0.9"))


def test_a_slip_of_the_pen_makes_no_classes(tmp_path):
    table = frame(60).astype({"y": object})
    table.loc[7, "y"] = "3.x"
    table.to_csv(tmp_path / "d.csv", index=False)
    done = call("fit", tmp_path / "d.csv", "--target", "y", "--out", tmp_path / "m")
    assert "3.x" in one_line(done)


class TestClassesWithoutTrainingRows:
    """The last rows in time may be of a class that nobody had met before: that is said."""

    @pytest.fixture(params=[3, 12], ids=["some", "all"])
    def late(self, request, tmp_path):
        """A table of 60 rows, as options, and how many of the last twelve are of a new class."""
        table = frame(60).assign(day=range(60))
        table["y"] = np.where(table["width"] > 0, "high", "low")
        table.loc[60 - request.param :, "y"] = "new"
        table.to_csv(tmp_path / "d.csv", index=False)
        return (tmp_path / "d.csv", "--target", "y", "--time", "day"), request.param

    @pytest.mark.parametrize("command", ["fit", "compare"])
    def test_one_line_explains_the_scores(self, late, tmp_path, command):
        options, n_unseen = late
        out = () if command == "compare" else ("--out", tmp_path / "out")
        done = call(command, *options, *out)
        assert done.exit_code == 0, done.output
        line = f"{n_unseen} of 12 held-out rows are of a class without training rows ('new')"
        assert sum(line in one for one in done.stderr.splitlines()) == 1
        assert "nan" not in done.output
        told = json.loads(call(command, *options, *out, "--json").stdout)
        assert told.get("test", told)["n_unseen"] == n_unseen

    def test_the_table_says_what_is_not_defined(self, late):
        options, n_unseen = late
        assert ("not defined" in call("compare", *options).stdout) == (n_unseen == 12)

    def test_a_file_tells_it_later(self, late, tmp_path):
        options, n_unseen = late
        shown = call("fit", *options, "--out", tmp_path / "m").stdout
        words = f"on 12 rows, {n_unseen} of them in classes without training rows"
        for text in (shown, call("inspect", tmp_path / "m").stdout):
            assert words in " ".join(text.split())
        done = call("report", tmp_path / "m", "--out", tmp_path / "r.html")
        assert done.exit_code == 0, done.output
        page = (tmp_path / "r.html").read_text(encoding="utf-8").partition("<script")[0]
        assert f"{n_unseen} of 12 held-out rows are of a class without training rows" in page
        assert "nan" not in page
        assert ("linear (logistic)" in page) == (n_unseen < 12)
