"""Exact flow: closed forms, the order of the scheme, events, blocks and float32."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import reference
from bandfall import KernelDescentRegressor
from bandfall._products import BlockedOperator, DenseOperator
from bandfall.descent import Euler, Flow, Status, Stopping, fit_path
from bandfall.descent import _flow as flow
from bandfall.descent._front import TrainingFront
from bandfall.descent._schedules import Constant, MinimumSpeed
from bandfall.kernels._kernel import KERNELS, get_kernel
from problems import problem, problems

GAUSSIAN = get_kernel("gaussian")


def train(X, y, solver, schedule, *, kernel=GAUSSIAN, stopping=None, **options):
    y = y if y.ndim == 2 else y[:, None]
    stopping = Stopping() if stopping is None else stopping
    return fit_path(X, y, kernel, solver=solver, schedule=schedule, stopping=stopping, **options)


@given(
    problems(),
    st.floats(0.3, 3.0),
    st.floats(0.01, 50.0),
    st.sampled_from(["gaussian", "matern32", "cauchy", "matern12"]),
)
def test_constant_schedule_is_the_closed_form(data, bandwidth, time, name):
    X, y, X_new = data
    path = train(
        X,
        y,
        Flow(),
        Constant(),
        kernel=get_kernel(name),
        bandwidth=bandwidth,
        stopping=Stopping(max_r2=np.inf, max_time=time),
    )
    K = reference.kernel(name, X, X, bandwidth)
    eigenvalues, U = np.linalg.eigh(K)
    filters = np.where(
        eigenvalues > 1e-12, -np.expm1(-time * eigenvalues) / np.abs(eigenvalues), time
    )
    expected = reference.kernel(name, X_new, X, bandwidth) @ (
        U @ (filters * (U.T @ (y - y.mean())))
    )
    got = path.evaluate(X_new)[:, 0] - y.mean()
    assert_allclose(got, expected, atol=1e-6 * max(1.0, np.abs(y).max()))


def test_flow_is_the_limit_of_euler():
    X, y, X_new = problem(n=40)
    exact = train(
        X, y, Flow(), Constant(), bandwidth=1.0, stopping=Stopping(max_r2=np.inf, max_time=2.0)
    ).evaluate(X_new)
    errors = []
    for step in (4e-3, 2e-3, 1e-3):
        path = train(
            X,
            y,
            Euler(step),
            Constant(),
            bandwidth=1.0,
            stopping=Stopping(max_r2=np.inf, max_time=2.0),
        )
        errors.append(np.abs(path.evaluate(X_new) - exact).max())
    slopes = np.diff(np.log(errors)) / np.log(0.5)
    assert_allclose(slopes, 1.0, atol=0.05)  # Euler is of first order, and converges to the flow


@pytest.mark.parametrize("name", ["gaussian", "matern32"])
def test_second_order_in_the_bandwidth_grid(name):
    X, y, X_new = problem(n=70, d=2, noise=0.3)
    kernel = get_kernel(name)
    limit = train(X, y, Flow(1e-11), MinimumSpeed(0.1, 0.006), kernel=kernel).evaluate(X_new)
    shrinks, errors = np.array([0.2, 0.1, 0.05]), []
    for shrink in shrinks:
        path = train(X, y, Flow(1e-11), MinimumSpeed(0.1, shrink), kernel=kernel)
        errors.append(np.sqrt(np.mean((path.evaluate(X_new) - limit) ** 2)) / y.std())
    order = np.polyfit(np.log(np.log1p(shrinks)), np.log(errors), 1)[0]
    assert order > 1.6
    assert errors[1] < 3e-3  # the default resolution


def test_flow_and_small_euler_steps_meet():
    X, y, X_new = problem(n=60, d=2)
    flow = train(X, y, Flow(), MinimumSpeed(0.1, 0.01)).evaluate(X_new)
    distances = []
    for step in (4e-3, 2e-3, 1e-3):
        euler = train(X, y, Euler(step), MinimumSpeed(0.1, step)).evaluate(X_new)
        distances.append(np.sqrt(np.mean((euler - flow) ** 2)) / y.std())
    assert distances[2] < 0.6 * distances[0]
    assert distances[2] < 5e-3


@pytest.mark.parametrize("max_r2", [0.3, 0.9, 0.999, 1.0])
def test_r2_limit_is_met_exactly(max_r2):
    X, y, _ = problem(n=50)
    path = KernelDescentRegressor(max_r2=max_r2).fit(X, y).path_
    assert path.status is Status.R2_REACHED
    assert_allclose(path.r2, max_r2, atol=1e-8)


def test_time_limit_is_met_exactly():
    X, y, _ = problem(n=50)
    path = KernelDescentRegressor(max_time=1.2345).fit(X, y).path_
    assert path.status is Status.TIME_REACHED
    assert path.time == 1.2345
    assert_allclose(path.log.duration.sum(), 1.2345, rtol=1e-9)


@pytest.mark.parametrize("name", KERNELS)
def test_training_rows_see_the_training_state(name):
    X, y, _ = problem(n=80)
    path = KernelDescentRegressor(kernel=name).fit(X, y).path_
    assert_allclose(path.evaluate(X)[:, 0] + path.residual[:, 0], y, atol=1e-9)
    assert_allclose(path.r2, 1 - np.sum(path.residual**2) / np.sum((y - y.mean()) ** 2), atol=1e-9)


def test_small_krylov_spaces_only_cost_restarts():
    X, y, X_new = problem(n=60)
    wide = train(X, y, Flow(max_dimension=96), MinimumSpeed(0.1, 0.1))
    narrow = train(X, y, Flow(max_dimension=6), MinimumSpeed(0.1, 0.1))
    assert len(narrow.log) > len(wide.log)
    assert_allclose(narrow.evaluate(X_new), wide.evaluate(X_new), atol=1e-4 * y.std())


def test_watcher_sees_every_stage_and_can_stop():
    X, y, X_new = problem(n=40)
    seen = []

    def watch(progress):
        seen.append((progress.r2, progress.path()))
        return progress.r2 > 0.8

    path = train(X, y, Flow(), MinimumSpeed(0.1, 0.1), watcher=watch)
    assert path.status is Status.INTERRUPTED
    assert len(seen) == len(path)
    assert [r2 for r2, _ in seen] == sorted(r2 for r2, _ in seen)
    assert_allclose(seen[-1][1].evaluate(X_new), path.evaluate(X_new))


def test_several_targets_are_a_block():
    X, y, X_new = problem(n=50)
    Y = np.column_stack([y, np.cos(X[:, 0]), np.full(50, 3.0)])
    path = train(X, Y, Flow(), MinimumSpeed(0.1, 0.1))
    euler = train(X, Y, Euler(0.002), MinimumSpeed(0.1, 0.002))
    fine = train(X, Y, Flow(), MinimumSpeed(0.1, 0.004))
    assert_allclose(fine.evaluate(X_new), euler.evaluate(X_new), atol=0.01)
    assert_allclose(path.evaluate(X_new)[:, 2], 3.0)
    column_r2 = 1 - (path.residual[:, :2] ** 2).sum(0) / ((Y - Y.mean(0))[:, :2] ** 2).sum(0)
    assert_allclose(column_r2.mean(), path.r2, atol=1e-9)


def test_dependent_targets_break_nothing():
    X, y, X_new = problem(n=30)
    path = train(X, np.column_stack([y, -2 * y]), Flow(), MinimumSpeed(0.1, 0.1))
    single = train(X, y, Flow(), MinimumSpeed(0.1, 0.1))
    both = path.evaluate(X_new)
    assert_allclose(both[:, 1], -2 * both[:, 0], atol=1e-8)
    assert_allclose(both[:, 0], single.evaluate(X_new)[:, 0], atol=1e-6)


@pytest.mark.parametrize("name", ["gaussian", "matern52"])
def test_float32_agrees_with_float64(name):
    X, y, X_new = problem(n=200)
    wide = KernelDescentRegressor(kernel=name).fit(X, y).predict(X_new)
    model = KernelDescentRegressor(kernel=name).fit(X.astype(np.float32), y.astype(np.float32))
    narrow = model.predict(X_new.astype(np.float32))
    assert narrow.dtype == np.float32
    assert_allclose(narrow, wide, atol=1e-3 * y.std())


def test_blocked_operator_gives_the_same_model():
    X, y, X_new = problem(n=300)
    dense = KernelDescentRegressor().fit(X, y)
    blocked = KernelDescentRegressor(memory_budget=200_000).fit(X, y)
    assert_allclose(blocked.predict(X_new), dense.predict(X_new), atol=1e-7)
    front = TrainingFront(BlockedOperator(X, GAUSSIAN), y[:, None], 0.0, 1.0)
    assert front.speed(1.0) > 0


def test_thousand_rows_need_few_products():
    X, y, _ = problem(n=1000, noise=0.3)
    products = []
    train(
        X,
        y,
        Flow(),
        MinimumSpeed(0.1, 0.1),
        watcher=lambda progress: products.append(progress.n_products) or False,
    )
    assert products[-1] < 800


@pytest.mark.parametrize(
    ("allowed", "low", "high"), [(flow._MAX_DRIFT, 0.0, 2e-3), (np.inf, 1e-2, 1.0)]
)
def test_rounded_products_do_not_part_residual_and_coefficients(monkeypatch, allowed, low, high):
    """Products as a GPU rounds them with a million rows: relative to their own norm."""
    monkeypatch.setattr(flow, "_MAX_DRIFT", allowed)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 2))
    y = np.sin(2 * X[:, :1]) + X[:, 1:]
    kernel = get_kernel("gaussian")
    operator = DenseOperator(X, kernel)
    operator.dtype = np.dtype(np.float32)
    exact = operator.product

    def rounded(bandwidth, block):
        image = exact(bandwidth, block)
        noise = rng.normal(size=image.shape) / np.sqrt(len(image))
        return image + 1e-6 * np.linalg.norm(image) * noise

    operator.product = rounded
    path = fit_path(
        X,
        y,
        kernel,
        solver=Flow(),
        schedule=MinimumSpeed(0.1, 0.1),
        stopping=Stopping(max_r2=0.99),
        weights=np.full(150, 6000.0),
        operator=operator,
    )
    drift = np.linalg.norm(y - path.evaluate(X) - path.residual) / np.linalg.norm(y - y.mean(0))
    assert low <= drift < high
    assert path.r2 >= 0.99 - 1e-5


class _RoundedOperator(DenseOperator):
    """Rounds so that directions K does not reach look trainable, as products on a GPU did."""

    def product(self, bandwidth, block):
        return super().product(bandwidth, block) + np.float32(1e-6) * block


def test_rounding_does_not_train_what_repeated_rows_contradict():
    rng = np.random.default_rng(0)
    X = np.repeat(rng.normal(size=(10, 2)), 20, axis=0).astype(np.float32)
    y = rng.normal(size=(200, 1)).astype(np.float32)
    path = train(
        X,
        y,
        Flow(),
        MinimumSpeed(0.1),
        operator=_RoundedOperator(X, GAUSSIAN, np.float32),
    )
    means = y.reshape(10, 20).mean(axis=1)
    assert path.status is Status.STALLED
    assert path.time < 100.0
    assert_allclose(path.evaluate(X[::20])[:, 0], means, atol=1e-3)


def test_a_wide_floor_in_float32_ends():
    """What float32 cannot resolve would be trained for as long as iterations last."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3)).astype(np.float32)
    y = (np.sin(2 * X[:, :1]) + X[:, 1:2] * X[:, 2:]).astype(np.float32)
    y += 0.1 * rng.normal(size=y.shape).astype(np.float32)
    path = train(X, y, Flow(max_iter=1000), MinimumSpeed(0.1, 0.1, 1.0))
    assert path.status is Status.STALLED
    assert path.r2 > 0.99
