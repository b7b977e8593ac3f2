"""The report about a classifier: its numbers, and a page that is safe with any names."""

import re

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_iris
from sklearn.metrics import accuracy_score, confusion_matrix, log_loss, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bandfall import BandfallClassifier
from bandfall._targets.scores import confusion, positions, reliability, score_classes
from bandfall.report import report_on
from bandfall.report._columns import LabelledRows
from bandfall.report._findings import study
from bandfall.report._layout import class_style
from bandfall.report._page import render_page

FAST = {"kernels": ("gaussian",), "max_rounds": 0}
BAD = '<script>alert("x")</script>&'
FEATURES = ["sepal length", "sepal width", BAD, "petal width"]


@pytest.fixture(scope="module")
def rows():
    X, y = load_iris(return_X_y=True)
    labels = np.array([BAD, "versicolor", "virginica"])[y]
    table = pd.DataFrame(X, columns=FEATURES)
    table["kind"] = np.where(y > 1, "old", "new")
    return LabelledRows(table[::2], labels[::2]), LabelledRows(table[1::2], labels[1::2])


@pytest.fixture(scope="module")
def findings(rows):
    train, test = rows
    model = BandfallClassifier(**FAST).fit(*train)
    return study(model, train, test, list(train.X.columns))


@pytest.mark.parametrize("n_classes", [2, 4])
def test_scores_are_those_of_scikit_learn(n_classes):
    random = np.random.default_rng(n_classes)
    probabilities = random.dirichlet(np.ones(n_classes), 200)
    labels, weights = random.integers(n_classes, size=200), random.uniform(0.5, 2, 200)
    scores = score_classes(probabilities, labels, weights)
    given = {"sample_weight": weights}
    assert scores["log_loss"] == pytest.approx(log_loss(labels, probabilities, **given))
    assert scores["accuracy"] == pytest.approx(
        accuracy_score(labels, probabilities.argmax(axis=1), **given)
    )
    columns = probabilities[:, 1] if n_classes == 2 else probabilities
    expected = roc_auc_score(labels, columns, multi_class="ovr", **given)
    assert scores["auc"] == pytest.approx(expected)
    found = confusion(probabilities, labels)
    assert_array_equal(found, confusion_matrix(labels, probabilities.argmax(axis=1)))


def test_calibration_error_is_zero_where_probabilities_come_true():
    random = np.random.default_rng(0)
    chances = random.uniform(size=200_000)
    happened = random.uniform(size=200_000) < chances
    probabilities = np.column_stack([1 - chances, chances])
    assert score_classes(probabilities, happened.astype(int))["calibration_error"] < 0.01
    assert score_classes(probabilities, np.zeros(200_000, int))["calibration_error"] > 0.2
    confidence, share, weight = reliability(chances, happened)
    assert_allclose(share, confidence, atol=0.02)
    assert weight.sum() == 200_000


def test_classes_that_the_model_does_not_know_count_as_wrong():
    classes = np.array(["a", "b"])
    labels = positions(["a", "c", "b", "A"], classes)
    assert_array_equal(labels, [0, -1, 1, -1])
    probabilities = np.array([[0.9, 0.1], [0.9, 0.1], [0.2, 0.8], [0.5, 0.5]])
    scores = score_classes(probabilities, labels)
    assert scores["accuracy"] == 0.5
    assert scores["log_loss"] == pytest.approx(-np.mean(np.log([0.9, 0.8])))
    assert confusion(probabilities, labels).sum() == 2
    nothing = score_classes(probabilities, np.full(4, -1))
    assert nothing["accuracy"] == 0
    assert np.isnan([nothing["log_loss"], nothing["auc"], nothing["calibration_error"]]).all()


def test_rows_without_weight_do_not_count():
    probabilities = np.array([[0.9, 0.1], [0.3, 0.7], [0.2, 0.8]])
    labels, weights = np.array([0, 1, -1]), np.array([0.0, 0.0, 1.0])
    nothing = score_classes(probabilities, labels, weights)
    assert nothing["accuracy"] == 0
    assert np.isnan([nothing["log_loss"], nothing["auc"], nothing["calibration_error"]]).all()
    known = score_classes(probabilities[:2], labels[:2])
    assert score_classes(probabilities, labels, 1 - weights) == known | {"accuracy": 1.0}


