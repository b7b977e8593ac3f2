"""Paths: sums over stages, their story, and cutting them at a time or an R²."""

import pickle
import warnings
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import reference
from bandfall import KernelDescentRegressor
from bandfall._products import HOST
from bandfall.descent import Euler, Flow, Status, Stopping, fit_path, rewind_path
from bandfall.descent._euler import StepSizeWarning
from bandfall.descent._fit import _check_sums
from bandfall.descent._schedules import MinimumSpeed
from bandfall.kernels import get_kernel
from problems import problem, problems

SOLVERS = ["euler", "flow"]


def descend(X, y, **parameters):
    return KernelDescentRegressor(**parameters).fit(X, y).path_


@pytest.fixture(scope="module", params=SOLVERS)
def path(request):
    X, y, _ = problem()
    return descend(X, y, solver=request.param)


def assert_same_state(path, other, tolerance=1e-9):
    """The same function, residual, time and R²."""
    size = path.scale.max()
    assert_allclose(path.time, other.time, rtol=tolerance)
    assert_allclose(path.r2, other.r2, atol=tolerance)
    assert_allclose(path.residual, other.residual, atol=tolerance * size)
    assert_allclose(path.evaluate(path.X), other.evaluate(path.X), atol=tolerance * size)


def test_evaluate_is_the_sum_over_stages(path):
    _, _, X_new = problem()
    expected = path.offset + sum(
        reference.kernel("gaussian", X_new, path.X, stage.bandwidth) @ stage.coefficients
        for stage in path
    )
    assert_allclose(path.evaluate(X_new), expected, atol=1e-10)
    staged = path.evaluate_staged(X_new)
    assert staged.shape == (len(path), len(X_new), 1)
    assert_allclose(staged[-1], expected, atol=1e-10)
    assert_allclose(
        staged[0],
        path.offset
        + reference.kernel("gaussian", X_new, path.X, path.stages[0].bandwidth)
        @ path.stages[0].coefficients,
        atol=1e-10,
    )


@pytest.mark.parametrize("solver", SOLVERS)
@given(problems(), st.floats(0.03, 0.5))
def test_predictions_on_training_rows_are_the_training_state(solver, data, min_speed):
    X, y, _ = data
    path = descend(X, y, solver=solver, min_speed=min_speed)
    state = y[:, None] - path.residual
    assert_allclose(path.evaluate(X), state, atol=1e-6 if solver == "flow" else 1e-10)
    assert_allclose(path.r2, 1 - (path.residual**2).sum() / path.scale[0] ** 2, atol=1e-9)


def test_log_tells_the_story(path):
    log = path.log
    assert len(log) == len(log.time) == len(log.duration)
    assert log.time[0] == 0.0
    assert log.r2[0] == pytest.approx(0.0, abs=1e-12)
    assert_allclose(log.time[1:], (log.time + log.duration)[:-1], atol=1e-9)
    assert_allclose(log.time[-1] + log.duration[-1], path.time, atol=1e-9)
    assert np.all(np.diff(log.bandwidth) <= 0)
    assert np.all(np.diff(np.append(log.r2, path.r2)) >= -1e-12)
    assert path.r2 >= 0.999 - 1e-9
    assert path.status is Status.R2_REACHED


def test_stages_cover_the_time_without_gaps(path):
    starts = np.array([stage.time for stage in path])
    durations = np.array([stage.duration for stage in path])
    assert_allclose(starts[1:], (starts + durations)[:-1], atol=1e-9)
    assert_allclose(durations.sum(), path.time, rtol=1e-9)
    assert_array_equal(path.bandwidths, [stage.bandwidth for stage in path])
    assert path.coefficients.shape == (len(path), 30, 1)


@pytest.mark.parametrize("solver", SOLVERS)
@given(problems(), st.floats(0.0, 1.2))
def test_truncation_at_a_time_is_a_fit_stopped_there(solver, data, share):
    X, y, _ = data
    whole = descend(X, y, solver=solver)
    time = share * whole.time
    cut = whole.truncate(time=time)
    if share >= 1:
        assert cut is whole
    elif time > 0:
        stopped = descend(X, y, solver=solver, max_time=time)
        assert cut.status is stopped.status is Status.TIME_REACHED
        assert len(cut.log) == len(stopped.log)
        assert_same_state(cut, stopped, 1e-6 if solver == "flow" else 1e-9)


@pytest.mark.parametrize("solver", SOLVERS)
@given(problems(), st.floats(0.01, 0.998))
def test_truncation_at_an_r2_is_a_fit_stopped_there(solver, data, r2):
    X, y, _ = data
    cut = descend(X, y, solver=solver).truncate(r2=r2)
    stopped = descend(X, y, solver=solver, max_r2=r2)
    assert cut.status is stopped.status is Status.R2_REACHED
    assert cut.r2 >= r2 - 1e-9
    # A rise of R² located to 1e-9 may be as wide as 1e-6 in time where it is slow.
    assert_same_state(cut, stopped, 1e-5 if solver == "flow" else 1e-9)


def test_rewinding_gives_the_stages_before(path):
    for n_stages in (0, 1, len(path) - 1, len(path)):
        rewound = rewind_path(path, n_stages)
        for mine, theirs in zip(rewound.stages, path.stages[:n_stages], strict=True):
            assert mine._replace(coefficients=0) == theirs._replace(coefficients=0)
            assert_array_equal(mine.coefficients, theirs.coefficients)
        staged = path.evaluate_staged(path.X)
        expected = staged[n_stages - 1] if n_stages else np.broadcast_to(path.offset, (30, 1))
        assert_allclose(rewound.evaluate(path.X), expected, atol=1e-10)


