"""How much of a fit is done, and how long the rest will take."""

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
_LATE = 0.1  # share that a task has left when it has taken as long as expected

_observer: ContextVar[Callable[[Work], None] | None] = ContextVar("_observer", default=None)


@dataclass
class _Stage:
    """One stage of a fit.

    Attributes
    ----------
    to_come : dict of str to float
        Entries that have not begun, by part.
    done, spent : float
        Entries of finished tasks, and the seconds these took, added up over threads.
    start, end : float or None
    measured : float or None
        Seconds for the whole stage, as measured beforehand.
    """

    to_come: dict[str, float] = field(default_factory=dict)
    done: float = 0.0
    spent: float = 0.0
    start: float | None = None
    end: float | None = None
    measured: float | None = None


@dataclass(eq=False)
class _Task:
    stage: _Stage
    entries: float
    start: float


class Work:
    """Expected and finished work of a fit, stage by stage.

    Work is counted in kernel matrix entries: rows² × the number of ladders of speeds (a single
    path is about half a ladder, `deadline.PATH`). Stages follow each other; within a stage, tasks
    may run side by side. A stage that has begun is measured by its own pace; one that has not
    takes the pace of the stage before it, or the seconds that `measured` was given.

    Methods may be called from several threads.

    Examples
    --------
    >>> work = Work()
    >>> work.expect("search", 300.0)
    >>> with work.task("search", 100.0):
    ...     time.sleep(0.01)
    >>> 0.2 < work.share() < 0.4
    True
    """

    def __init__(self) -> None:
        self._stages = {name: _Stage() for name in STAGES}
        self._running: list[_Task] = []
        self._first_end = math.inf
        self._cold = True  # tasks so far also compiled loops and loaded libraries
        self._start = clock()
        self._share = 0.0
        self._lock = threading.Lock()

    def expect(self, stage: str, entries: float, *, part: str = "") -> None:
        """Set how much work of a stage has not begun yet; call it again to correct it.

        Parameters
        ----------
        stage : str
            One of `STAGES`, which follow each other.
        entries : float
        part : str
            Parts of a stage are corrected one by one, and add up.
        """
        with self._lock:
            self._stages[stage].to_come[part] = entries

    def measured(self, stage: str, seconds: float) -> None:
        """Set how long a whole stage will take, until its own tasks show better."""
        with self._lock:
            self._stages[stage].measured = seconds

    @contextmanager
    def task(self, stage: str, entries: float, *, part: str = "") -> Iterator[None]:
        """Work on part of a stage; a stage that begins ends all stages before it."""
        with self._lock:
            one = self._begun(stage)
            one.to_come[part] = max(0.0, one.to_come.get(part, 0.0) - entries)
            task = _Task(one, entries, clock())
            self._running.append(task)
        try:
            yield
        finally:
            with self._lock:
                self._running.remove(task)
                if self._cold and one.done and task.start >= self._first_end:
                    one.done, one.spent, one.start = 0.0, 0.0, task.start
                    self._cold = False
                self._first_end = min(self._first_end, clock())
                one.done += entries
                one.spent += clock() - task.start

    def left(self) -> float | None:
        """Expected seconds to the end; None before the first task has ended."""
        with self._lock:
            return self._left(clock())

    def share(self) -> float:
        """Share of the time that has passed, 0 to 1; never falls."""
        with self._lock:
            now = clock()
            left = self._left(now)
            if left is not None:
                elapsed = max(now - self._start, 1e-9)
                self._share = max(self._share, elapsed / (elapsed + left))
            return self._share

    def _begun(self, stage: str) -> _Stage:
        now = clock()
        for name in STAGES[: STAGES.index(stage)]:
            earlier = self._stages[name]
            earlier.to_come.clear()
            earlier.end = now if earlier.end is None else earlier.end
        one = self._stages[stage]
        one.start = now if one.start is None else one.start
        return one

    def _left(self, now: float) -> float | None:
        left, pace = 0.0, None
        for one in self._stages.values():
            own = self._pace(one, now)
            pace = pace if own is None else own
            running = [task for task in self._running if task.stage is one]
            to_come = sum(one.to_come.values())
            if pace is None and (running or to_come):
                return None
            if pace is not None:
                unfinished = sum(
                    task.entries
                    * (1.0 - _progress(now - task.start, pace * task.entries * len(running)))
                    for task in running
                )
                left += pace * (unfinished + to_come)
        return None if pace is None else left

    def _pace(self, one: _Stage, now: float) -> float | None:
        """Seconds per entry, all threads together, by this stage alone; None if unknown."""
        if one.start is None or one.done == 0.0:
            running = sum(task.entries for task in self._running if task.stage is one)
            entries = running + sum(one.to_come.values())
            return None if one.measured is None or not entries else one.measured / entries
        elapsed = (now if one.end is None else one.end) - one.start
        busy = sum(now - task.start for task in self._running if task.stage is one)
        return one.spent / one.done * elapsed / max(one.spent + busy, 1e-9)


def _progress(elapsed: float, expected: float) -> float:
    """Share of a task that is done; slows down when it takes longer than expected."""
    ratio = elapsed / expected if expected > 0.0 else 0.0
    return (1.0 - _LATE) * ratio if ratio < 1.0 else 1.0 - _LATE / ratio


@contextmanager
def observed_by(observer: Callable[[Work], None]) -> Iterator[None]:
    """Give the `Work` of every fit inside to the observer, when the fit begins."""
    token = _observer.set(observer)
    try:
        yield
    finally:
        _observer.reset(token)


def observed() -> bool:
    """Whether anyone observes fits in this context."""
    return _observer.get() is not None


def begin_work() -> Work:
    """A new `Work`, shown to the observer if there is one."""
    work, observer = Work(), _observer.get()
    if observer is not None:
        observer(work)
    return work
