"""The clock of a fit: its time limit, its plan, and the share of the work that is done.

Work is counted in entries of kernel matrices: rows² × ladders of speeds, the unit that a search
trains. The number of products hardly depends on the number of rows n, and each takes n²
multiplications. Estimates of time also count what a ladder costs beside its products.
"""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from bandfall._progress import observer

STAGES = "search", "finalists", "log-loss", "final fits", "summary"
SEARCH, FINALISTS, LOG_LOSS, FINAL_FITS, SUMMARY = STAGES
PATH = 0.5  # cost of one path, in ladders of speeds, at most
PRESSED = "finishing with the best model so far; press Ctrl-C again to stop without a model"
AFTERWARDS = 0.25  # cost of importances and intervals, in ladders
SEARCH_SHARE = 1 / 3  # smallest share of the work for the search, however long final fits take
SLOWEST = 1.5  # multiple of the limit at which nothing more begins, if other programs compute
FIXED = 500**2  # entries that take as long as everything else in a ladder: 60 to 3,000 rows


def work(n_rows: int, n_ladders: float = 1.0) -> float:
    """Entries of ladders of speeds, including what takes as long for few rows as for many."""
    return n_ladders * (n_rows**2 + FIXED)


def coarse(share: float) -> float:
    """The power of two at or below a measured share, which is the same in most runs."""
    if not 0.0 < share < math.inf:  # no limit, or no time left
        return max(share, 0.0)
    return 2.0 ** math.floor(math.log2(share))


class Clock:
    """Seconds that a fit may take (no limit by default), and the work that it has done so far.

    A limited fit is planned once, at a pace in processor time, so that two runs mostly try the same
    on a busy machine too. The time that has passed ends a search only if the plan was wrong. While
    other programs use the processor, two thirds of the time count at least. Methods may be called
    from several threads.
    """

    def __init__(self, seconds: float | None = None, *, now: Callable[[], float] = time.monotonic):
        self.now, self.limit = now, math.inf if seconds is None else seconds
        # Everything that was left out to save time; for data, the seconds that they would take.
        self.skipped: dict[str, float] = {}
        self.interrupted = False  # `end` was called: training may stop where it is
        self.pressed = False  # Ctrl-C was: `fit` raises KeyboardInterrupt once its model is kept
        self.begun = False  # the search has a first trial
        self.on_host = now is time.monotonic  # whether this process computes
        self.pace = 0.0  # seconds for each entry of a search, once it is measured
        self._start, self._busy_start = now(), time.process_time()
        self._uncounted = 0.0  # seconds
        self._planned = self._room = self.limit  # seconds that the search may take, and begin
        self._to_do: dict[str, float] = {}  # entries, by stage
        self._done = self._share = 0.0
        self._lock = threading.Lock()
        observer.get()(self)

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

    def estimate(self, n_rows: int, n_ladders: float = 1.0) -> float:
        """Expected seconds at the pace of the search; 0 if it is unknown."""
        return self.pace * work(n_rows, n_ladders)

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

    def skip(self, what: str, seconds: float = 0.0) -> None:
        """List something as skipped; `fit` warns of what has `seconds`, its expected time."""
        self.skipped.setdefault(what, seconds)

    # The search ---------------------------------------------------------------------------------

    def reserve(self, seconds: float) -> None:
        """Plan a search that leaves these seconds for the final fits, but takes its share."""
        self._planned = self._room = max(self.limit - seconds, SEARCH_SHARE * self.limit)

    def begins(self, n_rows: int, n_ladders: float) -> bool:
        """Whether the plan has room for this work, which begins now."""
        room = self._room > 0.0
        self._room -= self.estimate(n_rows, n_ladders)
        return room

    @property
    def spare(self) -> float:
        """Seconds that the plan leaves for the final fits."""
        return self.limit - self._planned + max(self._room, 0.0) if self.pace else self.left

    @property
    def search_left(self) -> float:
        """Seconds that the search may still take; it ends early if the plan was wrong by half."""
        return min(self.limit, 2.0 * self._planned) - self.passed

    def search_over(self) -> bool:
        """Whether the search stops now; the first trial is completed unless Ctrl-C was pressed."""
        late = self.interrupted or self.search_left <= 0.0
        return self.pressed or (self.begun and late)

    # The work that is done ----------------------------------------------------------------------

    def expect(self, stage: str, entries: float) -> None:
        """Set or correct how much work of a stage is still to do."""
        with self._lock:
            self._to_do[stage] = entries

    @contextmanager
    def task(self, stage: str, entries: float) -> Iterator[None]:
        """Context for work on a stage; the start of a stage ends all earlier ones."""
        with self._lock:
            for earlier in STAGES[: STAGES.index(stage)]:
                self._to_do.pop(earlier, None)
            self._to_do[stage] = max(entries, self._to_do.get(stage, 0.0))
        try:
            yield
        finally:
            with self._lock:
                self._to_do[stage] = max(0.0, self._to_do.get(stage, 0.0) - entries)
                self._done += entries

    def share(self) -> float:
        """Share of the work that is done, 0 to 1; never falls."""
        with self._lock:
            if self._done:
                whole = self._done + sum(self._to_do.values())
                self._share = max(self._share, self._done / whole)
            return self._share
