"""Weights of leaves: they sum to one, are smooth, and divide any rows in finite time."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bandfall.descent._partition import Partition, partition_rows
from tolerances import rounding


def total_weights(partition, X):
    weights = np.zeros((len(X), partition.n_leaves))
    for leaf, rows, share in partition.shares(X):
        weights[rows, leaf] = share
    return weights


@st.composite
def tables(draw):
    """Rows of continuous, discrete, constant and skewed columns."""
    n, kinds = draw(st.integers(1, 400)), draw(st.lists(st.integers(0, 4), min_size=1, max_size=5))
    random = np.random.default_rng(draw(st.integers(0, 2**31)))
    makers = [
        lambda: random.normal(size=n),
        lambda: random.integers(0, 3, n).astype(float),
        lambda: np.full(n, 1.5),
        lambda: random.lognormal(sigma=4.0, size=n),
        lambda: (random.random(n) < 0.03).astype(float),
    ]
    return np.column_stack([makers[kind]() for kind in kinds])


@given(tables(), st.integers(1, 100), st.booleans(), st.floats(0.01, 0.5))
@settings(max_examples=60, deadline=None)
def test_weights_sum_to_one_and_leaves_are_small_unless_rows_are_equal(X, leaf_rows, axes, overlap):
    partition = partition_rows(X, leaf_rows, axes=axes, overlap=overlap)
    anywhere = np.random.default_rng(0).normal(scale=10.0, size=(50, X.shape[1]))
    for rows in (X, anywhere):
        weights = total_weights(partition, rows)
        assert np.all(weights >= 0)
        assert np.allclose(weights.sum(axis=1), 1.0, rtol=0, atol=rounding(float, 16))
    for _, rows, _ in partition.shares(X):
        # What cannot be cut is nearly the same row again and again.
        columns = X[rows]
        most_common = max(
            (np.unique(column, return_counts=True)[1].max() for column in columns.T), default=0
        )
        assert len(rows) <= leaf_rows or most_common > len(rows) // 4


def test_a_leaf_gets_the_rows_that_have_a_share_in_it():
    X = np.random.default_rng(0).normal(size=(5000, 4))
    partition = partition_rows(X, 700)
    sizes = [len(rows) for _, rows, _ in partition.shares(X)]
    assert partition.n_leaves == len(sizes) >= 8
    assert max(sizes) <= 700
    assert min(sizes) > 350  # no leaf is left with a handful of rows
    assert 5000 < sum(sizes) < 1.5 * 5000


def test_cuts_follow_the_direction_of_largest_spread():
    random = np.random.default_rng(0)
    X = random.normal(size=(1000, 3)) * [1.0, 5.0, 1.0]
    assert np.argmax(np.abs(partition_rows(X, 600).directions[0])) == 1
    assert partition_rows(X, 600, axes=True).directions.tolist() == [[0.0, 1.0, 0.0]]
    turned = X @ np.linalg.qr(random.normal(size=(3, 3)))[0]
    assert np.count_nonzero(partition_rows(turned, 600).directions[0]) == 3
    assert np.count_nonzero(partition_rows(turned, 600, axes=True).directions[0]) == 1


def test_more_cuts_along_one_direction_have_narrower_bands():
    x = np.linspace(0.0, 1.0, 10_000)[:, None]
    wide, narrow = (partition_rows(x, leaf_rows) for leaf_rows in (6000, 600))
    assert narrow.highs[0] - narrow.lows[0] < 0.2 * (wide.highs[0] - wide.lows[0])


@pytest.mark.parametrize("axes", [True, False])
def test_gradients_of_weights_are_those_of_differences(axes):
    random = np.random.default_rng(1)
    X = random.normal(size=(2000, 3))
    partition = partition_rows(X, 300, axes=axes, overlap=0.4)
    new, step = random.normal(size=(200, 3)), 1e-6
    slopes = np.zeros((200, partition.n_leaves, 3))
    for leaf, rows, weights, gradients in partition.sloped_shares(new):
        slopes[rows, leaf] = gradients
        assert np.array_equal(weights, total_weights(partition, new)[rows, leaf])
    for column in range(3):
        shift = step * np.eye(3)[column]
        ahead, behind = (total_weights(partition, new + sign * shift) for sign in (1, -1))
        assert np.allclose(slopes[:, :, column], (ahead - behind) / (2 * step), atol=1e-4)
    assert np.abs(slopes).max() > 0.5
    assert np.allclose(slopes.sum(axis=1), 0.0, atol=1e-12)


def test_weights_and_their_slopes_are_continuous_across_every_border():
    x = np.linspace(-3, 3, 3000)[:, None]
    partition = partition_rows(x, 500)
    for border in np.concatenate([partition.lows, partition.highs]):
        beside = border + np.array([[-1e-9], [1e-9]])
        before, after = total_weights(partition, beside)
        assert np.allclose(before, after, atol=1e-7)
        slopes = np.zeros((2, partition.n_leaves))
        for leaf, rows, _, gradients in partition.sloped_shares(beside):
            slopes[rows, leaf] = gradients[:, 0]
        assert np.allclose(slopes[0], slopes[1], atol=1e-5)


def test_rows_that_repeat_are_cut_between_values():
    X = np.repeat([0.0, 1.0, 2.0], [500, 300, 400])[:, None]
    partition = partition_rows(X, 600)
    for _, rows, weights in partition.shares(X):
        assert np.all(weights == 1.0)  # no row lies inside a band
        assert len(rows) in (500, 700, 300, 400)


def test_equal_rows_are_one_leaf():
    partition = partition_rows(np.ones((1000, 2)), 10)
    assert partition.n_leaves == 1
    ((leaf, rows, weights),) = partition.shares(np.zeros((3, 2)))
    assert (leaf, rows.tolist(), weights.tolist()) == (0, [0, 1, 2], [1.0, 1.0, 1.0])


def test_few_rows_are_one_leaf_and_a_table_without_columns_too():
    assert partition_rows(np.random.default_rng(0).normal(size=(100, 2)), 100).n_leaves == 1
    assert partition_rows(np.zeros((100, 0)), 10).n_leaves == 1


def test_the_same_rows_give_the_same_partition():
    X = np.random.default_rng(0).normal(size=(3000, 5)).astype(np.float32)
    one, other = partition_rows(X, 400), partition_rows(X.copy(), 400)
    for name in ("directions", "lows", "highs", "children"):
        assert np.array_equal(getattr(one, name), getattr(other, name))
    assert isinstance(one, Partition)


def test_one_row_has_the_shares_that_it_has_among_others():
    X = np.random.default_rng(8).normal(size=(400, 3))
    for axes in (False, True):
        partition = partition_rows(X, 60, axes=axes)
        together, alone = np.zeros((2, partition.n_leaves, len(X)))
        for leaf, rows, weights in partition.shares(X):
            together[leaf, rows] = weights
        for row in range(len(X)):
            for leaf, rows, weights in partition.shares(X[row : row + 1]):
                assert rows.tolist() == [0]
                alone[leaf, row] = weights[0]
        assert np.allclose(alone, together, rtol=0, atol=1e-12)
    (whole,) = partition_rows(X, 1000).shares(X[:1])
    assert whole[0] == 0
