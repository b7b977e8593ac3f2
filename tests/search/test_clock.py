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
)


class Time:
    """Stands still until it is set."""

    seconds = 0.0

    def __call__(self):
        return self.seconds


@pytest.fixture
def time():
    return Time()


def worked(clock, time, n_rows, seconds, n_ladders=1.0):
    with clock.timed(n_rows, n_ladders):
        time.seconds += seconds


def test_estimates_grow_with_the_square_of_the_rows(time):
    clock = Clock(100.0, now=time)
    assert clock.estimate(1000) == 0.0  # nothing is known
    worked(clock, time, 100, 2.0)
    assert_allclose(clock.estimate(200), 8.0)
    assert_allclose(clock.estimate(200, 3.0), 24.0)


def test_the_most_rows_set_the_pace(time):
    clock = Clock(100.0, now=time)
    worked(clock, time, 100, 2.0)
    worked(clock, time, 200, 2.0)
    worked(clock, time, 200, 6.0)
    worked(clock, time, 100, 50.0)
    assert_allclose(clock.estimate(400), 16.0)


def test_the_search_leaves_room_for_what_is_reserved(time):
    clock = Clock(10.0, now=time)
    clock.reserve(200, 1.0)
    worked(clock, time, 100, 1.0)
    assert not clock.search_over
    assert clock.has_room(100)
    assert not clock.has_room(300)
    time.seconds = 5.9
    assert not clock.search_over
    time.seconds = 6.1
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


def test_the_search_has_a_third_of_the_time_however_long_the_rest_takes(time):
    clock = Clock(9.0, now=time)
    clock.reserve(10**6, 4.0)
    worked(clock, time, 100, 1.0)
    assert not clock.search_over
    time.seconds = 3.1
    assert clock.search_over


def test_a_plan_counts_work_and_not_time(time):
    clock = Clock(10.0, now=time)
    clock.reserve(20, 1.0)
    clock.afford(1000.0)
    clock.plan(900.0)
    assert clock.begins(10, 1.0)  # there is room for all
    clock.plan(2000.0)
    begun = [clock.begins(10, 1.5) for _ in range(8)]  # half of the 400 are kept for final fits
    assert begun == [True] * 6 + [False] * 2
    assert not clock.has_room(10)
    assert not clock.search_over


def test_rows_that_there_is_time_for(time):
    clock = Clock(20.0, now=time)
    worked(clock, time, 4000, 4.0)
    assert clock.affordable_rows(8000) == 8000
    assert clock.affordable_rows(16_000) == 8000
    time.seconds = 30.0
    assert clock.affordable_rows(16_000) == 200  # no time is left: a few at least
    assert clock.affordable_rows(100) == 100


def test_without_a_limit_there_is_time_for_everything(time):
    clock = Clock(now=time)
    clock.reserve(10**9, 100.0)
    worked(clock, time, 10, 1e9)
    assert clock.left == math.inf
    assert not clock.search_over
    assert clock.has_room(10**9)
    assert clock.affordable_rows(10**9) == 10**9


def test_an_interrupt_cuts_ladders_off_after_the_first_trial(time):
    clock = Clock(now=time)
    clock.end()
    assert clock.search_over
    assert not clock.search_ended()
    clock.begun = True
    assert clock.search_ended()


def test_before_the_pace_is_known_a_third_of_the_time_is_the_searchs(time):
    clock = Clock(9.0, now=time)
    clock.reserve(100, 1.0)
    assert not clock.search_ended()  # the first trial begins
    time.seconds = 2.9
    assert not clock.search_ended()
    time.seconds = 3.1
    assert clock.search_ended()
    assert not clock.over


def test_what_is_measured_replaces_what_was_learned(time):
    clock = Clock(9.0, now=time)
    worked(clock, time, 4000, 1.0)
    clock.measured(100, 1.0, 2.0)
    assert_allclose(clock.estimate(200), 8.0)


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


def test_the_first_task_is_no_measure_unless_it_is_long(time):
    """It compiles loops and loads libraries, which no later task does."""
    clock = Clock(now=time)
    clock.expect(SEARCH, 10.0)
    with clock.task(SEARCH, 1.0):
        time.seconds += 5.0
    assert clock.expected() is None
    with clock.task(SEARCH, 1.0):
        time.seconds += 1.0
    assert clock.expected() == pytest.approx(8.0)


def test_a_long_first_task_shows_the_pace(time):
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


def test_what_was_measured_counts_until_the_stage_shows_better(clock, time):
    clock.expect(SEARCH, 1.0)
    clock.expect(FINAL_FITS, 2.0)
    clock.expect_final_fits(60.0)
    with clock.task(SEARCH, 1.0):
        time.seconds = 1.0
    assert clock.expected() == pytest.approx(60.0)
    with clock.task(FINAL_FITS, 1.0):
        time.seconds = 11.0
    assert clock.expected() == pytest.approx(10.0)


def test_tasks_of_one_part_may_share_the_time(clock, time):
    clock.expect(SEARCH, 8.0, part="a")
    with clock.task(SEARCH, 1.0, part="a"), clock.task(SEARCH, 1.0, part="a"):
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


def test_the_share_never_falls_and_never_stands_still(clock, time):
    clock.expect(SEARCH, 2.0)
    with clock.task(SEARCH, 1.0):
        time.seconds = 1.0
    assert clock.share() == pytest.approx(0.5)
    clock.expect(SEARCH, 99.0)  # more rounds help than expected
    time.seconds = 2.0
    assert clock.expected() == pytest.approx(99.0)
    assert clock.share() == pytest.approx(1.0 - 0.5 * 99.0 / 100.0)


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


def test_parts_of_a_stage_add_up_and_end_with_it(clock, time):
    clock.expect(SEARCH, 1.0, part="standard")
    clock.expect(SEARCH, 3.0, part="steps")
    with clock.task(SEARCH, 1.0, part="standard"):
        time.seconds = 1.0
    assert clock.expected() == pytest.approx(3.0)
    with clock.task(FINALISTS, 1.0):  # the search has ended before all of its parts
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
    assert clock.observed
    assert not Clock().observed
    assert set(STAGES) == {"search", "finalists", "final fits", "summary"}


def test_an_observer_sees_the_share_of_a_path():
    seen = []
    with observed_by(seen.append):
        KernelDescentRegressor().fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 0.5])
    (progress,) = seen
    assert 0.0 < progress.share() <= 1.0
    for progress.r2, share in ((-0.1, 0.0), (0.9, 1 / 3), (1.0, 1.0)):
        assert_allclose(progress.share(), share)
    assert PathProgress(1.0).share() == 0.0
