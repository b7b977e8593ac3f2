"""Ridge and flow at constant bandwidth against Equations 3 and 4 as printed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import reference
from bandfall import KernelFlowRegressor, KernelRidgeRegressor
from bandfall._closed_form import (
    Spectrum,
    euler_filter,
    flow_filter,
    ridge_coefficients,
    ridge_filter,
)
from bandfall.kernels._kernel import KERNELS
from problems import problem, problems
from tolerances import rounding

EIGENVALUES = np.concatenate([[0.0], np.geomspace(1e-300, 1e3, 200)])


@pytest.mark.parametrize("name", KERNELS)
@given(problems(), st.floats(0.2, 3.0), st.floats(1e-3, 10.0))
def test_ridge_is_equation_4(name, data, bandwidth, penalty):
    X, y, X_new = data
    model = KernelRidgeRegressor(name, bandwidth=bandwidth, penalty=penalty).fit(X, y)
    expected = reference.ridge(X, y, X_new, name=name, bandwidth=bandwidth, penalty=penalty)
    # Conditioning: n / penalty.
    assert_allclose(model.predict(X_new), expected, atol=1e-9)


@pytest.mark.parametrize("name", ["matern12", "matern32"])  # their K can be inverted
@given(problems(max_rows=15), st.floats(0.1, 1.0), st.floats(0.1, 100.0))
def test_flow_is_equation_3(name, data, bandwidth, time):
    X, y, X_new = data
    model = KernelFlowRegressor(name, bandwidth=bandwidth, time=time).fit(X, y)
    expected = reference.flow(X, y, X_new, name=name, bandwidth=bandwidth, time=time)
    assert_allclose(model.predict(X_new), expected, atol=1e-7)


def test_flow_of_a_singular_matrix_is_many_small_euler_steps():
    X, y, X_new = problem(n=20)
    X, y = np.vstack([X, X[:5]]), np.append(y, y[:5] + 1.0)  # repeated rows: K has no inverse
    model = KernelFlowRegressor(bandwidth=2.0, time=5.0).fit(X, y)
    K, r = reference.kernel("gaussian", X, X, 2.0), y - y.mean()
    coefficients = np.zeros(len(y))
    for _ in range(50_000):
        coefficients += 1e-4 * r
        r = r - 1e-4 * (K @ r)
    expected = reference.kernel("gaussian", X_new, X, 2.0) @ coefficients + y.mean()
    # Euler is of first order: step · λ_max / 2.
    assert_allclose(model.predict(X_new), expected, atol=1e-3)


@pytest.mark.parametrize("time", [0.0, 1e-12, 1.0, 1e3, 1e9])
def test_flow_filter_is_its_integral(time):
    expected = np.where(EIGENVALUES * time < 1e-14, time, 0.0)
    large = EIGENVALUES * time >= 1e-14
    expected[large] = -np.expm1(-time * EIGENVALUES[large]) / EIGENVALUES[large]
    assert_allclose(flow_filter(EIGENVALUES, time), expected, rtol=1e-12)


@pytest.mark.parametrize("n_steps", [0, 1, 2, 7, 100])
def test_euler_filter_is_the_sum_of_its_steps(n_steps):
    eigenvalues = np.concatenate([[0.0], np.geomspace(1e-12, 199.0, 100)])
    expected = sum((0.01 * (1 - 0.01 * eigenvalues) ** k for k in range(n_steps)), 0.0)
    assert_allclose(
        euler_filter(eigenvalues, 0.01, n_steps), expected * np.ones(101), rtol=1e-9, atol=1e-15
    )


def test_filters_meet_in_their_limits():
    eigenvalues = np.geomspace(0.1, 10.0, 20)
    assert_allclose(flow_filter(eigenvalues, np.inf), 1 / eigenvalues, rtol=1e-12)
    assert_allclose(ridge_filter(eigenvalues, 0.0), 1 / eigenvalues, rtol=1e-12)
    fine = euler_filter(eigenvalues, 1e-6, 1_000_000)
    assert_allclose(fine, flow_filter(eigenvalues, 1.0), rtol=1e-4)


def test_many_penalties_and_times_at_once():
    eigenvalues, values = np.geomspace(1e-3, 10.0, 5), np.array([0.1, 1.0, 10.0])
    for filters in (ridge_filter, flow_filter):
        table = filters(eigenvalues, values)
        assert table.shape == (5, 3)
        for j, value in enumerate(values):
            assert_allclose(table[:, j], filters(eigenvalues, value), rtol=1e-14)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_no_penalty_is_the_pseudo_inverse(dtype):
    X, y, _ = problem(n=12)
    X = np.vstack([X, X[:4]])  # repeated rows: K is singular
    y = np.append(y, y[:4]).astype(dtype)
    K = reference.kernel("matern12", X, X, 1.0).astype(dtype)
    cutoff = len(K) * np.finfo(dtype).eps
    expected = np.linalg.pinv(K.astype(float), rcond=cutoff, hermitian=True) @ y
    for penalty in (0.0, 1e-300, 1e-30):  # what drowns in rounding is no penalty
        found = ridge_coefficients(K, y, penalty)
        assert found.dtype == dtype
        assert_allclose(found, expected, atol=rounding(dtype, 1e4))


def test_spectrum_gives_back_the_matrix():
    X, _, _ = problem()
    K = reference.kernel("gaussian", X, X, 1.0)
    spectrum = Spectrum(K)
    U, values = spectrum.eigenvectors, spectrum.eigenvalues
    assert_allclose((U * values) @ U.T, K, atol=1e-12)
    assert np.all(values >= 0)
    assert np.all(np.diff(values) >= 0)


@pytest.mark.parametrize("K", [np.diag([3.0, 1.0, 2.0]), np.eye(4)])
def test_spectrum_of_a_diagonal_matrix(K):
    spectrum = Spectrum(K)
    assert_allclose((spectrum.eigenvectors * spectrum.eigenvalues) @ spectrum.eigenvectors.T, K)


def test_matrix_that_is_not_positive_is_refused():
    with pytest.raises(ValueError, match=r"not positive semi-definite.*from -1 to 3"):
        Spectrum(np.array([[1.0, 2.0], [2.0, 1.0]]))


@pytest.mark.parametrize("estimator", [KernelRidgeRegressor, KernelFlowRegressor])
def test_kernel_that_is_not_positive_definite_is_refused(estimator):
    def box(u):
        return (u <= 1).astype(float)

    X = np.linspace(0, 1, 12)[:, None]
    with pytest.raises(ValueError, match="not positive semi-definite"):
        estimator(box, bandwidth=0.5).fit(X, np.cos(9 * X[:, 0]))


def test_limits_of_the_bandwidth_are_proposition_3():
    X, y, X_new = problem()
    wide = KernelRidgeRegressor(bandwidth=np.inf, penalty=0.1).fit(X, y)
    assert_allclose(wide.predict(X_new), y.mean(), rtol=1e-12)
    narrow = KernelRidgeRegressor(bandwidth=0.0, penalty=0.1).fit(X, y)
    assert_allclose(narrow.predict(X_new), y.mean(), rtol=1e-12)
    assert_allclose(narrow.predict(X), y.mean() + (y - y.mean()) / 1.1, rtol=1e-12)


def test_flow_starts_at_the_mean_and_ends_in_interpolation():
    X, y, _ = problem()
    assert_allclose(KernelFlowRegressor(time=0.0).fit(X, y).predict(X), y.mean(), rtol=1e-12)
    ended = KernelFlowRegressor("matern12", time=np.inf).fit(X, y)
    assert_allclose(ended.predict(X), y, atol=1e-9)
