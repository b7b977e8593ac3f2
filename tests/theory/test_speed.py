"""Proposition 2 against finite differences of closed-form flow."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import expm

import reference_theory as reference
from bandfall import KernelDescentRegressor
from bandfall.theory import r2_acceleration, r2_speed
from reference_theory import sine_data


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
