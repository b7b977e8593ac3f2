"""The scikit-learn surface: invariances, weights, targets, dtypes, and life in pipelines."""

import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bandfall import (
    KernelDescentRegressor,
    KernelFlowRegressor,
    KernelRidgeRegressor,
    load_model,
)
from bandfall.datasets import load_cpu
from bandfall.descent import Flow, MinimumSpeed, Stopping, fit_path
from bandfall.kernels import get_kernel
from problems import problem, problems, seeds
from shared_files import data_directory

ESTIMATORS = {
    "euler": KernelDescentRegressor(solver="euler"),
    "flow": KernelDescentRegressor(),
    "floor": KernelDescentRegressor(min_bandwidth=0.5, max_time=20.0),
    "ridge": KernelRidgeRegressor(bandwidth=1.3, penalty=0.01),
    "gradient flow": KernelFlowRegressor(bandwidth=1.3, time=50.0),
}


@pytest.fixture(params=ESTIMATORS)
def estimator(request):
    return clone(ESTIMATORS[request.param])


def scaled(estimator, factor):
    """The estimator with every bandwidth it was given multiplied by `factor`."""
    bandwidths = {
        name: factor * value
        for name, value in estimator.get_params().items()
        if name in ("bandwidth", "min_bandwidth") and value is not None
    }
    return clone(estimator).set_params(**bandwidths)


def assert_predicts_alike(found, expected, y, tolerance=1e-7):
    """Equal up to rounding that descent may amplify, relative to the spread of y."""
    assert_allclose(found, expected, rtol=0, atol=tolerance * np.ptp(y))


def profile_of_my_own(u):
    return np.exp(-u)


# Invariances ----------------------------------------------------------------------------------
@given(data=problems(), seed=seeds, key=st.sampled_from(sorted(ESTIMATORS)))
def test_order_of_rows_does_not_matter(data, seed, key):
    X, y, X_new = data
    order = np.random.default_rng(seed).permutation(len(y))
    before = clone(ESTIMATORS[key]).fit(X, y).predict(X_new)
    after = clone(ESTIMATORS[key]).fit(X[order], y[order]).predict(X_new)
    assert_predicts_alike(after, before, y)


@given(data=problems(), seed=seeds, key=st.sampled_from(sorted(ESTIMATORS)))
def test_rotations_and_translations_of_x_do_not_matter(data, seed, key):
    X, y, X_new = data
    rng = np.random.default_rng(seed)
    rotation, _ = np.linalg.qr(rng.normal(size=(X.shape[1], X.shape[1])))
    shift = 100 * rng.normal(size=X.shape[1])
    before = clone(ESTIMATORS[key]).fit(X, y).predict(X_new)
    after = clone(ESTIMATORS[key]).fit(X @ rotation + shift, y).predict(X_new @ rotation + shift)
    assert_predicts_alike(after, before, y)


@given(
    data=problems(),
    exponent=st.floats(-12, 12),
    key=st.sampled_from(sorted(ESTIMATORS)),
)
def test_scaling_x_and_bandwidths_together_does_not_matter(data, exponent, key):
    X, y, X_new = data
    factor = 10.0**exponent
    before = clone(ESTIMATORS[key]).fit(X, y).predict(X_new)
    after = scaled(ESTIMATORS[key], factor).fit(factor * X, y).predict(factor * X_new)
    assert_predicts_alike(after, before, y)


@given(
    data=problems(),
    factor=st.sampled_from([-3.0, 1e-9, 1e9]),
    shift=st.floats(-10, 10),
    key=st.sampled_from(sorted(ESTIMATORS)),
)
def test_scaling_and_shifting_y_scales_and_shifts_predictions(data, factor, shift, key):
    X, y, X_new = data
    before = clone(ESTIMATORS[key]).fit(X, y).predict(X_new)
    after = clone(ESTIMATORS[key]).fit(X, factor * (y + shift)).predict(X_new)
    assert_predicts_alike(after / factor - shift, before, y)


