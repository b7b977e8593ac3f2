"""The front of BandfallRegressor gives the numbers that scikit-learn's transformers give."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, QuantileTransformer, StandardScaler

from bandfall.estimators._front import MAX_CATEGORIES, CategoryEncoder, FeatureFront


def reference(transform, n_rows, numeric, other):
    """The same recipe in scikit-learn's words."""
    imputer = SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True)
    scaler = StandardScaler()
    if transform == "quantile":
        scaler = QuantileTransformer(n_quantiles=n_rows, output_distribution="normal")
    encoder = OneHotEncoder(sparse_output=False, handle_unknown="ignore")
    return ColumnTransformer(
        [("numeric", make_pipeline(imputer, scaler), numeric), ("other", encoder, other)]
    )


def numbers(seed, n=60, missing=False):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 4)) * [1.0, 100.0, 1e-3, 1.0] + [0.0, 1e4, 0.0, -3.0]
    X[:, 3] = np.round(X[:, 3])  # ties
    if missing:
        X[random.random(X.shape) < 0.1] = np.nan
    return X


@given(seed=st.integers(0, 1000), missing=st.booleans())
@pytest.mark.parametrize("transform", ["standard", "quantile"])
def test_numeric_columns(transform, seed, missing):
    missing &= transform == "standard"  # imputed medians are ties
    X, X_new = numbers(seed, missing=missing), numbers(seed + 1, missing=missing)
    front = FeatureFront(transform).fit(X, np.float64)
    other = reference(transform, len(X), list(range(4)), []).fit(X)
    for rows in (X, X_new):
        expected, found = other.transform(rows)[:, front.used], front.transform(rows)
        # scikit-learn's quantiles tear ties apart by rounding: see the test below.
        exact = slice(None, 3) if transform == "quantile" else slice(None)
        np.testing.assert_allclose(found[:, exact], expected[:, exact], rtol=1e-6, atol=1e-8)


def test_ties_lie_in_the_middle_of_their_range():
    X = np.array([0.0, 1.0, 2.0, 2.0, 2.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0])[:, None]
    scores = FeatureFront("quantile").fit(X, np.float64).transform(X)
    np.testing.assert_allclose(scores[2:6], norm.ppf((2 + 5) / 2 / 10), rtol=1e-12)


def categories(seed, n=60):
    random = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "number": random.normal(size=n),
            "text": random.choice(["red", "green", "blue"], n),
            "flag": random.random(n) > 0.5,
            "grade": pd.Categorical(random.choice([1, 2, 5], n)),
        }
    )


def test_other_columns():
    X, X_new = categories(0), categories(1)
    front = FeatureFront().fit(X, np.float64)
    other = reference("standard", len(X), [0], [1, 2, 3]).fit(X)
    # The columns of a category come in another order: most frequent first.
    for rows in (X, X_new):
        a, b = front.transform(rows), other.transform(rows)
        assert a.shape == b.shape == (60, 1 + 3 + 2 + 3)
        order = [int(np.flatnonzero((column == b.T).all(axis=1))[0]) for column in a.T[1:]]
        assert sorted(order) == list(range(1, 9))
    assert front.sources.tolist() == [0, 1, 1, 1, 2, 2, 3, 3, 3]


def test_missing_values_are_a_category():
    column = np.array(["a", None, "b", np.nan, pd.NA, "a"], dtype=object)
    encoded = CategoryEncoder().fit(column).transform(column)
    assert encoded.shape == (6, 3)
    np.testing.assert_array_equal(encoded[1], encoded[3])
    np.testing.assert_array_equal(encoded[1], encoded[4])


def test_rare_and_unknown_categories_share_a_column():
    column = np.array([f"c{i % 50}" for i in range(1000)] + ["c0"] * 5, dtype=object)
    encoder = CategoryEncoder().fit(column)
    assert encoder.width == MAX_CATEGORIES
    assert encoder.transform(np.array(["never seen"], object))[0, -1] == 1
    assert (encoder.transform(column).sum(axis=1) == 1).all()


def test_unknown_category_among_few_is_all_zeros():
    encoder = CategoryEncoder().fit(np.array(["a", "b"], object))
    np.testing.assert_array_equal(encoder.transform(np.array(["c"], object)), [[0.0, 0.0]])


def test_constant_columns_are_dropped():
    X = numbers(0)
    X[:, 1] = 0.1 + 0.2  # whose mean rounds
    front = FeatureFront().fit(X, np.float32)
    assert front.used.tolist() == [True, False, True, True]
    assert front.transform(X).dtype == np.float32


def test_column_without_any_value():
    X = numbers(0)
    X[:, 2] = np.nan
    front = FeatureFront().fit(X, np.float64)
    assert np.isfinite(front.transform(X)).all()


def test_quantiles_end_at_the_edges():
    X = numbers(0)
    front = FeatureFront("quantile").fit(X, np.float64)
    far = front.transform(X[:1] * 0 + 1e9)
    assert np.isfinite(far).all()
    np.testing.assert_allclose(far, 5.1993, rtol=1e-4)


def test_tiny_units_are_no_obstacle():
    """scikit-learn's quantile transform has an absolute threshold of 1e-7 on features."""
    X = numbers(0)
    a = FeatureFront("quantile").fit(X, np.float64).transform(X)
    b = FeatureFront("quantile").fit(X * 1e-9, np.float64).transform(X * 1e-9)
    np.testing.assert_allclose(a, b, atol=1e-6)
