"""Schedules and solvers of one's own: they train, truncate and, told how, are stored."""

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_allclose

from bandfall import KernelDescentRegressor, load_model, save_model
from bandfall._files import codec
from bandfall.descent import Constant, Euler, Flow, Status, Stopping, fit_path
from bandfall.kernels import get_kernel
from problems import problem


@dataclass(frozen=True)
class Halving:
    """Half the bandwidth whenever training is slow."""

    min_speed: float = 0.2
    floor: float = 0.01

    def next_bandwidth(self, front):
        bandwidth = front.bandwidth
        while bandwidth > self.floor and front.speed(bandwidth) <= self.min_speed:
            bandwidth = max(0.5 * bandwidth, self.floor)
        return bandwidth

    def threshold(self, bandwidth):
        return self.min_speed if bandwidth > self.floor else 0.0


@dataclass(frozen=True)
class Heun:
    """The explicit trapezoidal rule with constant steps, at the bandwidth of the schedule."""

    step_size: float = 0.01
    max_iter: int = 100_000

    @property
    def shrink(self):
        return self.step_size

    def run(self, front, schedule, stopping):
        for _ in range(self.max_iter):
            if status := front.ended(stopping):
                return status
            front.bandwidth = bandwidth = schedule.next_bandwidth(front)
            step = min(self.step_size, stopping.max_time - front.time)
            ahead = front.residual - step * front.velocity(bandwidth)
            coefficients = 0.5 * step * (front.residual + ahead)
            residual = front.residual - front.operator.product(bandwidth, coefficients)
            front.step(coefficients, residual, front.time + step, step, self.step_size)
        return Status.ITERATION_LIMIT

    def within(self, stage):
        return self


def train(solver, schedule=None, **limits):
    X, y, _ = problem()
    return fit_path(
        X,
        y[:, None],
        get_kernel("gaussian"),
        solver=solver,
        schedule=schedule or Halving(),
        stopping=Stopping(**limits),
        bandwidth=4.0,
    )


@pytest.mark.parametrize("solver", [Flow(), Heun()])
def test_they_train_and_truncate(solver):
    X, y, X_new = problem()
    whole, stopped = train(solver, max_r2=0.99), train(solver, max_time=1.5)
    assert whole.status is Status.R2_REACHED
    assert_allclose(whole.evaluate(X) + whole.residual, y[:, None], atol=1e-9)
    cut = whole.truncate(time=1.5)
    assert cut.status is stopped.status is Status.TIME_REACHED
    assert_allclose(cut.evaluate(X_new), stopped.evaluate(X_new), atol=1e-7)
    assert whole.truncate(r2=0.5).r2 >= 0.5 - 1e-9


def test_a_solver_of_ones_own_is_of_the_order_that_it_claims():
    def outputs(solver):
        return train(solver, Constant(), max_time=2.0, max_r2=np.inf).evaluate(problem()[2])

    steps, exact = np.array([0.02, 0.01, 0.005]), outputs(Flow(1e-12))
    errors = [np.abs(outputs(Heun(step)) - exact).max() for step in steps]
    assert_allclose(np.polyfit(np.log(steps), np.log(errors), 1)[0], 2.0, atol=0.2)


def test_a_solver_of_ones_own_in_the_estimator():
    X, y, X_new = problem()
    own = KernelDescentRegressor(solver=Heun(0.01)).fit(X, y)
    flow = KernelDescentRegressor(solver=Flow(resolution=0.01)).fit(X, y)
    assert_allclose(own.predict(X_new), flow.predict(X_new), atol=0.05 * y.std())


@dataclass(frozen=True)
class Stubborn:
    """Gives a bandwidth up at any speed, or never, and offers it, or one next to it, again."""

    threshold_: float = np.inf
    shrink: float = 1.0
    floor: float = 0.0

    def next_bandwidth(self, front):
        return front.bandwidth * self.shrink

    def threshold(self, bandwidth):
        return self.threshold_


@pytest.mark.parametrize(
    ("solver", "schedule"),
    [
        (Flow(), Stubborn()),
        (Flow(), Stubborn(shrink=1 - 1e-9)),
        (Flow(), Stubborn(threshold_=0.0)),
    ],
)
def test_a_schedule_that_never_trains_or_never_shrinks_ends_with_a_reason(solver, schedule):
    """Long before max_iter, and it says that the schedule may be why."""
    X, y, _ = problem(n=5)
    path = fit_path(
        X,
        y[:, None],
        get_kernel("gaussian"),
        solver=solver,
        schedule=schedule,
        stopping=Stopping(max_r2=np.inf),
        bandwidth=0.5,
    )
    assert path.status is Status.STALLED
    assert "a schedule that keeps a bandwidth" in path.status.explanation
    assert path.n_products < 50_000


@pytest.mark.parametrize("solver", [Flow(), Euler()])
@pytest.mark.parametrize(("name", "value"), [("shrink", np.nan), ("shrink", -1.0)])
def test_bandwidths_that_are_none_are_refused(solver, name, value):
    X, y, _ = problem(n=5)
    with pytest.raises(ValueError, match=r"the schedule gives the bandwidth"):
        fit_path(
            X,
            y[:, None],
            get_kernel("gaussian"),
            solver=solver,
            schedule=Stubborn(**{name: value}),
            stopping=Stopping(),
        )


def test_they_are_stored_where_it_is_said_how(tmp_path):
    X, y, X_new = problem()
    model = KernelDescentRegressor(max_r2=0.9).fit(X, y)
    model.path_ = train(Heun(), max_r2=0.9)
    codec.register_dataclass(Heun)
    save_model(model, tmp_path / "m")
    loaded = load_model(tmp_path / "m")
    assert_allclose(loaded.predict(X_new), model.predict(X_new))
    cut = loaded.path_.truncate(time=0.5)
    assert_allclose(cut.evaluate(X_new), model.path_.truncate(time=0.5).evaluate(X_new))
