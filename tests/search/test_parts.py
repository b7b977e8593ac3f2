"""Parts of the rows: what they train on, predict and learn, against sums written out."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from bandfall._models import metric
from bandfall._models.member import Candidate, MetricKey
from bandfall._models.metric import metric_root, scaled
from bandfall._products import HOST
from bandfall._products.base import group_rows
from bandfall._search.candidates import Request, Trial
from bandfall._search.held_out import run_parts
from bandfall._search.parts import (
    Part,
    Rows,
    common_root,
    learn_metrics,
    shuffled_rows,
    split_rows,
    train_parts,
)
from bandfall._search.views import Encoded
from counting import Counting
from problems import problem, seeds
from reference_ladder import gaussian_gradient, staged_sums

SPEEDS = (0.1, 0.01)
STANDARD = MetricKey("standard", True, 0)


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
    assert len(train_parts([part, part], Request("standard", 0, "laplace-1.5", SPEEDS))) == 2
    assert backend.n_made == 2
    assert not backend.open


def grouped(groups):
    """Rows of which only the groups matter."""
    return Rows({}, np.zeros((len(groups), 1)), groups)


def part_of(rows):
    (train, held_out), *_ = split_rows(rows, np.random.RandomState(0), 4)
    return Part(rows, train, held_out)


def trial_of(encoding="standard", n_rounds=0, kernel="gaussian", speed=0.1, max_r2=0.9):
    return Trial(Candidate(encoding, n_rounds, kernel, speed), 0.0, 0.0, 0.0, max_r2, 30)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kernel", ["gaussian", "matern12"])
def test_predictions_are_kernel_sums(kernel, weighted):
    rows = rows_of(n_outputs=2, weighted=weighted)
    part = part_of(rows)
    (outcome,) = run_parts([part], Request("curved", 0, kernel, SPEEDS))
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
    (outcome,) = run_parts([part], Request("standard", 0, "gaussian", SPEEDS))
    Z, y = rows.views["standard"].Z[part.train], rows.y[part.train]
    weights = np.ones(len(part)) if rows.weights is None else rows.weights[part.train]
    sums = staged_sums("gaussian", Z, Z, outcome.ladder.bandwidths, outcome.ladder.coefficients)
    errors = ((y - part.offset)[:, None] - sums) ** 2
    centred = (y - np.average(y, axis=0, weights=weights)) ** 2
    left = (np.einsum("n,lnvk->lvk", weights, errors) / (weights @ centred)).mean(axis=2)
    assert_allclose(outcome.ladder.r2, np.maximum.accumulate(1.0 - left), atol=1e-6)
    assert_allclose((part.target**2).sum(), 1.0)


def test_a_weight_counts_as_so_many_rows():
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
        run_parts([part], Request("standard", 0, "gaussian", SPEEDS))[0]
        for part in (Part(weighted, train, new), Part(plain, np.arange(n), np.arange(n, n + 5)))
    ]
    assert_allclose(outcomes[0].ladder.r2[-1], outcomes[1].ladder.r2[-1], atol=1e-6)
    assert_allclose(outcomes[0].predictions[-1], outcomes[1].predictions[-1], atol=0.05)


def test_nothing_is_predicted_for_no_rows():
    rows = rows_of()
    everything = Part(rows, np.arange(len(rows)), np.arange(0))
    (outcome,) = run_parts([everything], Request("standard", 0, "gaussian", SPEEDS))
    assert outcome.predictions.shape == (len(outcome.ladder.r2), 0, len(SPEEDS), 1)


@pytest.mark.parametrize("constant", ["one", "both"])
def test_targets_that_are_constant_within_a_part_are_predicted_by_their_mean(constant):
    rows = rows_of(n_outputs=2)
    rows.y[:30, 0] = 0.7
    if constant == "both":
        rows.y[:30, 1] = -0.2
    part = Part(rows, np.arange(30), np.arange(30, 40))
    (outcome,) = run_parts([part], Request("standard", 0, "gaussian", SPEEDS))
    assert_allclose(outcome.predictions[..., 0], 0.7, atol=1e-12)
    if constant == "both":
        assert_allclose(outcome.predictions[..., 1], -0.2, atol=1e-12)
        assert_array_equal(outcome.ladder.bandwidths, [])
    else:
        alone = Rows(rows.views, rows.y[:, 1:], rows.groups)
        (expected,) = run_parts(
            [Part(alone, part.train, part.held_out)], Request("standard", 0, "gaussian", SPEEDS)
        )
        assert_allclose(outcome.ladder.r2, expected.ladder.r2, atol=1e-9)
        assert_allclose(outcome.predictions[..., 1:], expected.predictions, atol=1e-9)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_metric_comes_from_gradients_at_the_scouts_stop(weighted):
    rows = rows_of(n_outputs=2, weighted=weighted)
    part = part_of(rows)
    before = part.root(STANDARD)
    assert_array_equal(before, np.ones(3))
    for n_rounds in range(2):
        (outcome,) = run_parts([part], Request("standard", n_rounds, "gaussian", SPEEDS))
        part.learn(trial_of(n_rounds=n_rounds, max_r2=0.8), outcome.ladder, 1)
        stops = outcome.ladder.reached(1, 0.8)
        assert outcome.ladder.r2[stops, 1] >= 0.8 - 1e-9
        Z = scaled(rows.views["standard"].Z[part.train], before)
        gradient = gaussian_gradient(
            Z, Z, outcome.ladder.bandwidths[:stops], outcome.ladder.coefficients[:stops, :, 1]
        )
        product = np.zeros((3, 3))
        for row in gradient / part.scale:
            product += row @ row.T / len(gradient)
        expected = metric_root(product, before)
        assert_allclose(part.root(STANDARD.after(n_rounds + 1)), expected, atol=1e-8)
        before = expected


def test_many_rows_are_thinned_before_gradients_are_taken(monkeypatch):
    monkeypatch.setattr(metric, "_MAX_ROWS", 10)
    rows = rows_of()
    part = Part(rows, np.arange(35), np.arange(35, 40))
    (outcome,) = run_parts([part], Request("standard", 0, "gaussian", [0.1]))
    part.learn(trial_of(max_r2=0.8), outcome.ladder, 0)
    stops = outcome.ladder.reached(0, 0.8)
    Z = rows.views["standard"].Z[:35]
    gradient = gaussian_gradient(
        Z[::4], Z, outcome.ladder.bandwidths[:stops], outcome.ladder.coefficients[:stops, :, 0]
    )
    product = np.einsum("mdk,mek->de", gradient, gradient) / 9 / part.scale**2
    assert_allclose(part.root(STANDARD.after(1)), metric_root(product, np.ones(3)), atol=1e-8)


def test_metrics_learned_from_scratch_are_those_learned_step_by_step():
    rows = rows_of()
    scouts = {
        STANDARD.after(0): trial_of(speed=0.1, max_r2=0.7),
        STANDARD.after(1): trial_of(n_rounds=1, kernel="matern12", speed=0.01, max_r2=0.9),
        STANDARD.after(2): trial_of(n_rounds=2, speed=0.03, max_r2=0.8),
    }
    slowly, at_once = part_of(rows), part_of(rows)
    for number in range(3):
        scout = scouts[STANDARD.after(number)]
        one = scout.candidate
        (outcome,) = run_parts(
            [slowly],
            Request("standard", number, one.kernel, [one.min_speed], scout.max_r2),
        )
        slowly.learn(scout, outcome.ladder, 0)
    learn_metrics([at_once], STANDARD.after(3), scouts)
    assert at_once.roots.keys() == slowly.roots.keys()
    for key, root in at_once.roots.items():
        assert_array_equal(root, slowly.roots[key])


def test_metrics_that_are_known_are_not_learned_again():
    rows = rows_of()
    part = part_of(rows)
    part.roots[STANDARD.after(2)] = np.diag([1.0, 0.5, 0.25])
    learn_metrics([part], STANDARD.after(2), {})
    learn_metrics([part], MetricKey("curved", True, 0), {})
    assert part.roots.keys() == {STANDARD.after(2)}
    learn_metrics(
        [part],
        STANDARD.after(3),
        {STANDARD.after(2): trial_of(n_rounds=2)}
        | {
            STANDARD.after(0): trial_of(),
            STANDARD.after(1): trial_of(n_rounds=1),
        },
    )
    assert STANDARD.after(3) in part.roots


def test_norms_that_depend_on_the_axes_have_metrics_of_their_own():
    """Columns are scaled one by one for them; the Euclidean norm may also mix columns."""
    part = part_of(rows_of())
    for kernel in ("matern12", "laplace-1"):
        (outcome,) = run_parts([part], Request("standard", 0, kernel, [0.1]))
        part.learn(trial_of(kernel=kernel, max_r2=0.8), outcome.ladder, 0)
    mixing, scales = (
        part.root(MetricKey("standard", True, 1)),
        part.root(MetricKey("standard", False, 1)),
    )
    assert mixing.shape == (3, 3)
    assert scales.shape == (3,)
    assert scales.max() == 1.0


def test_the_metric_of_all_rows_is_the_mean_of_those_of_the_parts():
    rows = rows_of()
    parts = [Part(rows, *split) for split in split_rows(rows, np.random.RandomState(0), 2)]
    for key, roots in {
        MetricKey("standard", True, 1): [np.diag([1.0, 0.5, 0.1]), np.diag([0.2, 1.0, 0.1])],
        MetricKey("standard", False, 1): [np.array([1.0, 0.5, 0.1]), np.array([0.2, 1.0, 0.1])],
    }.items():
        for part, root in zip(parts, roots, strict=True):
            part.roots[key] = root
        squares = np.array([0.52, 0.625, 0.01])
        expected = np.sqrt(squares / squares.max())
        common = common_root(parts, key)
        assert_allclose(common, np.diag(expected) if key.mixes else expected, atol=1e-12)
        assert common_root(parts[:1], key) is roots[0]


def test_parts_side_by_side_are_nearly_as_one_by_one():
    rows = rows_of(n=60)
    parts = [Part(rows, *split) for split in split_rows(rows, np.random.RandomState(0), 3)]
    together = run_parts(parts, Request("standard", 0, "matern12", SPEEDS))
    for part, outcome in zip(parts, together, strict=True):
        (alone,) = run_parts([part], Request("standard", 0, "matern12", SPEEDS))
        # Another start bandwidth, another grid: the same paths up to its resolution.
        assert_allclose(outcome.predictions[-1], alone.predictions[-1], atol=0.2)
        assert np.abs(outcome.predictions[-1] - alone.predictions[-1]).mean() < 0.05


def test_single_precision_stays_single():
    rows = rows_of(dtype=np.float32)
    part = part_of(rows)
    (outcome,) = run_parts([part], Request("standard", 0, "gaussian", SPEEDS))
    (double,) = run_parts([part_of(rows_of())], Request("standard", 0, "gaussian", SPEEDS))
    assert outcome.ladder.coefficients.dtype == np.float32
    assert outcome.predictions.dtype == np.float64
    stop = min(len(outcome.ladder.bandwidths), len(double.ladder.bandwidths))
    assert_allclose(outcome.predictions[stop], double.predictions[stop], atol=0.02)


@given(seeds, st.integers(2, 40), st.integers(1, 40), st.integers(2, 8))
def test_folds_are_a_partition_that_keeps_groups_together(seed, n, n_groups, n_folds):
    groups = np.unique(np.random.default_rng(seed).integers(0, n_groups, n), return_inverse=True)[1]
    if groups.max() < 1:
        groups[0] = 1
        groups[1] = 0
    splits = split_rows(grouped(groups), np.random.RandomState(seed), n_folds)
    assert 2 <= len(splits) <= n_folds
    assert_array_equal(np.sort(np.concatenate([held_out for _, held_out in splits])), np.arange(n))
    for train, held_out in splits:
        assert_array_equal(np.sort(np.concatenate([train, held_out])), np.arange(n))
        assert min(len(train), len(held_out)) > 0
        assert not set(groups[train]) & set(groups[held_out])


@given(seeds, st.integers(1, 40), st.integers(1, 40))
def test_shuffled_rows_keep_groups_together(seed, n, n_groups):
    groups = np.unique(np.random.default_rng(seed).integers(0, n_groups, n), return_inverse=True)[1]
    order = shuffled_rows(grouped(groups), np.random.RandomState(seed))
    assert_array_equal(np.sort(order), np.arange(n))
    n_changes = np.count_nonzero(np.diff(groups[order]))
    assert n_changes == groups.max()


def test_shuffling_depends_on_the_random_state_alone():
    groups = np.arange(30)
    first, again, other = (
        shuffled_rows(grouped(groups), np.random.RandomState(seed)) for seed in (0, 0, 1)
    )
    assert_array_equal(first, again)
    assert np.any(first != other)
