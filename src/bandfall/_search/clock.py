"""The clock of a fit: its time limit, the pace of its work, and the share that is done.

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
from dataclasses import dataclass, field
from typing import Protocol

SEARCH, FINALISTS, FINAL_FITS, SUMMARY = STAGES = "search", "finalists", "final fits", "summary"
PATH = 0.5  # cost of one path, in ladders of speeds, at most
PRESSED = "finishing with the best model so far; press Ctrl-C again to stop without a model"
AFTERWARDS = 0.25  # cost of importances and intervals, in ladders
SEARCH_SHARE = 1 / 3  # smallest share of the work for the search, however long final fits take
FIRST_SECONDS = 1.0  # that the first trial may always take: without it there is no model
LONG_TASK = 10.0  # seconds of a first task that show the pace, even if it also compiled
SLOWEST = 1.5  # multiple of the limit at which nothing more begins, if other programs compute
FIXED = 500**2  # entries that take as long as everything else in a ladder: 60 to 3,000 rows


class Progress(Protocol):
    """What an observer of fits reads."""

    def share(self) -> float:
        """Share of the work that is done, 0 to 1."""


_observer: ContextVar[Callable[[Progress], None] | None] = ContextVar("_observer", default=None)


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


@dataclass
class _Stage:
    """Entries of one stage of a fit."""

    to_come: dict[str, float] = field(default_factory=dict)  # not begun, by part of the stage
    seconds: float | None = None  # for all that is to come, if measured beforehand


@dataclass(eq=False)
class _Task:
    stage: str
    entries: float
    start: float


class Clock:
    """Seconds that a fit may take (no limit by default), and what it has done so far.

    A limited fit is planned once, at a pace in processor time, so that two runs mostly try the same
    on a busy machine too. The time that has passed ends a search only if the plan was wrong. While
    other programs use the processor, two thirds of the time count at least. `skipped` lists
    everything that was left out to save time. Methods may be called from several threads.

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
        self.skipped: list[str] = []
        self.interrupted = False  # `end` was called: training may stop where it is
        self.left_out: dict[str, float] = {}  # rows and encodings, and the seconds they would take
        self.pressed = False  # Ctrl-C was: `fit` raises KeyboardInterrupt once its model is kept
        self.begun = False  # the search has a first trial
        self.now = now
        self._seconds = math.inf if seconds is None else seconds
        self.fewest_rows = fewest_rows
        self._start = self._last = now()
        self._busy_start = time.process_time()
        self.on_host = now is time.monotonic  # whether this process computes
        self._uncounted = 0.0  # seconds
        self._first: float | None = None  # when the first trial began
        self._entries = math.inf  # that take the whole limit
        self._reserved = 0.0  # entries of final fits
        self._planned = math.inf  # entries that the search may still begin
        self._planned_at = 0.0  # seconds passed
        self._lock = threading.Lock()
        self._stages = {name: _Stage() for name in STAGES}
        self._running: list[_Task] = []
        # Entries of tasks that began after `_warm`, and when the last task ended.
        self._done, self._ended = 0.0, 0.0
        self._warm: float | None = None
        self._share = 0.0
        observer = _observer.get()
        self.observed = observer is not None
        if observer is not None:
            observer(self)

    @property
    def bounded(self) -> bool:
        """Whether there is a time limit."""
        return self._seconds < math.inf

    @property
    def limit(self) -> float:
        """Seconds that the fit may take."""
        return self._seconds

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
        return self._seconds - self.passed

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

    @property
    def over(self) -> bool:
        """Whether all time has passed."""
        return self.left <= 0.0

    @property
    def search_over(self) -> bool:
        """Whether the time left is needed for the final fits."""
        if not self.bounded or math.isinf(self._entries):
            return self.over
        share = min(1.0, 2.0 * self._room / self._entries)
        return self.interrupted or self.passed - self._planned_at >= share * self._seconds

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

    def end(self) -> None:
        """End now (interrupted)."""
        self.interrupted = True
        self._seconds = min(self._seconds, self.passed)

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
    def spare(self) -> float:
        """Seconds that the plan leaves for the final fits."""
        if not self.bounded or math.isinf(self._entries):
            return self.left
        begun = min(self._room - self._planned, self._room)
        return (1.0 - begun / self._entries) * self._seconds

    def estimate(self, n_rows: int, n_ladders: float = 1.0) -> float:
        """Expected seconds at the pace of the plan; 0 if it is unknown."""
        return self._seconds * work(n_rows, n_ladders) / self._entries if self.bounded else 0.0

    def expect(self, stage: str, entries: float, *, part: str = "") -> None:
        """Set or correct how much work a part of a stage has still to begin."""
        with self._lock:
            self._stages[stage].to_come[part] = entries

    def expect_final_fits(self, seconds: float) -> None:
        """Set the seconds that the final fits will take in all, measured beforehand."""
        with self._lock:
            self._stages[FINAL_FITS].seconds = seconds

    @contextmanager
    def task(self, stage: str, entries: float, *, part: str = "") -> Iterator[None]:
        """Context for work on a part of a stage; the start of a stage ends all earlier ones."""
        task = _Task(stage, entries, self.now())
        with self._lock:
            for name in STAGES[: STAGES.index(stage)]:
                self._stages[name].to_come.clear()
            own = self._stages[stage]
            own.to_come[part] = max(0.0, own.to_come.get(part, 0.0) - entries)
            self._running.append(task)
        try:
            yield
        finally:
            with self._lock:
                self._running.remove(task)
                self._ended = self.now()
                long = self._ended - task.start >= LONG_TASK
                if own.seconds is not None:  # its own tasks know better than what was measured
                    self._warm, self._done, own.seconds = task.start, 0.0, None
                elif self._warm is None:  # it may also have compiled: only a long one counts
                    self._warm = task.start if long else self._ended
                if task.start >= self._warm:
                    self._done += entries

    def expected(self) -> float | None:
        """Expected seconds to the end; None before the first tasks have ended."""
        with self._lock:
            if self._warm is None or not self._done:
                return None
            now = self.now()
            pace = (self._ended - self._warm) / self._done
            seconds = 0.0
            for stage in self._stages.values():
                entries = sum(stage.to_come.values())
                if stage.seconds is None:
                    seconds += pace * entries
                elif entries:
                    seconds += stage.seconds
            for task in self._running:  # a tenth is left, even if it takes longer than expected
                whole = pace * task.entries
                seconds += max(whole - (now - task.start), 0.1 * whole)
            return seconds

    def share(self) -> float:
        """Share of the time that has passed, 0 to 1; never falls.

        Each call adds the time since the last call relative to the expected time left, so that
        wrong estimates are corrected gradually.
        """
        left, now = self.expected(), self.now()
        if left is not None:
            passed = left + now - self._last
            self._share = 1.0 - (1.0 - self._share) * (left / passed if passed > 0.0 else 1.0)
            self._last = now
        return self._share


class PathProgress:
    """The progress of one path up to `max_r2`: its residual falls about exponentially.

    Examples
    --------
    >>> progress = PathProgress(0.999)
    >>> progress.r2 = 0.9
    >>> round(progress.share(), 3)
    0.333
    """

    def __init__(self, max_r2: float):
        self.r2, self._left = 0.0, max(1.0 - max_r2, 1e-4)
        if (observer := _observer.get()) is not None:
            observer(self)

    def share(self) -> float:
        """Share of the training that is done, 0 to 1."""
        left = min(max(1.0 - self.r2, self._left), 1.0)
        return math.log(left) / math.log(self._left) if self._left < 1.0 else 1.0


@contextmanager
def observed_by(observer: Callable[[Progress], None]) -> Iterator[None]:
    """Pass the progress of every fit inside this context to the observer when the fit begins."""
    token = _observer.set(observer)
    try:
        yield
    finally:
        _observer.reset(token)
