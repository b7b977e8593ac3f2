"""Progress of a fit: finished work, and an estimate of the time left."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

clock = time.monotonic

SEARCH, FINALISTS, FINAL_FITS, SUMMARY = STAGES = "search", "finalists", "final fits", "summary"
_LATE = 0.1  # share of a task that is left when it has taken as long as expected
_FINAL_PACE = 0.5  # seconds per entry of a final path, relative to the search
_LASTING = 0.5  # a part that was corrected goes on for this share of its finished work
_COLD = 10.0  # seconds; if all tasks together took less, most of it may have been compilation

_observer: ContextVar[Callable[[Work], None] | None] = ContextVar("_observer", default=None)


@dataclass
class _Part:
    """The entries of one part of a stage."""

    to_come: float = 0.0  # entries that have not begun
    done: float = 0.0  # entries of finished tasks that count for the pace
    spent: float = 0.0  # seconds of these tasks
    total: float = 0.0  # entries of all finished tasks
    most: int = 1  # largest number of tasks at a time so far
    n_expected: int = 0  # number of announcements, if it has a name; 0 once it is over

    @property
    def left(self) -> float:
        """Entries to expect beyond those of running tasks."""
        return max(self.to_come, _LASTING * self.total if self.n_expected > 1 else 0.0)


@dataclass
class _Stage:
    """One stage of a fit."""

    parts: dict[str, _Part] = field(default_factory=dict)
    start: float | None = None
    end: float | None = None
    measured: float | None = None  # seconds for the whole stage, as measured beforehand

    @property
    def done(self) -> float:
        return sum(part.done for part in self.parts.values())

    @property
    def spent(self) -> float:
        return sum(part.spent for part in self.parts.values())


@dataclass(eq=False)
class _Task:
    stage: _Stage
    part: str
    entries: float
    start: float


class Work:
    """Expected and finished work of a fit, stage by stage.

    Work is counted in kernel matrix entries: rows² × the number of ladders of speeds (a single
    path is about half a ladder, `deadline.PATH`). Stages follow each other; within a stage, parts
    may run in parallel. Each part has its own pace, in seconds per entry: more columns or
    another norm take longer. For a part that has not begun, the pace of the part with the same name
    in an earlier stage is used, or else the mean pace.

    Methods may be called from several threads.

    Examples
    --------
    >>> work = Work()
    >>> work.expect("search", 400.0)
    >>> for _ in range(2):
    ...     with work.task("search", 100.0):
    ...         time.sleep(0.01)
    >>> 0.0 < work.share() < 1.0
    True
    """

    def __init__(self) -> None:
        self._stages = {name: _Stage() for name in STAGES}
        self._running: list[_Task] = []
        self._first_end = math.inf
        self._cold = True  # tasks so far also compiled loops and loaded libraries
        self._start = self._last = clock()
        self._share = 0.0
        self._lock = threading.Lock()

    def expect(self, stage: str, entries: float, *, part: str = "") -> None:
        """Set the amount of work of a stage that has not begun; call it again to correct it.

        Each part of a stage is corrected separately. Tasks of a named part are assumed to follow
        each other until some run in parallel. A named part that was corrected is assumed to go on
        for half as long as it took so far, until it has 0 entries left.
        """
        with self._lock:
            own = self._part(stage, part)
            own.to_come, own.n_expected = entries, own.n_expected + 1 if entries and part else 0

    def measured(self, stage: str, seconds: float) -> None:
        """Set the seconds for a whole stage; used until its own tasks have been timed."""
        with self._lock:
            self._stages[stage].measured = seconds

    @contextmanager
    def task(self, stage: str, entries: float, *, part: str = "") -> Iterator[None]:
        """Context for work on a part of a stage; the start of a stage ends all earlier ones."""
        with self._lock:
            one = self._begun(stage)
            own = self._part(stage, part)
            own.to_come = max(0.0, own.to_come - entries)
            task = _Task(one, part, entries, clock())
            self._running.append(task)
            n_running = sum(t.stage is one and t.part == part for t in self._running)
            own.most = max(own.most, n_running)
        try:
            yield
        finally:
            with self._lock:
                self._running.remove(task)
                warm = task.start >= self._first_end
                if warm and self._cold and one.done:
                    for each in one.parts.values():
                        each.done, each.spent = 0.0, 0.0
                    one.start, self._cold = task.start, False
                self._first_end = min(self._first_end, clock())
                own.total += entries
                if warm or self._cold:
                    own.done += entries
                    own.spent += clock() - task.start

    def left(self) -> float | None:
        """Expected seconds to the end; None before the first tasks have ended."""
        with self._lock:
            return self._left(clock())

    def share(self) -> float:
        """Share of the time that has passed, 0 to 1; never falls.

        Each call advances the share by the time since the last call relative to the estimated time
        left, so that wrong estimates are corrected gradually.
        """
        with self._lock:
            now = clock()
            left = self._left(now)
            if left is not None:
                self._share = 1.0 - (1.0 - self._share) * _ratio(left, left + now - self._last)
                self._last = now
            return self._share

    def _part(self, stage: str, part: str) -> _Part:
        return self._stages[stage].parts.setdefault(part, _Part())

    def _begun(self, stage: str) -> _Stage:
        now = clock()
        for name in STAGES[: STAGES.index(stage)]:
            earlier = self._stages[name]
            for part in earlier.parts.values():
                part.to_come, part.n_expected = 0.0, 0
            earlier.end = now if earlier.end is None else earlier.end
        one = self._stages[stage]
        one.start = now if one.start is None else one.start
        return one

    def _left(self, now: float) -> float | None:
        left, mean, threads = 0.0, None, 1.0
        known: dict[str, float] = {}  # seconds per entry on one thread, by part
        for stage, one in self._stages.items():
            running = [task for task in self._running if task.stage is one]
            if one.done and one.start is not None:
                mean = one.spent / one.done
                busy = one.spent + sum(now - task.start for task in running)
                threads = max(1.0, _ratio(busy, (one.end or now) - one.start))
            elif one.measured is not None:
                entries = sum(part.left for part in one.parts.values())
                entries += sum(task.entries for task in running)
                mean, known = _ratio(one.measured * threads, entries), {}
            elif stage == FINAL_FITS and mean is not None:
                mean, known, threads = _FINAL_PACE * mean, {}, 1.0  # one after the other
            seconds = {}
            for name, pace in _paces(one, known, mean, running, now).items():
                known[name] = pace
                tasks = [task for task in running if task.part == name]
                seconds[name] = pace * (
                    one.parts[name].left + sum(_unfinished(task, pace, now) for task in tasks)
                )
            if mean is None and (running or any(part.left for part in one.parts.values())):
                return None
            alone = [seconds[name] / one.parts[name].most for name in seconds if name]
            longest = max(alone, default=0.0)
            left += max(sum(seconds.values()) / threads, longest)
        if self._cold and sum(one.spent for one in self._stages.values()) < _COLD:
            return None
        return left


def _paces(
    one: _Stage, known: dict[str, float], mean: float | None, running: list[_Task], now: float
) -> dict[str, float]:
    """Seconds per entry on one thread for each part of a stage, if known.

    `known` has the paces of earlier stages; `mean` is used for other parts. A running task that
    takes longer than expected already lowers the pace of its part.
    """
    paces = {}
    done = {name: part for name, part in one.parts.items() if part.done}
    foreseen = sum(known[name] * part.done for name, part in done.items() if name in known)
    spent = sum(part.spent for name, part in done.items() if name in known)
    for name, part in one.parts.items():
        pace = part.spent / part.done if part.done else mean
        if not part.done and name in known:
            pace = known[name] * (_ratio(spent, foreseen) if foreseen else 1.0)
        if pace is None:
            continue
        if part.done:
            late = [now - t.start - pace * t.entries for t in running if t.part == name]
            pace += sum(max(0.0, seconds) for seconds in late) / part.done
        paces[name] = pace
    return paces


def _unfinished(task: _Task, pace: float, now: float) -> float:
    """Entries that a running task has left; never 0, even if it takes longer than expected."""
    done = _ratio(now - task.start, pace * task.entries)
    return task.entries * (1.0 - (1.0 - _LATE) * done if done < 1.0 else _LATE / done)


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole > 0.0 else 1.0


@contextmanager
def observed_by(observer: Callable[[Work], None]) -> Iterator[None]:
    """Pass the `Work` of every fit inside this context to the observer when the fit begins."""
    token = _observer.set(observer)
    try:
        yield
    finally:
        _observer.reset(token)


def observed() -> bool:
    """Whether there is an observer in this context."""
    return _observer.get() is not None


def begin_work() -> Work:
    """A new `Work`, passed to the observer if there is one."""
    work, observer = Work(), _observer.get()
    if observer is not None:
        observer(work)
    return work
