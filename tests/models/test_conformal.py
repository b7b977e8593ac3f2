"""Conformal quantiles keep their promise on exchangeable data, whatever the distribution."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from bandfall._models.intervals import (
    SIDED_ROWS,
    Sizes,
    at_least,
    calibrate,
    conformal_quantile,
    interval_score,
    score_quantiles,
    widened,
)

N_REPETITIONS = 4000
SURE = 1e-4  # a right method fails a test about once in so many seeds


def binomial_bounds(share, n):
    """Shares that n draws with this probability stay between, but for SURE."""
    return stats.binom.interval(1.0 - SURE, n, share) / np.array(n)


@pytest.mark.parametrize("n_rows", [9, 30, 99, 500])
@pytest.mark.parametrize("draw", ["standard_normal", "standard_cauchy", "standard_exponential"])
def test_coverage_of_exchangeable_scores(n_rows, draw):
    random = np.random.default_rng(n_rows)
    scores = getattr(random, draw)((n_rows + 1, N_REPETITIONS))
    lower, upper = score_quantiles(scores[:-1], np.array([0.1, 0.9]))
    share = np.mean((lower <= scores[-1]) & (scores[-1] <= upper))
    low, _ = binomial_bounds(0.8, N_REPETITIONS)
    # Ranks are whole numbers: a tail each may be up to one row short of its level.
    _, high = binomial_bounds(min(1.0, 0.8 + 2.0 / (n_rows + 1)), N_REPETITIONS)
    assert low <= share <= high


def test_sizes_that_do_not_look_at_the_error_keep_the_promise():
    random = np.random.default_rng(0)
    n_repetitions, covered = 400, 0
    for _ in range(n_repetitions):
        x = random.uniform(size=(81, 1))
        errors = random.standard_normal((81, 1)) * (0.1 + x)
        rows = np.arange(80)
        sizes = Sizes(x[:-1], errors[:-1], np.ones(80), rows)
        scores = errors[:-1] / sizes.left_out(np.array([0.2]))[0]
        lower, upper = score_quantiles(scores, np.array([0.05, 0.95]))
        bounds = sizes.at(x[-1:], 0.2) * np.stack([lower, upper])
        covered += bool(bounds[0, 0] <= errors[-1, 0] <= bounds[1, 0])
    low, high = binomial_bounds(0.9, n_repetitions)
    assert low <= covered / n_repetitions <= high + 2.0 / 81


def test_the_rank_is_that_of_the_next_row():
    scores = np.arange(1.0, 20.0)[:, None]
    assert conformal_quantile(scores, np.array([0.9]))[0, 0] == 18.0  # ⌈0.9 · 20⌉
    assert conformal_quantile(scores, np.array([0.95]))[0, 0] == 19.0
    assert conformal_quantile(scores, np.array([0.96]))[0, 0] == np.inf
    assert conformal_quantile(np.zeros((0, 1)), np.array([0.5]))[0, 0] == np.inf


@given(st.lists(st.integers(1, 4), min_size=3, max_size=30), st.floats(0.05, 0.95))
def test_a_weight_is_that_many_rows(counts, level):
    scores = np.random.default_rng(len(counts)).standard_normal((len(counts), 1))
    weighted = conformal_quantile(scores, np.array([level]), np.array(counts, dtype=float))
    repeated = conformal_quantile(np.repeat(scores, counts, axis=0), np.array([level]))
    assert_array_equal(weighted, repeated)


@pytest.mark.parametrize("n_rows", [50, SIDED_ROWS])
def test_quantiles_rise_with_the_level(n_rows):
    scores = np.random.default_rng(0).standard_exponential((n_rows, 2)) - 1.0
    quantiles = score_quantiles(scores, np.linspace(0.02, 0.98, 25))
    assert np.all(np.diff(quantiles, axis=0) >= 0)


def test_skewed_errors_get_skewed_intervals_where_rows_suffice():
    scores = np.random.default_rng(0).standard_exponential((1000, 1)) - 1.0
    lower, upper = score_quantiles(scores, np.array([0.05, 0.95]))[:, 0]
    assert_allclose([lower, upper], np.log([1 / 0.95, 1 / 0.05]) - 1.0, atol=0.25)
    lower, upper = score_quantiles(scores[:100], np.array([0.05, 0.95]))[:, 0]
    assert lower == -upper


def test_the_interval_score_is_least_for_the_true_quantiles():
    y = np.random.default_rng(0).standard_normal(20_000)
    end = stats.norm.ppf(0.95)
    means = [interval_score(-c * end, c * end, y, 0.9).mean() for c in (0.8, 1.0, 1.2)]
    assert np.argmin(means) == 1
    assert_allclose(interval_score(0.0, 1.0, np.array([0.5, 2.0]), 0.9), [1.0, 21.0])


def test_a_row_does_not_judge_itself():
    random = np.random.default_rng(0)
    rows, weights = np.arange(30) % 20, random.uniform(0.5, 1.5, 30)
    x, errors = random.uniform(size=(20, 2))[rows], random.standard_normal((30, 2))
    sizes = Sizes(x, errors, weights, rows)
    for i in (0, 25):
        others = rows != rows[i]
        kernel = np.exp(-0.5 * ((x - x[i]) ** 2).sum(axis=1) / 0.3**2)[others] * weights[others]
        mean = np.average(np.abs(errors), axis=0, weights=weights)
        expected = (kernel @ np.abs(errors[others]) + 3.0 * mean) / (kernel.sum() + 3.0)
        assert_allclose(sizes.left_out(np.array([0.6, 0.3]))[1, i], expected, rtol=1e-9)


@pytest.mark.parametrize("moved", [0.0, 0.1])
def test_sizes_at_new_rows_are_those_of_the_formula(moved):
    """Rows that were held out twice, at one place or (`moved`) at two."""
    random = np.random.default_rng(0)
    rows, weights = np.arange(30) % 20, random.uniform(0.5, 1.5, 30)
    x, errors = random.uniform(size=(20, 2))[rows], random.standard_normal((30, 2))
    x[20:] += moved
    new = random.uniform(size=(7, 2))
    squares = ((new[:, None] - x) ** 2).sum(axis=2)
    kernel = np.exp(-0.5 * squares / 0.3**2) * weights
    mean = np.average(np.abs(errors), axis=0, weights=weights)
    expected = (kernel @ np.abs(errors) + 3.0 * mean) / (kernel.sum(axis=1, keepdims=True) + 3.0)
    assert_allclose(Sizes(x, errors, weights, rows).at(new, 0.3), expected, rtol=1e-5)


@pytest.mark.parametrize("spread", [0.0, 1.0])
def test_sizes_depend_on_the_place_where_errors_do(spread):
    random = np.random.default_rng(1)
    x = random.uniform(size=(600, 1))
    errors = random.standard_normal((600, 1)) * (0.1 + spread * (x > 0.5))
    noise = random.uniform(size=(600, 1))
    rest = (errors, np.ones(600), np.arange(600))
    candidates = {"noise": Sizes(noise, *rest), "place": Sizes(x, *rest)}
    chosen = calibrate(candidates, errors, np.zeros(600))
    if spread:
        assert chosen.method == "place"
        assert chosen.gain > 0.2
        assert chosen.sizes[x > 0.6].mean() > 5 * chosen.sizes[x < 0.4].mean()
    else:
        assert chosen.method == "constant"
        assert np.ptp(chosen.sizes) == 0


def test_errors_are_at_least_those_in_training_if_the_final_model_is_worse():
    errors = np.random.default_rng(0).standard_normal((200, 2))
    residual = errors * [0.9, 1.3]
    raised = at_least(errors, -residual)
    assert_array_equal(raised[:, 0], errors[:, 0])  # smaller in training, as they should be
    assert_allclose(raised[:, 1], residual[:, 1])
    some = residual * (np.arange(200)[:, None] % 2 == 0)  # large residuals of half the rows
    assert np.all(np.abs(at_least(errors, 2.0 * some)) >= np.abs(errors))
    assert_array_equal(at_least(errors, 0.5 * some), errors)


def test_nothing_to_calibrate_by():
    rest = (np.zeros((20, 2)), np.ones(20), np.arange(20))
    chosen = calibrate({"place": Sizes(np.zeros((20, 1)), *rest)}, rest[0], np.zeros(20))
    assert chosen.method == "constant"
    assert np.all(chosen.sizes == 1.0)


def test_sizes_grow_with_novelty_up_to_a_standard_deviation():
    sizes = np.array([[0.1, 2.0]])
    for novelty, expected in ((0.0, 0.1), (1.0, 0.1), (3.0, 0.3), (1e9, 1.0)):
        assert_allclose(widened(sizes, np.array([novelty])), [[expected, 2.0]])
