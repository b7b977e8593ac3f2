"""Parts of the rows: what they train on, predict and learn, against sums written out."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from bandfall._models.member import Candidate, MetricKey
from bandfall._products import HOST
from bandfall._products.base import group_rows
from bandfall._search.parts import Encoded, Part, Rows
from bandfall._search.splits import folds
from bandfall._search.trials import Request, Trial, run_parts, train_parts
from counting import Counting
from problems import problem
from reference_ladder import staged_sums

SPEEDS = (0.1, 0.01)
STANDARD = MetricKey("standard", True, 0)
ONES = np.ones(3)


class Even:
    """A judge to whom all predictions are alike: no path ends early."""

    def losses(self, predictions, y):
        return np.zeros(predictions.shape[:-1])


def run(parts, request, roots=None):
    return run_parts(parts, request, roots or [ONES] * len(parts), Even())


def rows_of(n=40, n_outputs=1, weighted=False, dtype=np.float64):
    """Rows in two encodings, of which six are repeated."""
    X, y, _ = problem(3, n=n)
    X[:6] = X[6:12]
    y = np.column_stack([y, np.cos(3 * X[:, 1])])[:, :n_outputs]
    weights = None
    if weighted:
        weights = np.random.default_rng(4).uniform(0.3, 2.0, n)
        weights /= weights.mean()
    views = {"standard": Encoded(X.astype(dtype)), "curved": Encoded(np.tanh(X).astype(dtype))}
    return Rows(views, (y - y.mean(0)) / y.std(0), group_rows(X)[0], weights)


@pytest.mark.parametrize("weighted", [False, True])
def test_operators_of_parts_are_released(weighted):
    backend = Counting(HOST)
    part = part_of(replace(rows_of(weighted=weighted), backend=backend))
    request = Request(Candidate("standard", 0, "laplace-1.5"), SPEEDS)
    assert len(train_parts([part, part], request, [part.columns("standard")[0]] * 2)) == 2
    assert backend.n_made == 2
    assert not backend.open


def part_of(rows):
    (train, held_out), *_ = folds(rows, np.random.RandomState(0), 4)
    return Part(rows, train, held_out)


def trial_of(encoding="standard", n_rounds=0, kernel="gaussian", speed=0.1, max_r2=0.9):
    return Trial(Candidate(encoding, n_rounds, kernel, speed), 0.0, 0.0, 0.0, max_r2, 30)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kernel", ["gaussian", "matern12"])
def test_predictions_are_kernel_sums(kernel, weighted):
    rows = rows_of(n_outputs=2, weighted=weighted)
    part = part_of(rows)
    (outcome,) = run([part], Request(Candidate("curved", 0, kernel), SPEEDS))
    Z = rows.views["curved"].Z
    ladder = outcome.ladder
    sums = staged_sums(
        kernel, Z[part.held_out], Z[part.train], ladder.bandwidths, ladder.coefficients
    )
    weights = None if rows.weights is None else rows.weights[part.train]
    offset = np.average(rows.y[part.train], axis=0, weights=weights)
    assert outcome.predictions.shape == (len(ladder.r2), len(part.held_out), len(SPEEDS), 2)
    assert_allclose(outcome.predictions, sums + offset, atol=1e-8)
    assert_array_equal(part.y, rows.y[part.held_out])


@pytest.mark.parametrize("weighted", [False, True])
def test_paths_fit_their_own_rows(weighted):
    rows = rows_of(n_outputs=2, weighted=weighted)
    part = part_of(rows)
    (outcome,) = run([part], Request(Candidate(), SPEEDS))
    Z, y = rows.views["standard"].Z[part.train], rows.y[part.train]
    weights = np.ones(len(part)) if rows.weights is None else rows.weights[part.train]
    sums = staged_sums("gaussian", Z, Z, outcome.ladder.bandwidths, outcome.ladder.coefficients)
    errors = ((y - part.offset)[:, None] - sums) ** 2
    centred = (y - np.average(y, axis=0, weights=weights)) ** 2
    left = (np.einsum("n,lnvk->lvk", weights, errors) / (weights @ centred)).mean(axis=2)
    assert_allclose(outcome.ladder.r2, np.maximum.accumulate(1.0 - left), atol=1e-6)
    assert_allclose((part.target**2).sum(), 1.0)


def test_a_row_of_weight_w_counts_as_w_rows():
    X, y, _ = problem(5, n=20)
    counts = np.random.default_rng(0).integers(1, 4, 20)
    y = ((y - y.mean()) / y.std())[:, None]
    new = np.arange(15, 20)
    train = np.arange(15)
    weighted = Rows({"standard": Encoded(X)}, y, np.arange(20), counts.astype(float))
    repeated = np.concatenate([np.repeat(train, counts[:15]), new])
    plain = Rows({"standard": Encoded(X[repeated])}, y[repeated], repeated)
    n = counts[:15].sum()
    outcomes = [
        run([part], Request(Candidate(), SPEEDS))[0]
        for part in (Part(weighted, train, new), Part(plain, np.arange(n), np.arange(n, n + 5)))
    ]
    assert_allclose(outcomes[0].ladder.r2[-1], outcomes[1].ladder.r2[-1], atol=1e-6)
    assert_allclose(outcomes[0].predictions[-1], outcomes[1].predictions[-1], atol=0.05)


def test_nothing_is_predicted_for_no_rows():
    rows = rows_of()
    everything = Part(rows, np.arange(len(rows)), np.arange(0))
    (outcome,) = run([everything], Request(Candidate(), SPEEDS))
    assert outcome.predictions.shape == (len(outcome.ladder.r2), 0, len(SPEEDS), 1)


@pytest.mark.parametrize("constant", ["one", "both"])
def test_targets_that_are_constant_within_a_part_are_predicted_by_their_mean(constant):
    rows = rows_of(n_outputs=2)
    rows.y[:30, 0] = 0.7
    if constant == "both":
        rows.y[:30, 1] = -0.2
    part = Part(rows, np.arange(30), np.arange(30, 40))
    (outcome,) = run([part], Request(Candidate(), SPEEDS))
    assert_allclose(outcome.predictions[..., 0], 0.7, atol=1e-12)
    if constant == "both":
        assert_allclose(outcome.predictions[..., 1], -0.2, atol=1e-12)
        assert_array_equal(outcome.ladder.bandwidths, [])
    else:
        alone = Rows(rows.views, rows.y[:, 1:], rows.groups)
        (expected,) = run(
            [Part(alone, part.train, part.held_out)],
            Request(Candidate(), SPEEDS),
        )
        assert_allclose(outcome.ladder.r2, expected.ladder.r2, atol=1e-9)
        assert_allclose(outcome.predictions[..., 1:], expected.predictions, atol=1e-9)


def test_parts_side_by_side_are_nearly_as_one_by_one():
    rows = rows_of(n=60)
    parts = [Part(rows, *split) for split in folds(rows, np.random.RandomState(0), 3)]
    together = run(parts, Request(Candidate("standard", 0, "matern12"), SPEEDS))
    for part, outcome in zip(parts, together, strict=True):
        (alone,) = run([part], Request(Candidate("standard", 0, "matern12"), SPEEDS))
        # Another start bandwidth, another grid: the same paths up to its resolution.
        assert_allclose(outcome.predictions[-1], alone.predictions[-1], atol=0.2)
        assert np.abs(outcome.predictions[-1] - alone.predictions[-1]).mean() < 0.05


def test_single_precision_stays_single():
    rows = rows_of(dtype=np.float32)
    part = part_of(rows)
    (outcome,) = run([part], Request(Candidate(), SPEEDS))
    (double,) = run([part_of(rows_of())], Request(Candidate(), SPEEDS))
    assert outcome.ladder.coefficients.dtype == np.float32
    assert outcome.predictions.dtype == np.float64
    stop = min(len(outcome.ladder.bandwidths), len(double.ladder.bandwidths))
    assert_allclose(outcome.predictions[stop], double.predictions[stop], atol=0.02)
