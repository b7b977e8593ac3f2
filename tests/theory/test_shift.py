"""Δk₂ and Proposition 1 against brute force, limits and Monte Carlo."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from numpy.testing import assert_allclose

import reference_theory as reference
from bandfall._products import NumpyBackend
from bandfall.theory import (
    expected_kernel_shift,
    kernel_moments,
    kernel_shift,
    shift_regions,
)

coordinates = st.integers(-3000, 3000).map(lambda i: i / 1000)


@settings(max_examples=40, deadline=None)
@given(
    X=npst.arrays(float, st.tuples(st.integers(1, 6), st.just(2)), elements=coordinates),
    new=npst.arrays(float, (3, 2), elements=coordinates),
    bandwidth=st.sampled_from([0.0, 0.3, 1.0, 40.0, np.inf]),
    name=st.sampled_from(list(reference.PROFILES)),
)
def test_shift_is_the_naive_double_loop(X, new, bandwidth, name):
    naive = [reference.kernel_shift(x, X, name, bandwidth) for x in new]
    assert_allclose(kernel_shift(X, new, name, bandwidth), naive, rtol=1e-7, atol=1e-7)


def test_limits_are_exact(kernel):
    rng = np.random.default_rng(0)
    X, new = rng.normal(size=(30, 3)), rng.normal(size=(5, 3))
    shift = kernel_shift(X, new, kernel, [0.0, np.inf])
    assert_allclose(shift[0], 1.0, rtol=1e-14)
    assert np.all(shift[1] == 0.0)
    assert_allclose(expected_kernel_shift(X, kernel, [0.0, np.inf]), [1.0, 0.0], rtol=1e-14)


def test_shapes_follow_bandwidths_and_points(monkeypatch):
    X = np.arange(6.0)[:, None]
    assert kernel_shift(X, [0.5]).shape == ()
    assert kernel_shift(X, [[0.5], [1.5]], bandwidth=np.ones((2, 3))).shape == (2, 3, 2)
    whole = kernel_shift(X, np.linspace(0, 5, 50)[:, None])
    monkeypatch.setattr("bandfall.theory._shift.HOST", NumpyBackend(6 * 100))
    assert_allclose(kernel_shift(X, np.linspace(0, 5, 50)[:, None]), whole, rtol=1e-13)


def test_weights_count_as_repeated_rows(kernel):
    rng = np.random.default_rng(1)
    X, new, weights = rng.normal(size=(5, 2)), rng.normal(size=(4, 2)), np.array([1, 3, 2, 1, 2])
    repeated = kernel_shift(np.repeat(X, weights, axis=0), new, kernel, [0.0, 0.7, np.inf])
    weighted = kernel_shift(X, new, kernel, [0.0, 0.7, np.inf], weights=weights)
    assert_allclose(weighted, repeated, rtol=1e-10, atol=1e-12)


def test_moments_are_brute_force_u_statistics(kernel):
    X = np.random.default_rng(2).normal(size=(7, 2))
    for bandwidth in (0.0, 0.4, 1.5, np.inf):
        naive = reference.kernel_moments(X, kernel, bandwidth)
        mean, _, *spread = naive
        assert_allclose(kernel_moments(X, kernel, bandwidth), [mean, *spread], atol=1e-13)
        assert_allclose(
            expected_kernel_shift(X, kernel, bandwidth, n_rows=12),
            reference.expected_kernel_shift(12, *naive),
            atol=1e-11,
        )


def test_estimate_is_unbiased_and_the_proposition_true(kernel):
    """Monte Carlo over fresh rows: E(Δk₂²) itself against the mean of the estimates."""
    rng = np.random.default_rng(3)
    n, bandwidth, draws = 6, 0.5, 2000
    squared = np.empty(draws)
    estimates = np.empty(draws)
    for i in range(draws):
        sample = rng.normal(size=(n + 1, 1))
        squared[i] = kernel_shift(sample[:-1], sample[-1], kernel, bandwidth) ** 2
        estimates[i] = expected_kernel_shift(rng.normal(size=(5, 1)), kernel, bandwidth, n_rows=n)
    error = np.hypot(squared.std(), estimates.std()) / np.sqrt(draws)
    assert abs(squared.mean() - estimates.mean()) < 4 * error
    assert squared.mean() / error > 15  # the comparison has power
    assert kernel_moments(sample, kernel, bandwidth).variance > 0
    # Jensen, the first inequality of Equation 6
    assert np.sqrt(squared).mean() ** 2 <= squared.mean()


@settings(max_examples=30, deadline=None)
@given(
    X=npst.arrays(float, st.tuples(st.integers(4, 7), st.just(2)), elements=coordinates),
    bandwidth=st.floats(1e-3, 1e3),
    name=st.sampled_from(list(reference.PROFILES)),
)
def test_expected_shift_is_never_negative(X, bandwidth, name):
    assert expected_kernel_shift(X, name, bandwidth) >= 0


def test_regions():
    bandwidths = np.geomspace(1e-4, 1e4, 200)
    X = np.random.default_rng(0).normal(size=(30, 4))
    shift = kernel_shift(X[1:], X[0], "gaussian", bandwidths)
    one_below, zero_above = shift_regions(bandwidths, shift)
    assert 1e-4 < one_below < zero_above < 1e4
    assert_allclose(shift[bandwidths < one_below], 1.0, atol=0.1)
    assert np.all(shift[bandwidths > zero_above] < 1.0)
    assert shift.max() > 2
    # without a peak the one-region meets the zero-region
    assert shift_regions([1.0, 2.0, 3.0], [1.0, 1.0, 0.1]) == (2.0, 2.0)
    assert shift_regions([1.0, 2.0], [0.0, 0.0]) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda X: kernel_shift(X, np.ones((2, 5))), "X_new has 5 features"),
        (lambda X: kernel_shift(X, X, bandwidth=-1.0), "bandwidth=-1.0"),
        (lambda X: kernel_shift(X, X, bandwidth=np.nan), "bandwidth"),
        (lambda X: kernel_shift(X, X * np.nan), "X_new contains NaN"),
        (lambda X: kernel_shift(X, X, "rbf"), "kernel='rbf'"),
        (lambda X: kernel_shift(X, X, weights=[1.0, -1.0, 1.0]), "weights"),
        (lambda X: kernel_shift(X[:0], X), "X must have shape"),
        (lambda X: kernel_moments(X), "at least 4 rows"),
        (lambda X: expected_kernel_shift(X), "at least 4 rows"),
        (lambda X: expected_kernel_shift(np.r_[X, X], n_rows=0.5), "n_rows=0.5"),
        (lambda X: shift_regions([2.0, 1.0], [1.0, 1.0]), "must rise"),
        (lambda X: shift_regions([2.0], [1.0, 1.0]), "equal length"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call(np.arange(6.0).reshape(3, 2))
