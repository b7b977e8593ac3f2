"""The clock of a fit: limits are kept, and progress is true."""

import math
import threading

import pytest
from numpy.testing import assert_allclose

from bandfall import KernelDescentRegressor
from bandfall._search.clock import (
    FINAL_FITS,
    FINALISTS,
    SEARCH,
    STAGES,
    Clock,
    PathProgress,
    observed_by,
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


def planned(clock, entries, reserved=0.0):
    """A clock whose limit allows these entries, of which final fits need some."""
    clock.afford(entries)
    clock.plan(reserved)
    return clock


def test_estimates_grow_with_the_square_of_the_rows(time):
    clock = Clock(100.0, now=time)
    assert clock.estimate(1000) == 0.0  # nothing is known
    planned(clock, work(1000, 50.0))
    assert_allclose(clock.estimate(1000), 2.0)
    assert_allclose(clock.estimate(1000, 3.0), 6.0)
    many = clock.estimate(100_000)
    assert_allclose(clock.estimate(200_000) / many, 4.0, rtol=1e-4)


def test_a_search_ends_when_it_takes_twice_its_plan(time):
    clock = planned(Clock(10.0, now=time), work(100, 10.0), reserved=work(100, 6.0))
    assert clock.has_room(100, 3.9)
    assert not clock.has_room(100, 4.1)
    time.seconds = 7.9
    assert not clock.search_over
    time.seconds = 8.1
    assert clock.search_over


def test_the_first_trial_has_a_second_however_late_it_is(time):
    """Cut off at once, it would be the mean."""
    clock = Clock(9.0, now=time)
    time.seconds = 20.0
    assert clock.over
    assert not clock.search_ended()
    time.seconds = 20.9
    assert not clock.search_ended()
    time.seconds = 21.1
    assert clock.search_ended()
    begun = Clock(9.0, now=time)
    begun.begun = True
    time.seconds += 10.0
    assert begun.search_ended()


def test_the_search_has_a_third_of_the_work_however_long_the_rest_takes(time):
    clock = planned(Clock(9.0, now=time), work(100, 9.0), reserved=work(10**6, 4.0))
    assert clock.has_room(100, 2.9)
    assert not clock.has_room(100, 3.1)
    assert_allclose(clock.spare, 9.0)
    assert clock.begins(work(100, 10.0))
    assert_allclose(clock.spare, 6.0)  # the rest, however much more has begun


def test_a_plan_counts_work_and_not_time(time):
    clock = planned(Clock(10.0, now=time), work(10, 10.0), reserved=work(10, 1.0))
    begun = [clock.begins(work(10, 1.5)) for _ in range(8)]
    assert begun == [True] * 6 + [False] * 2
    assert not clock.has_room(10)
    assert not clock.search_over
    assert_allclose(clock.spare, 1.0)


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
    clock.plan(1e9)
    time.seconds = 1e9
    assert clock.left == math.inf
    assert clock.spare == math.inf
    assert not clock.search_over
    assert clock.has_room(10**9)


def test_an_interrupt_cuts_ladders_off_after_the_first_trial(time):
    clock = Clock(now=time)
    clock.end()
    assert clock.search_over
    assert not clock.search_ended()
    clock.begun = True
    assert clock.search_ended()


@pytest.fixture
def clock(time):
    """Loops are compiled: what ends now shows the pace."""
    clock = Clock(now=time)
    with clock.task(SEARCH, 0.0):
        pass
    return clock


def test_nothing_is_promised_before_the_first_task_has_ended(clock, time):
    clock.expect(SEARCH, 10.0)
    with clock.task(SEARCH, 1.0):
        time.seconds = 5.0
        assert clock.expected() is None
        assert clock.share() == 0.0


def test_equal_tasks_take_equal_time(clock, time):
    clock.expect(SEARCH, 4.0)
    for done in range(1, 5):
        with clock.task(SEARCH, 1.0):
            time.seconds += 2.0
        assert clock.expected() == pytest.approx(2.0 * (4 - done))
        assert clock.share() == pytest.approx(done / 4)


def test_final_fits_are_expected_at_the_pace_of_the_search(clock, time):
    """One after the other, where the search trained two models at a time."""
    clock.expect(SEARCH, 2.0)
    clock.expect(FINAL_FITS, 10.0)
    with clock.task(SEARCH, 1.0), clock.task(SEARCH, 1.0):
        time.seconds += 2.0
    assert clock.expected() == pytest.approx(10.0)
    with clock.task(FINAL_FITS, 5.0):
        time.seconds += 5.0
    assert clock.expected() == pytest.approx(5.0)  # their own pace, once it is known


def test_the_first_task_shows_the_pace(time):
    clock = Clock(now=time)
    clock.expect(SEARCH, 10.0)
    with clock.task(SEARCH, 1.0):
        time.seconds += 30.0
    assert clock.expected() == pytest.approx(270.0)


def test_later_stages_are_counted_from_the_start(clock, time):
    clock.expect(SEARCH, 2.0)
    clock.expect(FINALISTS, 18.0)
    with clock.task(SEARCH, 2.0):
        time.seconds = 1.0
    assert clock.expected() == pytest.approx(9.0)
    assert clock.share() == pytest.approx(0.1)


def test_tasks_may_share_the_time(clock, time):
    clock.expect(SEARCH, 8.0)
    with clock.task(SEARCH, 1.0), clock.task(SEARCH, 1.0):
        time.seconds = 2.0
    assert clock.expected() == pytest.approx(6.0)


def test_a_task_moves_on_while_it_runs_and_never_ends_early(clock, time):
    clock.expect(SEARCH, 2.0)
    with clock.task(SEARCH, 1.0):
        time.seconds = 10.0
    shares = []
    with clock.task(SEARCH, 1.0):
        for second in (12.0, 15.0, 19.0, 30.0, 60.0, 300.0):
            time.seconds = second
            shares.append(clock.share())
    assert shares == sorted(shares)
    assert shares[-1] < 1.0
    assert len(set(shares)) == len(shares)


def test_the_share_never_falls(clock, time):
    clock.expect(SEARCH, 2.0)
    with clock.task(SEARCH, 1.0):
        time.seconds = 1.0
    assert clock.share() == pytest.approx(0.5)
    clock.expect(SEARCH, 99.0)  # more rounds help than expected
    time.seconds = 2.0
    assert clock.expected() == pytest.approx(99.0)
    assert clock.share() == pytest.approx(0.5)


def test_a_wrong_estimate_is_made_up_for(clock, time):
    """The share arrives at 1 with the end, however wrong it was before."""
    clock.expect(SEARCH, 2.0)
    with clock.task(SEARCH, 1.0):
        time.seconds = 1.0
    assert clock.share() == pytest.approx(0.5)
    clock.expect(SEARCH, 9.0)
    for _ in range(9):
        with clock.task(SEARCH, 1.0):
            time.seconds += 1.0
        share = clock.share()
    assert share == pytest.approx(1.0)


def test_a_stage_ends_with_the_start_of_the_next(clock, time):
    clock.expect(SEARCH, 4.0)
    with clock.task(SEARCH, 1.0):
        time.seconds = 1.0
    assert clock.expected() == pytest.approx(3.0)
    with clock.task(FINALISTS, 1.0):
        time.seconds = 2.0
    assert clock.expected() == pytest.approx(0.0)


def test_tasks_side_by_side_share_the_time(clock, time):
    """Two threads: what each takes is twice what it takes of the whole."""
    clock.expect(SEARCH, 4.0)
    begun, ended = threading.Barrier(2), threading.Barrier(2)

    def other():
        with clock.task(SEARCH, 1.0):
            begun.wait(10)
            ended.wait(10)

    thread = threading.Thread(target=other)
    thread.start()
    begun.wait(10)
    with clock.task(SEARCH, 1.0):
        time.seconds = 2.0
        ended.wait(10)
        thread.join(10)
    assert clock.expected() == pytest.approx(2.0)


def test_failed_tasks_are_over(clock, time):
    clock.expect(SEARCH, 1.0)
    time.seconds = 1.0
    with pytest.raises(ZeroDivisionError), clock.task(SEARCH, 1.0):
        raise ZeroDivisionError
    assert clock.expected() == 0.0


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