def test_a_score_that_is_not_defined_is_called_so(rows):
    train, test = rows
    model = BandfallClassifier(**FAST).fit(*train)
    report = report_on(model, None, *train, X_test=test.X[:9], y_test=np.full(9, "unheard of"))
    assert repr(report) == "<Report: log-loss not defined on 9 held-out rows>"
    assert "9 of 9 held-out rows are of a class without training rows" in report.html


def test_an_accuracy_no_better_than_the_most_frequent_class_says_so():
    random = np.random.default_rng(0)
    X, y = random.normal(size=(90, 2)), np.where(np.arange(90) % 9, "no", "yes")
    page = report_on(BandfallClassifier(**FAST).fit(X, y), None, X, y).html
    card = '<div class="card poor"><b>88.9%</b><span>accuracy, no better than always answering'
    assert f"{card} “no” (88.9%)</span>" in page


def test_a_single_class_has_no_auc():
    assert np.isnan(score_classes(np.array([[0.9, 0.1], [0.7, 0.3]]), np.zeros(2, int))["auc"])


def test_stages_end_at_the_model(findings):
    assert findings.stages.scored_loss[-1] == pytest.approx(findings.scores["log_loss"], rel=1e-6)
    assert findings.stages.scored_loss[0] > 2 * findings.stages.scored_loss[-1]


def test_important_features_come_first(rows):
    train = rows[0]
    X = train.X[["petal width"]].assign(noise=np.random.default_rng(0).normal(size=75))[
        ["noise", "petal width"]
    ]
    model = BandfallClassifier(**FAST).fit(X, train.y)
    found = study(model, LabelledRows(X, train.y), None, list(X.columns))
    assert [one.feature for one in found.slices] == ["petal width", "noise"]
    assert_allclose(found.slices[0].values.sum(axis=2), 1.0, atol=1e-6)


def test_every_class_has_its_line_and_its_place_in_the_key(findings):
    page = render_page(findings, target="y", source="s", details={})
    slices = page.partition('<section id="slices"')[2].partition("</section>")[0]
    for i in range(3):
        assert slices.count(f'<path class="line c{i}"') == len(findings.slices)
        assert slices.count(f'<i class="c{i}"></i>') == 1
    assert len({class_style(i) for i in range(30)}) == 30


def test_alone_it_shows_scores_of_held_out_rows(rows):
    train = rows[0]
    model = BandfallClassifier(**FAST).fit(*train)
    report = model.report(None, *train)
    assert report.findings.scores["log_loss"] == pytest.approx(-model.best_score_, rel=0.05)
    assert re.search(
        r"<p[^>]*>Log-loss \S+ on \d+ held-out rows: no test rows were given", report.html
    )


def test_names_cannot_become_markup(findings):
    page = render_page(findings, target=BAD, source=BAD, details={"estimator": BAD})
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert" in page
    assert 'data-value="nan"' not in page


def test_many_classes_have_no_table_of_mistakes():
    random = np.random.default_rng(0)
    X = np.repeat(np.arange(24.0), 6)[:, None] + random.normal(scale=0.4, size=(144, 1))
    y = np.repeat([f"class {i:02}" for i in range(24)], 6)
    report = BandfallClassifier(**FAST).fit(X, y).report(None, X, y)
    assert 'id="confusion"' not in report.html
    assert 'id="calibration"' in report.html


def test_a_report_from_python(rows, tmp_path):
    X, y = load_iris(return_X_y=True)
    model = make_pipeline(StandardScaler(), BandfallClassifier(**FAST)).fit(X[::2], y[::2])
    report = report_on(
        model, tmp_path / "r.html", X[::2], y[::2], X_test=X[1::2], y_test=y[1::2], target="species"
    )
    assert (tmp_path / "r.html").read_text(encoding="utf-8") == report.html
    assert "Predicting species" in report.html
    assert repr(report).startswith("<Report: log-loss 0.")
    assert report.findings.scores["accuracy"] == model.score(X[1::2], y[1::2])


@pytest.mark.filterwarnings("ignore:y holds one class")
def test_one_class_has_a_report():
    X = np.arange(12.0)[:, None]
    y = np.full(12, "only")
    report = BandfallClassifier(**FAST).fit(X, y).report(None, X, y)
    assert "100.0%" in report.html
