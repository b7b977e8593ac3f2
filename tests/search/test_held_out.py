"""Paths end where held-out rows see them get worse, and not before."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from bandfall._models.member import Candidate
from bandfall._search.parts import Encoded, Part, Rows
from bandfall._search.splits import folds
from bandfall._search.trials import Request, run_parts
from bandfall._targets.losses import PowerLoss

SPEEDS = [0.1, 0.001]


def noisy_rows(noise, n=60, n_outputs=1, weights=None):
    random = np.random.default_rng(0)
    X = random.normal(size=(n, 2))
    y = np.sin(2 * X[:, :1]) + noise * random.normal(size=(n, n_outputs))
    y = (y - y.mean(0)) / y.std(0)
    return Rows({"standard": Encoded(X)}, y, np.arange(n), weights)


def parts_of(rows, n_folds=3):
    return [Part(rows, *split) for split in folds(rows, np.random.RandomState(0), n_folds)]


class Even:
    """A judge to whom all predictions are alike."""

    def losses(self, predictions, y):
        return np.zeros(predictions.shape[:-1])


def run(parts, judge):
    request = Request(Candidate(), SPEEDS)
    return run_parts(parts, request, [np.ones(2)] * len(parts), judge)


def curves(parts, outcomes):
    """Loss of all parts together after every stop, shape (L + 1, V)."""
    return sum(
        np.einsum("lmv,m->lv", one.losses, p.evidence)
        for p, one in zip(parts, outcomes, strict=True)
    )


def test_a_path_that_learns_noise_ends_early_at_the_same_best_stop():
    parts = parts_of(noisy_rows(noise=1.0))
    whole, watched = run(parts, Even()), run(parts, PowerLoss())
    assert len(watched[0].ladder.bandwidths) < len(whole[0].ladder.bandwidths)
    assert np.all(watched[0].ladder.r2[-1] < 0.9 * whole[0].ladder.r2[-1])
    losses = [
        PowerLoss().losses(one.predictions, p.y[:, None])
        for p, one in zip(parts, whole, strict=True)
    ]
    best = sum(one.sum(axis=1) for one in losses).min(axis=0)
    assert_allclose(curves(parts, watched).min(axis=0), best, rtol=1e-3)


def test_a_path_that_gets_better_throughout_is_left_alone():
    parts = parts_of(noisy_rows(noise=0.0))
    whole, watched = run(parts, Even()), run(parts, PowerLoss())
    assert_array_equal(watched[0].ladder.bandwidths, whole[0].ladder.bandwidths)
    assert_array_equal(watched[0].predictions, whole[0].predictions)


@pytest.mark.parametrize("weighted", [False, True])
def test_a_speed_ends_where_its_loss_over_all_parts_has_risen(weighted):
    weights = np.random.default_rng(1).uniform(0.5, 2.0, 60) if weighted else None
    parts = parts_of(noisy_rows(noise=1.0, n_outputs=2, weights=weights))
    outcomes = run(parts, PowerLoss())
    totals = curves(parts, outcomes)
    for speed, total in enumerate(totals.T):
        worse = total[1:] > (1 + parts[0].rows.settings.worse) * np.minimum.accumulate(total[1:])
        moves = np.any(np.diff([one.ladder.r2[:, speed] for one in outcomes], axis=1) > 0, axis=0)
        assert worse.any()
        first = int(np.argmax(worse)) + 1
        bandwidths = outcomes[0].ladder.bandwidths
        assert len(set(bandwidths[first:][moves[first:]])) <= 1  # the pass that showed it, at most
