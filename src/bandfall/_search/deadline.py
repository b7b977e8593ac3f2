"""The time limit of a fit, and a list of everything skipped to keep it."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager

from bandfall._search.work import begin_work

clock = time.monotonic

PATH = 0.5  # cost of one path, in ladders of speeds, at most
AFTERWARDS = 0.25  # cost of importances and intervals, in ladders
_LARGEST_SHARE = 2 / 3  # of all time, reserved for the final fits
_FIRST_TRIAL = 1.0  # seconds that the first trial may always take
_FEW_ROWS = 200  # a final fit of this many rows is always made


class Deadline:
    """Seconds that a fit may take (no limit by default), and the pace of its work.

    Work is counted in ladders of speeds, the unit that a search trains: the number of products
    hardly depends on the number n of rows, and each takes n² multiplications. The pace is measured
    on the largest training so far, which resembles the work to come most. `given_up` lists what
    was left out to save time; `work` counts finished work, for progress bars and messages.

    Examples
    --------
    >>> from bandfall._search.deadline import Deadline
    >>> Deadline().search_over, Deadline(1e-9).search_over
    (False, True)
    """

    def __init__(self, seconds: float | None = None):
        self.given_up: list[str] = []
        self.interrupted = False  # `end` was called: training may stop where it is
        self.begun = False  # the search has a first trial
        self.work = begin_work()
        self._seconds = math.inf if seconds is None else seconds
        self._start = clock()
        self._first: float | None = None  # when the first trial began
        self._spent: list[tuple[int, float, float]] = []  # rows, entries, seconds
        self._reserved = 0.0  # entries

    @property
    def bounded(self) -> bool:
        """Whether there is a time limit."""
        return self._seconds < math.inf

    @property
    def left(self) -> float:
        """Seconds; negative when too late."""
        return self._start + self._seconds - clock()

    @property
    def search_over(self) -> bool:
        """Whether the time left is needed for the final fits."""
        return self._search_left <= 0.0

    @property
    def search_ended(self) -> bool:
        """Whether training for the search stops now.

        Without a first trial there is no model, so the first trial may always take a second, and is
        completed even after Ctrl-C.
        """
        if self.begun:
            return self.search_over
        if self._first is None:
            self._first = clock()
        late = self.search_over and clock() - self._first > _FIRST_TRIAL
        return late and not self.interrupted

    @property
    def over(self) -> bool:
        """Whether all time has passed."""
        return self.left <= 0.0

    def end(self) -> None:
        """End now (interrupted)."""
        self.interrupted = True
        self._seconds = min(self._seconds, clock() - self._start)

    def reserve(self, n_rows: int, n_ladders: float) -> None:
        """Announce final fits."""
        self._reserved = n_ladders * n_rows**2

    def has_room(self, n_rows: int, n_ladders: float = 1.0) -> bool:
        """Whether there is time to try something before the final fits."""
        return not self.bounded or self.estimate(n_rows, n_ladders) <= self._search_left

    @contextmanager
    def timed(self, n_rows: int, n_ladders: float = 1.0) -> Iterator[None]:
        """Learn the pace from the work inside the context, over about `n_rows` rows."""
        start = clock()
        yield
        self.learn(n_rows, n_ladders, clock() - start)

    def learn(self, n_rows: int, n_ladders: float, seconds: float) -> None:
        """Learn the pace from work over about `n_rows` rows."""
        self._spent.append((n_rows, n_ladders * n_rows**2, seconds))

    def measured(self, n_rows: int, n_ladders: float, seconds: float) -> None:
        """Set the pace of the work to come, instead of all that was learned before."""
        self._spent = [(n_rows, n_ladders * n_rows**2, seconds)]

    def estimate(self, n_rows: int, n_ladders: float = 1.0) -> float:
        """Expected seconds; 0 if the pace is unknown."""
        return self._pace * n_ladders * n_rows**2

    def affordable_rows(self, n_rows: int, n_ladders: float = 1.0) -> int:
        """The number of rows that there is time to fit; a few at least."""
        needed = self.estimate(n_rows, n_ladders)
        if needed <= self.left:
            return n_rows
        share = math.sqrt(max(self.left, 0.0) / needed)
        return min(n_rows, max(int(share * n_rows), _FEW_ROWS))

    def give_up(self, what: str) -> None:
        """List something as skipped, once."""
        if what not in self.given_up:
            self.given_up.append(what)

    @property
    def _search_left(self) -> float:
        if not self.bounded:
            return math.inf
        kept = _LARGEST_SHARE * self._seconds
        if self._spent or not self._reserved:
            kept = min(self._pace * self._reserved, kept)
        return self.left - kept

    @property
    def _pace(self) -> float:
        """Seconds per entry."""
        most = max((rows for rows, _, _ in self._spent), default=0)
        like = [(entries, spent) for rows, entries, spent in self._spent if rows == most]
        return sum(spent for _, spent in like) / sum(entries for entries, _ in like) if like else 0
