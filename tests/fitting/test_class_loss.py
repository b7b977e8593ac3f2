"""Models of classes by the log-loss: members, wide kernels, leaves, files and ONNX."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_iris, make_moons
from sklearn.metrics import log_loss

from bandfall import BandfallClassifier, load_model, to_onnx
from bandfall._fitting import class_loss
from bandfall._fitting.paths import in_its_loss
from bandfall._models.logistic import ClassTarget
from bandfall._models.member import Candidate
from bandfall._search.clock import Clock
from bandfall._search.settings import Settings
from bandfall._search.trials import Trial
from class_problems import path_of, problem

FAST = {"kernels": ("gaussian",), "max_rounds": 0}


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_leaf_of_one_class_is_sure(n_classes):
    """Its path has no stages; outputs are not codes of classes, whose log-odds are small."""
    target = ClassTarget(np.zeros(50, dtype=int), np.full(n_classes, 1.0 / n_classes))
    path = path_of(np.random.default_rng(0).standard_normal((50, 2)), target)
    assert not len(path)
    trial = Trial(Candidate(penalty=0.3), np.nan, np.nan, np.nan, 0.9, 50)
    outputs = in_its_loss(path, trial, target).evaluate(np.zeros((1, 2)))
    probabilities = np.exp(target.log_probabilities(outputs))[0]
    stray = target.prior / 51  # one row of 51 has a random class
    assert_allclose(probabilities, stray + (np.arange(n_classes) == 0) * 50 / 51)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_models_with_log_loss_are_models(tmp_path, n_classes):
    X, y = load_iris(return_X_y=True)
    X, y = X[y < n_classes], np.array(["a", "b", "c"])[y[y < n_classes]]
    model = BandfallClassifier(**FAST).fit(X[::2], y[::2])
    (first, *_) = [one for one in model.members_ if one.candidate.penalty > 0]
    assert "log-loss" in repr(first)
    assert model.link_.kind == "softmax"
    probabilities = model.predict_proba(X[1::2])
    assert log_loss(y[1::2], probabilities) < 0.25
    assert_allclose(list(model.staged_predict_proba(X[1::2]))[-1], probabilities, rtol=1e-5)
    assert_array_equal(np.sort(model.held_out_rows_), np.arange(len(X[::2])))
    assert -model.best_score_ == pytest.approx(
        log_loss(y[::2][model.held_out_rows_], model.held_out_probabilities_)
    )
    assert len(model.feature_importances_) == 4
    model.save(tmp_path / "model.bandfall")
    again = load_model(tmp_path / "model.bandfall")
    assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert "log-loss" in str(model.report(None, X[::2], y[::2], X_test=X[1::2], y_test=y[1::2]))


def test_onnx_gives_the_same_probabilities():
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    X, y = make_moons(80, noise=0.2, random_state=0)
    model = BandfallClassifier(**FAST).fit(X, y)
    session = onnxruntime.InferenceSession(to_onnx(model).SerializeToString())
    (name,) = [one.name for one in session.get_inputs()]
    outputs = session.run(None, {name: X})
    assert any(np.allclose(one, model.predict_proba(X), atol=1e-5) for one in outputs[1:])


def test_the_log_loss_has_most_weight_where_it_is_clearly_better():
    random = np.random.default_rng(0)
    X = random.integers(-2, 3, size=(300, 4)).astype(float)
    torque = X[:, 0] * (X[:, 1] + 3) - X[:, 2] * (X[:, 3] + 3)
    y = np.sign(torque)
    model = BandfallClassifier(max_rounds=0).fit(X, y)
    assert model.best_params_["penalty"] > 0


def test_members_by_squared_error_become_log_odds_by_a_temperature():
    X, target = problem(3)
    path = path_of(X, target)
    trial = Trial(Candidate(), 0.1, 0.1, 0.9, 0.9, len(X), temperature=0.25)
    assert trial.log_odds
    assert_allclose(in_its_loss(path, trial, target).evaluate(X), 4.0 * path.evaluate(X))
    assert in_its_loss(path, replace(trial, temperature=0.0), target) is path


def test_wide_kernels_learn_their_metric_from_log_odds(tmp_path):
    """A rule over four of five columns, in rows enough for float32."""
    random = np.random.default_rng(0)
    X = random.integers(1, 6, size=(700, 5)).astype(float)
    y = np.sign(X[:, 0] * X[:, 1] - X[:, 2] * X[:, 3])
    model = BandfallClassifier(kernels=("gaussian",), max_rounds=2).fit(X[:500], y[:500])
    (best, *_) = [one for one in model.members_ if one.candidate.width > 0]
    assert best.candidate.log_rounds > 0
    assert "of the largest distance" in repr(best)
    assert len(best.path) == 1
    assert best.path.X.dtype == np.float64
    assert model.feature_importances_[4] < 0.1
    assert model.score(X[500:], y[500:]) > 0.9
    model.save(tmp_path / "model.bandfall")
    again = load_model(tmp_path / "model.bandfall")
    assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert again.best_params_ == model.best_params_
    # Pages and ONNX for this member alone, which has one stage.
    encoders = {best.candidate.encoding: model.encoders_[best.candidate.encoding]}
    alone = replace(model.average_, members=(replace(best, weight=1.0),), encoders=encoders)
    model.average_ = alone
    assert len(list(model.staged_predict_proba(X[:5]))) == 1
    page = model.report(None, X[:500], y[:500], X_test=X[500:], y_test=y[500:]).html
    assert "One stage, of bandwidth" in page
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    session = onnxruntime.InferenceSession(to_onnx(model).SerializeToString())
    _, probabilities = session.run(None, {session.get_inputs()[0].name: X[500:]})
    assert_allclose(probabilities, model.predict_proba(X[500:]), atol=1e-5)


def test_trials_with_the_log_loss_are_judged_like_others():
    X, y = make_moons(80, noise=0.2, random_state=0)
    selection = BandfallClassifier(**FAST).fit(X, y).selection_
    log_loss_trials = selection["penalty"] > 0
    assert log_loss_trials.any()
    for name in ("loss", "standard_error", "score"):
        assert np.isfinite(selection[name][log_loss_trials]).all()
    assert np.all(selection["score"][log_loss_trials] <= 1.0)


def with_settings(**changes):
    """A classifier whose search has other settings."""

    class Classifier(BandfallClassifier):
        @property
        def _settings(self):
            return replace(super()._settings, **changes)

    return Classifier


def test_many_rows_keep_squared_error():
    X, y = make_moons(80, noise=0.2, random_state=0)
    model = with_settings(log_loss_rows=50)(**FAST).fit(X, y)
    assert model.best_params_["penalty"] == 0


def test_many_rows_choose_penalties_on_some_of_them():
    X, y = make_moons(600, noise=0.2, random_state=0)
    budget = {"fold_rows": 0, "class_rows": 0, "exact_rows": 300, "penalty_rows": 200}
    model = with_settings(**budget)(**FAST).fit(X[:400], y[:400])
    with_penalty = model.selection_["penalty"] > 0
    assert set(model.selection_["n_rows"][with_penalty]) == {200}
    assert all(len(member.path.X) == 400 for member in model.members_)
    assert any(member.candidate.penalty > 0 for member in model.members_)
    assert log_loss(y[400:], model.predict_proba(X[400:])) < 0.15


@pytest.fixture(scope="module")
def leaves():
    """A classifier whose members are trained leaf by leaf."""
    X, y = make_moons(1200, noise=0.2, random_state=0)
    budget = {"fold_rows": 0, "exact_rows": 300, "penalty_rows": 200, "rung_rows": (300,)}
    return with_settings(**budget)(**FAST, leaf_rows=300).fit(X[:900], y[:900]), X, y


def test_leaves_minimise_the_log_loss(leaves):
    model, X, y = leaves
    with_penalty = [member for member in model.members_ if member.candidate.penalty > 0]
    assert with_penalty
    assert all(len(member.path.model.leaves) > 2 for member in model.members_)
    assert model.link_.kind == "softmax"
    assert model.link_.parameter == 1.0
    assert log_loss(y[900:], model.predict_proba(X[900:])) < 0.15
    squared = with_settings(log_loss_rows=500)(**FAST, leaf_rows=300).fit(X[:900], y[:900])
    assert all(member.candidate.penalty == 0 for member in squared.members_)
    expected = log_loss(y[900:], squared.predict_proba(X[900:]))
    assert log_loss(y[900:], model.predict_proba(X[900:])) < 1.1 * expected


def test_leaves_of_one_class_are_as_sure_as_one_leaf():
    X, y = make_moons(800, noise=0.05, random_state=0)
    losses = []
    for leaf_rows in (400, 80):
        model = BandfallClassifier(**FAST, leaf_rows=leaf_rows).fit(X[:400], y[:400])
        assert model.members_[0].candidate.penalty > 0
        losses.append(log_loss(y[400:], model.predict_proba(X[400:])))
    assert losses[1] < max(2.0 * losses[0], 0.01)


def test_leaves_are_at_the_minimum(leaves):
    """Where J has no slope, coefficients are multiples of y − p at the rows of the leaf."""
    model, _, y = leaves
    member = next(one for one in model.members_ if one.candidate.penalty > 0)
    for leaf in member.path.model.leaves:
        rows = [one.tobytes() for one in leaf.rows(member.path.X)]
        numbers = [rows.index(one.tobytes()) for one in leaf.model.X]
        g = leaf.model.evaluate(leaf.model.X)[:, 0]
        odds = model.prior_[1] / model.prior_[0] * np.exp(2.0 * g)
        missed = y[numbers] - odds / (1.0 + odds)
        for coefficients in leaf.model.coefficients[:, :, 0]:
            assert np.corrcoef(coefficients, missed)[0, 1] > 0.99
    assert np.abs(member.path.residual).max() <= 1.0
    assert 0.5 < member.path.r2 <= 1.0


def test_leaves_of_the_log_loss_are_stored_staged_and_exported(leaves, tmp_path):
    model, X, _ = leaves
    expected = model.predict_proba(X[900:])
    public = BandfallClassifier(**model.get_params())
    public.__dict__.update(model.__dict__)
    public.save(tmp_path / "model.bandfall")
    assert_array_equal(load_model(tmp_path / "model.bandfall").predict_proba(X[900:]), expected)
    *_, last = model.staged_predict_proba(X[900:])
    assert_allclose(last, expected, atol=1e-5)
    onnxruntime = pytest.importorskip("onnxruntime")
    exported = to_onnx(public).SerializeToString()
    session = onnxruntime.InferenceSession(exported, providers=["CPUExecutionProvider"])
    _, found = session.run(None, {"X": X[900:]})
    assert_allclose(found, expected, atol=1e-4)


def test_many_classes_in_leaves_keep_squared_error():
    random = np.random.default_rng(0)
    X = random.normal(size=(480, 2))
    y = np.digitize(X[:, 0], np.quantile(X[:, 0], np.linspace(0, 1, 13)[1:-1]))
    budget = {"fold_rows": 0, "exact_rows": 100, "penalty_rows": 100, "rung_rows": (200,)}
    model = with_settings(**budget)(**FAST, leaf_rows=200).fit(X, y)
    assert all(member.candidate.penalty == 0 for member in model.members_)


def test_many_rows_with_a_time_limit_keep_squared_error():
    X, y = make_moons(400, noise=0.2, random_state=0)
    budget = {"fold_rows": 0, "class_rows": 0, "exact_rows": 300, "penalty_rows": 200}
    model = with_settings(**budget)(**FAST, max_seconds=60).fit(X, y)
    assert model.best_params_["penalty"] == 0


@pytest.mark.parametrize(("seconds", "tried"), [(20.0, False), (200.0, True)])
def test_time_for_wide_kernels_counts(seconds, tried):
    """One member takes 5.4 seconds here, and the wide kernels eleven times that."""

    class Slow(Clock):
        search_left = seconds

        def estimate(self, n_rows, n_ladders=1.0):
            return n_ladders

    X, y = make_moons(100, noise=0.2, random_state=0)
    estimator = type("Model", (BandfallClassifier,), {"_clock": Slow()})(**FAST, n_members=1)
    assert estimator.fit(X, y).selection_["penalty"].any() == tried


def test_few_rows_choose_among_few_kernels():
    X, y = make_moons(40, noise=0.2, random_state=0)
    few = {"gaussian", "matern12"}
    assert set(BandfallClassifier(max_rounds=0).fit(X, y).selection_["kernel"]) == few
    chosen = BandfallClassifier(kernels=("cauchy",), max_rounds=0).fit(X, y)
    assert set(chosen.selection_["kernel"]) == {"cauchy"}
    many = with_settings(few_kernel_rows=40)(max_rounds=0).fit(X, y)
    assert set(many.selection_["kernel"]) - few


@pytest.mark.parametrize(("few", "expected"), [(700, 1), (40, 3)])
def test_few_rows_try_one_wide_kernel(few, expected):
    X, y = make_moons(40, noise=0.2, random_state=0)
    tried = with_settings(few_kernel_rows=few)(max_rounds=0).fit(X, y).selection_
    assert len(set(tried["kernel"][tried["width"] > 0])) == expected


@pytest.mark.parametrize(("n", "n_classes"), [(60, 20), (14, 3), (9, 2)])
def test_fewer_than_five_rows_per_class_try_one_gaussian(n, n_classes):
    X, y = np.random.default_rng(0).normal(size=(n, 2)), np.arange(n) % n_classes
    tried = BandfallClassifier().fit(X, y).selection_
    assert {*tried["encoding"]} == {"standard"}
    assert {*tried["kernel"]} == {"gaussian"}
    assert not tried["n_rounds"].any()
    assert not tried["penalty"].any()


@pytest.mark.parametrize("n_columns", [1, 3])
def test_few_classes_are_searched_like_numbers(n_columns):
    assert class_loss.for_columns(Settings(), n_columns) == Settings()
    assert class_loss.for_columns(Settings().up_to(700), n_columns) == Settings().up_to(700)


def test_searches_with_many_classes_train_on_fewer_rows():
    """Time and memory do not grow with the number of classes beyond that."""
    for n_columns in (10, 30, 100):
        most = class_loss.for_columns(Settings(), n_columns).rung_rows[-1]
        assert most < Settings().rung_rows[-1]
        assert most**2 * n_columns == pytest.approx(10000**2 * 3, rel=0.05)


def test_an_interrupted_fit_keeps_what_the_search_has_found():
    class Interrupted(Clock):
        def task(self, stage, entries):
            if stage == "log-loss":
                self.end()
            return super().task(stage, entries)

    clock = Interrupted()
    X, y = make_moons(60, noise=0.2, random_state=0)
    model = type("Model", (BandfallClassifier,), {"_clock": clock})(**FAST).fit(X, y)
    assert clock.interrupted
    assert model.best_params_["penalty"] == 0
    assert model.score(X, y) > 0.8
