"""Weights of an average of models, against every average that could have been taken."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from bandfall._search.averaging import greedy_weights, without_light
from bandfall._targets.losses import PowerLoss
from problems import seeds

JUDGE = PowerLoss()


def mean_loss(average, y, weights=None, judge=JUDGE):
    return np.average(judge.losses(average, y), weights=weights)


def made_predictions(seed, n_models, n=12, n_outputs=2):
    rng = np.random.default_rng(seed)
    y = rng.normal(size=(n, n_outputs))
    spread = rng.uniform(0.2, 1.5, n_models)
    return [y + s * rng.normal(size=y.shape) for s in spread], y, rng.uniform(0.1, 3.0, n)


@given(seeds, st.integers(1, 8), st.integers(1, 5), st.booleans())
def test_weights_are_few_and_never_worse_than_the_best_one(seed, n_models, n_members, weighted):
    predictions, y, row_weights = made_predictions(seed, n_models)
    row_weights = row_weights if weighted else None
    weights = greedy_weights(predictions, y, JUDGE, n_members=n_members, weights=row_weights)
    assert weights.shape == (n_models,)
    assert np.all(weights >= 0)
    assert_allclose(weights.sum(), 1.0)
    assert 1 <= np.count_nonzero(weights) <= n_members
    best = min(mean_loss(one, y, row_weights) for one in predictions)
    average = np.tensordot(weights, np.stack(predictions), 1)
    assert mean_loss(average, y, row_weights) <= best + 1e-12


@given(seeds, st.integers(1, 3), st.integers(1, 3))
def test_greedy_counts_are_those_of_a_search_written_out(seed, n_models, n_members):
    predictions, y, _ = made_predictions(seed, n_models)
    chosen, best = [], (np.inf, None)
    for _ in range(20 if n_members > 1 else 1):
        options = [i for i in range(n_models) if len({*chosen, i}) <= n_members]
        losses = [
            mean_loss(sum(predictions[j] for j in [*chosen, i]) / (len(chosen) + 1), y)
            for i in options
        ]
        chosen = [*chosen, options[int(np.argmin(losses))]]
        best = min(best, (min(losses), chosen), key=lambda one: one[0])
    counts = np.bincount(best[1], minlength=n_models)
    weights = greedy_weights(predictions, y, JUDGE, n_members=n_members)
    assert_allclose(weights, counts / counts.sum())


@given(seeds)
def test_the_average_is_near_the_best_of_all(seed):
    """Squared error of two models is convex in one weight: greedy steps come close to its best."""
    predictions, y, _ = made_predictions(seed, 2, n=20)
    judge = PowerLoss(2.0)
    weights = greedy_weights(predictions, y, judge, n_members=2)
    all_losses = [
        mean_loss((i * predictions[0] + (20 - i) * predictions[1]) / 20, y, judge=judge)
        for i in range(21)
    ]
    average = np.tensordot(weights, np.stack(predictions), 1)
    assert mean_loss(average, y, judge=judge) <= min(all_losses) * 1.02


@pytest.mark.parametrize("n_models", [2, 3])
def test_no_average_of_few_counts_is_much_better(n_models):
    predictions, y, _ = made_predictions(7, n_models)
    weights = greedy_weights(predictions, y, JUDGE, n_members=n_models)
    losses = [
        mean_loss(np.tensordot(np.array(counts) / sum(counts), np.stack(predictions), 1), y)
        for counts in itertools.product(range(6), repeat=n_models)
        if sum(counts)
    ]
    average = np.tensordot(weights, np.stack(predictions), 1)
    assert mean_loss(average, y) <= 1.02 * min(losses)


def test_rows_of_large_weight_decide():
    y = np.zeros((2, 1))
    predictions = [np.array([[0.0], [1.0]]), np.array([[1.0], [0.0]])]
    for favoured in (0, 1):
        row_weights = np.full(2, 1e-3)
        row_weights[favoured] = 1.0
        weights = greedy_weights(predictions, y, JUDGE, n_members=1, weights=row_weights)
        assert_array_equal(weights, np.eye(2)[favoured])


@given(seeds, st.integers(1, 8), st.integers(1, 30))
def test_light_models_are_left_out_of_the_average(seed, n_models, n_members):
    predictions, y, _ = made_predictions(seed, n_models)
    greedy = greedy_weights(predictions, y, JUDGE, n_members=n_members)
    weights = without_light(greedy, n_members, 0.1)
    assert_allclose(weights.sum(), 1.0)
    kept = weights > 0
    assert np.all(weights[kept] >= greedy[kept])
    assert np.all(greedy[kept] >= min(0.1, 0.5 / n_members))
    assert n_members < 10 or kept.sum() == np.count_nonzero(greedy)


def test_equal_models_are_not_averaged():
    predictions, y, _ = made_predictions(0, 1)
    weights = greedy_weights(predictions * 3, y, JUDGE, n_members=3)
    assert_array_equal(weights, [1.0, 0.0, 0.0])


def test_caution_makes_weights_equal_where_few_rows_cannot_tell_models_apart():
    """Two models, one hardly better: with many rows the difference is known."""
    for n_rows, equal in ((20, True), (200_000, False)):
        rng = np.random.default_rng(0)
        y, noise = np.zeros((n_rows, 1)), rng.normal(size=(n_rows, 1))
        predictions = [noise, 1.05 * noise]
        assert greedy_weights(predictions, y, JUDGE, n_members=2)[0] == 1.0
        weights = greedy_weights(predictions, y, JUDGE, n_members=2, caution=1.0)
        assert (abs(weights[0] - 0.5) < 0.3) == equal


def test_members_beyond_the_limit_are_not_taken_in():
    predictions, y, _ = made_predictions(3, 8)
    for n_members in (2, 3, 4):
        weights = greedy_weights(predictions, y, JUDGE, n_members=n_members, n_steps=50)
        assert np.count_nonzero(weights) <= n_members


def test_the_loss_of_a_power():
    predictions, y = np.array([[[1.0, -4.0]], [[0.0, 0.0]]]), np.zeros((1, 2))
    assert_allclose(PowerLoss(1.5).losses(predictions, y), [[(1 + 8) / 2], [0.0]])
    assert_allclose(PowerLoss(2.0).losses(predictions, y), [[(1 + 16) / 2], [0.0]])
