"""Normal quantiles are those of scikit-learn, but for ties and tiny units."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm
from sklearn.preprocessing import QuantileTransformer

from bandfall.encoding.quantiles import FARTHEST, Quantiles


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
    np.testing.assert_allclose(ends, [-FARTHEST, -FARTHEST, FARTHEST, FARTHEST])
    assert not encoding.jacobian(np.array([[0.0], [4.0]])).any()


def test_one_value():
    encoding = Quantiles.learn(np.array([[5.0]]))
    assert np.isfinite(encoding.transform(np.array([[5.0], [4.0], [6.0]]))).all()
    assert encoding.jacobian(np.array([[5.0], [4.0], [6.0]])).tolist() == [[0.0]] * 3
