"""Normal quantiles are those of scikit-learn, but for ties and tiny units."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtri
from scipy.stats import norm, rankdata
from sklearn.preprocessing import QuantileTransformer

from bandfall.tables import TableEncoder
from bandfall.tables._numbers import Quantiles


@pytest.mark.parametrize("n", [2, 60, 1000])
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000))
def test_equal_to_scikit_learn(n, seed):
    random = np.random.default_rng(seed)
    X, X_new = random.lognormal(size=(2, n, 3)) * [1.0, 100.0, 1e-2]
    theirs = QuantileTransformer(n_quantiles=n, output_distribution="normal", subsample=None)
    theirs.fit(X)
    ours = Quantiles.learn(X)
    for rows in (X, X_new, X_new[:3]):
        expected = theirs.transform(rows)
        np.testing.assert_allclose(ours.transform(rows), expected, rtol=1e-6, atol=1e-8)


def test_ties_lie_in_the_middle_of_their_range():
    X = np.array([0.0, 1.0, 2.0, 2.0, 2.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0])[:, None]
    scores = Quantiles.learn(X).transform(X)
    np.testing.assert_allclose(scores[2:6], norm.ppf((2 + 5) / 2 / 10), rtol=1e-12)


def test_few_rows_are_encoded_like_many():
    random = np.random.default_rng(0)
    X = np.round(random.normal(size=(500, 3)), 1)
    rows = np.concatenate([X, X + 0.03, X - 100, X + 100])
    encoding = Quantiles.learn(X)
    one_by_one = np.concatenate([encoding.transform(rows[i : i + 1]) for i in range(len(rows))])
    np.testing.assert_array_equal(one_by_one, encoding.transform(rows))


def test_ends():
    encoding = Quantiles.learn(np.array([[1.0], [2.0], [3.0]]))
    ends = encoding.transform(np.array([[-1e300], [1.0], [3.0], [1e300]]))[:, 0]
    last = ndtri(1.0 - 1e-7)
    np.testing.assert_allclose(ends, [-last, -last, last, last])
    assert not encoding.jacobian(np.array([[0.0], [4.0]])).any()


def test_one_value():
    encoding = Quantiles.learn(np.array([[5.0]]))
    assert np.isfinite(encoding.transform(np.array([[5.0], [4.0], [6.0]]))).all()
    assert encoding.jacobian(np.array([[5.0], [4.0], [6.0]])).tolist() == [[0.0]] * 3


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_thirty_thousand_coordinates_stay_apart(dtype):
    """Knots are no bins: values between them differ."""
    random = np.random.default_rng(0)
    places = random.choice([48.1, 52.5, 53.6], 30_000) + 0.3 * random.normal(size=30_000)
    encoder = TableEncoder("quantile")
    encoded = encoder.fit_transform(places[:, None], dtype=dtype)
    assert len(np.unique(encoded)) > 29_900
    np.testing.assert_array_equal(np.argsort(places[:500]), np.argsort(encoded[:500, 0]))


def test_the_rank_of_thirty_thousand_values_is_known_to_a_thousandth():
    values = np.random.default_rng(0).normal(size=(30_000, 1)) ** 3
    found = Quantiles.learn(values).transform(values)[:, 0]
    assert np.abs(norm.cdf(found) - (rankdata(values) - 1) / 29_999).max() < 1e-3
