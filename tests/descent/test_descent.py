"""KernelDescentRegressor: warm starts, held-out rows, weights, offsets, compressed paths."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from bandfall import (
    KernelDescentRegressor,
    KernelFlowCV,
    KernelFlowRegressor,
    KernelRidgeCV,
    KernelRidgeMML,
    KernelRidgeRegressor,
)
from bandfall._estimators.descent import WeightWarning
from bandfall.descent import Euler, Status
from problems import problem, seeds


def profile_of_my_own(u):
    return np.exp(-u)


def weighted_r2(model, X, y, weights):
    """From predictions alone."""
    mean = np.average(y, weights=weights)
    left = np.sum(weights * (y - model.predict(X).astype(np.float64)) ** 2)
    return 1 - left / np.sum(weights * (y - mean) ** 2)


# Held-out rows --------------------------------------------------------------------------------
def test_held_out_rows_choose_the_stage_and_the_status_says_so():
    X, y, _ = problem(n=80, noise=1.0)
    Y = np.column_stack([y, 1e6 * y, np.full(len(y), 7.0)])
    model = KernelDescentRegressor(validation_fraction=0.3, random_state=0).fit(X, Y)
    assert len(model.path_) < len(model.validation_errors_)
    assert len(model.path_) == np.argmin(model.validation_errors_) + 1
    assert model.path_.status is Status.CUT_BACK
    assert model.path_.r2 < 0.99
    # Mean squared error in units of the training rows' variance, over targets that vary.
    train = np.array([np.any(np.all(x == model.path_.X, axis=1)) for x in X])
    errors = (model.predict(X[~train]) - Y[~train])[:, :2] ** 2
    expected = (errors.mean(axis=0) / Y[train, :2].var(axis=0)).mean()
    assert_allclose(model.validation_errors_.min(), expected, rtol=1e-9)
    model.set_params(validation_fraction=None).fit(X, Y)
    assert not hasattr(model, "validation_errors_")
    assert model.path_.status is Status.R2_REACHED


# Weights --------------------------------------------------------------------------------------
def test_weights_that_sum_to_one_are_warned_of_with_the_remedy():
    X, y, _ = problem(n=60)
    weights = np.linspace(0.5, 2.0, len(y))
    with pytest.warns(WeightWarning, match=r"sums to 1 over 60 rows.*len\(sample_weight\)") as seen:
        KernelDescentRegressor().fit(X, y, sample_weight=weights / weights.sum())
    assert len(seen) == 1
    KernelDescentRegressor().fit(X, y, sample_weight=weights * len(weights) / weights.sum())


@pytest.mark.parametrize("exponent", [2, 7, 10])
@pytest.mark.parametrize("n", [60, 300])
def test_r2_of_weights_over_many_decades_in_float32_is_true(exponent, n):
    X, y, _ = problem(n=n)
    X = X.astype(np.float32)
    weights = 10.0 ** np.random.default_rng(0).uniform(-exponent, exponent, n)
    model = KernelDescentRegressor().fit(X, y, sample_weight=weights)
    assert model.path_.status is Status.R2_REACHED
    assert_allclose(weighted_r2(model, X, y, weights), model.path_.r2, atol=1e-5)
    assert model.predict(X).dtype == np.float32


def curve(n=600):
    """Rows of a noisy sine, in float32."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(n, 1))
    y = np.sin(3 * X[:, 0]) + 0.1 * rng.normal(size=n)
    return X.astype(np.float32), y.astype(np.float32)


@pytest.mark.slow
def test_a_speed_that_float32_cannot_follow_ends_training_with_a_warning():
    X, y = curve()
    with pytest.warns(ConvergenceWarning, match="rounding errors .* float64 features"):
        model = KernelDescentRegressor(min_speed=1e-7).fit(X, y)
    assert model.path_.status is Status.ROUNDING
    assert model.score(X, y) > 0.0
    assert KernelDescentRegressor(min_speed=1e-7).fit(X.astype(np.float64), y).score(X, y) > 0.99


