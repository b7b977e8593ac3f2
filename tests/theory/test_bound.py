"""Theorem 1 and Lemma 1: against naive sums, and true where f and the noise are known."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

import reference_theory as reference
from bandfall import KernelDescentRegressor
from bandfall.descent import Euler
from bandfall.theory import _spectrum as spectrum
from bandfall.theory import _trajectory as trajectory
from bandfall.theory import (
    fine_log,
    generalization_bound,
    mean_kernel_shift,
    residual_bound,
)
from reference_theory import sine_data

# |sin′(2πx)| ≤ 2π, and the points at which the bound is tried
SLOPE = 2 * np.pi
POINTS = np.linspace(-1, 1, 9)[:, None]


def staged_errors(path, f_new):
    """|f̂(x*) − f(x*)| after each stage, and the time of it."""
    times = np.array([stage.time + stage.duration for stage in path.stages])
    return times, np.abs(path.evaluate_staged(POINTS)[:, :, 0] - f_new)


def at(bound, values, times):
    """Reported values at the given times (all of them are in the log)."""
    index = np.searchsorted(bound.time, times - 1e-9)
    assert_allclose(bound.time[index], times, atol=1e-8)
    return values[index]


def test_terms_are_the_naive_sums(fitted, kernel):
    bound = generalization_bound(fitted, [[0.2], [0.9]])
    for i, point in enumerate([[0.2], [0.9]]):
        training, shift = reference.bound_terms(fitted.path_, point, kernel)
        tolerance = 2 * spectrum.EXPONENT_TOLERANCE
        assert_allclose(bound.training[-1], training, rtol=tolerance)
        assert_allclose(bound.shift[-1, i], shift, rtol=tolerance)
    assert np.isnan(bound.constant).all()
    assert np.isnan(bound.total).all()
    assert bound.training[0] == bound.scale
    assert np.all(bound.shift[0] == 0)


@pytest.fixture(autouse=True)
def all_times(monkeypatch):
    """Every step is reported."""
    monkeypatch.setattr(trajectory, "MAX_TIMES", 10**6)


@pytest.mark.parametrize("residual", ["bound", "measured"])
@pytest.mark.parametrize("seed", range(3))
def test_bound_holds_over_time_for_every_noise(kernel, solver, seed, residual):
    """The proof is a chain for each draw of ε, with (1/n) Σ|εᵢ| in the place of E|ε|."""
    X, f, noise = sine_data(seed)
    path = KernelDescentRegressor(kernel, solver=solver).fit(X, f + noise).path_
    bound = generalization_bound(
        path,
        POINTS,
        derivative_bound=SLOPE,
        noise=np.abs(noise).mean(),
        residual=residual,
    )
    times, errors = staged_errors(path, np.sin(2 * np.pi * POINTS[:, 0]))
    assert np.all(errors <= at(bound, bound.total, times))
    # The part that the kernel decides, alone: f̂(x*) against its mean over training rows.
    in_sample = path.evaluate_staged(X)[:, :, 0].mean(axis=1)
    gap = np.abs(path.evaluate_staged(POINTS)[:, :, 0] - in_sample[:, None])
    assert np.all(gap <= at(bound, bound.shift, times) + 1e-12)


def test_bound_holds_in_expectation(kernel):
    X, f, _ = sine_data(0)
    errors, totals = [], []
    for seed in range(6):
        noise = 0.2 * np.random.default_rng(seed).standard_normal(len(X))
        path = KernelDescentRegressor(kernel).fit(X, f + noise).path_
        bound = generalization_bound(
            path, POINTS, derivative_bound=SLOPE, noise=0.2 * math.sqrt(2 / math.pi)
        )
        errors.append(np.abs(path.evaluate(POINTS)[:, 0] - np.sin(2 * np.pi * POINTS[:, 0])))
        totals.append(bound.total[-1])
    assert np.all(np.mean(errors, axis=0) <= np.mean(totals, axis=0))


def test_lemma_1_bounds_the_residual(kernel, solver):
    for seed in range(2):
        X, f, noise = sine_data(seed)
        model = KernelDescentRegressor(kernel, solver=solver).fit(X, f + noise)
        path = model.path_
        time, bound = residual_bound(model)
        measured = np.sqrt(1 - np.append(fine_log(path).r2, path.r2))
        assert np.all(measured <= bound + 1e-12)
        assert bound[0] == 1.0
        assert bound[-1] < 1.0  # the last stage has K = I
        assert np.all(np.diff(bound) <= 0)
        assert np.all(np.diff(time) >= 0)


def test_lemma_1_is_tight_at_bandwidth_zero():
    """K = I: the residual falls like e^{−t}, and Lemma 1 is an equality for flow."""
    X, f, noise = sine_data(1)
    model = KernelDescentRegressor(bandwidth=0.0, max_r2=0.9).fit(X, f + noise)
    _, bound = residual_bound(model)
    assert_allclose(bound[-1], math.sqrt(1 - model.path_.r2), rtol=1e-9)
    assert_allclose(bound[-1], math.exp(-model.path_.time), rtol=1e-12)


def test_measured_is_never_above_the_bound(kernel, solver):
    X, f, noise = sine_data(3)
    model = KernelDescentRegressor(kernel, solver=solver).fit(X, f + noise)
    loose = generalization_bound(model, POINTS)
    tight = generalization_bound(model, POINTS, residual="measured")
    step = Euler().step_size  # Euler sums the residual from the left
    assert np.all(tight.training <= loose.training * (1 + 1e-12))
    assert np.all(tight.shift <= loose.shift * (1 + step))


def test_mean_shift_is_weighted_by_the_residual(fitted, kernel):
    path = fitted.path_
    time, mean = mean_kernel_shift(fitted, [[0.2]])
    first = reference.kernel_shift([0.2], path.X, kernel, path.log.bandwidth[0])
    assert_allclose(mean[0, 0], first, rtol=1e-9)
    assert_allclose(mean[-1, 0], reference.mean_shift(path, [0.2], kernel), rtol=2e-4)
    half = path.truncate(time=path.time / 2)
    between = np.interp(half.time, time, mean[:, 0])
    assert_allclose(between, reference.mean_shift(half, [0.2], kernel), rtol=2e-3)


def test_thinning_keeps_the_values(fitted, monkeypatch):
    full = generalization_bound(fitted, POINTS)
    monkeypatch.setattr(trajectory, "MAX_TIMES", 7)
    thin = generalization_bound(fitted, POINTS)
    assert len(thin.time) == 7
    keep = np.searchsorted(full.time, thin.time)
    assert_allclose(thin.shift, full.shift[keep], rtol=1e-12)
    assert_allclose(thin.mean_kernel_shift, full.mean_kernel_shift[keep], rtol=1e-12)
    assert_allclose(thin.mean_smallest_eigenvalue, full.mean_smallest_eigenvalue[keep])


def test_weights_and_several_targets(kernel):
    """A weighted fit is a fit of repeated rows; several targets are bounded in pooled units."""
    X, f, noise = sine_data(5, n=8)
    weights = np.array([1.0, 2, 1, 1, 3, 1, 1, 1])
    model = KernelDescentRegressor(kernel, max_r2=0.9)
    weighted = model.fit(X, f + noise, sample_weight=weights).path_
    times = weights.astype(int)
    repeated = model.fit(np.repeat(X, times, 0), np.repeat(f + noise, times)).path_
    assert_allclose(weighted.time, repeated.time)
    left = generalization_bound(weighted, POINTS, residual="measured")
    right = generalization_bound(repeated, POINTS, residual="measured")
    assert_allclose(left.shift[-1], right.shift[-1], rtol=1e-6)
    assert_allclose(left.training[-1], right.training[-1], rtol=1e-6)

    targets = np.c_[f + noise, 7 * (f - noise)]
    path = model.fit(X, targets).path_
    bound = generalization_bound(path, POINTS)
    gap = path.evaluate(POINTS) - path.evaluate(X).mean(axis=0)
    pooled = np.sqrt(np.mean((gap / path.scale) ** 2, axis=1)) * np.sqrt(len(X))
    assert np.all(pooled <= bound.shift[-1])


def test_a_constant_target_has_nothing_to_bound():
    path = KernelDescentRegressor().fit([[0.0], [1.0]], [2.0, 2.0]).path_
    bound = generalization_bound(path, [[0.5]], derivative_bound=0.0, noise=0.0)
    assert bound.total.tolist() == [[0.0]]
    assert residual_bound(path)[1].tolist() == [1.0]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"residual": "seen"}, "residual='seen'"),
        ({"derivative_bound": -1.0, "noise": 0.0}, "derivative_bound=-1.0"),
        ({"derivative_bound": 1.0, "noise": -2.0}, "noise=-2.0"),
    ],
)
def test_bad_settings_are_named(settings, message):
    path = KernelDescentRegressor(max_r2=0.5).fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 0.0]).path_
    with pytest.raises(ValueError, match=message):
        generalization_bound(path, [[0.5]], **settings)
    with pytest.raises(ValueError, match="X_new has 2 features"):
        generalization_bound(path, [[0.5, 1.0]])
