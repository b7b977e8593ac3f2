"""Algorithm 1 against its naive transductive version, closed forms and what must never happen."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import reference
from bandfall import KernelDescentRegressor
from bandfall._closed_form import Spectrum, euler_filter
from bandfall._products import DenseOperator
from bandfall.descent import Euler, Status, Stopping, fit_path
from bandfall.descent._euler import StepSizeWarning
from bandfall.descent._front import TrainingFront
from bandfall.descent._schedules import Constant, MinimumSpeed
from bandfall.kernels._kernel import KERNELS, get_kernel
from problems import problem, problems, seeds


def euler(**parameters):
    return KernelDescentRegressor(solver="euler", **parameters)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("min_speed", [0.02, 0.1, 0.5])
def test_inductive_equals_transductive(name, min_speed):
    X, y, X_new = problem(n=30)
    f, f_new, rows = reference.kgdd_transductive(X, y, X_new, name=name, min_speed=min_speed)
    model = euler(kernel=name, min_speed=min_speed).fit(X, y)
    assert_allclose(model.predict(X), f, rtol=1e-9, atol=1e-9 * np.abs(y).max())
    assert_allclose(model.predict(X_new), f_new, rtol=1e-9, atol=1e-9 * np.abs(y).max())
    log = model.path_.log
    assert_allclose(log.time, rows[:, 0], atol=1e-9)
    assert_allclose(log.r2, rows[:, 2], atol=1e-9)
    # Where the naive search ran below any distance, the library went to zero at once.
    finite = log.bandwidth > 0
    assert_allclose(log.bandwidth[finite], rows[finite, 1], rtol=1e-9)


@given(problems(), st.floats(0.03, 0.5), st.floats(0.05, 1.0))
def test_inductive_equals_transductive_with_floor_and_time(data, min_speed, floor):
    X, y, X_new = data
    _, f_new, _ = reference.kgdd_transductive(
        X, y, X_new, min_speed=min_speed, min_bandwidth=floor, max_time=5.0
    )
    model = euler(min_speed=min_speed, min_bandwidth=floor, max_time=5.0).fit(X, y)
    assert_allclose(model.predict(X_new), f_new, atol=1e-9 * np.abs(y).max())
    assert model.path_.bandwidths.min() >= floor


@given(problems(), st.floats(0.2, 3.0), st.integers(1, 400))
def test_constant_schedule_is_the_euler_filter(data, bandwidth, n_steps):
    X, y, _ = data
    path = fit_path(
        X,
        y[:, None],
        get_kernel("gaussian"),
        solver=Euler(0.01, max_iter=n_steps),
        schedule=Constant(),
        stopping=Stopping(max_r2=np.inf),
        bandwidth=bandwidth,
    )
    spectrum = Spectrum(reference.kernel("gaussian", X, X, bandwidth))
    steps = min(n_steps, len(path.log))  # fewer where nothing was left to learn
    expected = spectrum.coefficients(y - y.mean(), euler_filter(spectrum.eigenvalues, 0.01, steps))
    assert_allclose(path.coefficients[0][:, 0], expected, atol=1e-9 * np.abs(expected).max())


@given(problems(), st.floats(0.02, 0.5), st.sampled_from(sorted(KERNELS)))
def test_r2_never_falls_while_the_step_is_small(data, min_speed, name):
    X, y, _ = data  # at most 25 rows: step · λ_max ≤ 0.25
    path = euler(kernel=name, min_speed=min_speed).fit(X, y).path_
    assert np.all(np.diff(np.append(path.log.r2, path.r2)) >= -1e-12)


@given(problems(), seeds)
def test_proposition_2_against_finite_differences(data, seed):
    X, y, _ = data
    y = (y - y.mean()) / np.linalg.norm(y - y.mean())
    operator = DenseOperator(X, get_kernel("gaussian"))
    K = reference.kernel("gaussian", X, X, 0.8)
    spectrum = Spectrum(K)

    def r2(t):
        return 1 - np.sum(spectrum.coefficients(y, np.exp(-t * spectrum.eigenvalues)) ** 2)

    step = 1e-4
    front = TrainingFront(operator, y[:, None], 0.0, 0.8)
    assert_allclose(front.speed(0.8), 2 * y @ K @ y, rtol=1e-10)
    centre = 0.01
    r = spectrum.coefficients(y, np.exp(-centre * spectrum.eigenvalues))
    slope = (r2(centre + step) - r2(centre - step)) / (2 * step)
    curvature = (r2(centre + step) - 2 * r2(centre) + r2(centre - step)) / step**2
    assert_allclose(slope, 2 * r @ K @ r, rtol=1e-4)
    assert_allclose(curvature, -4 * r @ K @ K @ r, rtol=1e-3, atol=1e-6)


def test_too_large_a_step_is_lowered_with_one_warning():
    X, y, _ = problem(n=300)
    with pytest.warns(StepSizeWarning, match=r"step_size=0.05 is unstable.*flow") as caught:
        model = KernelDescentRegressor(solver=Euler(0.05)).fit(X, y)
    assert len(caught) == 1
    assert model.path_.status is Status.R2_REACHED
    steps = np.array([stage.step_size for stage in model.path_])
    assert steps.min() < 0.05 / 5
    assert steps.max() == 0.05
    assert np.all(np.diff(model.path_.log.r2) >= -1e-12)


def test_no_warning_while_the_step_is_stable():
    X, y, _ = problem(n=150)  # step · λ_max up to 1.5
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = euler().fit(X, y)
    assert {stage.step_size for stage in model.path_} == {0.01}


def test_bandwidth_goes_to_zero_once_nothing_is_fast_enough():
    X, y, _ = problem()
    path = euler(min_speed=0.1).fit(X, y).path_
    assert path.stages[-1].bandwidth == 0.0
    collapsed = path.log.bandwidth == 0.0
    # At bandwidth zero the speed is 2(1 − R²), which is below 0.1 exactly beyond R² = 0.95.
    assert path.log.r2[collapsed].min() == pytest.approx(0.95, abs=0.01)
    assert_allclose(path.log.speed[collapsed], 2 * (1 - path.log.r2[collapsed]), rtol=1e-9)


def test_repeated_rows_with_different_targets_stall():
    X, y, _ = problem(n=20)
    X, y = np.vstack([X, X]), np.concatenate([y, y + 1.0])
    for solver in ("euler", "flow"):
        path = KernelDescentRegressor(solver=solver).fit(X, y).path_
        assert path.status is Status.STALLED
        # What remains is the difference within pairs, 0.5 a row.
        assert_allclose(np.abs(path.residual), 0.5, atol=1e-3)


def test_iteration_limit_ends_with_a_warning():
    X, y, _ = problem()
    with pytest.warns(Warning, match="max_iter=7"):
        model = KernelDescentRegressor(solver=Euler(max_iter=7)).fit(X, y)
    assert model.path_.status is Status.ITERATION_LIMIT
    assert model.n_iter_ == 7


def test_time_limit_is_hit_exactly():
    X, y, _ = problem()
    for max_time in (0.005, 1.0, 1.2345):
        path = euler(max_time=max_time).fit(X, y).path_
        assert path.time == max_time
        assert path.status is Status.TIME_REACHED
        assert_allclose(path.log.duration.sum(), max_time, rtol=1e-12)


def test_kernel_that_is_not_positive_definite_is_named():
    def box(u):
        return (np.abs(u) <= 1).astype(float)

    X = np.linspace(0, 1, 12)[:, None]
    y = np.cos(40 * X[:, 0])
    with pytest.raises(ValueError, match="'box' is not positive semi-definite"):
        euler(kernel=box, bandwidth=0.5).fit(X, y)


def test_minimum_speed_costs_one_evaluation_per_bandwidth():
    X, y, _ = problem()
    operator = DenseOperator(X, get_kernel("gaussian"))
    evaluate, evaluated = operator._kept._evaluate, []

    def watched(*arguments):
        evaluated.append(arguments)
        evaluate(*arguments)

    operator._kept._evaluate = watched
    path = fit_path(
        X,
        y[:, None],
        get_kernel("gaussian"),
        solver=Euler(0.01),
        schedule=MinimumSpeed(0.1),
        stopping=Stopping(),
        operator=operator,
    )
    smallest = path.bandwidths[path.bandwidths > 0].min()
    n_grid = 1 + round(np.log(operator.max_distance() / smallest) / np.log(1.01))
    # The grid down to the smallest bandwidth used, and the last search beyond it.
    assert n_grid <= len(evaluated) <= n_grid + 300
