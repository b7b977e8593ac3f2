"""Mean targets of categories: smoothed, and never from a row's own target."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bandfall.tables import TableEncoder, read_table
from bandfall.tables._categories import TargetMean
from bandfall.tables._table import categories


def table(seed=0, n=2000, n_levels=200, noise=0.5):
    random = np.random.default_rng(seed)
    codes = random.integers(0, n_levels, n)
    effects = random.normal(size=n_levels)
    y = effects[codes] + noise * random.normal(size=n)
    return categories([f"c{code}" for code in codes]), y[:, None], effects[codes]


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 100), row=st.integers(0, 99), change=st.floats(-1e6, 1e6))
def test_a_row_never_sees_its_own_target(seed, row, change):
    column, y, _ = table(seed, n=100, n_levels=7)
    changed = y.copy()
    changed[row] += change
    _, before = TargetMean.learn(0, column, y)
    _, after = TargetMean.learn(0, column, changed)
    np.testing.assert_allclose(after[row], before[row], rtol=1e-6, atol=1e-9)


def test_targets_of_noise_stay_noise():
    """200 levels, 5 rows each, no effect: plain means would explain a fifth of the variance."""
    random = np.random.default_rng(0)
    column = categories([f"c{code}" for code in random.integers(0, 200, 1000)])
    y = random.normal(size=(1000, 1))
    _, Z = TargetMean.learn(0, column, y)
    assert Z.std() < 0.1
    assert abs(np.corrcoef(Z[:, 0], y[:, 0])[0, 1]) < 0.1 if Z.std() else True


def test_means_tell_the_effects():
    column, y, effects = table()
    encoding, Z = TargetMean.learn(0, column, y)
    assert np.corrcoef(Z[:, 0], effects)[0, 1] > 0.95
    later, _ = encoding.transform(column)
    assert np.corrcoef(later[:, 0], effects)[0, 1] > 0.97
    # In standard deviations of the target.
    slope = np.polyfit(effects, later[:, 0], 1)[0]
    assert slope == pytest.approx(1 / y.std(), rel=0.1)


def test_few_rows_are_drawn_to_the_mean():
    y = np.concatenate([np.full(50, 0.0), np.full(50, 1.0), [1.0]])[:, None]
    y += np.random.default_rng(0).normal(size=y.shape) * 0.5
    column = categories(["a"] * 50 + ["b"] * 50 + ["c"])
    encoding, _ = TargetMean.learn(0, column, y)
    plain = (y[-1] - y.mean()) / y.std()
    assert 0 < encoding.means[encoding.levels.index("c"), 0] / plain[0] < 0.9


def test_weights_are_rows():
    column, y, _ = table(n=60, n_levels=4)
    weights = np.random.default_rng(1).integers(1, 4, 60)
    rows = np.repeat(np.arange(60), weights)
    weighted, _ = TargetMean.learn(0, column, y, weights.astype(float))
    repeated, _ = TargetMean.learn(0, column.take(rows), y[rows])
    places = [repeated.levels.index(level) for level in weighted.levels]
    np.testing.assert_allclose(weighted.means, repeated.means[places], rtol=0.1, atol=0.02)


def test_unknown_levels_are_neutral():
    column, y, _ = table(n=60, n_levels=4)
    encoding, _ = TargetMean.learn(0, column, y)
    Z, unknown = encoding.transform(categories(["c1", "never", None]))
    assert Z[1:].tolist() == [[0.0], [0.0]]
    assert unknown.tolist() == [1, 2]


def test_several_targets():
    column, y, _ = table(n=300, n_levels=5)
    both = np.column_stack([y, np.zeros(300), -1e300 * y])
    encoding, Z = TargetMean.learn(0, column, both)
    assert Z.shape == (300, 3)
    assert not Z[:, 1].any()
    np.testing.assert_allclose(Z[:, 2], -Z[:, 0], rtol=1e-6)
    assert encoding.suffixes == ["mean0", "mean1", "mean2"]


@pytest.mark.parametrize("n", [1, 2, 3])
def test_hardly_any_rows(n):
    _, Z = TargetMean.learn(0, categories(["a", "b", "c"][:n]), np.arange(n)[:, None] * 1.0)
    assert np.isfinite(Z).all()


def test_the_same_every_time():
    column, y, _ = table()
    np.testing.assert_array_equal(*(TargetMean.learn(0, column, y)[1] for _ in range(2)))


def test_encoder():
    column, y, effects = table(n=500, n_levels=100)
    data = {
        "many": [column.levels[code] for code in column.values],
        "two": ["a", "b"] * 250,
        "x": effects,
    }
    encoder = TableEncoder(categories="target")
    with pytest.raises(ValueError, match="needs the targets"):
        encoder.fit_transform(data)
    Z = encoder.fit_transform(data, y)
    assert encoder.uses_target
    assert encoder.names_out == ["x", "many_mean", "two_a", "two_b"]
    assert not np.allclose(encoder.transform(data), Z)  # training rows: from other rows
    few = read_table({name: data[name] for name in ("two", "x")})
    encoder.fit_transform(few, y)
    assert not encoder.uses_target
    np.testing.assert_array_equal(encoder.transform(few), TableEncoder().fit_transform(few))
