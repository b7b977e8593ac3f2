"""Trials: every speed at its best stop, on all parts together."""

import math

import numpy as np
from numpy.testing import assert_allclose

from bandfall._models.member import Candidate
from bandfall._search.parts import Part
from bandfall._search.trials import Outcome, Request, trial_of
from bandfall._targets.losses import PowerLoss, mean_r2
from bandfall.descent._ladder import Ladder
from search_rows import (
    rows_of,
)

REQUEST = Request(Candidate(), (0.1,))


def outcome_of(r2, predictions, part, judge):
    r2 = np.asarray(r2, dtype=float)[:, None]
    stops = len(r2) - 1
    ladder = Ladder(np.ones(stops), np.zeros((stops, 1, 1, 1)), r2)
    predictions = np.asarray(predictions, dtype=float)[:, :, None, None]
    losses = np.stack([judge.losses(stop, part.y[:, None]) for stop in predictions])
    return Outcome(ladder, predictions, losses)


def test_the_stop_is_the_best_for_all_parts_together():
    rows = rows_of()
    parts = [
        Part(rows, np.arange(40), np.arange(40, 42)),
        Part(rows, np.arange(40), np.arange(42, 45)),
    ]
    judge = PowerLoss(2.0)
    y = [part.y[:, 0] for part in parts]
    outcomes = [
        outcome_of([0.0, 0.5, 0.9], [y[0] + 9, y[0] + 0.5, y[0] + 1.0], parts[0], judge),
        outcome_of([0.0, 0.4, 0.8], [y[1] + 9, y[1] + 2.0, y[1] + 0.1], parts[1], judge),
    ]
    # At 0.4 the second part has not got far, from 0.8 on the first one has gone too far.
    trial, stops, _ = trial_of(outcomes, parts, REQUEST, 0)
    assert stops == [1, 2]
    expected = np.array([0.25, 0.25, 0.01, 0.01, 0.01])
    assert trial.max_r2 == 0.5
    assert_allclose(trial.loss, expected.mean())
    assert_allclose(trial.standard_error, expected.std() / math.sqrt(5))
    assert trial.n_rows == 40


def test_targets_that_do_not_vary_have_no_score():
    y = np.full((7, 1), 0.1)  # whose mean is not quite 0.1
    assert math.isnan(mean_r2(np.zeros((7, 1)), y, None))
    both = np.column_stack([y[:, 0], np.arange(7.0)])
    assert_allclose(mean_r2(both + np.array([1.0, 0.0]), both, None), 1.0)