def test_predictions_that_float32_makes_coarse_are_warned_of():
    X, y = curve()
    with pytest.warns(ConvergenceWarning, match="float32 is too coarse for min_speed=1e-05"):
        KernelDescentRegressor(min_speed=1e-5).fit(X, y)
    KernelDescentRegressor(min_speed=1e-4).fit(X, y)  # warnings are errors


# Offsets --------------------------------------------------------------------------------------
OFFSET_ESTIMATORS = [
    KernelDescentRegressor(),
    KernelDescentRegressor(solver=Euler(0.02)),
    KernelRidgeRegressor(),
    KernelFlowRegressor(),
    KernelRidgeCV(bandwidths=[0.5, 2.0], penalties=[1e-3, 0.1]),
    KernelFlowCV(bandwidths=[0.5, 2.0], times=[10.0, 1e3]),
    KernelRidgeMML(n_starts=1),
]


@pytest.mark.parametrize("estimator", OFFSET_ESTIMATORS, ids=lambda model: type(model).__name__)
@given(seed=seeds, exponent=st.floats(0, 9), dtype=st.sampled_from([np.float32, np.float64]))
def test_an_offset_of_the_target_changes_nothing_else(estimator, seed, exponent, dtype):
    """Up to 1e9 standard deviations, which float32 cannot even write down."""
    X, y, X_new = problem(seed)
    X, X_new = X.astype(dtype), X_new.astype(dtype)
    offset = 10.0**exponent
    plain = clone(estimator).fit(X, y).predict(X_new)
    moved = clone(estimator).fit(X, y + offset).predict(X_new)
    rounding = 1e-14 * offset + (1e-3 if dtype == np.float32 else 1e-8)
    assert_allclose(moved - offset, plain, atol=10 * y.std() * rounding)


def test_predictions_are_float64_only_where_float32_would_lose_the_target():
    X, y, X_new = problem()
    X = X.astype(np.float32)
    assert KernelDescentRegressor().fit(X, y).predict(X_new).dtype == np.float32
    far = KernelDescentRegressor().fit(X, 1.7e9 + y)
    assert far.predict(X_new).dtype == np.float64
    assert next(far.staged_predict(X_new)).dtype == np.float64
    assert far.score(X, 1.7e9 + y) > 0.99


def test_a_target_that_float32_cannot_hold_is_refused_by_name():
    X, y, _ = problem()
    with pytest.raises(ValueError, match=r"y varies by no more than .* too little for float32"):
        KernelDescentRegressor().fit(X.astype(np.float32), 1e-40 * y)


# Compression ----------------------------------------------------------------------------------
@pytest.mark.parametrize("tolerance", [1e-3, 0.05, 0.6])
def test_a_compressed_path_tells_its_own_r2(tolerance):
    X, y, _ = problem(n=60)
    Y = np.column_stack([y, np.cos(X[:, 0]), np.full(len(y), 3.0)])
    weights = np.linspace(0.5, 2.0, len(y))
    path = KernelDescentRegressor().fit(X, Y, sample_weight=weights).path_
    small = path.compress(tolerance)
    assert len(small) < len(path)
    left = Y - small.evaluate(X)
    assert_allclose(small.residual, left, atol=1e-9)
    centred = Y[:, :2] - np.average(Y[:, :2], axis=0, weights=weights)
    columns = (weights @ left[:, :2] ** 2) / (weights @ centred**2)
    assert_allclose(small.r2, 1 - columns.mean(), atol=1e-9)
    assert 0 < small.compression_error <= tolerance


def test_a_second_compression_adds_its_error():
    X, y, _ = problem(n=60)
    path = KernelDescentRegressor().fit(X, y).path_
    once = path.compress(1e-3)
    twice = once.compress(0.3)
    assert len(twice) < len(once)
    exact = path.evaluate(X)
    change = np.sqrt(np.mean((twice.evaluate(X) - exact) ** 2) / np.mean((exact - y.mean()) ** 2))
    assert change <= twice.compression_error <= 0.3
    assert once.compress(1e-3) is once
    assert_array_equal(once.y, path.y)
