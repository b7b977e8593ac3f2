"""A ladder of speeds against one path at a time, and against sums written out."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import pdist

from bandfall._products import HOST, WeightedOperator, resolve_backend
from bandfall.descent import Flow, Stopping, fit_path
from bandfall.descent._ladder import Climb, Ladder
from bandfall.descent._schedules import Constant, MinimumSpeed
from bandfall.kernels import get_kernel
from problems import problem, seeds
from reference_ladder import staged_r2, staged_sums

TIGHT = {"shrink": 0.5, "max_r2": 0.999, "tolerance": 1e-8, "max_dimension": 96}


def unit_target(y, weights=None):
    """Centred, weighted, of unit norm in all columns together."""
    y = y.reshape(len(y), -1)
    weights = np.ones(len(y)) if weights is None else weights
    root = np.sqrt(weights)[:, None]
    centred = root * (y - np.average(y, axis=0, weights=weights))
    return centred / np.sqrt((centred**2).sum(axis=0)) / np.sqrt(y.shape[1])


def two_targets(seed=0, n=30, n_new=8, repeated=0):
    """Rows, some of them repeated with another target, with two columns to predict."""
    X, y, X_new = problem(seed, n=n, n_new=n_new)
    if repeated:
        X[:repeated] = X[-repeated:]
    return X, np.column_stack([y, np.cos(X[:, 1]) + 0.1 * y]), X_new


def operator_of(X, kernel="gaussian", weights=None, backend=HOST):
    operator = backend.operator(X, get_kernel(kernel))
    return operator if weights is None else WeightedOperator(operator, weights.astype(X.dtype))


def one_ladder(X, target, speeds, kernel="gaussian", weights=None, **changes):
    return ladders_of([operator_of(X, kernel, weights)], [target], speeds, **changes)[0]


def ladders_of(operators, targets, speeds, watch=None, **changes):
    return Climb(operators, targets, speeds, **{**TIGHT, **changes}, watch=watch).ladders()


def fitted_path(X, y, speed, kernel="gaussian", weights=None, **changes):
    settings = {**TIGHT, **changes}
    return fit_path(
        X,
        y,
        get_kernel(kernel),
        solver=Flow(settings["tolerance"], settings["max_dimension"]),
        schedule=MinimumSpeed(speed, settings["shrink"]),
        stopping=Stopping(max_r2=settings["max_r2"]),
        weights=weights,
    )


def path_predictions(path, X_new, target):
    """In the units of the target that the ladder was given."""
    units = path.scale * np.sqrt(target.shape[1])
    return (path.evaluate(X_new) - path.offset) / units


def ladder_predictions(ladder, kernel, X, X_new, weights=None):
    root = np.ones(len(X)) if weights is None else np.sqrt(weights)
    coefficients = root[:, None, None] * ladder.coefficients
    return staged_sums(kernel, X_new, X, ladder.bandwidths, coefficients)[-1]


@pytest.mark.parametrize("kernel", ["gaussian", "matern12", "cauchy"])
@pytest.mark.parametrize("weighted", [False, True])
def test_every_path_is_that_of_the_flow_along_minimum_speed(kernel, weighted):
    X, y, X_new = two_targets()
    weights = np.random.default_rng(1).uniform(0.3, 2.0, len(X)) if weighted else None
    target = unit_target(y, weights)
    speeds = (0.3, 0.1, 0.01, 1e-4)
    ladder = one_ladder(X, target, speeds, kernel, weights)
    predictions = ladder_predictions(ladder, kernel, X, X_new, weights)
    for i, speed in enumerate(speeds):
        path = fitted_path(X, y, speed, kernel, weights)
        assert_allclose(predictions[:, i], path_predictions(path, X_new, target), atol=1e-4)
        assert_allclose(ladder.r2[-1, i], path.r2, atol=1e-4)
        trained = ladder.bandwidths[np.any(ladder.coefficients[:, :, i] != 0, axis=(1, 2))]
        stages = np.array([s.bandwidth for s in path if np.abs(s.coefficients).max() > 1e-6])
        assert set(np.round(stages, 9)) <= set(np.round(trained, 9))


@pytest.mark.parametrize("weighted", [False, True])
def test_a_path_of_one_bandwidth_is_the_flow_there(weighted):
    X, y, X_new = two_targets()
    weights = np.random.default_rng(1).uniform(0.3, 2.0, len(X)) if weighted else None
    target = unit_target(y, weights)
    ladder = one_ladder(X, target, (1e-7,), weights=weights, width=0.3, max_r2=0.9)
    bandwidth = 0.3 * pdist(X).max()
    assert_allclose(ladder.bandwidths, bandwidth)
    path = fit_path(
        X,
        y,
        get_kernel("gaussian"),
        solver=Flow(TIGHT["tolerance"], TIGHT["max_dimension"]),
        schedule=Constant(),
        stopping=Stopping(max_r2=float(ladder.r2[-1, 0])),
        bandwidth=bandwidth,
        weights=weights,
    )
    predictions = ladder_predictions(ladder, "gaussian", X, X_new, weights)[:, 0]
    assert_allclose(predictions, path_predictions(path, X_new, target), atol=1e-4)


@settings(max_examples=12)
@given(
    seeds,
    st.integers(3, 25),
    st.integers(0, 5),
    st.sampled_from(["gaussian", "matern12", "matern32"]),
    st.floats(1e-4, 0.5),
    st.sampled_from([0.1, 0.5, 1.0]),
)
def test_any_path_is_that_of_the_flow(seed, n, repeated, kernel, speed, shrink):
    X, y, X_new = two_targets(seed, n, repeated=min(repeated, n // 2))
    target = unit_target(y)
    ladder = one_ladder(X, target, (speed, 0.1), kernel, shrink=shrink)
    path = fitted_path(X, y, speed, kernel, shrink=shrink)
    predictions = ladder_predictions(ladder, kernel, X, X_new)[:, 0]
    assert_allclose(predictions, path_predictions(path, X_new, target), atol=1e-4)
    assert_allclose(ladder.r2[-1, 0], path.r2, atol=1e-4)


@pytest.mark.parametrize("tolerance", [1e-1, 1e-2, 1e-3])
def test_a_loose_path_keeps_to_its_tolerance(tolerance):
    X, y, X_new = two_targets(n=80, n_new=40)
    target = unit_target(y)
    speeds = (0.1, 1e-3)
    loose = one_ladder(X, target, speeds, "matern12", tolerance=tolerance)
    tight = one_ladder(X, target, speeds, "matern12")
    gap = ladder_predictions(loose, "matern12", X, X_new) - ladder_predictions(
        tight, "matern12", X, X_new
    )
    n_stages = len(np.unique(tight.bandwidths))
    assert np.sqrt((gap**2).sum(axis=(0, 2))).max() <= n_stages * tolerance


def test_single_precision_agrees_with_double():
    X, y, X_new = two_targets(n=60)
    target = unit_target(y)
    double = one_ladder(X, target, (0.1, 0.01), tolerance=1e-5)
    single = one_ladder(X.astype(np.float32), target, (0.1, 0.01), tolerance=1e-5)
    assert single.coefficients.dtype == np.float32
    assert_allclose(
        ladder_predictions(single, "gaussian", X, X_new),
        ladder_predictions(double, "gaussian", X, X_new),
        atol=2e-3,
    )


def test_sets_of_rows_side_by_side_are_as_one_by_one():
    X, y, _ = two_targets(n=40)
    # The start bandwidth is common: both ends of the longest distance are in every set.
    ends = np.unravel_index(np.argmax(((X[:, None] - X[None]) ** 2).sum(axis=2)), (len(X), len(X)))
    others = np.setdiff1d(np.arange(len(X)), ends)
    sets = [np.concatenate([ends, others[:n]]) for n in (38, 20, 9)]
    targets = [unit_target(y[rows]) for rows in sets]
    speeds = (0.1, 0.003)
    together = ladders_of([operator_of(X[rows]) for rows in sets], targets, speeds)
    for rows, target, ladder in zip(sets, targets, together, strict=True):
        alone = one_ladder(X[rows], target, speeds)
        assert ladder.coefficients.shape[1:] == (len(rows), 2, 2)
        assert_allclose(
            ladder_predictions(ladder, "gaussian", X[rows], X),
            ladder_predictions(alone, "gaussian", X[rows], X),
            atol=1e-5,
        )
        assert_allclose(ladder.r2[-1], alone.r2[-1], atol=1e-6)
        assert_allclose(ladder.r2, staged_r2("gaussian", X[rows], target, ladder), atol=1e-9)


@settings(max_examples=10)
@given(seeds, st.integers(2, 30), st.sampled_from(["gaussian", "matern12"]), st.booleans())
def test_r2_never_falls_and_is_what_the_coefficients_leave(seed, n, kernel, weighted):
    X, y, _ = two_targets(seed, n, repeated=n // 4)
    weights = np.random.default_rng(seed).uniform(0.2, 3.0, n) if weighted else None
    target = unit_target(y, weights)
    ladder = one_ladder(X, target, (0.1, 1e-3), kernel, weights, tolerance=1e-2, max_dimension=8)
    assert np.all(np.diff(ladder.r2, axis=0) >= 0)
    assert np.all(np.diff(ladder.bandwidths) <= 0)
    assert_allclose(ladder.r2[0], 0.0, atol=1e-12)
    # An error within the tolerance may lower R² by a little: what is kept is the best so far.
    left = np.maximum.accumulate(staged_r2(kernel, X, target, ladder, weights))
    assert_allclose(ladder.r2, left, atol=1e-8)


def test_paths_end_at_the_training_r2_asked_for():
    X, y, _ = two_targets()
    for max_r2 in (0.3, 0.9, 1 - 1e-6):
        ladder = one_ladder(X, unit_target(y), (0.1, 1e-4), max_r2=max_r2)
        assert_allclose(1.0 - ladder.r2[-1], 1.0 - max_r2, rtol=0.011)


def test_a_slow_path_stops_several_times_at_one_bandwidth():
    X, y, _ = two_targets(n=60)
    ladder = one_ladder(X, unit_target(y), (1e-5,), max_r2=1 - 1e-4)
    _, counts = np.unique(ladder.bandwidths, return_counts=True)
    assert counts.max() > 1
    left = 1.0 - ladder.r2[:, 0]
    falls = left[1:] / left[:-1]
    few_stops = np.repeat(counts[::-1], counts[::-1]) < 6
    assert falls[few_stops & (left[1:] > 2e-4)].min() > 0.6


def test_repeated_rows_with_different_targets_end_where_nothing_is_left_to_learn():
    X, y, X_new = two_targets(n=30, repeated=10)
    target = unit_target(y)
    ladder = one_ladder(X, target, (0.1, 1e-3), max_r2=1 - 1e-6)
    means = target.copy()
    for i in range(10):
        means[[i, 20 + i]] = target[[i, 20 + i]].mean(axis=0)
    assert_allclose(ladder.r2[-1], 1.0 - ((target - means) ** 2).sum(), atol=1e-6)
    assert np.isfinite(ladder_predictions(ladder, "gaussian", X, X_new)).all()


def test_a_path_in_a_small_space_goes_on_at_the_next_bandwidths():
    X, y, _ = two_targets(n=60)
    target = unit_target(y)
    ladder = one_ladder(X, target, (1e-4,), "matern12", tolerance=1e-6, max_dimension=4)
    assert ladder.r2[-1, 0] >= 0.999 - 1e-4
    assert_allclose(ladder.r2, staged_r2("matern12", X, target, ladder), atol=1e-8)


@pytest.mark.parametrize("n", [1, 2, 5])
def test_rows_that_are_all_equal_teach_nothing(n):
    target = np.linspace(-1, 1, n)[:, None] if n > 1 else np.zeros((1, 1))
    target = target / max(np.linalg.norm(target), 1e-300)
    ladder = one_ladder(np.ones((n, 2)), target, (0.1, 0.01))
    assert_array_equal(ladder.bandwidths, [])
    assert ladder.coefficients.shape == (0, n, 2, 1)
    assert_allclose(ladder.r2, np.full((1, 2), 1.0 if n == 1 else 0.0), atol=1e-12)
    assert ladder.reached(0, 0.5) == 0


def test_equal_rows_whose_targets_do_not_cancel_are_trained_at_bandwidth_zero():
    ladder = one_ladder(np.ones((4, 1)), np.full((4, 1), 0.5), (0.1,))
    assert_array_equal(np.unique(ladder.bandwidths), [0.0])
    assert_allclose(ladder.r2[-1], 0.999, atol=1e-6)


def test_two_rows():
    X, y = np.array([[0.0], [1.0]]), np.array([[-1.0], [1.0]]) / np.sqrt(2)
    ladder = one_ladder(X, y, (0.1, 1e-5))
    assert_allclose(ladder.r2[-1], 0.999, atol=1e-5)
    assert_allclose(ladder.r2, staged_r2("gaussian", X, y, ladder), atol=1e-10)


def test_a_target_of_nothing_is_finished_beside_one_that_is_not():
    X, y, _ = two_targets(n=20)
    target = unit_target(y)
    trained, idle = ladders_of(
        [operator_of(X), operator_of(X)], [target, np.zeros_like(target)], (0.1,)
    )
    assert_array_equal(idle.coefficients, 0.0)
    assert_array_equal(idle.r2, 1.0)
    assert_allclose(trained.r2[-1], 0.999, atol=1e-5)


def test_torch_and_numpy_tell_the_same():
    pytest.importorskip("torch")
    X, y, X_new = two_targets(n=40)
    sets = [np.arange(40), np.arange(25)]
    targets = [unit_target(y[rows]) for rows in sets]
    ladders = {
        device: ladders_of(
            [operator_of(X[rows], backend=resolve_backend(device)) for rows in sets],
            targets,
            (0.1, 1e-3),
        )
        for device in (None, "torch")
    }
    for mine, theirs, rows in zip(ladders[None], ladders["torch"], sets, strict=True):
        assert_allclose(mine.bandwidths, theirs.bandwidths, atol=1e-12)
        assert_allclose(mine.r2, theirs.r2, atol=1e-7)
        assert_allclose(
            ladder_predictions(mine, "gaussian", X[rows], X_new),
            ladder_predictions(theirs, "gaussian", X[rows], X_new),
            atol=1e-6,
        )


def test_every_speed_alone_is_as_in_the_ladder():
    X, y, X_new = two_targets(n=40)
    target = unit_target(y)
    speeds = (0.1, 0.01, 0.001)
    ladder = one_ladder(X, target, speeds)
    predictions = ladder_predictions(ladder, "gaussian", X, X_new)
    for i, speed in enumerate(speeds):
        alone = one_ladder(X, target, (speed,))
        assert_allclose(
            predictions[:, i], ladder_predictions(alone, "gaussian", X, X_new)[:, 0], atol=1e-5
        )


def test_how_many_stops_a_level_takes():
    r2 = np.array([[0.0, 0.0], [0.2, 0.0], [0.5, 0.0], [0.5, 0.9]])
    ladder = Ladder(np.array([2.0, 1.0, 1.0]), np.zeros((3, 4, 2, 1)), r2)
    levels = [0.0, 0.1, 0.2, 0.2 + 1e-12, 0.3, 0.5, 0.8, 1.0]
    assert [ladder.reached(0, level) for level in levels] == [1, 1, 1, 1, 2, 2, 3, 3]
    assert [ladder.reached(1, level) for level in (0.0, 0.5, 0.9)] == [1, 3, 3]


def test_a_path_until_a_stop_has_each_bandwidth_once():
    coefficients = np.zeros((4, 2, 2, 1))
    coefficients[0, :, 0] = 1.0
    coefficients[1, :, 0] = 2.0
    coefficients[2, :, 1] = 3.0
    coefficients[3, :, 0] = 4.0
    ladder = Ladder(np.array([2.0, 2.0, 1.0, 0.5]), coefficients, np.zeros((5, 2)))
    bandwidths, merged = ladder.until(0, 4)
    assert_allclose(bandwidths, [2.0, 0.5])
    assert_allclose(merged[:, 0, 0], [3.0, 4.0])
    assert [len(part) for part in ladder.until(0, 0)] == [0, 0]
