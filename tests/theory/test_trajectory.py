"""The resolved log: what happens inside a long step of exact flow."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import trapezoid
from scipy.linalg import expm

import reference_theory as reference
from bandfall import KernelDescentRegressor, theory
from bandfall.descent._path import Log
from bandfall.theory import _trajectory as trajectory
from bandfall.theory import fine_log, r2_acceleration, r2_speed
from bandfall.theory._trajectory import Trajectory, logarithmic_mean
from problems import problem
from reference_theory import sine_data


def test_fine_log_is_the_flow_between_the_rows(kernel):
    X, f, noise = sine_data(8)
    model = KernelDescentRegressor(kernel, min_bandwidth=0.3, max_time=50.0, max_r2=1.0)
    path = model.fit(X, np.c_[f + noise, 2 * f], sample_weight=np.linspace(0.5, 2, 20)).path_
    log = fine_log(path)
    assert len(log) > len(path.log)
    assert set(path.log.time) <= set(log.time)
    assert_allclose(np.append(log.time, path.time)[1:], log.time + log.duration, rtol=1e-12)
    assert np.all(np.diff(log.r2) >= -1e-9)
    for step in np.linspace(1, len(log) - 1, 12).astype(int):
        earlier = path.truncate(time=log.time[step])
        assert_allclose(earlier.r2, log.r2[step], atol=1e-6)
        assert_allclose(
            r2_speed(earlier, log.bandwidth[step]), log.speed[step], rtol=1e-4, atol=1e-6
        )


@pytest.mark.parametrize("dimension", [trajectory.KRYLOV_DIMENSION, 12])
@pytest.mark.parametrize(("floor", "time"), [(1.0, 1e4), (5.0, 1e6)])
def test_fine_log_of_a_long_run_at_its_floor(monkeypatch, floor, time, dimension):
    """Against one eigendecomposition, and also where one Krylov space does not suffice."""
    monkeypatch.setattr(trajectory, "KRYLOV_DIMENSION", dimension)
    X, y, _ = problem(n=60)
    model = KernelDescentRegressor(min_bandwidth=floor, max_time=time, max_r2=1.0)
    path = model.fit(X, y).path_
    log = fine_log(path)
    assert log.r2.max() <= path.r2
    at_floor = np.flatnonzero(log.bandwidth == floor)
    before = path.truncate(time=log.time[at_floor[0]])
    values, vectors = np.linalg.eigh(reference.matrix(X, X, "gaussian", floor))
    times = log.time[at_floor] - before.time
    decay = np.exp(-np.outer(times, np.maximum(values, 0.0)))
    left = ((decay * (vectors.T @ before.residual[:, 0])) ** 2).sum(axis=1)
    assert_allclose(log.r2[at_floor], 1.0 - left / np.sum((y - y.mean()) ** 2), atol=1e-6)


def test_euler_log_stays_as_it_is():
    X, f, noise = sine_data(8)
    path = KernelDescentRegressor(solver="euler").fit(X, f + noise).path_
    assert fine_log(path) is path.log


def test_integral_of_the_residual_inside_one_long_step():
    """One stage over t = 1000: the fastest and the slowest part differ by many decades."""
    X, f, noise = sine_data(8)
    model = KernelDescentRegressor(bandwidth=0.2, min_bandwidth=0.2, max_time=1000.0, max_r2=1.0)
    path = model.fit(X, f + noise).path_
    trajectory = Trajectory.from_path(path)
    K = reference.matrix(X, X, "gaussian", 0.2)
    y = f + noise - (f + noise).mean()
    values, vectors = np.linalg.eigh(K)
    times = np.append(0.0, np.geomspace(1e-5, 1000, 20_000))
    inside = np.exp(-np.outer(times, values)) * (vectors.T @ y)
    naive = trapezoid(np.linalg.norm(inside, axis=1), times) / np.linalg.norm(y)
    assert_allclose(trajectory.residual_integral.sum(), naive, rtol=2e-3)


def test_logarithmic_mean():
    a = np.array([1.0, 1.0, 1.0, 2.0, 0.0])
    b = np.array([1.0, 1.0 - 1e-12, 0.5, 1.0, 0.0])
    expected = [1.0, 1.0, 0.5 / np.log(2), 1 / np.log(2), 0.0]
    assert_allclose(logarithmic_mean(a, b), expected, rtol=1e-11)


def test_steps_of_no_duration_do_no_harm():
    """Events can coincide: a step may last less than the clock resolves."""
    X, f, noise = sine_data(8)
    path = KernelDescentRegressor().fit(X, f + noise).path_
    log = path.log
    table = np.stack([log.time, log.bandwidth, log.r2, log.speed, log.duration])
    twin = table[:, -1:].copy()
    twin[-1] = 0.0
    stuttering = path.replace(log=Log(*np.c_[table[:, :-1], twin, table[:, -1:]]))
    resolved = fine_log(stuttering)
    assert len(resolved) == len(fine_log(path)) + 1
    assert_allclose(
        Trajectory.from_path(stuttering).residual_integral.sum(),
        Trajectory.from_path(path).residual_integral.sum(),
    )


@pytest.mark.parametrize(
    "function",
    [
        fine_log,
        theory.degrees_of_freedom,
        theory.residual_bound,
        theory.mean_smallest_eigenvalue,
        lambda path: theory.generalization_bound(path, [[0.0]]),
    ],
)
def test_compressed_paths_are_refused(function):
    X, f, noise = sine_data(8)
    path = KernelDescentRegressor().fit(X, f + noise).path_.compress(1e-2)
    with pytest.raises(ValueError, match="compressed path"):
        function(path)
    theory.r2_speed(path)  # needs the residual only


def flow_r2(path, name, bandwidth, time):
    """R² after following the exact flow for `time` from where a path stands."""
    K = reference.matrix(path.X, path.X, name, bandwidth)
    residual = expm(-time * K) @ path.residual
    return 1 - np.mean(np.sum(residual**2, axis=0) / path.scale**2)


@pytest.mark.parametrize("n_targets", [1, 2])
@pytest.mark.parametrize("bandwidth", [0.0, 0.2, 1.0])
def test_speed_and_acceleration_are_time_derivatives(kernel, bandwidth, n_targets):
    X, f, noise = sine_data(8)
    y = np.c_[f + noise, 3 * f][:, :n_targets]
    path = KernelDescentRegressor(kernel, max_r2=0.6).fit(X, y).path_
    h = 1e-4
    before, now, after = (flow_r2(path, kernel, bandwidth, t) for t in (-h, 0.0, h))
    assert_allclose(now, path.r2, rtol=1e-10)
    assert_allclose(r2_speed(path, bandwidth), (after - before) / (2 * h), rtol=1e-5)
    slow = (after - 2 * now + before) / h**2
    assert_allclose(r2_acceleration(path, bandwidth), slow, rtol=1e-4, atol=1e-6)


def test_signs_and_default_bandwidth(fitted):
    bandwidths = np.geomspace(1e-3, 10, 20)
    assert np.all(r2_speed(fitted, bandwidths) >= 0)
    assert np.all(r2_acceleration(fitted, bandwidths) <= 0)
    assert_allclose(r2_speed(fitted), r2_speed(fitted, fitted.path_.bandwidth))


def test_it_is_the_speed_in_the_log(fitted):
    log = fitted.path_.log
    step = len(log) // 2
    earlier = fitted.path_.truncate(time=log.time[step])
    assert_allclose(r2_speed(earlier, log.bandwidth[step]), log.speed[step], rtol=1e-9)


def test_a_constant_target_has_no_speed():
    path = KernelDescentRegressor().fit([[0.0], [1.0]], [2.0, 2.0]).path_
    with pytest.raises(ValueError, match="constant"):
        r2_speed(path)
