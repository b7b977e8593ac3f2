"""Progress is true: it never falls, and the time left is about the time that is left."""

import threading

import pytest

from bandfall._search import work as module
from bandfall._search.work import FINAL_FITS, FINALISTS, SEARCH, STAGES, Work, observed_by


@pytest.fixture
def now(monkeypatch):
    class Clock:
        seconds = 0.0

        def __call__(self):
            return self.seconds

    clock = Clock()
    monkeypatch.setattr(module, "clock", clock)
    return clock


@pytest.fixture
def work(now):
    """Loops are compiled: what ends now shows its pace."""
    work = Work()
    work._cold = False
    work._first_end = 0.0
    return work


def test_nothing_is_promised_before_the_first_task_has_ended(work, now):
    work.expect(SEARCH, 10.0)
    with work.task(SEARCH, 1.0):
        now.seconds = 5.0
        assert work.left() is None
        assert work.share() == 0.0


def test_equal_tasks_take_equal_time(work, now):
    work.expect(SEARCH, 4.0)
    for done in range(1, 5):
        with work.task(SEARCH, 1.0):
            now.seconds += 2.0
        assert work.left() == pytest.approx(2.0 * (4 - done))
        assert work.share() == pytest.approx(done / 4)


def test_final_fits_are_expected_at_half_the_seconds_of_the_search(work, now):
    """One after the other, where the search trained two models at a time."""
    work.expect(SEARCH, 2.0)
    work.expect(FINAL_FITS, 10.0)
    with work.task(SEARCH, 1.0), work.task(SEARCH, 1.0):
        now.seconds += 2.0
    assert work.left() == pytest.approx(10.0)
    with work.task(FINAL_FITS, 5.0):
        now.seconds += 5.0
    assert work.left() == pytest.approx(5.0)  # their own pace, once it is known


def test_the_first_task_is_no_measure_unless_it_is_long(now):
    """It compiles loops and loads libraries, which no later task does."""
    work = Work()
    work.expect(SEARCH, 10.0)
    with work.task(SEARCH, 1.0):
        now.seconds += 5.0
    assert work.left() is None
    with work.task(SEARCH, 1.0):
        now.seconds += 1.0
    assert work.left() == pytest.approx(8.0)


def test_a_long_first_task_counts_until_the_second_has_ended(now):
    work = Work()
    work.expect(SEARCH, 10.0)
    with work.task(SEARCH, 1.0):
        now.seconds += 30.0
    assert work.left() == pytest.approx(270.0)
    with work.task(SEARCH, 1.0):
        now.seconds += 1.0
    assert work.left() == pytest.approx(8.0)


def test_later_stages_are_counted_from_the_start(work, now):
    work.expect(SEARCH, 2.0)
    work.expect(FINALISTS, 18.0)
    with work.task(SEARCH, 2.0):
        now.seconds = 1.0
    assert work.left() == pytest.approx(9.0)
    assert work.share() == pytest.approx(0.1)


def test_what_was_measured_counts_until_the_stage_shows_better(work, now):
    work.expect(SEARCH, 1.0)
    work.expect(FINAL_FITS, 2.0)
    work.measured(FINAL_FITS, 60.0)
    with work.task(SEARCH, 1.0):
        now.seconds = 1.0
    assert work.left() == pytest.approx(60.0)
    with work.task(FINAL_FITS, 1.0):
        now.seconds = 11.0
    assert work.left() == pytest.approx(10.0)


def test_each_part_keeps_its_pace_in_later_stages(work, now):
    """More columns take longer per entry, in the search and among the finalists."""
    work.expect(SEARCH, 1.0, part="few columns")
    work.expect(SEARCH, 1.0, part="many columns")
    with work.task(SEARCH, 1.0, part="few columns"):
        now.seconds += 1.0
    with work.task(SEARCH, 1.0, part="many columns"):
        now.seconds += 10.0
    work.expect(FINALISTS, 3.0, part="many columns")
    assert work.left() == pytest.approx(30.0)
    work.expect(FINALISTS, 3.0, part="few columns")
    assert work.left() == pytest.approx(33.0)
    with work.task(FINALISTS, 3.0, part="few columns"):  # twice as fast as foreseen
        now.seconds += 1.5
    assert work.left() == pytest.approx(15.0)


def test_rounds_without_a_known_end_last(work, now):
    """A climb that announced more rounds again and again goes on, until it says that it is over."""
    for _ in range(6):
        work.expect(SEARCH, 1.0, part="a")
        with work.task(SEARCH, 1.0, part="a"):
            now.seconds += 1.0
    assert work.left() == pytest.approx(3.0)
    work.expect(SEARCH, 5.0, part="a")
    assert work.left() == pytest.approx(5.0)
    work.expect(SEARCH, 0.0, part="a")
    assert work.left() == 0.0


