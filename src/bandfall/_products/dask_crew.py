"""Calls on a cluster, by Dask's futures.

A worker plugin holds the data that a fit needs repeatedly (its rows). The scheduler sends it to
all workers, including those that join later, so that no worker waits for another. A call consists
of a method of the held object and its arguments, and can run on any worker, any number of times:
the scheduler repeats the calls of lost workers. Calls of workers that stop without leaving, which
the scheduler notices late, are repeated here.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import time
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, wait
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from statistics import median
from typing import TYPE_CHECKING, Any, cast
from weakref import finalize

import numpy as np
from distributed import Client, Future, KilledWorker, Scheduler, Worker, get_worker
from distributed.diagnostics.plugin import SchedulerPlugin, WorkerPlugin

from bandfall._products.backend import Holding
from bandfall._products.dask_blocks import large_arguments
from bandfall._products.dask_cluster import (
    ANSWER_SECONDS,
    ClusterError,
    ask,
    check_alive,
    check_workers,
    log,
    within,
)

if TYPE_CHECKING:
    from tornado.platform.asyncio import BaseAsyncIOLoop

_BEGIN_SECONDS = 60.0  # for a busy scheduler to register a fit, and for its plugin to arrive
_CHECK_SECONDS = 5.0  # between checks of the cluster while no results arrive


@dataclass(frozen=True)
class Call:
    """A method of the held object, its arguments, and the preferred worker, if any."""

    method: str
    arguments: tuple[object, ...]
    worker: str | None = None


class NotHeldError(OSError):
    """A call reached a worker without the held object."""


class HoldingPlugin(WorkerPlugin):
    """Keeps an object on every worker until it is unregistered."""

    def __init__(self, holding: Holding):
        self.holding = holding

    def setup(self, worker: Worker) -> None:
        """Lower the budget to a share of the memory of this worker."""
        limit = worker.memory_manager.memory_limit
        if limit:
            self.holding.budget = min(self.holding.budget, int(0.4 * limit))


class GuardPlugin(SchedulerPlugin):
    """Removes held objects when their client is gone, because a killed client cannot."""

    def __init__(self, client: str, name: str):
        self.client = client
        self.name = name

    def remove_client(self, scheduler: Scheduler, client: str) -> None:
        """Called by the scheduler for every client that leaves."""
        if client == self.client and self.name in scheduler.worker_plugins:
            scheduler.loop.add_callback(scheduler.unregister_worker_plugin, None, self.name)
            scheduler.loop.add_callback(scheduler.remove_plugin, self.name)


def call_held(name: str, method: str, arguments: tuple[object, ...], shared: object) -> object:
    """Run a call on this worker; the argument that all calls share comes last."""
    worker = get_worker()
    until = time.monotonic() + _BEGIN_SECONDS
    while not isinstance(plugin := worker.plugins.get(name), HoldingPlugin):
        if time.monotonic() > until:
            raise NotHeldError(f"{worker.address} does not hold {name}")
        time.sleep(0.02)
    return getattr(plugin.holding, method)(*arguments, shared)


class Crew:
    """The workers of a cluster, each with a copy of `holding`.

    Parameters
    ----------
    client : Client
    holding : Holding
    name : str
        A dashboard shows tasks under this name.
    patience : float
        A call that takes longer than this, in seconds, and much longer than the others, runs on
        another worker as well.
    inline_bytes : int
        A larger argument that all calls share is sent once.
    worker_seconds : float
        A cluster may be without workers for this time.
    """

    def __init__(
        self,
        client: Client,
        holding: Holding,
        name: str = "bandfall-product",
        patience: float = 1.0,
        inline_bytes: int = 1 << 20,
        worker_seconds: float = 60.0,
    ):
        check_workers(client, holding.nbytes)
        self.client = client
        self.patience, self.worker_seconds = patience, worker_seconds
        token = uuid.uuid4().hex
        self._tasks, self._plugin = f"{name}-{token}", f"bandfall-{token}"
        self._inline_bytes = inline_bytes
        self._numbers = count()  # of tasks, which may come from several threads
        self.usual: float | None = None  # seconds of a call
        self.suspects: dict[str, Future] = {}  # by address, with a call it has not answered
        self._known: set[str] = set()
        self.close = finalize(self, _unregister, client, self._plugin)
        try:
            _register(client, self._plugin, holding)
        except BaseException:
            self.close()
            raise

    def threads(self) -> list[str]:
        """The worker of each thread of responsive workers; logs workers that join or leave."""
        present = ask(self.client, "nthreads")
        lost, joined = self._known - present.keys(), present.keys() - self._known
        if lost or joined:
            log.info("%d workers (%d joined, %d lost)", len(present), len(joined), len(lost))
        if lost:
            log.warning("lost %s", ", ".join(sorted(lost)))
        self._known = set(present)
        # Workers that have answered after all are trusted again.
        self.suspects = {a: late for a, late in self.suspects.items() if not late.done()}
        return [a for a, n in sorted(present.items()) if a not in self.suspects for _ in range(n)]

    def call(self, calls: Sequence[tuple[str, tuple[object, ...]]]) -> list[Any]:
        """See `Helpers.call`."""
        return self.run([Call(method, arguments) for method, arguments in calls])

    def run(self, calls: Sequence[Call], shared: object = None) -> list[Any]:
        """The results of all calls, in order; an error of a call is raised."""
        check_alive(self.client)
        return _Run(self, calls, shared).results()

    def submit(self, call: Call, shared: object) -> Future:
        """A future for the call, away from suspect workers."""
        workers = None if call.worker is None else [call.worker]
        if self.suspects and (call.worker is None or call.worker in self.suspects):
            workers = sorted(ask(self.client, "nthreads").keys() - self.suspects.keys()) or None
        arguments = (self._plugin, call.method, call.arguments, shared)
        return self._submitted(call_held, *arguments, workers=workers)

    def sent(self, shared: object) -> object:
        """The argument that all calls share; if it is large, a task that returns it."""
        if not isinstance(shared, np.ndarray) or shared.nbytes <= self._inline_bytes:
            return shared
        healthy = sorted(self._known - self.suspects.keys()) or None
        return self._submitted(_itself, shared, workers=healthy)

    def _submitted(
        self, function: Callable[..., object], *arguments: object, workers: list[str] | None
    ) -> Future:
        with large_arguments():
            return self.client.submit(
                function,
                *arguments,
                key=(self._tasks, next(self._numbers)),
                pure=False,
                workers=workers,
                allow_other_workers=workers is not None,
            )


@dataclass(eq=False)
class _Attempt:
    """One try at a call."""

    number: int  # of the call
    future: Future
    start: float = field(default_factory=time.monotonic)


class _Run:
    """Some calls in progress."""

    def __init__(self, crew: Crew, calls: Sequence[Call], shared: object):
        self._crew, self._calls, self._shared = crew, calls, shared
        self._attempts: dict[concurrent.futures.Future[Any], _Attempt] = {}
        self._n_attempts = [0] * len(calls)
        self._results: dict[int, Any] = {}
        self._seconds: list[float] = []
        self._last_look = self._last_worker = time.monotonic()

    def results(self) -> list[Any]:
        try:
            sent = self._crew.sent(self._shared)
            for number in range(len(self._calls)):
                self._start(number, sent)
            while len(self._results) < len(self._calls):
                done, _ = wait(list(self._attempts), 0.2, return_when=FIRST_COMPLETED)
                check_alive(self._crew.client)
                for answer in done:
                    self._take(self._attempts.pop(answer), answer)
                if not done:
                    self._look_for_workers()
                self._repeat_late_calls()
        finally:
            for answer in self._attempts:
                answer.cancel()
        self._crew.usual = self._usual
        return [self._results[number] for number in range(len(self._calls))]

    def _start(self, number: int, shared: object) -> None:
        self._n_attempts[number] += 1
        future = self._crew.submit(self._calls[number], shared)
        loop = cast("BaseAsyncIOLoop", self._crew.client.loop).asyncio_loop
        answer = asyncio.run_coroutine_threadsafe(_result(future), loop)
        self._attempts[answer] = _Attempt(number, future)

    def _take(self, attempt: _Attempt, answer: concurrent.futures.Future[Any]) -> None:
        if attempt.number in self._results:
            return
        try:
            self._results[attempt.number] = answer.result()
        except (KilledWorker, CancelledError, asyncio.CancelledError, OSError) as error:
            check_alive(self._crew.client)
            if any(other.number == attempt.number for other in self._attempts.values()):
                return
            raise ClusterError(
                f"a call was lost ({type(error).__name__}: {error}); did the workers run out of "
                "memory?"
            ) from error
        self._seconds.append(time.monotonic() - attempt.start)

    @property
    def _usual(self) -> float | None:
        return median(self._seconds) if self._seconds else self._crew.usual

    def _repeat_late_calls(self) -> None:
        """Also run calls that take much longer than others on other workers."""
        crew, usual = self._crew, self._usual
        if usual is None:
            return
        limit = time.monotonic() - max(crew.patience, 4.0 * usual)
        newest = {attempt.number: attempt for attempt in self._attempts.values()}
        late = [
            attempt
            for number, attempt in newest.items()
            if number not in self._results
            and attempt.start < limit
            and self._n_attempts[number] < 4
        ]
        processing = ask(crew.client, "processing") if late else {}
        where = {key: worker for worker, keys in processing.items() for key in keys}
        for attempt in late:
            worker = where.get(attempt.future.key)
            if worker is not None and processing.keys() - crew.suspects.keys() - {worker}:
                log.warning("%s is late: its call runs elsewhere as well", worker)
                crew.suspects[worker] = attempt.future
                self._start(attempt.number, self._shared)  # it may hold the shared argument

    def _look_for_workers(self) -> None:
        """Raise ClusterError if there were no workers for a while."""
        now = time.monotonic()
        if now - self._last_look < min(_CHECK_SECONDS, self._crew.worker_seconds):
            return
        self._last_look = now
        if ask(self._crew.client, "nthreads"):
            self._last_worker = now
        elif now - self._last_worker > self._crew.worker_seconds:
            raise ClusterError(f"no worker was available for {self._crew.worker_seconds:g} s")


def _itself(argument: object) -> object:
    return argument


async def _result(future: Future) -> object:
    return await future


def _register(client: Client, name: str, holding: Holding) -> None:
    """Send a plugin to all workers, without waiting for suspended or dying ones."""
    guard = GuardPlugin(client.id, name)
    try:
        within(_BEGIN_SECONDS, client.register_plugin, guard, name=name)
    except TimeoutError as error:
        raise ClusterError(
            f"the Dask scheduler did not answer within {_BEGIN_SECONDS:g} s"
        ) from error
    with suppress(TimeoutError, OSError):
        within(ANSWER_SECONDS, client.register_plugin, HoldingPlugin(holding), name=name)


def _unregister(client: Client, name: str) -> None:
    """Remove a plugin; a suspended worker removes it when it continues.

    Errors are only logged, because the fit may be about to raise its own.
    """
    for unregister in (client.unregister_scheduler_plugin, client.unregister_worker_plugin):
        if client.status == "running":
            try:
                within(ANSWER_SECONDS, unregister, name)
            except Exception as error:
                log.warning("%s could not be taken back everywhere: %r", name, error)
