"""The playground's solver and data against Python's, in Node.js."""

from functools import cache

import numpy as np
import pytest

from bandfall import floor_sweep
from bandfall._closed_form import ridge_coefficients
from bandfall._drawing import read_resource
from bandfall._explore import ENGINE
from bandfall.datasets import make_sine, make_two_scale
from bandfall.descent import Flow, Stopping, fit_path
from bandfall.descent._schedules import MinimumSpeed
from bandfall.kernels import get_kernel, kernel_matrix
from browsers import run_node

pytestmark = pytest.mark.node

SINE = make_sine(random_state=8, n_test=101, test_points="grid")
TWO_SCALE = make_two_scale(60, random_state=16, n_test=101)
PROBLEMS = {"sine": SINE, "two scales": TWO_SCALE}
NAMES = ["gaussian", "matern12", "matern32", "matern52", "cauchy"]


@cache
def scripts(*names):
    return "".join(read_resource("bandfall._explore", name) for name in names)


def in_page(code, value):
    """Run code after the very engine that the page's workers run."""
    return run_node(scripts(*ENGINE) + code, value)


def task(problem, **options):
    X, y, X_new, y_new = problem
    rows = {"x": X[:, 0], "y": y, "grid": X_new[:, 0], "truth": y_new}
    return {name: values.tolist() for name, values in rows.items()} | options


def reference(problem, kernel, *, min_speed=0.1, floor=0.0, max_time=np.inf, max_r2=0.999):
    X, y, _, _ = problem
    return fit_path(
        X,
        y[:, None],
        get_kernel(kernel),
        solver=Flow(tolerance=1e-10),
        schedule=MinimumSpeed(min_speed, 0.1, floor),
        stopping=Stopping(max_r2, max_time),
    )


FILM = """
const film = Film.film(input);
const last = film.frames.at(-1);
answer({...film, frames: undefined, curve: last.curve, residual: last.residual,
  times: film.frames.map((frame) => frame.time), r2s: film.frames.map((frame) => frame.r2),
  middle: film.frames[Math.floor(film.frames.length / 2)]});
"""


