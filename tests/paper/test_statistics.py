"""Floors, quartiles, p-values and curves of the paper's figures and tables."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.stats import rankdata

from bandfall._paper.double_descent import FLOORS, error_curve, floor_grid
from bandfall._paper.tables import quartiles, superiority_p_value

SCORES = st.floats(-3, 1)

# Floors


@pytest.mark.parametrize("ends", FLOORS.values())
def test_the_papers_floors_are_even_in_complexity(ends):
    floors = floor_grid(*ends)
    assert floors.shape == (100,)
    assert (floors[-1], floors[0]) == ends
    assert (np.diff(floors) < 0).all()
    steps = np.diff([1 / (floor + 0.01) ** (1 / 5) for floor in floors])
    np.testing.assert_allclose(steps, steps.mean(), rtol=1e-9)


@given(lowest=st.floats(0, 10), ratio=st.floats(1.01, 1e6), n_floors=st.integers(2, 300))
def test_any_range_gives_a_falling_grid_with_exact_ends(lowest, ratio, n_floors):
    highest = max(lowest, 1e-6) * ratio
    floors = floor_grid(lowest, highest, n_floors)
    assert len(floors) == n_floors
    assert (floors[0], floors[-1]) == (highest, lowest)
    assert (np.diff(floors) < 0).all()


# Quartiles


@given(hnp.arrays(float, st.integers(1, 40), elements=SCORES))
def test_quartiles_interpolate_order_statistics(r2):
    def naive(fraction):
        position = fraction * (len(r2) - 1)
        below = math.floor(position)
        ordered = [*sorted(r2), 0.0]
        return ordered[below] + (position - below) * (ordered[below + 1] - ordered[below])

    found = quartiles(r2)
    np.testing.assert_allclose(found, [naive(0.5), naive(0.25), naive(0.75)], atol=1e-14)
    assert found.lower <= found.median <= found.upper


# p-values


def naive_normal_p(differences):
    """Wilcoxon signed-rank test for 'greater', normal approximation with ties, no zeros."""
    n = len(differences)
    ranks = rankdata(np.abs(differences))
    statistic = ranks[differences > 0].sum()
    variance = n * (n + 1) * (2 * n + 1) / 24
    _, ties = np.unique(ranks, return_counts=True)
    variance -= (ties**3 - ties).sum() / 48
    z = (statistic - n * (n + 1) / 4) / math.sqrt(variance)
    return math.erfc(z / math.sqrt(2)) / 2


@given(seed=st.integers(0, 10_000), shift=st.floats(-0.3, 0.3), n=st.sampled_from([100, 200]))
def test_p_value_is_the_larger_of_two_one_sided_tests(seed, shift, n):
    generator = np.random.default_rng(seed)
    ours, *rivals = generator.normal(size=(3, n))
    ours = ours + shift
    expected = max(naive_normal_p(ours - rival) for rival in rivals)
    np.testing.assert_allclose(superiority_p_value(ours, *rivals), expected, rtol=1e-10)


@given(hnp.arrays(float, 60, elements=SCORES), hnp.arrays(float, 60, elements=SCORES))
def test_only_one_of_two_methods_can_be_better(first, second):
    assume(not np.array_equal(first, second))
    assert superiority_p_value(first, second) + superiority_p_value(second, first) >= 1 - 1e-12


def test_equal_scores_are_no_evidence():
    assert superiority_p_value([0.5, 0.6], [0.5, 0.6]) == 1.0


# Curves


@given(hnp.arrays(float, (100, 3), elements=SCORES))
def test_curves_drop_five_of_a_hundred_at_either_end(r2):
    curve = error_curve(r2)
    for floor in range(3):
        kept = 1 - np.array(sorted(r2[:, floor])[5:95])
        np.testing.assert_allclose(curve.mean[floor], kept.mean(), atol=1e-14)
        np.testing.assert_allclose(curve.lower[floor], np.percentile(kept, 5), atol=1e-14)
        np.testing.assert_allclose(curve.upper[floor], np.percentile(kept, 95), atol=1e-14)


@given(hnp.arrays(float, st.tuples(st.integers(1, 45), st.integers(1, 4)), elements=SCORES))
def test_curves_of_any_number_of_runs(r2):
    curve = error_curve(r2)
    assert curve.mean.shape == (r2.shape[1],)
    assert (curve.lower <= curve.upper).all()
    assert (curve.lower >= 1 - r2.max(axis=0) - 1e-12).all()
    shuffled = error_curve(r2[::-1])
    np.testing.assert_allclose(curve.mean, shuffled.mean, atol=1e-14)


def test_pairs_that_are_equal_do_not_count():
    """Sixty pairs of which one differs are one pair: too few for a normal approximation."""
    scores, rival = np.zeros(60), np.zeros(60)
    scores[7] = 1.0
    assert superiority_p_value(scores, rival) == 0.5
    assert superiority_p_value(rival, scores) == 1.0
