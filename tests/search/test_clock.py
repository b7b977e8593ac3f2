"""The clock of a fit: limits are kept, and progress is true."""

import math

import pytest
from numpy.testing import assert_allclose

from bandfall import KernelDescentRegressor
from bandfall._progress import PathProgress, observed_by
from bandfall._search.clock import (
    FINAL_FITS,
    FINALISTS,
    SEARCH,
    STAGES,
    Clock,
    coarse,
    work,
)


class Time:
    """Stands still until it is set."""

    seconds = 0.0

    def __call__(self):
        return self.seconds


@pytest.fixture
def time():
    return Time()


def test_estimates_grow_with_the_square_of_the_rows(time):
    clock = Clock(100.0, now=time)
    assert clock.estimate(1000) == 0.0  # nothing is known
    clock.pace = 2.0 / work(1000)
    assert_allclose(clock.estimate(1000), 2.0)
    assert_allclose(clock.estimate(1000, 3.0), 6.0)
    many = clock.estimate(100_000)
    assert_allclose(clock.estimate(200_000) / many, 4.0, rtol=1e-4)


@pytest.mark.parametrize(("reserved", "planned"), [(0.0, 9.0), (6.0, 3.0), (100.0, 3.0)])
def test_a_search_leaves_time_for_the_rest_but_has_a_third(time, reserved, planned):
    clock = Clock(9.0, now=time)
    clock.pace = 1.0 / work(100)
    clock.reserve(reserved)
    for number in range(12):
        assert clock.begins(100, 1.0) == (number < planned)  # a plan counts work and not time
        assert_allclose(clock.spare, max(9.0 - number - 1, 9.0 - planned))
    clock.begun = True
    time.seconds = min(9.0, 2.0 * planned) - 0.1
    assert not clock.search_over()
    time.seconds += 0.2
    assert clock.search_over()


def test_the_first_trial_is_completed_however_late_it_is(time):
    """Cut off, it would be the mean."""
    clock = Clock(9.0, now=time)
    time.seconds = 20.0
    assert clock.over
    assert not clock.search_over()
    clock.begun = True
    assert clock.search_over()


def test_time_in_which_other_programs_compute_does_not_count(monkeypatch):
    wall, processor = Time(), Time()
    monkeypatch.setattr("bandfall._search.clock.time.monotonic", wall)
    monkeypatch.setattr("bandfall._search.clock.time.process_time", processor)
    clock = Clock(3.0, now=wall)
    wall.seconds, processor.seconds = 4.0, 3.0
    assert_allclose(clock.passed, 3.0)
    wall.seconds = 4.6  # a busy machine cannot make it take more than half as long again
    assert clock.over
    wall.seconds, processor.seconds = 4.0, 7.0  # threads
    assert_allclose(clock.passed, 4.0)
    with clock.uncounted():
        wall.seconds, processor.seconds = 5.0, 8.0
    assert_allclose(clock.passed, 4.0)
    clock.on_host = False  # a graphics processor computes
    wall.seconds = 6.0
    assert_allclose(clock.passed, 5.0)
    assert clock.stopwatch is wall


def test_without_a_limit_there_is_time_for_everything(time):
    clock = Clock(now=time)
    clock.reserve(1e9)
    time.seconds = 1e9
    assert clock.left == clock.search_left == math.inf
    clock.begun = True
    assert not clock.search_over()


@pytest.mark.parametrize("pressed", [False, True])
def test_an_end_waits_for_the_first_trial_and_ctrl_c_does_not(time, pressed):
    clock = Clock(now=time)
    clock.press() if pressed else clock.end()
    assert clock.search_over() == pressed
    clock.begun = True
    assert clock.search_over()


@pytest.mark.parametrize(("share", "expected"), [(1.9, 1.0), (0.3, 0.25), (-1.0, 0.0)])
def test_measured_shares_are_powers_of_two(share, expected):
    assert coarse(share) == expected
    assert coarse(math.inf) == math.inf


def test_the_share_is_that_of_the_work():
    clock = Clock()
    clock.expect(SEARCH, 4.0)
    clock.expect(FINAL_FITS, 4.0)
    for done in range(4):
        assert clock.share() == pytest.approx(done / 8)
        with clock.task(SEARCH, 1.0):
            assert clock.share() == pytest.approx(done / 8)
    with clock.task(FINAL_FITS, 4.0):
        pass
    assert clock.share() == 1.0


def test_the_share_never_falls():
    clock = Clock()
    clock.expect(SEARCH, 2.0)
    with clock.task(SEARCH, 1.0):
        pass
    assert clock.share() == 0.5
    clock.expect(SEARCH, 99.0)  # more rounds help than expected
    assert clock.share() == 0.5


def test_a_stage_ends_with_the_start_of_the_next():
    clock = Clock()
    clock.expect(SEARCH, 4.0)
    with clock.task(SEARCH, 1.0):
        pass
    with clock.task(FINALISTS, 1.0):
        assert clock.share() == 0.5
    assert clock.share() == 1.0


def test_failed_tasks_are_over():
    clock = Clock()
    clock.expect(SEARCH, 1.0)
    with pytest.raises(ZeroDivisionError), clock.task(SEARCH, 1.0):
        raise ZeroDivisionError
    assert clock.share() == 1.0


def test_an_observer_sees_the_clocks_of_fits():
    seen = []
    with observed_by(seen.append):
        clock = Clock()
    assert seen == [clock]
    assert set(STAGES) == {"search", "finalists", "log-loss", "final fits", "summary"}


def test_an_observer_sees_the_share_of_a_path():
    seen = []
    with observed_by(seen.append):
        KernelDescentRegressor().fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 0.5])
    (progress,) = seen
    assert 0.0 < progress.share() <= 1.0
    for r2, share in ((-0.1, 0.0), (0.9, 1 / 3), (1.0, 1.0)):
        progress.reach(r2)
        assert_allclose(progress.share(), share)
    assert PathProgress(1.0).share() == 0.0
