"""All floors at once against one fit per floor."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import reference
from bandfall import KernelDescentRegressor, KernelRidgeRegressor, floor_sweep
from bandfall._products import NumpyBackend
from bandfall.descent import Euler, Flow, Status, Stopping, fit_path
from bandfall.descent._euler import StepSizeWarning
from bandfall.descent._schedules import MinimumSpeed
from bandfall.kernels._kernel import KERNELS, get_kernel
from reference_selection import descent_at_floor, ridge_prediction

FLOORS = [0.0, 1e-3, 0.1, 0.35, 0.6, 1.0, 2.0, 5.0, 30.0, 1e5]
EXACT_FLOW = Flow(tolerance=1e-12)


def problem(seed=0, n=16, d=2):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.sin(2 * X[:, 0]) + 0.2 * rng.normal(size=n) + 3.0, rng.normal(size=(5, d))


def separate_fit(X, y, floor, solver, *, kernel="gaussian", speed=0.1, max_r2=0.999, time=30.0):
    shrink = solver.step_size if isinstance(solver, Euler) else 0.1
    return fit_path(
        X,
        y.reshape(len(y), -1),
        get_kernel(kernel),
        solver=solver,
        schedule=MinimumSpeed(speed, shrink, floor),
        stopping=Stopping(max_r2, time),
    )


def assert_equal_to_separate_fits(X, y, X_new, floors, solver, **settings):
    names = {"speed": "min_speed", "time": "max_time"}
    sweep = floor_sweep(
        X, y, X_new, floors, solver=solver, **{names.get(k, k): v for k, v in settings.items()}
    )
    scale = np.abs(y).max()
    for i, floor in enumerate(floors):
        path = separate_fit(X, y, floor, solver, **settings)
        shape = sweep.new[i].shape
        assert_allclose(sweep.new[i], path.evaluate(X_new).reshape(shape), atol=1e-8 * scale)
        train = path.evaluate(X).reshape(sweep.train[i].shape)
        assert_allclose(sweep.train[i], train, atol=1e-8 * scale)
        assert sweep.r2[i] == pytest.approx(path.r2, abs=1e-8)
        assert sweep.time[i] == pytest.approx(path.time, rel=1e-6)
        assert sweep.status[i] is path.status


@settings(deadline=None, max_examples=12)
@given(
    seed=st.integers(0, 1000),
    kernel=st.sampled_from([*sorted(KERNELS), *reference.OTHER_KERNELS]),
    speed=st.sampled_from([0.02, 0.1, 0.5]),
    solver=st.sampled_from([Euler(0.01), EXACT_FLOW]),
    time=st.sampled_from([0.005, 2.345, 12.0]),
)
def test_equals_separate_fits(seed, kernel, speed, solver, time):
    X, y, X_new = problem(seed, n=8 + seed % 9)
    assert_equal_to_separate_fits(
        X, y, X_new, FLOORS, solver, kernel=kernel, speed=speed, time=time
    )


@pytest.mark.parametrize("solver", [Euler(0.02), EXACT_FLOW])
def test_r2_limit_lies_before_and_after_the_floor(solver):
    X, y, X_new = problem(1)
    for max_r2 in (0.3, 0.9, 0.999):
        assert_equal_to_separate_fits(X, y, X_new, FLOORS, solver, max_r2=max_r2, time=200.0)


@pytest.mark.parametrize("solver", [Euler(0.05), EXACT_FLOW])
def test_standstill_with_repeated_rows(solver):
    """Equal rows with different targets: no floor reaches the R² limit, no time limit ends it."""
    X, y, X_new = problem(2, n=8)
    X, y = np.concatenate([X, X]), np.concatenate([y, y + 1.0])
    sweep = floor_sweep(X, y, X_new, [0.0, 0.5], solver=solver)
    assert sweep.status == (Status.STALLED, Status.STALLED)
    path = separate_fit(X, y, 0.0, solver, time=np.inf)
    assert_allclose(sweep.new[0], path.evaluate(X_new)[:, 0], atol=1e-6)
    assert sweep.r2[0] == pytest.approx(path.r2, abs=1e-8)


@pytest.mark.parametrize("solver", [Euler(0.01), EXACT_FLOW])
def test_every_run_ends_without_limits(solver):
    """R² limit 1 and no time limit: a wide floor can only come to a standstill."""
    X, y, X_new = problem(9)
    sweep = floor_sweep(X, y, X_new, [0.0, 1.0, 50.0], solver=solver, max_r2=1.0)
    assert sweep.status[2] is Status.STALLED
    assert np.all(np.isfinite(sweep.new))
    assert np.all(np.isfinite(sweep.time))


@pytest.mark.parametrize("solver", [Euler(0.01), EXACT_FLOW])
def test_several_targets_and_a_constant_one(solver):
    X, y, X_new = problem(3)
    Y = np.column_stack([y, 50.0 * X[:, 1], np.full(len(y), 7.0)])
    sweep = floor_sweep(X, Y, X_new, FLOORS, solver=solver, max_time=5.0)
    assert sweep.new.shape == sweep.ridge_new.shape == (len(FLOORS), len(X_new), 3)
    assert_allclose(sweep.new[..., 2], 7.0)
    assert_equal_to_separate_fits(X, Y, X_new, FLOORS, solver, time=5.0)


def test_equals_a_naive_loop_over_algorithm_1():
    X, y, X_new = problem(4, n=10)
    sweep = floor_sweep(X, y, X_new, FLOORS, solver="euler", max_time=4.0, max_r2=0.95)
    for i, floor in enumerate(FLOORS):
        if floor < 1e-2:  # the naive loop divides by the bandwidth
            continue
        naive = descent_at_floor(X, y, X_new, floor, max_time=4.0, max_r2=0.95)
        assert_allclose(sweep.new[i], naive, atol=1e-8)


@pytest.mark.parametrize("solver", ["euler", "flow"])
def test_equals_the_estimators(solver):
    X, y, X_new = problem(5)
    options = {"solver": solver, "max_time": 20.0}
    sweep = floor_sweep(X, y, X_new, FLOORS, penalty=0.01, **options)
    for i, floor in enumerate(FLOORS):
        model = KernelDescentRegressor(min_bandwidth=floor, **options).fit(X, y)
        # The flow of the estimator is held to 1e-7 per stage.
        assert_allclose(sweep.new[i], model.predict(X_new), atol=1e-5)
        ridge = KernelRidgeRegressor(bandwidth=floor, penalty=0.01).fit(X, y)
        assert_allclose(sweep.ridge_new[i], ridge.predict(X_new), atol=1e-8)
        assert_allclose(sweep.ridge_train[i], ridge.predict(X), atol=1e-8)
    naive = ridge_prediction(X, y - y.mean(), X_new, FLOORS[4], 0.01) + y.mean()
    assert_allclose(sweep.ridge_new[4], naive, atol=1e-10)


def test_order_of_floors_and_repeats_do_not_matter():
    X, y, X_new = problem(6)
    floors = np.array([2.0, 0.1, 0.1, 30.0, 0.5])
    sweep = floor_sweep(X, y, X_new, floors, max_time=10.0)
    ordered = floor_sweep(X, y, X_new, np.sort(floors), max_time=10.0)
    assert_allclose(sweep.new[np.argsort(floors, kind="stable")], ordered.new, atol=1e-12)
    assert_allclose(sweep.min_bandwidths, floors)


def test_start_bandwidth_is_raised_to_the_floor():
    X, y, X_new = problem(7)
    sweep = floor_sweep(X, y, X_new, [0.2, 3.0], bandwidth=1.0, max_time=5.0)
    for i, (floor, start) in enumerate([(0.2, 1.0), (3.0, 3.0)]):
        model = KernelDescentRegressor(bandwidth=start, min_bandwidth=floor, max_time=5.0)
        assert_allclose(sweep.new[i], model.fit(X, y).predict(X_new), atol=1e-6)


@pytest.mark.filterwarnings("ignore::bandfall.descent._euler.StepSizeWarning")
def test_lowered_steps():
    X, y, X_new = problem(8)
    solver = Euler(0.3)  # unstable at wide bandwidths for 16 rows
    with pytest.warns(StepSizeWarning):
        floor_sweep(X, y, X_new, [5.0], solver=solver, max_time=3.0)
    assert_equal_to_separate_fits(X, y, X_new, FLOORS, solver, time=7.0)


def test_constant_target():
    X, y, X_new = problem()
    sweep = floor_sweep(X, np.full(len(y), 4.0), X_new, [0.0, 1.0])
    assert sweep.status == (Status.CONSTANT_TARGET,) * 2
    for predictions in (sweep.train, sweep.new, sweep.ridge_train, sweep.ridge_new):
        assert_allclose(predictions, 4.0)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"min_bandwidths": []}, ValueError, "min_bandwidths"),
        ({"min_bandwidths": [-1.0]}, ValueError, "min_bandwidths"),
        ({"min_bandwidths": [np.nan]}, ValueError, "min_bandwidths"),
        ({"X": np.zeros((16, 3))}, ValueError, "X"),
        ({"X": np.zeros(16)}, ValueError, "X"),
        ({"y": np.zeros(3)}, ValueError, "y"),
        ({"y": np.full(16, np.nan)}, ValueError, "y"),
        ({"X_new": np.zeros((0, 2))}, ValueError, "X_new"),
        ({"solver": "rk4"}, ValueError, "solver"),
        ({"kernel": "linear"}, ValueError, "kernel"),
        ({"min_speed": 0.0}, ValueError, "min_speed"),
        ({"penalty": -1.0}, ValueError, "penalty"),
        ({"max_r2": 2.0}, ValueError, "max_r2"),
        ({"max_time": "long"}, TypeError, "max_time"),
        ({"solver": Euler(1e-20)}, ValueError, "solver=Euler.*at least 1e-08"),
        ({"solver": 3}, ValueError, "solver=3"),
        ({"steps": 7}, TypeError, "unexpected keyword argument 'steps'"),
        ({"backend": NumpyBackend(10)}, MemoryError, "memory_budget"),
    ],
)
def test_bad_arguments_are_named(changes, error, message):
    X, y, X_new = problem()
    arguments = {"X": X, "y": y, "X_new": X_new, "min_bandwidths": [0.1]} | changes
    with pytest.raises(error, match=message):
        floor_sweep(**arguments)
