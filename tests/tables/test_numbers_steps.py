"""The unary code: ramps between quantiles."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandfall.tables._numbers import Steps


def learned(values, n_steps=12):
    values = np.asarray(values, dtype=float).reshape(len(values), -1)
    return Steps.learn(values, np.ones(values.shape, dtype=bool), n_steps)


def test_the_formula():
    values = np.random.default_rng(0).lognormal(size=100)
    steps = learned(values, 5)
    knots = np.sort(values)[np.round(np.linspace(0, 99, 6)).astype(int)]
    expected = np.clip((values[:, None] - knots[:-1]) / np.diff(knots), 0, 1)
    found = steps.transform(values[:, None])
    np.testing.assert_allclose(found / steps.weight, expected, atol=1e-12)
    np.testing.assert_allclose(found.var(axis=0).sum(), 1.0)
    assert len(np.unique(steps.weight)) == 1


def test_squared_distances_are_those_of_ranks():
    """Between knots: as many steps apart, as large the squared distance."""
    steps = learned(np.arange(13.0))
    code = steps.transform(np.arange(13.0)[:, None]) / steps.weight
    squared = ((code[:, None] - code[None]) ** 2).sum(axis=-1)
    np.testing.assert_allclose(squared, np.abs(np.subtract.outer(np.arange(13), np.arange(13))))


@given(values=st.lists(st.sampled_from([0.0, 0.5, 2.0, 7.0]), min_size=1, max_size=50))
def test_few_values_have_a_ramp_a_gap(values):
    steps = learned(values)
    distinct = np.unique(values)
    np.testing.assert_array_equal(steps.low, distinct[:-1])
    np.testing.assert_array_equal(steps.gap, np.diff(distinct))


def test_equal_knots_are_merged():
    values = np.concatenate([np.zeros(700), np.random.default_rng(0).uniform(1, 2, 300)])
    steps = learned(values)
    assert len(steps.low) == 4  # of twelve, eight between zeros
    assert np.all(steps.gap > 0)


def test_knots_know_nothing_of_filled_values():
    values = np.concatenate([np.arange(20.0), np.full(500, 10.0)])[:, None]
    known = np.arange(520)[:, None] < 20
    np.testing.assert_array_equal(Steps.learn(values, known, 4).low, [0, 5, 10, 14])


def test_beyond_the_ends_order_is_kept_and_no_step_is_exceeded():
    steps = learned(np.arange(5.0))
    x = np.array([-1e300, -100.0, -1.0, 0.0, 4.0, 5.0, 100.0, 1e300])[:, None]
    first, last = (steps.transform(x) / steps.weight).T[[0, -1]]
    np.testing.assert_allclose(first[:4], [-1, -100 / 101, -0.5, 0], atol=1e-5)
    np.testing.assert_allclose(last[4:], [1, 1.5, 1 + 96 / 97, 2], atol=1e-5)
    assert (first[4:] == 1).all()
    assert (last[:4] == 0).all()


def test_rows_in_parts_are_the_same_rows():
    values = np.random.default_rng(0).normal(size=(1500, 3))
    steps = learned(values)
    whole = steps.transform(values)
    np.testing.assert_array_equal(whole[700:720], steps.transform(values[700:720]))


def test_constant_and_no_columns():
    steps = learned(np.full(10, 3.0))
    assert steps.transform(np.zeros((2, 1))).shape == (2, 0)
    assert steps.jacobian(np.zeros((2, 1))).shape == (2, 0)
    assert (
        Steps.learn(np.zeros((3, 0)), np.ones((3, 0), bool), 4).transform(np.zeros((2, 0))).size
        == 0
    )


@pytest.mark.parametrize("n_steps", [1, 2, 30])
def test_number_of_steps(n_steps):
    assert len(learned(np.random.default_rng(0).normal(size=200), n_steps).low) == n_steps