def test_the_next_stage_ends_rounds_without_a_known_end(work, now):
    for _ in range(4):
        work.expect(SEARCH, 1.0, part="a")
        with work.task(SEARCH, 1.0, part="a"):
            now.seconds += 1.0
    with work.task(FINAL_FITS, 1.0):
        now.seconds += 1.0
    assert work.left() == 0.0


def test_what_is_counted_with_other_tasks_slows_down_the_part_while_it_runs(work, now):
    """A metric that is learned for long delays all rounds to come."""
    work.expect(SEARCH, 4.0)
    with work.task(SEARCH, 1.0):
        now.seconds += 1.0
    assert work.left() == pytest.approx(3.0)
    with work.task(SEARCH, 0.0):
        now.seconds += 9.0
        assert work.left() == pytest.approx(30.0)
    assert work.left() == pytest.approx(30.0)


def test_the_longest_part_is_not_shared_between_threads(work, now):
    work.expect(SEARCH, 1.0, part="a")
    work.expect(SEARCH, 1.0, part="b")
    with work.task(SEARCH, 1.0, part="a"), work.task(SEARCH, 1.0, part="b"):
        now.seconds = 2.0
    work.expect(SEARCH, 3.0, part="a")
    work.expect(SEARCH, 3.0, part="b")
    assert work.left() == pytest.approx(6.0)
    work.expect(SEARCH, 6.0, part="a")
    work.expect(SEARCH, 0.0, part="b")
    assert work.left() == pytest.approx(12.0)


def test_tasks_of_one_part_may_share_the_time(work, now):
    work.expect(SEARCH, 8.0, part="a")
    with work.task(SEARCH, 1.0, part="a"), work.task(SEARCH, 1.0, part="a"):
        now.seconds = 2.0
    assert work.left() == pytest.approx(6.0)


def test_a_task_moves_on_while_it_runs_and_never_ends_early(work, now):
    work.expect(SEARCH, 2.0)
    with work.task(SEARCH, 1.0):
        now.seconds = 10.0
    shares = []
    with work.task(SEARCH, 1.0):
        for second in (12.0, 15.0, 19.0, 30.0, 60.0, 300.0):
            now.seconds = second
            shares.append(work.share())
    assert shares == sorted(shares)
    assert shares[-1] < 1.0
    assert len(set(shares)) == len(shares)


def test_the_share_never_falls_and_never_stands_still(work, now):
    work.expect(SEARCH, 2.0)
    with work.task(SEARCH, 1.0):
        now.seconds = 1.0
    assert work.share() == pytest.approx(0.5)
    work.expect(SEARCH, 99.0)  # more rounds help than expected
    now.seconds = 2.0
    assert work.left() == pytest.approx(99.0)
    assert work.share() == pytest.approx(1.0 - 0.5 * 99.0 / 100.0)


def test_a_wrong_estimate_is_made_up_for(work, now):
    """The share arrives at 1 with the end, however wrong it was before."""
    work.expect(SEARCH, 2.0)
    with work.task(SEARCH, 1.0):
        now.seconds = 1.0
    assert work.share() == pytest.approx(0.5)
    work.expect(SEARCH, 9.0)
    for _ in range(9):
        with work.task(SEARCH, 1.0):
            now.seconds += 1.0
        share = work.share()
    assert share == pytest.approx(1.0)


def test_parts_of_a_stage_add_up_and_end_with_it(work, now):
    work.expect(SEARCH, 1.0, part="standard")
    work.expect(SEARCH, 3.0, part="steps")
    with work.task(SEARCH, 1.0, part="standard"):
        now.seconds = 1.0
    assert work.left() == pytest.approx(3.0)
    with work.task(FINALISTS, 1.0):  # the search has ended before all of its parts
        now.seconds = 2.0
    assert work.left() == pytest.approx(0.0)


def test_tasks_side_by_side_share_the_time(work, now):
    """Two threads: what each takes is twice what it takes of the whole."""
    work.expect(SEARCH, 4.0)
    begun, ended = threading.Barrier(2), threading.Barrier(2)

    def other():
        with work.task(SEARCH, 1.0):
            begun.wait(10)
            ended.wait(10)

    thread = threading.Thread(target=other)
    thread.start()
    begun.wait(10)
    with work.task(SEARCH, 1.0):
        now.seconds = 2.0
        ended.wait(10)
        thread.join(10)
    assert work.left() == pytest.approx(2.0)


def test_failed_tasks_are_over(work, now):
    work.expect(SEARCH, 1.0)
    now.seconds = 1.0
    with pytest.raises(ZeroDivisionError), work.task(SEARCH, 1.0):
        raise ZeroDivisionError
    assert work.left() == 0.0


def test_an_observer_sees_the_work_of_fits():
    seen = []
    with observed_by(seen.append):
        assert module.observed()
        work = module.begin_work()
    assert seen == [work]
    assert not module.observed()
    assert set(STAGES) == {"search", "finalists", "final fits", "summary"}
