"""s_min and its time mean."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import reference_theory as reference
from bandfall import KernelDescentRegressor
from bandfall.kernels import get_kernel
from bandfall.theory import _spectrum as spectrum
from bandfall.theory import (
    mean_smallest_eigenvalue,
    path_smallest_eigenvalue,
    smallest_eigenvalue,
)


def test_exact_is_the_smallest_singular_value(kernel):
    X = np.random.default_rng(0).normal(size=(12, 2))
    for bandwidth in (0.1, 0.5, 2.0):
        naive = np.linalg.svd(reference.matrix(X, X, kernel, bandwidth))[1][-1]
        assert_allclose(smallest_eigenvalue(X, kernel, bandwidth), naive, rtol=1e-9, atol=1e-13)


def test_limits(kernel):
    X = np.random.default_rng(0).normal(size=(12, 2))
    assert smallest_eigenvalue(X, kernel, [0.0, np.inf]).tolist() == [1.0, 0.0]
    assert smallest_eigenvalue(np.r_[X, X[:1]], kernel, 0.0) == 0.0  # rows repeat
    assert smallest_eigenvalue(X[:1], kernel, [0.0, 1.0, np.inf]).tolist() == [1.0] * 3


def test_it_falls_as_the_bandwidth_grows(kernel):
    X = np.random.default_rng(1).normal(size=(15, 2))
    values = smallest_eigenvalue(X, kernel, np.geomspace(0.01, 1, 30))
    assert np.all(np.diff(values) <= 1e-12)


def test_lanczos_stays_below_and_close(kernel, monkeypatch):
    X = np.random.default_rng(2).normal(size=(150, 3))
    bandwidths = np.array([0.05, 0.15, 0.4])
    exact = smallest_eigenvalue(X, kernel, bandwidths)
    monkeypatch.setattr(spectrum, "EXACT_ROWS", 0)
    lanczos = smallest_eigenvalue(X, kernel, bandwidths)
    assert np.all(lanczos <= exact + 1e-9)
    assert_allclose(lanczos, exact, atol=2e-3)


def test_gershgorin_serves_where_it_is_close():
    X = np.arange(50.0)[:, None]
    (value,) = spectrum._lowest(X, get_kernel("gaussian"), np.array([0.2]), None, tolerance=1e-4)
    assert 1 - 1e-4 <= value <= smallest_eigenvalue(X, "gaussian", 0.2)


def test_path_values_err_downwards_by_less_than_they_say(fitted, kernel):
    bandwidths, values = path_smallest_eigenvalue(fitted)
    exact = smallest_eigenvalue(fitted.path_.X, kernel, bandwidths)
    excess = exact - values
    assert np.all(excess >= -1e-12)
    assert np.all(excess * fitted.path_.time <= 2 * spectrum.EXPONENT_TOLERANCE)


def test_mean_is_the_exact_integral(fitted, kernel):
    time, mean = mean_smallest_eigenvalue(fitted)
    path = fitted.path_
    assert time[-1] == path.time
    naive = reference.exponent(path, kernel)
    assert_allclose(mean[-1] * path.time, naive, atol=2 * spectrum.EXPONENT_TOLERANCE)


def test_weighted_is_of_the_symmetric_matrix():
    rng = np.random.default_rng(3)
    X, weights = rng.normal(size=(9, 2)), rng.uniform(0.5, 3, 9)
    root = np.sqrt(weights)
    naive = np.linalg.eigvalsh(root[:, None] * reference.matrix(X, X, "cauchy", 0.6) * root)[0]
    assert_allclose(smallest_eigenvalue(X, "cauchy", 0.6, weights=weights), naive, rtol=1e-9)
    assert smallest_eigenvalue(X, "cauchy", 0.0, weights=weights) == weights.min()


def test_repeated_rows_keep_it_at_zero():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(10, 2))
    X[5:] = X[:5]
    model = KernelDescentRegressor(max_time=5.0).fit(X, rng.normal(size=10))
    assert_allclose(mean_smallest_eigenvalue(model)[1], 0.0, atol=1e-14)


def test_a_model_without_a_path_is_refused():
    with pytest.raises(TypeError, match="is it fitted"):
        mean_smallest_eigenvalue(KernelDescentRegressor())
    with pytest.raises(TypeError, match="got ndarray"):
        mean_smallest_eigenvalue(np.ones(3))
