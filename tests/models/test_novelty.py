"""Distance to what was seen."""

from functools import partial

import numpy as np
import pytest
from scipy.spatial import cKDTree

from bandfall._models import novelty
from bandfall._models.novelty import nearest_distances, novelty_scale
from bandfall._products import NumpyBackend
from bandfall.kernels._geometry import Geometry


@pytest.fixture
def rows():
    return np.random.default_rng(0).normal(size=(300, 4)) + 1e3


def test_distances_are_exact(rows):
    new = rows[:50] + np.random.default_rng(1).normal(size=(50, 4))
    expected, _ = cKDTree(rows).query(new)
    np.testing.assert_allclose(nearest_distances(new, rows), expected, rtol=1e-9)
    assert nearest_distances(rows, rows).tolist() == [0.0] * 300


def test_little_memory_gives_the_same(rows):
    new = rows[:50] + 0.1
    np.testing.assert_allclose(
        nearest_distances(new, rows, backend=NumpyBackend(1)),
        nearest_distances(new, rows),
        rtol=1e-9,
    )


def test_one_is_the_99_percent_point_of_held_out_rows(rows):
    held_out = np.random.default_rng(2).normal(size=(5000, 4)) + 1e3
    novelty = nearest_distances(held_out, rows) / novelty_scale(rows)
    assert np.mean(novelty > 1) == pytest.approx(0.01, abs=0.004)
    far = nearest_distances(rows[:1] + 50, rows) / novelty_scale(rows)
    assert far > 10


def test_repeated_rows():
    assert novelty_scale(np.zeros((5, 2))) == 1.0
    assert novelty_scale(np.zeros((1, 2))) == 1.0
    rows = np.zeros((500, 1))
    rows[0] = 2.0
    assert novelty_scale(rows) == 2.0


def test_float32_rows(rows):
    assert novelty_scale(rows.astype(np.float32)) == pytest.approx(novelty_scale(rows), rel=1e-3)


@pytest.mark.parametrize("p", [1.0, 1.25, 2.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_tree_of_many_rows_finds_what_comparing_all_of_them_finds(p, dtype):
    """Halves of the rows are too few for a tree."""
    random = np.random.default_rng(4)
    rows = np.round(random.normal(size=(6000, 3)), 1).astype(dtype)  # many rows repeat
    new = random.normal(size=(40, 3)).astype(dtype)
    nearest = partial(nearest_distances, geometry=Geometry(p))
    first, second = rows[:3000].copy(), rows[3000:].copy()
    expected = np.minimum(nearest(new, first), nearest(new, second))
    np.testing.assert_allclose(nearest(new, rows), expected, rtol=1e-5, atol=1e-9)
    own = np.arange(0, 3000, 75)
    expected = np.minimum(nearest(first[own], first, own=own), nearest(first[own], second))
    np.testing.assert_allclose(nearest(rows[own], rows, own=own), expected, rtol=1e-5, atol=1e-9)


def test_trees_do_not_outlive_their_rows():
    rows = np.random.default_rng(5).normal(size=(6000, 3))
    nearest_distances(rows[:3], rows)
    key = id(rows)
    assert novelty._trees[key] is not None
    del rows
    assert key not in novelty._trees


def test_rows_that_spread_in_many_directions_are_compared_one_by_one():
    rows = np.random.default_rng(6).normal(size=(6000, 30))
    nearest_distances(rows[:3], rows)
    assert novelty._trees[id(rows)] is None