def test_a_schedule_of_the_users_own(tmp_path):
    X, y = np.linspace(0, 3, 40)[:, None], np.sin(np.linspace(0, 9, 40))
    schedule = MinimumSpeed(0.2, 0.3, floor=0.2)
    model = KernelDescentRegressor(schedule=schedule, bandwidth=3.0, max_time=20.0).fit(X, y)
    path = fit_path(
        X,
        y[:, None],
        get_kernel("gaussian"),
        solver=Flow(),
        schedule=schedule,
        stopping=Stopping(0.999, 20.0),
        bandwidth=3.0,
    )
    assert_array_equal(model.predict(X), path.evaluate(X)[:, 0])
    model.save(tmp_path / "model")
    assert load_model(tmp_path / "model").schedule == schedule
    with pytest.raises(ValueError, match="schedule"):
        KernelDescentRegressor(schedule=0.1).fit(X, y)


def test_offset_of_a_million_does_not_matter(estimator):
    X, y, X_new = problem()
    before = clone(estimator).fit(X, y).predict(X_new)
    after = clone(estimator).fit(X + 1e6, y).predict(X_new + 1e6)
    assert_predicts_alike(after, before, y, 1e-4)  # X itself is rounded to 1e-10


# Weights and targets --------------------------------------------------------------------------
@given(data=problems(), seed=seeds, key=st.sampled_from(sorted(ESTIMATORS)))
def test_weight_is_repetition(data, seed, key):
    X, y, X_new = data
    counts = np.random.default_rng(seed).integers(0, 4, size=len(y))
    counts[:3] = 1
    repeated = clone(ESTIMATORS[key]).fit(X.repeat(counts, axis=0), y.repeat(counts))
    weighted = clone(ESTIMATORS[key]).fit(X, y, sample_weight=counts)
    assert_predicts_alike(weighted.predict(X_new), repeated.predict(X_new), y, 1e-5)


def test_equal_weights_of_one_are_no_weights(estimator):
    X, y, X_new = problem()
    plain = clone(estimator).fit(X, y).predict(X_new)
    weighted = clone(estimator).fit(X, y, sample_weight=np.ones(len(y))).predict(X_new)
    assert_array_equal(weighted, plain)


def test_targets_of_ridge_and_flow_do_not_influence_each_other():
    X, y, X_new = problem()
    Y = np.column_stack([y, 100 * X[:, 0], np.ones(len(y))])
    for key in ("ridge", "gradient flow"):
        together = clone(ESTIMATORS[key]).fit(X, Y).predict(X_new)
        apart = MultiOutputRegressor(clone(ESTIMATORS[key])).fit(X, Y).predict(X_new)
        assert_allclose(together, apart, rtol=1e-10)


@pytest.mark.parametrize("solver", ["euler", "flow"])
def test_targets_of_descent_are_pooled_at_unit_norm(solver):
    X, y, X_new = problem()
    Y = np.column_stack([y, np.cos(X[:, 1])])
    model = KernelDescentRegressor(solver=solver, max_r2=0.9).fit(X, Y)
    # The R² that steers is the mean of the columns', whatever their units.
    centred = Y - Y.mean(axis=0)
    columns = 1 - ((Y - model.predict(X)) ** 2).sum(axis=0) / (centred**2).sum(axis=0)
    assert_allclose(model.path_.r2, columns.mean(), atol=1e-9)
    rescaled = KernelDescentRegressor(solver=solver, max_r2=0.9).fit(X, Y * [1e6, 1e-6])
    assert_allclose(rescaled.predict(X_new) / [1e6, 1e-6], model.predict(X_new), rtol=1e-8)
    # A constant column is predicted and has no say.
    third = np.column_stack([Y, np.full(len(y), 1e15 / 3)])
    with_constant = KernelDescentRegressor(solver=solver, max_r2=0.9).fit(X, third)
    assert_allclose(with_constant.predict(X_new)[:, :2], model.predict(X_new), rtol=1e-8)
    assert_allclose(with_constant.predict(X_new)[:, 2], 1e15 / 3, rtol=1e-12)


def test_target_of_equal_columns_is_one_column(estimator):
    X, y, X_new = problem()
    single = clone(estimator).fit(X, y).predict(X_new)
    column = clone(estimator).fit(X, y[:, None]).predict(X_new)
    assert column.shape == (len(X_new), 1)
    double = clone(estimator).fit(X, np.column_stack([y, y])).predict(X_new)
    assert_allclose(column[:, 0], single, atol=1e-10)
    assert_allclose(double, np.column_stack([single, single]), atol=1e-7)


