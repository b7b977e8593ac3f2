"""Schedules on a front whose speeds are written down."""

import math

import pytest

from bandfall.descent._schedules import Constant, MinimumSpeed


class FakeFront:
    """A front with a given speed curve; counts how often it is asked."""

    def __init__(self, speed, bandwidth=1.0, limit=0.0, ceiling=math.inf):
        self._speed, self._limit, self._ceiling = speed, limit, ceiling
        self.bandwidth = bandwidth
        self.asked = []

    def speed(self, bandwidth):
        self.asked.append(bandwidth)
        return self._speed(bandwidth)

    def limit_speed(self):
        return self._limit

    def speed_ceiling(self, bandwidth):
        return self._ceiling


def test_fast_enough_keeps_the_bandwidth():
    assert MinimumSpeed(0.1).next_bandwidth(FakeFront(lambda s: 0.1)) == 1.0


def test_first_crossing_on_the_grid_is_taken():
    # Fast enough in a window that comes first, too slow again below it.
    front = FakeFront(lambda s: 1.0 if 0.5 < s < 0.6 else 0.0, limit=1.0)
    chosen = MinimumSpeed(0.1, shrink=0.01).next_bandwidth(front)
    n_shrinks = math.log(chosen) / -math.log(1.01)
    assert n_shrinks == pytest.approx(round(n_shrinks))
    assert 0.6 / 1.01 <= chosen < 0.6


def test_floor_is_reached_exactly_and_never_passed():
    front = FakeFront(lambda s: 0.0, limit=1.0)
    schedule = MinimumSpeed(0.1, shrink=0.3, floor=0.25)
    assert schedule.next_bandwidth(front) == 0.25
    front.bandwidth = 0.25
    assert schedule.next_bandwidth(front) == 0.25
    assert min(front.asked) == 0.25


def test_no_bandwidth_fast_enough_goes_to_the_floor_at_once():
    front = FakeFront(lambda s: 0.0, limit=0.05, ceiling=0.09)
    assert MinimumSpeed(0.1).next_bandwidth(front) == 0.0
    assert len(front.asked) == 1


def test_ceiling_above_the_threshold_does_not_cut_the_search():
    front = FakeFront(lambda s: 1.0 if s < 0.3 else 0.0, limit=0.05, ceiling=1.0)
    assert 0.3 / 1.01 <= MinimumSpeed(0.1).next_bandwidth(front) < 0.3


def test_thresholds():
    schedule = MinimumSpeed(0.1, floor=0.5)
    assert schedule.threshold(0.6) == 0.1
    assert schedule.threshold(0.5) == 0.0
    assert Constant().threshold(1.0) == 0.0


def test_constant_never_changes():
    front = FakeFront(lambda s: 0.0)
    assert Constant().next_bandwidth(front) == 1.0


def test_infinite_bandwidth_is_not_searched_from():
    front = FakeFront(lambda s: 0.0, bandwidth=math.inf, limit=1.0)
    with pytest.raises(ValueError, match="bandwidth=inf cannot be shrunk"):
        MinimumSpeed(0.1).next_bandwidth(front)


@pytest.mark.parametrize(("rounding", "expected"), [(1e-7, 0.0), (1e-3, 1.0 / 1.2)])
def test_rounding_does_not_make_ever_smaller_bandwidths_look_fast_enough(rounding, expected):
    """Where K is the identity the speed is the same everywhere, and a stage ends where it is v."""
    here, beyond = 0.02 * (1 - rounding), 0.02 * (1 + rounding)
    front = FakeFront(lambda s: here if s == 1.0 else beyond, limit=beyond, ceiling=beyond)
    assert MinimumSpeed(0.02, 0.2).next_bandwidth(front) == expected
