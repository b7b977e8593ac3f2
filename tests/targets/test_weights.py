"""Weights of rows as evidence and in training: no single row decides."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from bandfall import BandfallClassifier, BandfallRegressor
from bandfall._files import dump_bytes, load_bytes
from bandfall._targets.losses import evidence_weights, training_weights

ROWS = st.integers(2, 60).flatmap(
    lambda n: st.lists(st.floats(1e-300, 1e300), min_size=n, max_size=n).map(np.array)
)


@given(ROWS)
def test_no_row_is_more_than_a_tenth_of_the_evidence(weights):
    weights = np.maximum(weights / weights.max(), 1e-30)
    evidence = evidence_weights(weights)
    share = max(0.1, 2 / len(weights))
    assert np.all(evidence > 0)
    assert evidence.max() <= (share + 1e-9) * evidence.sum()
    bounded = evidence < weights
    if bounded.any():  # only as many as must be, and all of them alike
        assert_allclose(evidence[bounded], evidence.max())
        assert_allclose(evidence.max(), share * evidence.sum())
        assert weights[bounded].min() > evidence.max()


@given(ROWS)
def test_training_weights_are_finite_and_keep_their_order(weights):
    found = training_weights(weights)
    if found is None:
        return
    assert np.all(np.isfinite(found))
    assert np.all(found > 0)
    order = np.argsort(weights, kind="stable")
    assert np.all(np.diff(found[order]) >= 0)
    assert_allclose(evidence_weights(found).mean(), 1.0)


def test_ordinary_weights_have_mean_one_and_count_as_they_are():
    weights = np.random.default_rng(0).uniform(0.1, 3.0, 50)
    assert_allclose(training_weights(weights), weights / weights.mean())
    assert_allclose(evidence_weights(weights), weights)
    assert training_weights(np.full(50, 7.0)) is None


def heavy_row(n=120, weight=1e8, seed=0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(2 * n, 2))
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * random.normal(size=2 * n)
    weights = np.ones(n)
    weights[5] = weight
    return X[:n], y[:n], weights, X[n:], y[n:]


@pytest.mark.parametrize("weight", [1e6, 1e8, 1e300])
@pytest.mark.parametrize("n", [120, 520])  # in float64 and in float32
def test_one_row_of_huge_weight_leaves_a_sane_regressor_that_is_stored(n, weight):
    lost = []
    for seed in (2, 1, 0):  # one draw of 120 rows says little
        X, y, weights, X_new, y_new = heavy_row(n, weight, seed)
        model = BandfallRegressor(max_rounds=1).fit(X, y, sample_weight=weights)
        plain = BandfallRegressor(max_rounds=1).fit(X, y)
        lost.append(plain.score(X_new, y_new) - model.score(X_new, y_new))
    assert np.mean(lost) < 0.02
    assert abs(model.best_score_ - plain.best_score_) < 0.03
    assert all(0 < member.max_r2 < 1 for member in model.members_)
    assert abs(model.predict(X)[5] - y[5]) < 0.01  # it is met
    loaded = load_bytes(dump_bytes(model)).estimator
    assert_allclose(loaded.predict(X_new), model.predict(X_new))


@pytest.mark.parametrize("n", [120, 520])
def test_rows_of_vanishing_weight_count_nothing(n):
    X, y, weights, X_new, y_new = heavy_row(n)
    weights = np.where(np.arange(n) % 2, 1.0, 1e-60)
    wrong = np.where(np.arange(n) % 2, y, -y)
    model = BandfallRegressor(max_rounds=1).fit(X, wrong, sample_weight=weights)
    assert model.score(X_new, y_new) > 0.85
    load_bytes(dump_bytes(model))


def test_one_row_of_huge_weight_leaves_a_sane_classifier_that_is_stored():
    X, y, weights, X_new, y_new = heavy_row()
    model = BandfallClassifier(max_rounds=1).fit(X, y > 0, sample_weight=weights)
    plain = BandfallClassifier(max_rounds=1).fit(X, y > 0)
    assert model.score(X_new, y_new > 0) > plain.score(X_new, y_new > 0) - 0.05
    assert model.predict(X)[5] == (y[5] > 0)
    assert load_bytes(dump_bytes(model)).estimator.score(X_new, y_new > 0) > 0.8


def test_a_model_that_says_nothing_is_stored():
    """Held-out errors far above the variance used to ask for a training R² below zero."""
    random = np.random.default_rng(0)
    X, y = random.normal(size=(12, 2)), random.standard_cauchy(12) ** 5
    model = BandfallRegressor(max_rounds=0).fit(X, y)
    assert all(member.max_r2 > 0 for member in model.members_)
    load_bytes(dump_bytes(model))