# Degenerate data ------------------------------------------------------------------------------
def test_constant_target_is_predicted(estimator):
    X, _, X_new = problem()
    for value in (0.0, 0.1, -1e9):
        model = clone(estimator).fit(X, np.full(len(X), value))
        assert_allclose(model.predict(X_new), value, rtol=1e-12)


def test_one_row_predicts_its_target(estimator):
    model = estimator.fit([[1.0, 2.0]], [5.0])
    assert_array_equal(model.predict([[0.0, 0.0], [1.0, 2.0]]), [5.0, 5.0])


def test_identical_rows_predict_their_mean(estimator):
    y = np.array([1.0, 2.0, 6.0])
    model = estimator.fit(np.ones((3, 2)), y)
    assert_allclose(model.predict([[1.0, 1.0], [5.0, 5.0]]), 3.0, rtol=1e-9)


def test_two_rows(estimator):
    model = estimator.fit([[0.0], [1.0]], [0.0, 1.0])
    assert np.all(np.isfinite(model.predict(np.linspace(-9, 9, 50)[:, None])))


def test_repeated_rows_with_different_targets_end_with_finite_predictions(estimator):
    X, y, X_new = problem()
    model = estimator.fit(np.vstack([X, X]), np.append(y, y + 1.0))
    assert np.all(np.isfinite(model.predict(np.vstack([X, X_new]))))


def test_far_from_the_data_the_mean_is_predicted():
    X, y, _ = problem()
    for key in ("euler", "flow"):
        far = clone(ESTIMATORS[key]).fit(X, y).predict(np.full((1, 3), 1e6))
        assert_allclose(far, y.mean(), rtol=1e-9)


# Life among other tools -----------------------------------------------------------------------
def test_float32_stays_float32_and_agrees(estimator):
    X, y, X_new = problem()
    narrow = clone(estimator).fit(X.astype(np.float32), y).predict(X_new)
    wide = clone(estimator).fit(X, y).predict(X_new)
    assert narrow.dtype == np.float32
    assert wide.dtype == np.float64
    assert_predicts_alike(narrow, wide, y, 1e-3)


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, bool, np.float16])
def test_other_dtypes_become_float64(estimator, dtype):
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 2, size=(20, 3)).astype(dtype), rng.integers(0, 5, size=20)
    assert estimator.fit(X, y).predict(X).dtype == np.float64


def test_fitting_leaves_arguments_and_parameters_alone(estimator):
    X, y, _ = problem()
    X_before, y_before, parameters = X.copy(), y.copy(), estimator.get_params()
    X.flags.writeable = y.flags.writeable = False
    estimator.fit(X, y).predict(X)
    assert_array_equal(X, X_before)
    assert_array_equal(y, y_before)
    assert estimator.get_params() == parameters


def test_fortran_order_and_slices_change_nothing(estimator):
    X, y, X_new = problem()
    expected = clone(estimator).fit(X, y).predict(X_new)
    strided = np.repeat(X, 2, axis=1)[:, ::2]
    for rows in (np.asfortranarray(X), strided):
        assert_predicts_alike(clone(estimator).fit(rows, y).predict(X_new), expected, y)


def test_pickle_and_clone(estimator):
    X, y, X_new = problem()
    model = estimator.fit(X, y)
    copy = pickle.loads(pickle.dumps(model))
    assert_array_equal(copy.predict(X_new), model.predict(X_new))
    again = clone(model).fit(X, y)
    assert_array_equal(again.predict(X_new), model.predict(X_new))


@pytest.mark.parametrize("kernel", [get_kernel("cauchy"), profile_of_my_own])
def test_kernels_given_as_objects_survive_cloning_and_pickling(estimator, kernel):
    X, y, X_new = problem()
    model = clone(estimator.set_params(kernel=kernel)).fit(X, y)
    copy = pickle.loads(pickle.dumps(model))
    assert_array_equal(copy.predict(X_new), model.predict(X_new))


