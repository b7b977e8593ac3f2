"""Encodings give the numbers that scikit-learn's transformers give, where it has such."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, QuantileTransformer, StandardScaler

from bandfall.tables import TableEncoder, read_table

pd = pytest.importorskip("pandas")


def numbers(seed, n=60, missing=False):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 4)) * [1.0, 100.0, 1e-3, 1.0] + [0.0, 1e4, 0.0, -3.0]
    X[:, 3] = np.round(X[:, 3])  # ties
    if missing:
        X[random.random(X.shape) < 0.1] = np.nan
    return X


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 1000), missing=st.booleans())
@pytest.mark.parametrize("name", ["standard", "quantile"])
def test_numbers(name, seed, missing):
    # scikit-learn's quantiles are means of two values, whose rounding tears ties apart, and
    # imputed medians are ties: see the test below.
    missing &= name == "standard"
    n_columns = 3 if name == "quantile" else 4
    X, X_new = (numbers(s, missing=missing)[:, :n_columns] for s in (seed, seed + 1))
    imputer = SimpleImputer(strategy="median", add_indicator=True)
    scaler = StandardScaler()
    if name == "quantile":
        scaler = QuantileTransformer(n_quantiles=len(X), output_distribution="normal")
    reference = make_pipeline(imputer, scaler).fit(X)
    encoder = TableEncoder(name)
    np.testing.assert_allclose(encoder.fit_transform(X), reference.transform(X), atol=1e-6)
    found = encoder.transform(X_new, warn=False)
    np.testing.assert_allclose(found, reference.transform(X_new), atol=1e-6)


def test_ties_lie_in_the_middle_of_their_range():
    X = np.array([0.0, 1.0, 2.0, 2.0, 2.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0])[:, None]
    scores = TableEncoder("quantile").fit_transform(X)
    np.testing.assert_allclose(scores[2:6], norm.ppf((2 + 5) / 2 / 10), rtol=1e-12)


def test_categories():
    random = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"a": random.normal(size=80), "b": random.choice(["red", "green", "blue"], 80)}
    )
    reference = ColumnTransformer(
        [("a", StandardScaler(), ["a"]), ("b", OneHotEncoder(sparse_output=False), ["b"])]
    ).fit_transform(frame)
    encoder = TableEncoder()
    found = encoder.fit_transform(read_table(frame))
    np.testing.assert_allclose(found[:, 0], reference[:, 0], atol=1e-12)
    order = [f"b_{level}" for level in ("blue", "green", "red")]
    columns = [encoder.names_out.index(name) for name in order]
    np.testing.assert_array_equal(found[:, columns], reference[:, 1:])
