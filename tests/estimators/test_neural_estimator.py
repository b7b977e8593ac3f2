"""NeuralDescentRegressor: scikit-learn's checks, both trainings, bad input, missing torch."""

import pickle
import sys

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

import bandfall
from bandfall import NeuralDescentRegressor


def rows(n=25, d=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, d))
    return X, np.sin(3 * X[:, 0]) + 100.0


def test_missing_torch_gives_the_remedy(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "bandfall.neural", raising=False)
    monkeypatch.delitem(vars(bandfall), "neural", raising=False)
    with pytest.raises(ImportError, match="pip install torch"):
        NeuralDescentRegressor().fit(*rows())


class TestWithTorch:
    """Everything below trains."""

    @pytest.fixture(autouse=True)
    def _torch(self):
        pytest.importorskip("torch")

    # Few epochs and a small network: the checks ask for behaviour, not for a good fit.
    @pytest.mark.filterwarnings("ignore:training ended", "ignore:the network has")
    @parametrize_with_checks(
        [
            NeuralDescentRegressor(hidden=(8,), anchors=5, max_iter=15),
            NeuralDescentRegressor(hidden=(8,), tangent_control=False, max_iter=15),
        ]
    )
    def test_sklearn_checks(self, estimator, check):
        check(estimator)

    def test_controlled_fit(self):
        X, y = rows()
        model = NeuralDescentRegressor(random_state=0, anchors=50, max_r2=0.99).fit(X, y)
        assert model.status_ == "r2_reached"
        assert model.score(X, y) > 0.99
        assert model.n_iter_ == len(model.log_)
        assert model.anchors_.shape == (50, 2)
        assert np.all(np.diff(model.log_.blend) <= 0)
        again = clone(model).fit(X, y)
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
        revived = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(revived.predict(X), model.predict(X))
        np.testing.assert_array_equal(revived.log_.r2, model.log_.r2)

    def test_plain_fit_keeps_the_blend_at_one(self):
        X, y = rows()
        model = NeuralDescentRegressor(
            tangent_control=False, lr=0.1, max_r2=0.9, random_state=0
        ).fit(X, y)
        assert model.status_ == "r2_reached"
        assert np.all(model.log_.blend == 1)

    def test_several_targets_and_shift_invariance(self):
        X, y = rows()
        options = {"random_state": 0, "anchors": 20, "max_r2": 0.9}
        Y = np.stack([y, 5 * y - 3], axis=1)
        both = NeuralDescentRegressor(**options).fit(X, Y).predict(X)
        assert both.shape == (25, 2)
        one = NeuralDescentRegressor(**options).fit(X, y).predict(X)
        scaled = NeuralDescentRegressor(**options).fit(X, 5 * y - 3).predict(X)
        np.testing.assert_allclose(scaled, 5 * one - 3, rtol=1e-6)

    def test_iteration_limit_warns(self):
        X, y = rows()
        with pytest.warns(ConvergenceWarning, match="iteration_limit.*max_iter"):
            model = NeuralDescentRegressor(anchors=20, max_iter=2, random_state=0).fit(X, y)
        assert model.status_ == "iteration_limit"
        assert model.n_iter_ == 2

    @pytest.mark.parametrize(
        ("parameters", "error", "words"),
        [
            ({"hidden": 50}, TypeError, "'hidden'.* Got 50"),
            ({"hidden": (0,)}, ValueError, "hidden=0"),
            ({"hidden": (2.5,)}, TypeError, "hidden.* integer"),
            ({"max_iter": 2.7}, TypeError, "'max_iter'.* an int .* Got 2.7"),
            ({"lr": np.inf}, ValueError, "'lr'.* Got inf"),
            ({"damping": np.inf}, ValueError, "'damping'.* Got inf"),
            ({"lr": -1.0}, ValueError, "'lr'.* Got -1.0"),
            ({"min_speed": "fast"}, TypeError, "'min_speed'.* Got 'fast'"),
            ({"momentum": 2.0}, ValueError, r"'momentum'.*\[0.0, 1.0\].* Got 2.0"),
            ({"max_r2": 0.0}, ValueError, "'max_r2'.* Got 0.0"),
            ({"max_iter": 0}, ValueError, "'max_iter'.* Got 0"),
            ({"damping": np.nan}, ValueError, "'damping'.* Got nan"),
            ({"anchors": -3}, ValueError, "'anchors'.* Got -3"),
            ({"anchor_sampling": "grid"}, ValueError, "'anchor_sampling'.*'mixed'.* Got 'grid'"),
        ],
    )
    def test_bad_parameters(self, parameters, error, words):
        with pytest.raises(error, match=words):
            NeuralDescentRegressor(**parameters).fit(*rows())

    def test_large_and_constant_targets_are_standardised_safely(self):
        X, y = rows()
        options = {"random_state": 0, "anchors": 20, "max_r2": 0.9}
        plain = NeuralDescentRegressor(**options).fit(X, y).predict(X)
        Y = np.stack([np.full(25, 1e200), y, np.full(25, 0.1)], axis=1)
        several = NeuralDescentRegressor(**options).fit(X, Y)
        assert several.status_ == "r2_reached"
        np.testing.assert_allclose(several.predict(X)[:, 1], plain)
        np.testing.assert_allclose(several.predict(X)[:, [0, 2]], Y[:, [0, 2]], rtol=1e-14)
        large = NeuralDescentRegressor(**options).fit(X, 1e200 * y)
        np.testing.assert_allclose(large.predict(X), 1e200 * plain)

    def test_a_constant_target_needs_no_training(self):
        X, _ = rows()
        model = NeuralDescentRegressor(random_state=0, anchors=20).fit(X, np.full(25, 3e200))
        assert model.status_ == "constant_target"
        np.testing.assert_allclose(model.predict(X), 3e200, rtol=1e-14)
        assert model.anchors_.shape == (20, 2)

    def test_rows_beyond_the_range_of_floats_are_refused(self):
        X, y = rows()
        with pytest.raises(ValueError, match="too large for float64"):
            NeuralDescentRegressor(random_state=0).fit(1e200 * X, y)

    def test_new_rows_beyond_the_range_of_floats_are_refused(self):
        X, y = rows()
        model = NeuralDescentRegressor(random_state=0, anchors=20, max_r2=0.5).fit(X, y)
        with pytest.raises(ValueError, match="too large for float64"):
            model.predict(1e200 * X)

    def test_the_last_step_of_plain_descent_counts(self):
        """With one step allowed, status and warning are those of the network after it."""
        X, y = rows()
        options = {"tangent_control": False, "max_iter": 1, "random_state": 0}
        with pytest.warns(ConvergenceWarning) as caught:
            model = NeuralDescentRegressor(**options).fit(X, y)
        assert f"R² = {model.score(X, y):.4f}" in str(caught[0].message)
        assert model.score(X, y) > model.log_[-1].r2
        reached = NeuralDescentRegressor(max_r2=model.score(X, y) - 1e-3, **options).fit(X, y)
        assert reached.status_ == "r2_reached"
        with pytest.warns(ConvergenceWarning, match="iteration_limit"):
            NeuralDescentRegressor(lr=1e300, **options).fit(X, y)
