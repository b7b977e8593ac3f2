"""Degrees of freedom: brute-force traces, finite differences, Proposition 3's limits."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.linalg import expm
from sklearn.exceptions import NotFittedError

import reference_theory as reference
from bandfall import (
    KernelDescentRegressor,
    KernelFlowRegressor,
    KernelRidgeCV,
    KernelRidgeRegressor,
)
from bandfall.theory import (
    degrees_of_freedom,
    flow_degrees_of_freedom,
    kernel_eigenvalues,
    ridge_degrees_of_freedom,
    staged_degrees_of_freedom,
)
from reference_theory import sine_data


def test_ridge_and_flow_are_traces(kernel):
    X = np.random.default_rng(0).normal(size=(10, 2))
    K = reference.matrix(X, X, kernel, 0.8)
    ridge = np.trace(K @ np.linalg.inv(K + 0.01 * np.eye(10)))
    assert_allclose(ridge_degrees_of_freedom(X, kernel, 0.8, 0.01), ridge, rtol=1e-9)
    flow = np.trace(np.eye(10) - expm(-100 * K))
    assert_allclose(flow_degrees_of_freedom(X, kernel, 0.8, 100.0), flow, rtol=1e-9)
    model = KernelRidgeRegressor(kernel, bandwidth=0.8, penalty=0.01).fit(X, X[:, 0])
    assert_allclose(degrees_of_freedom(model), ridge, rtol=1e-9)
    model = KernelFlowRegressor(kernel, bandwidth=0.8, time=100.0).fit(X, X[:, 0])
    assert_allclose(degrees_of_freedom(model), flow, rtol=1e-9)


@given(
    n=st.integers(1, 12),
    penalty=st.floats(1e-12, 1e6),
    name=st.sampled_from(list(reference.PROFILES)),
)
@settings(max_examples=40, deadline=None)
def test_limits_of_proposition_3_are_exact(n, penalty, name):
    X = np.arange(n, dtype=float)[:, None]
    df = ridge_degrees_of_freedom(X, name, np.inf, penalty)
    assert_allclose(df, 1 / (1 + penalty / n), rtol=1e-14)
    df = ridge_degrees_of_freedom(X, name, 0.0, penalty)
    assert_allclose(df, n / (1 + penalty), rtol=1e-14)


def test_limits_without_regularisation(kernel):
    X = np.random.default_rng(1).normal(size=(10, 2))
    assert ridge_degrees_of_freedom(X, kernel, np.inf, 0.0) == 1.0
    assert ridge_degrees_of_freedom(X, kernel, 0.0, 0.0) == 10.0
    assert flow_degrees_of_freedom(X, kernel, [0.0][0], np.inf) == 10.0
    assert_allclose(flow_degrees_of_freedom(X, kernel, np.inf, 0.3), 1 - np.exp(-3.0))
    twice = np.r_[X, X]
    assert_allclose(ridge_degrees_of_freedom(twice, kernel, 0.0, 0.5), 10 * 2 / 2.5)
    assert kernel_eigenvalues(twice, kernel, 0.0).tolist() == [0.0] * 10 + [2.0] * 10


def test_estimates_at_the_limits(kernel):
    """Equation 10; the estimators add the mean they took off."""
    rng = np.random.default_rng(2)
    X, y, penalty = rng.normal(size=(6, 2)), rng.normal(size=6), 0.5
    wide = KernelRidgeRegressor(kernel, bandwidth=np.inf, penalty=penalty).fit(X, y)
    assert_allclose(wide.predict(rng.normal(size=(4, 2))), y.mean(), rtol=1e-12)
    narrow = KernelRidgeRegressor(kernel, bandwidth=0.0, penalty=penalty).fit(X, y)
    assert_allclose(narrow.predict(rng.normal(size=(4, 2))), y.mean(), rtol=1e-12)
    assert_allclose(narrow.predict(X), y.mean() + (y - y.mean()) / (1 + penalty), rtol=1e-12)


def test_limit_without_centring(kernel):
    """Equation 10 to the letter: k* (K + λI)⁻¹ y of a target that is not centred."""
    X, y = np.arange(4.0)[:, None], np.array([3.0, 1.0, 5.0, 2.0])
    model = KernelRidgeRegressor(kernel, bandwidth=np.inf, penalty=0.5, fit_intercept=False)
    assert_allclose(model.fit(X, y).predict([[9.0]]), y.mean() / (1 + 0.5 / 4), rtol=1e-12)
    model.set_params(bandwidth=0.0)
    assert model.fit(X, y).predict([[9.0]]) == 0.0
    assert_allclose(model.predict(X), y / (1 + 0.5), rtol=1e-12)


def test_selected_and_weighted_models():
    """A search stands for its best model; weights count as repeated rows."""
    X, f, noise = sine_data(8)
    search = KernelRidgeCV().fit(X, f + noise)
    assert degrees_of_freedom(search) == degrees_of_freedom(search.best_estimator_)
    times = np.r_[np.ones(10, int), np.full(10, 2)]
    model = KernelRidgeRegressor(bandwidth=0.2, penalty=0.1)
    weighted = degrees_of_freedom(model.fit(X, f, sample_weight=times))
    repeated = degrees_of_freedom(model.fit(np.repeat(X, times, 0), np.repeat(f, times)))
    assert_allclose(weighted, repeated, rtol=1e-9)


@pytest.mark.parametrize("weighted", [False, True])
def test_path_is_the_trace_of_its_linear_map(kernel, coarse_solver, weighted):
    X, f, noise = sine_data(8, n=8)
    weights = np.linspace(0.5, 2.0, 8) if weighted else None
    model = KernelDescentRegressor(kernel, solver=coarse_solver)
    path = model.fit(X, f + noise, sample_weight=weights).path_
    P = reference.residual_map(path, kernel)
    # The map is that of the fit itself.
    assert_allclose(P @ (f + noise - path.offset), path.residual[:, 0], atol=1e-6)
    staged = staged_degrees_of_freedom(path)
    assert_allclose(staged.value[-1], 8 - np.trace(P), rtol=1e-9)
    assert_allclose(degrees_of_freedom(path), staged.value[-1])
    assert staged.value[0] == 0.0
    assert np.all(staged.standard_error == 0)
    assert_allclose(staged.time[-1], path.time)
    assert np.all(np.diff(staged.value) > -1e-9)  # complexity grows with training


@pytest.mark.parametrize("n_probes", [None, 4])
@pytest.mark.parametrize("time", [1.0, 1e3, 3e4])
def test_long_flow_is_resolved(kernel, time, n_probes):
    """e^{−tλ} falls to nothing within a sliver of the spectrum."""
    X, f, noise = sine_data(2)
    settings = {"bandwidth": 0.3, "min_bandwidth": 0.3, "max_time": time, "max_r2": 1.0}
    path = KernelDescentRegressor(kernel, **settings).fit(X, f + noise).path_
    found = staged_degrees_of_freedom(path, n_probes=n_probes).value[-1]
    P = expm(-path.time * reference.matrix(X, X, kernel, 0.3))
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(20, 4))
    trace = np.trace(P) if n_probes is None else np.sum(signs * (P @ signs)) / 4
    assert_allclose(found, 20 - trace, rtol=1e-8)


def test_constant_bandwidth_path_is_flow_in_closed_form(kernel, solver):
    X, f, noise = sine_data(2)
    settings = {"bandwidth": 0.3, "min_bandwidth": 0.3, "max_time": 40.0, "max_r2": 1.0}
    model = KernelDescentRegressor(kernel, solver=solver, **settings).fit(X, f + noise)
    closed = flow_degrees_of_freedom(X, kernel, 0.3, 40.0)
    # Euler is of first order
    assert_allclose(degrees_of_freedom(model), closed, rtol=1e-9 if solver == "flow" else 1e-2)


def test_probes_agree_within_their_standard_error(solver):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 2))
    y = np.sin(X[:, 0]) + 0.3 * rng.normal(size=60)
    path = KernelDescentRegressor(solver=solver).fit(X, y).path_
    exact = staged_degrees_of_freedom(path)
    probed = staged_degrees_of_freedom(path, n_probes=200)
    z = (probed.value - exact.value)[1:] / probed.standard_error[1:]
    assert np.abs(z).max() < 5
    assert np.all(probed.standard_error[1:] > 0)
    assert probed.standard_error.max() < 2
    again = staged_degrees_of_freedom(path, n_probes=200)
    assert np.array_equal(again.value, probed.value)


def test_long_euler_stage_of_probes():
    """(I − ΔtK)^m for m = 20,000 steps."""
    X, f, noise = sine_data(4, n=6)
    path = (
        KernelDescentRegressor(
            bandwidth=0.5, min_bandwidth=0.5, max_time=200.0, max_r2=1.0, solver="euler"
        )
        .fit(X, f + noise)
        .path_
    )
    K = reference.matrix(X, X, "gaussian", 0.5)
    power = np.linalg.matrix_power(np.eye(6) - 0.01 * K, 20_000)
    probed = staged_degrees_of_freedom(path, n_probes=2).value[-1]
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(6, 2))
    assert_allclose(probed, 6 - np.mean(np.sum(signs * (power @ signs), axis=0)), rtol=1e-9)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: degrees_of_freedom(KernelRidgeRegressor()), NotFittedError, "not fitted yet"),
        (lambda: ridge_degrees_of_freedom([[1.0]], penalty=-1.0), ValueError, "penalty=-1.0"),
        (lambda: flow_degrees_of_freedom([[1.0]], time=-1.0), ValueError, "time=-1.0"),
        (lambda: ridge_degrees_of_freedom([[1.0]], bandwidth=-1.0), ValueError, "bandwidth"),
    ],
)
def test_bad_input_is_named(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_bad_probes_are_named(fitted):
    with pytest.raises(ValueError, match="n_probes=1"):
        staged_degrees_of_freedom(fitted, n_probes=1)


def test_remark_1_ridge_is_first_order_flow(kernel):
    """(I + tK)⁻¹ = e^{−tK} + O(t²): the gap falls with the square of t."""
    X = np.random.default_rng(5).normal(size=(6, 2))
    times = np.array([1e-2, 1e-3])
    gap = [
        abs(
            ridge_degrees_of_freedom(X, kernel, 0.5, 1 / t)
            - flow_degrees_of_freedom(X, kernel, 0.5, t)
        )
        for t in times
    ]
    slope = np.log(gap[0] / gap[1]) / np.log(10.0)
    assert_allclose(slope, 2.0, atol=0.05)
