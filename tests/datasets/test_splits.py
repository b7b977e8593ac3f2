"""The paper's splits: against their definition, and against numbers of the author's scripts."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandfall.datasets import paper_splits
from reference_splits import naive_splits, ridge_test_r2
from shared_files import data_directory, shared_file

ORACLE_NAMES = {
    "cpu": "compactiv",
    "power": "power",
    "superconductors": "superconduct",
    "uk_temperature": "uktemp",
}


def random_data(seed, n, d):
    generator = np.random.default_rng(seed)
    return 10.0 ** generator.uniform(-3, 3, d) * generator.normal(size=(n, d)), generator.normal(
        5, 3, n
    )


@given(
    seed=st.integers(0, 999),
    n=st.integers(10, 60),
    d=st.integers(1, 4),
    size=st.integers(3, 10),
)
def test_agrees_with_the_definition(seed, n, d, size):
    X, y = random_data(seed, n, d)
    splits = paper_splits(X, y, size=size)
    expected = naive_splits(X, y, [size] * (n // size), [int(0.8 * size)] * (n // size))
    assert len(splits) == n // size
    for split, (X_train, y_train, X_test, y_test) in zip(splits, expected, strict=True):
        for ours, naive in [
            (split.X_train, X_train),
            (split.y_train, y_train),
            (split.X_test, X_test),
            (split.y_test, y_test),
        ]:
            np.testing.assert_allclose(ours, naive, rtol=1e-9, atol=1e-11)


@given(seed=st.integers(0, 999), n=st.integers(10, 60), size=st.integers(3, 10))
def test_standardised_over_the_whole_split(seed, n, size):
    X, y = random_data(seed, n, 3)
    for split in paper_splits(X, y, size=size):
        rows = np.vstack([split.X_train, split.X_test])
        np.testing.assert_allclose(rows.mean(axis=0), 0, atol=1e-12)
        np.testing.assert_allclose(rows.std(axis=0), 1, rtol=1e-12)
        targets = np.concatenate([split.y_train, split.y_test])
        np.testing.assert_allclose(targets.mean(), 0, atol=1e-12)


def test_the_target_keeps_its_scale_and_no_row_comes_twice():
    X, _ = random_data(0, 40, 2)
    splits = paper_splits(X, np.arange(40.0), size=10)
    spans = [np.ptp(np.concatenate([s.y_train, s.y_test])) for s in splits]
    order = np.random.RandomState(0).permutation(40)
    assert spans == [np.ptp(order[i : i + 10]) for i in range(0, 40, 10)]


def test_inputs_are_left_alone():
    X, y = random_data(1, 30, 2)
    X_before, y_before = X.copy(), y.copy()
    paper_splits(X, y, size=10)
    np.testing.assert_array_equal(X, X_before)
    np.testing.assert_array_equal(y, y_before)


@pytest.mark.parametrize("value", [0.0, 0.1, 1e12 / 3])
def test_a_constant_feature_becomes_zero(value):
    X, y = random_data(2, 30, 2)
    X[:, 1] = value
    for split in paper_splits(X, y, size=10):
        assert not split.X_train[:, 1].any()
        assert not split.X_test[:, 1].any()


def test_sizes_counts_and_training_rows():
    X, y = random_data(3, 100, 2)
    splits = paper_splits(X, y, size=[31, 31, 20], n_train=15, n_splits=2)
    assert [(len(s.y_train), len(s.y_test)) for s in splits] == [(15, 16), (15, 16)]
    assert len(paper_splits(X, y, size=2)) == 50
    assert len(paper_splits(np.zeros((500, 1)), np.zeros(500), size=2)) == 200


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"size": 1}, "size"),
        ({"size": 0}, "size"),
        ({"size": 2.5}, "size"),
        ({"size": []}, "size"),
        ({"size": "ten"}, "size"),
        ({"size": [10, 1]}, "size"),
        ({"size": 31}, "do not cut 30 rows"),
        ({"size": 10, "n_splits": 4}, "n_splits=4 do not cut 30 rows"),
        ({"size": 10, "n_splits": 0}, "n_splits"),
        ({"size": [10], "n_splits": 2}, "n_splits"),
        ({"size": 10, "n_train": 10}, "n_train"),
        ({"size": 10, "n_train": 0}, "n_train"),
        ({"size": 10, "n_train": 1.5}, "n_train"),
    ],
)
def test_bad_sizes_are_named(arguments, complaint):
    X, y = random_data(4, 30, 2)
    with pytest.raises(ValueError, match=complaint):
        paper_splits(X, y, **arguments)


@pytest.mark.parametrize(
    ("data", "target", "complaint"),
    [
        ("iris", None, "iris"),
        ("cpu", np.zeros(3), "target must not be given"),
        (np.zeros((5, 2)), None, "target is required"),
        (np.zeros(5), np.zeros(5), r"shape \(n, d\)"),
        (np.zeros((5, 2)), np.zeros(4), r"shape \(n, d\)"),
        (np.full((5, 2), np.nan), np.zeros(5), "finite"),
    ],
)
def test_bad_data_are_named(data, target, complaint):
    with pytest.raises(ValueError, match=complaint):
        paper_splits(data, target)


# The real sets


@pytest.mark.parametrize("name", ORACLE_NAMES)
def test_real_splits_have_the_published_sizes(name):
    splits = paper_splits(name, data_home=data_directory())
    sizes = [(len(split.y_train), len(split.y_test)) for split in splits]
    if name == "cpu":
        assert sizes == [(65, 17)] * 93 + [(64, 17)] * 6 + [(64, 16)]
    else:
        assert sizes == [(80, 20)] * 200
    assert all(np.isfinite(split.X_train).all() for split in splits)


@pytest.mark.parametrize("name", ORACLE_NAMES)
def test_ridge_on_our_splits_gives_the_scripts_test_scores(name):
    """KRR at the (bandwidth, penalty) the scripts chose: any slip in a split would show."""
    oracle = json.loads(shared_file("oracle/splits.json").read_text())[ORACLE_NAMES[name]]
    splits = paper_splits(name, n_splits=10, data_home=data_directory())
    for number, split in enumerate(splits):
        for method in ("krr_cv", "krr_mml"):
            chosen = oracle[str(number)][method]
            ours = ridge_test_r2(split, chosen["bandwidth"], chosen["penalty"])
            # The smallest penalties, 1e-6, leave condition numbers of 1e8.
            np.testing.assert_allclose(ours, chosen["test_r2"], atol=1e-9)
