"""Without groups rows are held out one by one: new rows repeat old ones as old ones do."""

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from sklearn.metrics import log_loss

from bandfall import BandfallClassifier, BandfallRegressor

FASTEST = {"kernels": ("gaussian",), "max_rounds": 0, "n_members": 1}


def cells(n_rows, shape, noise, seed=0):
    """Categories, a target with a mean of its own in every cell, and those means."""
    random = np.random.default_rng(seed)
    codes = np.column_stack([random.integers(0, size, n_rows) for size in shape])
    means = random.normal(size=shape)[tuple(codes.T)]
    frame = pd.DataFrame({f"c{i}": pd.Categorical(code) for i, code in enumerate(codes.T)})
    return frame, means + noise * random.normal(size=n_rows), means


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    seed=st.integers(0, 99),
    shape=st.sampled_from([(3,), (2, 2), (4, 3), (5, 5, 2)]),
    n_rows=st.sampled_from([30, 120, 600]),
)
def test_the_default_is_row_by_row(seed, shape, n_rows):
    X, y, _ = cells(n_rows, shape, 0.5, seed)
    default = BandfallRegressor(**FASTEST).fit(X, y)
    by_row = BandfallRegressor(**FASTEST).fit(X, y, groups=np.arange(n_rows))
    assert_array_equal(default.held_out_rows_, by_row.held_out_rows_)
    assert_array_equal(default.predict(X), by_row.predict(X))


def test_a_rule_over_two_truth_values_is_learned():
    random = np.random.default_rng(0)
    X = random.random((400, 2)) > 0.5
    with pytest.warns(UserWarning, match="396 of 400 rows repeat an earlier row.*groups="):
        model = BandfallClassifier().fit(X, X[:, 0] ^ X[:, 1])
    assert model.score(X, X[:, 0] ^ X[:, 1]) == 1.0


@pytest.mark.parametrize("shape", [(3,), (6,), (5, 5, 2)])
def test_cells_are_learned_and_judged(shape):
    """The score is near what the cell means allow, and intervals cover what they promise."""
    X, y, means = cells(3000, shape, 0.7)
    X, y, X_test, y_test = X[:1000], y[:1000], X[1000:], y[1000:]
    best = 1.0 - np.mean((y_test - means[1000:]) ** 2) / np.var(y_test)
    model = BandfallRegressor().fit(X, y)
    assert model.score(X_test, y_test) > best - 0.04
    assert model.best_score_ == pytest.approx(best, abs=0.08)
    low, high = model.predict_interval(X_test).T
    assert np.mean((low <= y_test) & (y_test <= high)) == pytest.approx(0.9, abs=0.05)


@pytest.mark.filterwarnings("ignore:.*repeat an earlier row")
def test_classes_in_cells():
    """Not much worse than the frequencies in every cell, smoothed by one row of each class."""
    X, y, _ = cells(3000, (5, 5, 2), 0.7)
    train = X[:1000].assign(label=y[:1000] > 0)
    counts = train.groupby(list(X), observed=True)["label"].agg(["sum", "size"])
    shares = (counts["sum"] + 1) / (counts["size"] + 2)
    frequencies = log_loss(y[1000:] > 0, shares.loc[pd.MultiIndex.from_frame(X[1000:])])
    model = BandfallClassifier().fit(X[:1000], y[:1000] > 0)
    assert log_loss(y[1000:] > 0, model.predict_proba(X[1000:])[:, 1]) < 1.05 * frequencies


def test_copies_are_named_once_and_only_without_groups():
    random = np.random.default_rng(0)
    rows = np.repeat(np.arange(40), 3)
    X, y = random.uniform(size=(40, 2))[rows], random.normal(size=40)[rows]
    with pytest.warns(UserWarning, match="80 of 120 rows repeat an earlier row") as caught:
        BandfallRegressor(**FASTEST).fit(X, y)
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        BandfallRegressor(**FASTEST).fit(X, y, groups=rows)
        BandfallRegressor(**FASTEST).fit(X, random.normal(size=120))  # other targets: no copies


@pytest.mark.filterwarnings("ignore:columns are left out:UserWarning")
def test_rows_that_are_all_equal_have_an_honest_interval():
    y = np.random.default_rng(0).normal(size=200)
    model = BandfallRegressor().fit(np.ones((200, 2)), y)
    low, high = model.predict_interval(np.ones((1, 2)))[0]
    assert np.mean((low <= y) & (y <= high)) == pytest.approx(0.9, abs=0.05)