def test_a_lowered_step_is_not_warned_of_again():
    X, y, _ = problem(n=250)
    with pytest.warns(StepSizeWarning):
        path = descend(X, y, solver=Euler(0.05))
    time = path.stages[0].duration / 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cut = path.truncate(time=time)
    with pytest.warns(StepSizeWarning):
        stopped = descend(X, y, solver=Euler(0.05), max_time=time)
    assert_same_state(cut, stopped)
    assert cut.solver == path.solver


def test_weighted_paths_are_truncated_alike():
    X, y, _ = problem()
    weights = np.linspace(0.5, 2.0, len(y))
    model = KernelDescentRegressor(solver="euler").fit(X, y, sample_weight=weights)
    stopped = KernelDescentRegressor(solver="euler", max_time=1.0)
    stopped.fit(X, y, sample_weight=weights)
    assert_same_state(model.path_.truncate(time=1.0), stopped.path_)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "exactly one"),
        ({"time": 1.0, "r2": 0.5}, "exactly one"),
        ({"time": -1.0}, "time=-1.0"),
        ({"time": np.nan}, "time=nan"),
        ({"r2": 1.5}, "r2=1.5"),
        ({"r2": np.nan}, "r2=nan"),
    ],
)
def test_bad_truncations_are_named(path, arguments, message):
    with pytest.raises(ValueError, match=message):
        path.truncate(**arguments)


def test_truncation_beyond_the_end_and_before_the_start(path):
    assert path.truncate(time=np.inf) is path
    assert path.truncate(r2=1.0) is path
    start = path.truncate(time=0.0)
    assert start.time == 0.0
    assert_allclose(start.evaluate(path.X), np.broadcast_to(path.offset, (30, 1)), atol=1e-12)


def test_paths_without_stages():
    X, y, _ = problem()
    constant = descend(X, np.full(len(y), 3.0))
    stuck = descend(np.zeros_like(X), y)
    for path, value in [(constant, 3.0), (stuck, y.mean())]:
        assert len(path) == 0
        assert_allclose(path.evaluate(X), value, rtol=1e-12)
        assert path.evaluate_staged(X).shape == (0, len(X), 1)
        assert path.truncate(time=0.0) is path
        assert path.truncate(r2=0.0) is path
        assert path.compress() is path


@pytest.mark.parametrize("shape", [(3,), (4, 2), (2, 3, 1)])
def test_rows_of_another_shape_are_refused(path, shape):
    for evaluate in (path.evaluate, path.evaluate_staged, path.gradient):
        with pytest.raises(ValueError, match=r"shape \(m, 3\).*got shape"):
            evaluate(np.zeros(shape))


def test_pickling_and_repr(path):
    copy = pickle.loads(pickle.dumps(path))
    assert_array_equal(copy.evaluate(path.X), path.evaluate(path.X))
    assert copy.status is path.status
    for part in ("stages over 30 rows", "'gaussian'", "r2_reached"):
        assert part in repr(path)


def test_every_status_explains_itself():
    assert all(status.explanation for status in Status)


def test_the_mean_of_a_million_rows_in_float32():
    """NumPy adds along columns one by one: 0.101 in place of 0.1."""
    y = np.full((1_000_000, 2), 0.1, np.float32)
    path = fit_path(
        np.zeros((1_000_000, 1), np.float32),
        y,
        get_kernel("gaussian"),
        solver=Flow(),
        schedule=MinimumSpeed(0.1),
        stopping=Stopping(),
        bandwidth=1.0,
        operator=object(),
    )
    assert path.status is Status.CONSTANT_TARGET
    assert_array_equal(path.offset, y[0])


def test_a_path_at_bandwidth_zero_has_nothing_to_compress():
    X, y, _ = problem(n=8)
    path = descend(X, y, bandwidth=0.0)
    assert set(path.bandwidths) == {0.0}
    assert path.compress(0.5) is path
    several = replace(
        path.model, bandwidths=np.zeros(4), coefficients=np.repeat(path.coefficients, 4, axis=0)
    )
    assert several.compress(0.5) == (several, 0.0)


def test_large_targets_are_compressed_like_small_ones():
    X, y, _ = problem(n=12)
    small, large = descend(X, y).compress(0.1), descend(X, 1e200 * y).compress(0.1)
    assert len(large) == len(small) < len(descend(X, y))
    assert large.compression_error == pytest.approx(small.compression_error, rel=1e-6)


@pytest.mark.parametrize(("min_speed", "rounding"), [(0.1, False), (1e-5, True)])
def test_rounding_of_a_slow_path_is_no_fault_of_a_device(min_speed, rounding):
    """Two rows in 600 of one class: a small part of large sums is much of what the class varies."""
    X = np.random.default_rng(0).uniform(size=(600, 1)).astype(np.float32)
    rare = np.isin(np.arange(600), (5, 17)) * 1.0
    y = np.stack([np.sin(6 * X[:, 0]), rare], axis=1).astype(np.float32)
    path = fit_path(
        X,
        y - y.mean(axis=0),
        get_kernel("gaussian"),
        solver=Flow(tolerance=1e-2, max_iter=300),
        schedule=MinimumSpeed(min_speed, 0.5),
        stopping=Stopping(max_r2=0.999),
    )
    wrong = path.residual + np.float32([0.0, 0.07 * rare.std()])
    others = path.replace(residual=wrong)
    with nullcontext() if rounding else pytest.raises(RuntimeError, match="do not agree"):
        _check_sums(others, HOST)
