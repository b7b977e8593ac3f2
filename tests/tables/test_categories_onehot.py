"""One column a category: those of scikit-learn's encoder, most frequent first."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.preprocessing import OneHotEncoder

from bandfall.tables._categories import MAX_COLUMNS, OneHot, levels_by_size
from bandfall.tables._table import categories


def learned(values):
    return OneHot.learn(0, categories(values, declared=True))[0]


def encoded(encoding, values):
    return encoding.transform(categories(values, declared=True))


@given(values=st.lists(st.sampled_from(["a", "b", "c", "d"]), min_size=1, max_size=30))
def test_columns_of_scikit_learn(values):
    theirs = OneHotEncoder(sparse_output=False).fit_transform(np.array(values)[:, None])
    encoding = learned(values)
    ours, unknown = encoded(encoding, values)
    order = np.argsort(encoding.levels)
    np.testing.assert_array_equal(ours[:, order], theirs)
    assert not len(unknown)
    assert encoding.suffixes == list(encoding.levels)


def test_most_frequent_first_then_by_name():
    assert learned(["b", "c", "a", "c", None]).levels == ("c", None, "a", "b")


def test_missing_values_are_a_category():
    encoding = learned(["a", None, "b", np.nan, "", "a"])
    Z, unknown = encoded(encoding, ["a", None, "b", np.nan, "", "a"])
    assert Z.shape == (6, 3)
    assert len(np.unique(Z[[1, 3, 4]], axis=0)) == 1
    assert sorted(encoding.suffixes) == ["a", "b", "missing"]
    assert not len(unknown)


def test_rare_and_unknown_categories_share_a_column():
    values = [f"c{i % 50}" for i in range(1000)] + ["c0"] * 5
    encoding = learned(values)
    assert encoding.width == MAX_COLUMNS
    assert encoding.suffixes[0] == "c0"
    assert encoding.suffixes[-1] == "rest"
    Z, unknown = encoded(encoding, ["never seen", "c0"])
    assert Z[0, -1] == 1
    assert unknown.tolist() == [0]
    assert (encoded(encoding, values)[0].sum(axis=1) == 1).all()


def test_unknown_category_among_few_is_all_zeros():
    Z, unknown = encoded(learned(["a", "b"]), ["c", "a", None])
    np.testing.assert_array_equal(Z, [[0, 0], [1, 0], [0, 0]])
    assert unknown.tolist() == [0, 2]


def test_levels_without_rows_do_not_count():
    column = categories(["a", "b", "c"]).take([0, 0])
    assert levels_by_size(column) == ("a",)


@pytest.mark.parametrize("n", [29, 30, 31])
def test_thirty_columns_at_most(n):
    encoding = learned([f"c{i}" for i in range(n)])
    assert encoding.width == min(n, 30)
    assert (encoding.unknown >= 0) == (n > 30)
