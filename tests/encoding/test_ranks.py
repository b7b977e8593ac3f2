"""Uniform ranks are mean ranks of training values, and keep fine differences apart."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm, rankdata

from bandfall.encoding import TableEncoder
from bandfall.encoding.quantiles import Quantiles
from bandfall.encoding.ranks import Ranks


def learned(column):
    values = np.asarray(column, dtype=float)[:, None]
    return Ranks.learn(values, np.ones(values.shape, dtype=bool))


@pytest.mark.parametrize("n", [2, 60, 1000])
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000))
def test_training_values_get_their_mean_ranks(n, seed):
    values = np.round(np.random.default_rng(seed).lognormal(size=n), 1)
    if np.ptp(values) == 0:
        return
    ranks = rankdata(values)  # equal values share the mean of their ranks
    expected = (ranks - ranks.mean()) / ranks.std()
    np.testing.assert_allclose(learned(values).transform(values[:, None])[:, 0], expected)


def test_distinct_values_are_equally_spaced_with_unit_variance():
    Z = learned(np.random.default_rng(0).normal(size=500) ** 3).transform
    rising = np.sort(np.random.default_rng(0).normal(size=500) ** 3)[:, None]
    np.testing.assert_allclose(np.diff(Z(rising)[:, 0]), np.sqrt(12 / (500**2 - 1)))


def test_linear_between_neighbours_and_constant_beyond_the_range():
    encoding = learned([1.0, 2.0, 4.0])
    z = encoding.transform(np.array([[2.0], [2.5], [3.0], [4.0], [9.0], [1.0], [-9.0]]))[:, 0]
    step = np.sqrt(1.5)
    np.testing.assert_allclose(
        z, [0, 0.25 * step, 0.5 * step, step, step, -step, -step], atol=1e-15
    )
    slopes = encoding.jacobian(np.array([[0.0], [1.0], [3.0], [4.0], [5.0]]))[:, 0]
    np.testing.assert_allclose(slopes, [0, step, 0.5 * step, 0, 0])


def test_missing_values_do_not_shift_ranks():
    values = np.array([1.0, 2.0, 3.0, 4.0, 5.0])[:, None]
    with_gaps = np.concatenate([values, np.full((20, 1), np.nan)])
    encoder = TableEncoder("rank")
    z = encoder.fit_transform(with_gaps)[:5, 0]
    np.testing.assert_allclose(np.diff(z), z[1] - z[0])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["quantile", "rank"])
def test_thirty_thousand_coordinates_stay_apart(name, dtype):
    """Knots are no bins: what lies between them is told apart."""
    random = np.random.default_rng(0)
    places = random.choice([48.1, 52.5, 53.6], 30_000) + 0.3 * random.normal(size=30_000)
    encoder = TableEncoder(name)
    encoded = encoder.fit_transform(places[:, None], dtype=dtype)
    assert len(np.unique(encoded)) > 29_900
    np.testing.assert_array_equal(np.argsort(places[:500]), np.argsort(encoded[:500, 0]))


@pytest.mark.parametrize("encoding", [Quantiles, Ranks])
def test_the_rank_of_thirty_thousand_values_is_known_to_a_thousandth(encoding):
    random = np.random.default_rng(0)
    values = random.normal(size=(30_000, 1)) ** 3
    known = (np.ones(values.shape, dtype=bool),) if encoding is Ranks else ()
    found = encoding.learn(values, *known).transform(values)[:, 0]
    ranks = rankdata(values)
    if encoding is Ranks:
        exact = (ranks - ranks.mean()) / ranks.std()
        assert np.abs(found - exact).max() < 1e-3 * np.ptp(exact)
    else:
        assert np.abs(norm.cdf(found) - (ranks - 1) / 29_999).max() < 1e-3


def test_a_frequent_value_among_many_is_a_jump():
    """Half of the values are zero: the others keep their ranks, next to zero too."""
    random = np.random.default_rng(0)
    values = np.concatenate([np.zeros(10_000), random.lognormal(size=10_000)])
    ranks = rankdata(values)
    exact = (ranks - ranks.mean()) / ranks.std()
    found = learned(values).transform(values[:, None])[:, 0]
    assert np.abs(found - exact).max() < 3e-3


def test_one_value_and_none():
    encoding = learned([5.0])
    rows = np.array([[5.0], [4.0], [6.0]])
    assert not encoding.transform(rows).any()
    assert not encoding.jacobian(rows).any()
    empty = Ranks.learn(np.zeros((3, 0)), np.ones((3, 0), dtype=bool))
    assert empty.transform(np.zeros((2, 0))).shape == (2, 0)
