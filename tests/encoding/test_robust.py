"""Median and quartiles, with smooth clipping."""

import numpy as np
from sklearn.preprocessing import RobustScaler

from bandfall.encoding.robust import Robust


def learned(values):
    return Robust.learn(values, ~np.isnan(values))


def test_equal_to_a_robust_scaler_near_the_centre():
    X = np.random.default_rng(0).standard_cauchy(size=(200, 3))
    t = RobustScaler(unit_variance=True).fit(X).transform(X)
    np.testing.assert_allclose(learned(X).transform(X), t / np.sqrt(1 + t**2 / 9), rtol=1e-10)


def test_no_value_is_farther_than_three():
    X = np.random.default_rng(0).standard_cauchy(size=(2000, 1))
    assert np.abs(learned(X).transform(X)).max() < 3


def test_half_of_the_values_equal():
    X = np.concatenate([np.zeros(80), np.arange(20.0)])[:, None]
    robust = learned(X)
    np.testing.assert_allclose(robust.scale, X.std())
    assert np.ptp(robust.transform(X)) > 1


def test_constant_and_empty_columns():
    X = np.column_stack([np.full(10, 3.0), np.full(10, np.nan)])
    robust = learned(X)
    np.testing.assert_array_equal(robust.transform(np.array([[3.0, 0.0]])), [[0.0, 0.0]])