class TestFilm:
    @pytest.mark.parametrize("name", PROBLEMS)
    @pytest.mark.parametrize("kernel", NAMES)
    @pytest.mark.parametrize("floor", [0.0, 0.2])
    def test_same_stages_and_predictions(self, name, kernel, floor):
        problem = PROBLEMS[name]
        max_time = 1000.0 if floor else np.inf
        path = reference(problem, kernel, floor=floor, max_time=max_time)
        options = {"maxTime": max_time} if floor else {}
        film = in_page(FILM, task(problem, kernel=kernel, floor=floor, **options))
        assert film["status"] == path.status.value
        bandwidths = [stage["bandwidth"] for stage in film["stages"]]
        np.testing.assert_allclose(bandwidths, path.log.bandwidth, rtol=1e-12)
        durations = [stage["duration"] for stage in film["stages"]]
        np.testing.assert_allclose(durations, path.log.duration, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(film["curve"], path.evaluate(problem[2])[:, 0], atol=1e-6)
        np.testing.assert_allclose(film["residual"], path.residual[:, 0], atol=1e-6)
        np.testing.assert_allclose(film["time"], path.time, rtol=1e-6)
        np.testing.assert_allclose(film["r2"], path.r2, atol=1e-9)

    @pytest.mark.parametrize("min_speed", [0.02, 0.5])
    def test_minimum_speed(self, min_speed):
        path = reference(SINE, "gaussian", min_speed=min_speed)
        film = in_page(FILM, task(SINE, kernel="gaussian", minSpeed=min_speed))
        np.testing.assert_allclose(film["curve"], path.evaluate(SINE[2])[:, 0], atol=1e-6)

    def test_frames_inside_a_stage_are_the_truncated_path(self):
        film = in_page(FILM, task(SINE, kernel="matern32"))
        cut = reference(SINE, "matern32").truncate(time=film["middle"]["time"])
        np.testing.assert_allclose(film["middle"]["curve"], cut.evaluate(SINE[2])[:, 0], atol=1e-6)
        np.testing.assert_allclose(film["middle"]["r2"], cut.r2, atol=1e-6)

    def test_frames_are_close_in_r2_and_in_order(self):
        film = in_page(FILM, task(SINE, kernel="gaussian"))
        assert np.all(np.diff(film["times"]) > 0)
        assert film["times"][0] == 0
        assert np.max(np.diff(film["r2s"])) < 0.0101

    def test_repeated_points_stall(self):
        X, y, X_new, y_new = SINE
        twice = (np.vstack([X, X]), np.append(y, y + 1.0), X_new, y_new)
        path = reference(twice, "gaussian")
        film = in_page(FILM, task(twice, kernel="gaussian"))
        assert film["status"] == path.status.value == "stalled"
        np.testing.assert_allclose(film["curve"], path.evaluate(X_new)[:, 0], atol=1e-6)

    @pytest.mark.parametrize("n", [2, 3])
    def test_constant_targets_and_few_points(self, n):
        few = (np.linspace(0, 1, n)[:, None], np.full(n, 3.0), *SINE[2:])
        film = in_page(FILM, task(few, kernel="gaussian"))
        assert film["status"] == "constant_target"
        np.testing.assert_allclose(film["curve"], 3.0)
        few = (few[0], np.arange(float(n)), *SINE[2:])
        film = in_page(FILM, task(few, kernel="gaussian"))
        np.testing.assert_allclose(film["r2"], 0.999)


class TestRidge:
    @pytest.mark.parametrize("kernel", NAMES)
    def test_same_as_the_closed_form_at_the_asked_r2(self, kernel):
        X, y, X_new, y_new = TWO_SCALE
        levels = [0.3, 0.8, 0.95]
        options = {"kernel": kernel, "constant": 0.1, "levels": levels}
        rows = in_page("answer(Film.ridge(input, input.levels));", task(TWO_SCALE, **options))
        distances = np.abs(X - X.T) ** get_kernel(kernel).power
        new = np.abs(X_new - X.T) ** get_kernel(kernel).power
        K, K_new = (kernel_matrix(get_kernel(kernel), d, 0.1) for d in (distances, new))
        for level, row in zip(levels, rows, strict=True):
            c = ridge_coefficients(K, y - y.mean(), row["penalty"])
            left = np.sum((y - y.mean() - K @ c) ** 2) / np.sum((y - y.mean()) ** 2)
            np.testing.assert_allclose(1 - left, level, atol=1e-6)
            np.testing.assert_allclose(row["curve"], y.mean() + K_new @ c, atol=1e-6)
            error = np.mean((row["curve"] - y_new) ** 2) / np.var(y_new)
            np.testing.assert_allclose(row["testR2"], 1 - error, atol=1e-9)


class TestSweep:
    @pytest.mark.parametrize("name", PROBLEMS)
    @pytest.mark.parametrize("kernel", NAMES)
    def test_same_as_floor_sweep(self, name, kernel):
        problem = PROBLEMS[name]
        X, y, X_new, y_new = problem
        floors = np.append(np.geomspace(2.0, 0.01, 8), 0.0)
        limits = {"maxTime": 1000.0, "maxR2": 1.0}
        sweep = floor_sweep(
            X, y, X_new, floors, kernel=kernel, max_time=1000.0, max_r2=1.0,
            solver=Flow(tolerance=1e-10),
        )  # fmt: skip
        options = {"kernel": kernel, "floors": floors.tolist()} | limits
        rows = in_page("answer([...Film.sweep(input)]);", task(problem, **options))
        rows = {row["floor"]: row for row in rows}
        for i, floor in enumerate(floors):
            row = rows[floor]
            np.testing.assert_allclose(row["curve"], sweep.new[i], atol=1e-6)
            np.testing.assert_allclose(row["r2"], sweep.r2[i], atol=1e-9)
            ridge = 1 - np.mean((sweep.ridge_new[i] - y_new) ** 2) / np.var(y_new)
            np.testing.assert_allclose(row["ridgeTestR2"], ridge, atol=1e-6)


class TestData:
    def points(self, name, n, seed):
        code = "answer(Data.draw(input.name, input.n, 0.2, input.seed));"
        value = {"name": name, "n": n, "seed": seed}
        return np.array(run_node(scripts("data.js") + code, value))

    @pytest.mark.parametrize("seed", [0, 8, 12345])
    def test_sine_is_the_papers(self, seed):
        X, y, _, _ = make_sine(random_state=seed)
        np.testing.assert_allclose(
            self.points("sine", 20, seed), np.column_stack([X, y]), atol=1e-12
        )

    def test_two_scales_are_the_papers(self):
        X, y, _, _ = make_two_scale(random_state=16)
        got = self.points("twoscale", 100, 16)
        np.testing.assert_allclose(got, np.column_stack([X, y]), atol=1e-12)


class TestState:
    HASH = scripts("data.js")

    def test_an_address_gives_the_state_back(self):
        code = """
        const state = {...State.fresh("steps"), kernel: "cauchy", speed: 0.02, floor: 7, time: 3.5,
          points: [[0.25, -1], [0.5, 1e-3]], ridge: false};
        answer([State.fromHash(State.toHash(state)), state, State.toHash(state)]);"""
        back, state, address = run_node(self.HASH + code)
        assert back == state
        assert address.startswith("#d=steps&")

    @pytest.mark.parametrize(
        "address",
        [
            "", "#", "#%", "#d=<script>", "#d=constructor", "#kernel=__proto__", "#n=1e9&seed=-1",
            "#noise=NaN&speed=0&floor=99", "#time=-1&constant=Infinity", "#n=&p=",
            "#p=" + "a_b~" * 400, "#p=1~1_2_3~1e9_0",
        ],
    )  # fmt: skip
    def test_any_address_gives_a_state(self, address):
        code = "answer([State.fromHash(input), State.fresh()]);"
        state, usual = run_node(self.HASH + code, address)
        assert state.pop("points") in (None, [])
        assert state == {key: value for key, value in usual.items() if key != "points"}