def test_profile_of_ones_own_equals_the_built_in(estimator):
    X, y, X_new = problem()
    own = clone(estimator).set_params(kernel=profile_of_my_own).fit(X, y).predict(X_new)
    named = clone(estimator).set_params(kernel="laplace").fit(X, y).predict(X_new)
    assert_predicts_alike(own, named, y)


def test_pandas_feature_names(estimator):
    X, y, _ = problem()
    table = pd.DataFrame(X, columns=["height", "width", "depth"])
    model = estimator.fit(table, pd.Series(y))
    assert list(model.feature_names_in_) == ["height", "width", "depth"]
    assert model.n_features_in_ == 3
    with pytest.raises(ValueError, match="feature names"):
        model.predict(table[["width", "height", "depth"]])
    assert_predicts_alike(model.predict(table), clone(estimator).fit(X, y).predict(X), y)


def test_search_and_pipeline(estimator):
    X, y, X_new = problem(n=60)
    pipeline = make_pipeline(StandardScaler(), estimator)
    step = pipeline.steps[-1][0]
    search = GridSearchCV(pipeline, {f"{step}__kernel": ["gaussian", "matern32"]}, cv=3)
    assert search.fit(X, y).predict(X_new).shape == (8,)
    wrapped = TransformedTargetRegressor(pipeline, func=np.arcsinh, inverse_func=np.sinh)
    assert np.all(np.isfinite(cross_val_score(wrapped, X, y, cv=3)))


@pytest.mark.parametrize("solver", ["euler", "flow"])
def test_staged_predictions_end_in_the_prediction(solver):
    X, y, X_new = problem()
    model = KernelDescentRegressor(solver=solver).fit(X, y)
    staged = list(model.staged_predict(X_new))
    assert len(staged) == len(model.path_)
    assert_allclose(staged[-1], model.predict(X_new), atol=1e-12)
    errors = [np.mean((p - y) ** 2) for p in model.staged_predict(X)]
    assert np.all(np.diff(errors) <= 1e-12)
    both = KernelDescentRegressor(solver=solver).fit(X, np.column_stack([y, -y]))
    assert next(both.staged_predict(X_new)).shape == (8, 2)


def test_start_bandwidth_is_the_largest_distance_raised_to_the_floor():
    X = np.array([[0.0], [1.0], [4.0]])
    y = [0.0, 1.0, -1.0]
    for solver in ("euler", "flow"):
        model = KernelDescentRegressor(solver=solver, max_time=0.001)
        assert model.fit(X, y).path_.log.bandwidth[0] <= 4.0
        slow = clone(model).set_params(min_speed=1e-6)
        assert slow.fit(X, y).path_.bandwidths[0] == pytest.approx(4.0)
        wide = clone(slow).set_params(min_bandwidth=9.0)
        assert wide.fit(X, y).path_.bandwidths[0] == 9.0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("solver", ["euler", "flow"])
def test_r2_of_one_is_reached(solver, dtype):
    X, y, _ = problem()
    model = KernelDescentRegressor(solver=solver, max_r2=1.0).fit(X.astype(dtype), y)
    assert model.path_.status == "r2_reached"
    assert_predicts_alike(model.predict(X), y, y, 1e-5)


# Size -----------------------------------------------------------------------------------------
def test_a_thousand_rows_do_no_worse_than_eighty():
    X, y = load_cpu(return_X_y=True, data_home=data_directory())
    order = np.random.default_rng(0).permutation(len(y))
    X, y = np.asarray(X)[order], np.asarray(y)[order]
    scores = {}
    for n in (80, 1000):
        model = make_pipeline(StandardScaler(), KernelDescentRegressor()).fit(X[:n], y[:n])
        predictions = model.predict(X[-2000:])
        assert np.all(np.isfinite(predictions))
        assert model[-1].path_.status == "r2_reached"
        scores[n] = model.score(X[-2000:], y[-2000:])
    assert scores[1000] >= scores[80]


# After the fit --------------------------------------------------------------------------------
def test_parameters_changed_after_the_fit_change_no_prediction(estimator):
    X, y, X_new = problem()
    model = estimator.fit(X, y)
    before = model.predict(X_new)
    model.set_params(kernel="cauchy", bandwidth=7.0)
    assert_array_equal(model.predict(X_new), before)
