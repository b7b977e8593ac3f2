"""Generators: the draws of the paper's figures, in the order they were made."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandfall.datasets import make_sine, make_two_scale

SEEDS = st.integers(0, 2**32 - 1)


@given(seed=SEEDS)
def test_sine_draws_points_then_noise_then_test_points(seed):
    X, y, X_test, y_test = make_sine(random_state=seed)
    legacy = np.random.RandomState(seed)
    x = legacy.uniform(-1, 1, 20)
    noise = legacy.normal(0, 0.2, 20)
    x_test = legacy.uniform(-1, 1, 100)
    np.testing.assert_array_equal(X, x.reshape(20, 1))
    np.testing.assert_array_equal(y, np.sin(2 * np.pi * x) + noise)
    np.testing.assert_array_equal(X_test, x_test.reshape(100, 1))
    np.testing.assert_array_equal(y_test, np.sin(2 * np.pi * x_test))


@given(seed=SEEDS, n_test=st.integers(2, 400))
def test_a_grid_changes_only_the_test_points(seed, n_test):
    X, y, X_grid, y_grid = make_sine(random_state=seed, test_points="grid", n_test=n_test)
    X_same, y_same, *_ = make_sine(random_state=seed)
    np.testing.assert_array_equal(X, X_same)
    np.testing.assert_array_equal(y, y_same)
    np.testing.assert_array_equal(X_grid[[0, -1], 0], [-1.0, 1.0])
    np.testing.assert_allclose(np.diff(X_grid[:, 0]), 2 / (n_test - 1), rtol=1e-12)
    np.testing.assert_array_equal(y_grid, np.sin(2 * np.pi * X_grid[:, 0]))


@given(seed=SEEDS)
def test_two_scale_draws_points_then_noise(seed):
    X, y, X_test, y_test = make_two_scale(random_state=seed)
    legacy = np.random.RandomState(seed)
    x = legacy.normal(0, 1, 100)
    noise = legacy.normal(0, 0.2, 100)
    truth = [
        np.sin(10 * np.pi * value) if abs(value) < 1 else value + 1 if value < 0 else value - 1
        for value in x
    ]
    np.testing.assert_array_equal(X, x.reshape(100, 1))
    np.testing.assert_allclose(y, truth + noise, rtol=1e-14, atol=1e-14)
    np.testing.assert_array_equal(X_test[:, 0], np.linspace(-3, 3, 500))
    assert (y_test[0], y_test[-1]) == (-2.0, 2.0)


@given(seed=SEEDS, n=st.integers(1, 50))
def test_no_noise_means_the_true_function(seed, n):
    X, y, *_ = make_sine(n, noise=0.0, random_state=seed)
    np.testing.assert_array_equal(y, np.sin(2 * np.pi * X[:, 0]))
    assert make_two_scale(n, noise=0, random_state=seed)[0].shape == (n, 1)


def test_a_shared_generator_moves_on():
    shared = np.random.RandomState(3)
    first, second = make_sine(random_state=shared), make_sine(random_state=shared)
    assert not np.array_equal(first[0], second[0])


@pytest.mark.parametrize("make", [make_sine, make_two_scale])
@pytest.mark.parametrize(
    "arguments",
    [{"n_samples": 0}, {"n_samples": 2.5}, {"n_test": -1}, {"noise": -0.1}, {"random_state": "x"}],
)
def test_bad_arguments_are_named(make, arguments):
    (name,) = arguments
    with pytest.raises((TypeError, ValueError), match=name):
        make(**arguments)


def test_unknown_test_points_are_named():
    with pytest.raises(ValueError, match="test_points"):
        make_sine(test_points="random")
