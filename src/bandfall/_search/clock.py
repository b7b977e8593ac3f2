"""The clock of a fit: its time limit, its plan, and the share of the work that is done.

Work is counted in entries of kernel matrices: rows² × ladders of speeds, the unit that a search
trains. The number of products hardly depends on the number of rows n, and each takes n²
multiplications. Plans also count what a ladder costs beside its products.
"""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Protocol

SEARCH, FINALISTS, FINAL_FITS, SUMMARY = STAGES = "search", "finalists", "final fits", "summary"
PATH = 0.5  # cost of one path, in ladders of speeds, at most
PRESSED = "finishing with the best model so far; press Ctrl-C again to stop without a model"
AFTERWARDS = 0.25  # cost of importances and intervals, in ladders
SEARCH_SHARE = 1 / 3  # smallest share of the work for the search, however long final fits take
FIRST_SECONDS = 1.0  # that the first trial may always take: without it there is no model
SLOWEST = 1.5  # multiple of the limit at which nothing more begins, if other programs compute
FIXED = 500**2  # entries that take as long as everything else in a ladder: 60 to 3,000 rows


class Progress(Protocol):
    """What an observer of fits reads."""

    def share(self) -> float:
        """Share of the work that is done, 0 to 1."""


_observer: ContextVar[Callable[[Progress], None] | None] = ContextVar("_observer", default=None)


@contextmanager
def observed_by(observer: Callable[[Progress], None]) -> Iterator[None]:
    """Pass the progress of every fit inside this context to the observer when the fit begins."""
    token = _observer.set(observer)
    try:
        yield
    finally:
        _observer.reset(token)


def _announce(progress: Progress) -> None:
    if (observer := _observer.get()) is not None:
        observer(progress)


def work(n_rows: int, n_ladders: float = 1.0) -> float:
    """Entries of ladders of speeds, including what takes as long for few rows as for many."""
    return n_ladders * (n_rows**2 + FIXED)


def coarse(share: float) -> float:
    """The power of two at or below a measured share, which is the same in most runs.

    >>> coarse(1.9), coarse(0.3), coarse(-1.0)
    (1.0, 0.25, 0.0)
    """
    if not 0.0 < share < math.inf:  # no limit, or no time left
        return max(share, 0.0)
    return 2.0 ** math.floor(math.log2(share))


class WorkDone:
    """The share of a fit that is done, and the seconds that are left.

    Methods may be called from several threads.

    Examples
    --------
    >>> seconds = iter([0.0, 0.0, 2.0, 2.0, 2.0])
    >>> done = WorkDone(now=lambda: next(seconds))
    >>> done.expect("search", 4.0)
    >>> with done.task("search", 1.0):
    ...     pass
    >>> done.expected(), done.share()
    (6.0, 0.25)
    """

    def __init__(self, now: Callable[[], float] = time.monotonic):
        self.now = now
        self._start = now()
        self._lock = threading.Lock()
        self._to_come: dict[tuple[str, str], float] = {}  # entries not begun, by stage and part
        self._running: dict[object, tuple[float, float]] = {}  # entries and start of tasks
        self._done, self._last_end, self._share = 0.0, self._start, 0.0

    def expect(self, stage: str, entries: float, *, part: str = "") -> None:
        """Set or correct how much work a part of a stage has still to begin."""
        with self._lock:
            self._to_come[stage, part] = entries

    @contextmanager
    def task(self, stage: str, entries: float, *, part: str = "") -> Iterator[None]:
        """Context for work on a part of a stage; the start of a stage ends all earlier ones."""
        task, place = object(), STAGES.index(stage)
        with self._lock:
            left = {key: n for key, n in self._to_come.items() if STAGES.index(key[0]) >= place}
            self._to_come = left | {(stage, part): max(0.0, left.get((stage, part), 0.0) - entries)}
            self._running[task] = entries, self.now()
        try:
            yield
        finally:
            with self._lock:
                del self._running[task]
                self._done, self._last_end = self._done + entries, self.now()

    def expected(self) -> float | None:
        """Expected seconds to the end; None before the first task has ended."""
        with self._lock:
            return self._expected(self.now()) if self._done else None

    def _expected(self, now: float) -> float:
        pace = (self._last_end - self._start) / self._done  # a tenth of a late task is still left
        running = [
            max(pace * n - (now - start), 0.1 * pace * n) for n, start in self._running.values()
        ]
        return pace * sum(self._to_come.values()) + sum(running)

    def share(self) -> float:
        """Share of the time that has passed, 0 to 1; never falls."""
        with self._lock:
            if self._done:
                now = self.now()
                passed, left = now - self._start, self._expected(now)
                self._share = max(self._share, passed / (passed + left) if passed else 0.0)
            return self._share


