"""What a fitted self-tuning model says of itself, and its figure."""

import sys
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.datasets import load_iris, make_friedman1
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV

from bandfall import BandfallClassifier, BandfallRegressor, load_model
from bandfall._estimators.view import held_out_band, member_words, story_of
from bandfall.kernels import get_kernel

FAST = {"kernels": ("gaussian", "laplace-1"), "max_rounds": 1}
X, y = make_friedman1(150, noise=1.0, random_state=0)


@pytest.fixture(scope="module")
def regressor():
    return BandfallRegressor(**FAST).fit(X, y)


@pytest.fixture(scope="module")
def two_targets():
    return BandfallRegressor(**FAST).fit(X, np.column_stack([y, 100 * X[:, 0] ** 2]))


@pytest.fixture(scope="module")
def classifier():
    rows, classes = load_iris(return_X_y=True, as_frame=True)
    return BandfallClassifier(**FAST).fit(rows, classes)


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


def test_print_says_score_band_and_members(regressor):
    name, size, score, band, count, *members = str(regressor).splitlines()
    assert name == repr(regressor)
    assert size == "trained on 150 rows, 10 features"
    n_held_out = len(np.unique(regressor.held_out_rows_))
    assert score.startswith(f"R² {regressor.best_score_:.4f} on {n_held_out} held-out rows")
    assert band.startswith("90 % of new targets within ± ")
    assert count == f"average of {len(regressor.members_)} models, heaviest first:"
    best = regressor.members_[0]
    words = {"gaussian": "Gaussian kernel", "laplace-1": "Laplace kernel in the 1-norm"}
    said = words[str(best.candidate.kernel)]
    assert members[0].startswith(f"  weight {best.weight:.2f}: {said} on ")
    assert len(members) == len(regressor.members_)
    assert regressor.summary() == str(regressor)


def test_the_band_of_held_out_rows_is_that_of_new_rows(regressor):
    predictions, targets, lower, upper = held_out_band(story_of(regressor))[..., 0]
    assert_allclose(predictions, regressor.held_out_predictions_)
    assert_allclose(targets - predictions, regressor.held_out_residuals_)
    inside = (lower <= targets) & (targets <= upper)
    assert 0.85 < inside.mean() < 0.97
    new = np.diff(regressor.predict_interval(make_friedman1(200, random_state=1)[0]))
    assert_allclose(np.median(upper - lower), np.median(new), rtol=0.25)
    some = held_out_band(story_of(regressor), most=40)
    assert some.shape[1] <= 40
    assert_allclose(np.median(some[3] - some[2]), np.median(upper - lower), rtol=0.25)


def test_several_targets_have_a_width_each(two_targets):
    widths = 0.5 * np.diff(held_out_band(story_of(two_targets))[2:], axis=0)
    first, second = (float(f"{width:.3g}") for width in np.median(widths[0], axis=0))
    assert f"± {first:g}, {second:g} of the prediction" in str(two_targets)


def test_classes_have_a_log_loss_and_that_of_their_shares(classifier):
    score = f"log-loss {-classifier.best_score_:.4f} on 150 held-out rows"
    assert f"{score} (predicting the shares of the 3 classes: {np.log(3):.4f})" in str(classifier)
    assert "90 %" not in str(classifier)


def test_estimators_that_are_not_fitted_are_those_of_scikit_learn(regressor):
    model = clone(regressor)
    assert str(model) == repr(model) == repr(regressor)
    assert str(GridSearchCV(regressor, {})).count("\n") < 3
    for method in (model.summary, model.plot):
        with pytest.raises(NotFittedError):
            method()


@pytest.mark.parametrize("name", ["regressor", "two_targets", "classifier"])
def test_a_loaded_model_says_and_draws_the_same(name, request, tmp_path):
    model = request.getfixturevalue(name)
    model.save(tmp_path / "a.model")
    loaded = load_model(tmp_path / "a.model")
    assert str(loaded) == str(model)
    pytest.importorskip("matplotlib").use("agg")
    texts = [[ax.get_title() for ax in one.plot().axes] for one in (model, loaded)]
    assert texts[0] == texts[1]


def test_models_that_know_little_say_so():
    few = BandfallRegressor(**FAST).fit(X[:4], y[:4])
    assert "too few held-out rows for a 90 % band" in str(few)
    flat = BandfallRegressor(**FAST).fit(X[:30], np.ones(30))
    assert "held-out rows is not defined" in str(flat)
    with pytest.warns(UserWarning, match="y holds one class"):
        sole = BandfallClassifier(**FAST).fit(X[:30], np.ones(30))
    assert "no rows were held out" in str(sole)
    assert "one model:" in str(sole)
    three = BandfallRegressor(**FAST).fit(X[:3], y[:3])
    pytest.importorskip("matplotlib").use("agg")
    for model in (three, few, flat, sole):
        assert len(model.plot().axes) == 5


def test_the_figure_shows_targets_importances_and_path(regressor, two_targets, classifier):
    pytest.importorskip("matplotlib").use("agg")
    held_out, importances, *path = regressor.plot().axes
    lines = {line.get_marker(): line for line in held_out.lines}
    assert_allclose(lines["o"].get_xdata(), regressor.held_out_predictions_)
    truth = regressor.held_out_predictions_ + regressor.held_out_residuals_
    assert_allclose(lines["o"].get_ydata(), truth)
    widths = [bar.get_width() for bar in importances.patches]
    assert_allclose(widths, np.sort(regressor.feature_importances_)[::-1])
    assert [ax.get_ylabel() for ax in path] == ["bandwidth σ", "training $R^2$", "$R^2$ speed"]
    assert two_targets.plot().axes[0].get_xlabel() == "prediction, in standard deviations"
    held_out, importances, *path = classifier.plot().axes
    assert sum(bar.get_height() for bar in held_out.patches) > 0
    assert importances.get_yticklabels()[0].get_text().endswith("(cm)")
    assert len(path[0].lines) == 1


def test_a_figure_without_matplotlib_says_what_to_install(regressor, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match="pip install matplotlib"):
        regressor.plot()


def test_leaves_have_no_single_path():
    model = BandfallRegressor(**FAST, leaf_rows=60).fit(X, y)
    pytest.importorskip("matplotlib").use("agg")
    (text,) = model.plot().axes[3].texts
    assert text.get_text().endswith("leaves, each with a path of its own")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, ""),
        ({"n_rounds": 1}, ", metric learned in 1 round"),
        ({"n_rounds": 2, "likelihood": True}, "in 2 rounds and by marginal likelihood"),
        ({"penalty": 0.1}, ", trained with the log-loss"),
    ],
)
def test_metric_and_loss_are_named_in_words(regressor, changes, words):
    best = regressor.members_[0]
    plain = replace(best.candidate, n_rounds=0, likelihood=False)
    start = member_words(replace(best, candidate=plain))
    said = member_words(replace(best, candidate=replace(plain, **changes)))
    assert said.startswith(start)
    assert said.endswith(words)


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        ("gaussian", "Gaussian kernel on"),
        ("laplace", "Laplace kernel on"),
        ("matern52", "Matérn 5/2 kernel on"),
        ("laplace^1.4", "Laplace kernel with exponent 1.4 on"),
        ("laplace-1.5^0.7", "Laplace kernel with exponent 0.7 in the 1.5-norm on"),
    ],
)
def test_kernels_are_named_in_words(kernel, words):
    model = BandfallRegressor(kernels=(get_kernel(kernel),), max_rounds=0).fit(X[:30], y[:30])
    assert words in model.summary()
