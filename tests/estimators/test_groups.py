"""Rows that belong together are held out together in the search of the self-tuning estimators."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from numpy.testing import assert_array_equal
from sklearn.model_selection import GroupKFold, cross_validate

from bandfall import BandfallClassifier, BandfallRegressor
from bandfall._estimators.input import group_numbers

FASTEST = {"kernels": ("gaussian",), "max_rounds": 0, "n_members": 1}


def patients(n_groups=12, size=10, seed=0):
    """Every group has a place of its own, and a target that tells nothing about other groups."""
    random = np.random.default_rng(seed)
    groups = np.repeat(np.arange(n_groups), size)
    X = random.uniform(size=(n_groups, 2))[groups] + random.normal(0, 1e-3, (len(groups), 2))
    return X, random.normal(size=n_groups)[groups], groups


@pytest.mark.filterwarnings("ignore:column .* alone it explains")
def test_without_groups_the_search_believes_what_it_remembers():
    X, y, groups = patients()
    assert BandfallRegressor(**FASTEST).fit(X, y).best_score_ > 0.9
    grouped = BandfallRegressor(**FASTEST).fit(X, y, groups=groups)
    assert grouped.best_score_ < 0.5
    # Which decides about more than a number: how sure predictions are.
    low, high = grouped.predict_interval(X, coverage=0.8).T
    assert np.median(high - low) > y.std()


@pytest.mark.filterwarnings("ignore:column .* alone it explains")
def test_classes_in_groups():
    X, y, groups = patients(20)
    sure = BandfallClassifier(**FASTEST).fit(X, y > 0)
    grouped = BandfallClassifier(**FASTEST).fit(X, y > 0, groups=groups)
    assert sure.best_score_ > -0.2
    assert grouped.best_score_ < -0.5


def test_one_part_of_many_rows_is_made_of_whole_groups():
    X, y, groups = patients(100, 16)
    model = BandfallRegressor(**FASTEST).fit(X, y, groups=groups)
    held_out = groups[model.held_out_rows_]
    assert len(held_out) < len(y) / 3
    assert_array_equal(np.bincount(held_out)[np.unique(held_out)], 16)


@pytest.mark.parametrize("kind", [list, lambda g: [f"p{i}" for i in g], pd.Series, pd.Categorical])
def test_names_of_groups_do_not_matter(kind):
    X, y, groups = patients(6)
    expected = BandfallRegressor(**FASTEST).fit(X, y, groups=groups)
    other = BandfallRegressor(**FASTEST).fit(X, y, groups=kind(groups))
    assert_array_equal(other.held_out_predictions_, expected.held_out_predictions_)


@pytest.mark.filterwarnings("ignore:columns are left out")
def test_equal_rows_may_be_in_different_groups():
    X, y, groups = np.zeros((12, 1)), np.arange(12.0), np.arange(12) % 3
    assert np.isfinite(BandfallRegressor(**FASTEST).fit(X, y, groups=groups).predict(X)).all()


def test_a_missing_group_is_one_of_its_own():
    assert_array_equal(group_numbers(np.array([1.0, np.nan, 1.0, np.nan])), [0, 1, 0, 2])
    assert_array_equal(group_numbers(np.array(["a", None, None], dtype=object)), [0, 1, 2])
    assert_array_equal(group_numbers(np.array([0, 1, None], dtype=object)), [0, 1, 2])


@pytest.mark.parametrize(
    ("groups", "match"), [(np.zeros(60), "at least two groups"), (np.arange(59), "inconsistent")]
)
def test_groups_that_cannot_be(groups, match):
    X, y, _ = patients(6)
    with pytest.raises(ValueError, match=match):
        BandfallRegressor(**FASTEST).fit(X, y, groups=groups)


def test_groups_of_rows_without_weight_do_not_count():
    X, y, groups = patients(6)
    weights = (groups > 1).astype(float)
    model = BandfallRegressor(**FASTEST).fit(X, y, weights, groups)
    alone = BandfallRegressor(**FASTEST).fit(X[20:], y[20:], groups=groups[20:])
    assert_array_equal(model.predict(X[20:]), alone.predict(X[20:]))
    assert_array_equal(model.held_out_rows_, alone.held_out_rows_ + 20)


@pytest.mark.filterwarnings("ignore:values far outside the range")
def test_groups_are_routed():
    X, y, groups = patients(8)
    with sklearn.config_context(enable_metadata_routing=True):
        model = BandfallRegressor(**FASTEST).set_fit_request(groups=True)
        done = cross_validate(
            model, X, y, cv=GroupKFold(2), params={"groups": groups}, return_estimator=True
        )
    for fitted in done["estimator"]:
        assert fitted.best_score_ < 0.5