class Clock(WorkDone):
    """Seconds that a fit may take (no limit by default), and what it has done so far.

    A limited fit is planned once, at a pace in processor time, so that two runs mostly try the same
    on a busy machine too. The time that has passed ends a search only if the plan was wrong. While
    other programs use the processor, two thirds of the time count at least. `skipped` lists
    everything that was left out to save time.

    Parameters
    ----------
    seconds : float, optional
        The limit.
    now : callable, optional
        Returns the time in seconds.
    fewest_rows : int
        A final fit has this many rows, if there are as many.

    Examples
    --------
    >>> Clock().search_over, Clock(1e-9).search_over
    (False, True)
    """

    def __init__(
        self,
        seconds: float | None = None,
        *,
        now: Callable[[], float] = time.monotonic,
        fewest_rows: int = 200,
    ):
        super().__init__(now)
        self.skipped: list[str] = []
        self.left_out: dict[str, float] = {}  # rows and encodings, and the seconds they would take
        self.interrupted = False  # `end` was called: training may stop where it is
        self.pressed = False  # Ctrl-C was: `fit` raises KeyboardInterrupt once its model is kept
        self.begun = False  # the search has a first trial
        self.limit = math.inf if seconds is None else seconds
        self.fewest_rows = fewest_rows
        self.on_host = now is time.monotonic  # whether this process computes
        self._busy_start = time.process_time()
        self._uncounted = 0.0  # seconds
        self._first: float | None = None  # when the first trial began
        self._entries = math.inf  # that take the whole limit
        self._reserved = 0.0  # entries of final fits
        self._planned = math.inf  # entries that the search may still begin
        self._planned_at = 0.0  # seconds passed
        _announce(self)

    @property
    def bounded(self) -> bool:
        """Whether there is a time limit."""
        return self.limit < math.inf

    @property
    def passed(self) -> float:
        """Seconds since the start that count."""
        seconds = self.now() - self._start - self._uncounted
        if not self.on_host:
            return seconds
        busy = time.process_time() - self._busy_start - self._uncounted
        return max(min(seconds, busy), seconds / SLOWEST)

    @property
    def left(self) -> float:
        """Seconds of the limit; negative when too late."""
        return self.limit - self.passed

    @property
    def over(self) -> bool:
        """Whether all time has passed."""
        return self.left <= 0.0

    @contextmanager
    def uncounted(self) -> Iterator[None]:
        """Time inside the context does not count: libraries are loaded."""
        start = self.passed
        yield
        self._uncounted += self.passed - start

    @property
    def stopwatch(self) -> Callable[[], float]:
        """A time for measuring the pace; other programs do not change that of the processor."""
        return time.thread_time if self.on_host else self.now

    def end(self) -> None:
        """End now (interrupted)."""
        self.interrupted = True
        self.limit = min(self.limit, self.passed)

    def press(self) -> None:
        """Handle a KeyboardInterrupt in an `except` clause: end now; raise the second one."""
        if self.pressed:
            raise
        self.pressed = True
        self.end()
        with suppress(RuntimeError, ValueError, OSError):  # stderr busy, closed or gone
            sys.stderr.write(f"\nbandfall: {PRESSED}\n")
            sys.stderr.flush()

    def skip(self, what: str, seconds: float | None = None) -> None:
        """List something as skipped, once; `fit` warns of what has `seconds`, its expected time."""
        if what not in self.skipped:
            self.skipped.append(what)
            if seconds is not None:
                self.left_out[what] = seconds

    # The plan of a limited search ---------------------------------------------------------------

    def afford(self, entries: float) -> None:
        """Set the entries that take the whole limit, at the pace of a search."""
        self._entries = entries

    def plan(self, reserved: float) -> None:
        """Plan the search: it may begin what final fits leave, or a share of everything."""
        self._reserved = reserved
        self._planned, self._planned_at = self._room, self.passed

    @property
    def _room(self) -> float:
        """Entries that a search may begin in all."""
        return max(self._entries - self._reserved, SEARCH_SHARE * self._entries)

    def begins(self, entries: float) -> bool:
        """Whether the plan has room for this work, which begins now."""
        room = self._planned > 0.0
        self._planned -= entries
        return room

    def has_room(self, n_rows: int, n_ladders: float = 1.0) -> bool:
        """Whether there is time to try something before the final fits."""
        return work(n_rows, n_ladders) <= self._planned and not self.search_over

    @property
    def search_over(self) -> bool:
        """Whether the time left is needed for the final fits."""
        if math.isinf(self._entries):
            return self.over
        share = min(1.0, 2.0 * self._room / self._entries)
        return self.interrupted or self.passed - self._planned_at >= share * self.limit

    def search_ended(self) -> bool:
        """Whether training for the search stops now; the first trial may always take a second.

        After `end`, the first trial is completed.
        """
        if self.begun:
            return self.search_over
        if self._first is None:
            self._first = self.passed
        late = self.search_over and self.passed - self._first > FIRST_SECONDS
        return late and not self.interrupted

    @property
    def spare(self) -> float:
        """Seconds that the plan leaves for the final fits."""
        if math.isinf(self._entries):
            return self.left
        begun = min(self._room - self._planned, self._room)
        return (1.0 - begun / self._entries) * self.limit

    def estimate(self, n_rows: int, n_ladders: float = 1.0) -> float:
        """Expected seconds at the pace of the plan; 0 if it is unknown."""
        known = math.isfinite(self._entries)
        return self.limit * work(n_rows, n_ladders) / self._entries if known else 0.0


class PathProgress:
    """The progress of one path up to `max_r2`: its residual falls about exponentially.

    Examples
    --------
    >>> progress = PathProgress(0.999)
    >>> progress.reach(0.9)
    >>> round(progress.share(), 3)
    0.333
    """

    def __init__(self, max_r2: float):
        self._r2, self._left = 0.0, max(1.0 - max_r2, 1e-4)
        _announce(self)

    def reach(self, r2: float) -> None:
        """Note the R² at the end of a stage."""
        self._r2 = r2

    def share(self) -> float:
        """Share of the training that is done, 0 to 1."""
        left = min(max(1.0 - self._r2, self._left), 1.0)
        return math.log(left) / math.log(self._left) if self._left < 1.0 else 1.0
