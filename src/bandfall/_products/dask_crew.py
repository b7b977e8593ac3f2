"""Calls on a cluster that survive the loss of workers.

A worker plugin holds the data that a fit needs repeatedly (its rows). The scheduler sends it to
all workers, including those that join later, so that no worker waits for another. A call consists
of the plugin, a method and its arguments, and can run on any worker, any number of times.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import time
import uuid
from collections.abc import Sequence
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

MAX_ATTEMPTS = 4  # at one call, in addition to those of the scheduler
NO_WORKERS_SECONDS = 60.0  # a cluster may be without workers for this time
_STRAGGLING = 4.0  # times the usual seconds of a call, after which another worker runs it too
_TICK = 0.2  # seconds
_CHECK_SECONDS = 5.0  # between checks of the cluster while no results arrive
_BUDGET_SHARE = 0.4  # of a worker's memory limit, for kernel matrices
_HANDOVER_SECONDS = 10.0  # for which a call waits until its plugin has reached the worker
_BEGIN_SECONDS = 60.0  # time limit for a busy scheduler to register a fit
_INLINE_BYTES = 1 << 20  # a larger argument that all calls share is sent once
_OF_THE_CLUSTER = (KilledWorker, CancelledError, asyncio.CancelledError, OSError, TimeoutError)


@dataclass(frozen=True)
class Call:
    """A method of the held object, its arguments, and the preferred worker, if any."""

    method: str
    arguments: tuple[object, ...]
    worker: str | None = None


@dataclass(frozen=True)
class Answer:
    """The result of a call, and the worker that ran it."""

    value: Any
    worker: str


class NotHeldError(OSError):
    """A call reached a worker without the held object."""


class HoldingPlugin(WorkerPlugin):
    """Keeps an object on every worker until it is unregistered."""

    def __init__(self, holding: Holding):
        self.holding = holding

    def setup(self, worker: Worker) -> None:
        """Lower the budget to the memory of this worker."""
        limit = worker.memory_manager.memory_limit
        if limit:
            self.holding.budget = min(self.holding.budget, int(_BUDGET_SHARE * limit))


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


def call_held(name: str, method: str, arguments: tuple[object, ...], shared: object) -> Answer:
    """Run a call on this worker; the argument that all calls share comes last."""
    worker = get_worker()
    until = time.monotonic() + _HANDOVER_SECONDS
    while not isinstance(plugin := worker.plugins.get(name), HoldingPlugin):
        if time.monotonic() > until:
            raise NotHeldError(f"{worker.address} does not hold {name}")
        time.sleep(0.02)
    value = getattr(plugin.holding, method)(*arguments, shared)
    return Answer(value, worker.address)


class Crew:
    """The workers of a cluster, each with a copy of `holding`.

    A dashboard shows its tasks under `name`. A call that takes longer than `patience` seconds, and
    much longer than the others, runs on another worker as well.
    """

    def __init__(
        self,
        client: Client,
        holding: Holding,
        name: str = "bandfall-product",
        patience: float = 1.0,
    ):
        check_workers(client, holding.nbytes)
        self._client = client
        self._token = uuid.uuid4().hex
        self._tasks = f"{name}-{self._token}"
        self._patience = patience
        self._numbers = count()  # of runs, which may come from several threads
        self._usual: float | None = None  # seconds of a call
        self._suspects: dict[str, Future] = {}  # by address, with a call it has not answered
        self._known: set[str] = set()
        self._plugin = f"bandfall-{self._token}"
        self.close = finalize(self, _unregister, client, self._plugin)
        try:
            _register(client, self._plugin, holding)
        except BaseException:
            self.close()
            raise

    def threads(self) -> list[str]:
        """The worker of each thread of responsive workers; logs workers that join or leave."""
        present = ask(self._client, "nthreads")
        lost, joined = self._known - present.keys(), present.keys() - self._known
        if lost or joined:
            log.info("%d workers (%d joined, %d lost)", len(present), len(joined), len(lost))
        if lost:
            log.warning("lost %s", ", ".join(sorted(lost)))
        self._known = set(present)
        # Workers that have answered after all are trusted again.
        self._suspects = {a: late for a, late in self._suspects.items() if not late.done()}
        well = {one: n for one, n in present.items() if one not in self._suspects}
        return [one for one, n in sorted(well.items()) for _ in range(n)]

    def run(self, calls: Sequence[Call], shared: object = None) -> list[Answer]:
        """The answers to all calls, in order.

        A call that is lost, or takes much longer than usual, is repeated on another worker. An
        error of the call itself is raised.
        """
        check_alive(self._client)
        return _Run(self, calls, shared).answers()

    def call(self, calls: Sequence[tuple[str, tuple[object, ...]]]) -> list[Any]:
        """See `Helpers.call`."""
        answers = self.run([Call(method, arguments) for method, arguments in calls])
        return [answer.value for answer in answers]

    def _submit(self, key: tuple[int, ...], call: Call, shared: object, not_on: set[str]) -> Future:
        """A future for the call, on workers other than those to avoid if there are any."""
        workers = None
        if call.worker is not None and call.worker not in not_on:
            workers = [call.worker]
        elif not_on:
            workers = sorted(ask(self._client, "nthreads").keys() - not_on) or None
        with large_arguments():
            return self._client.submit(
                call_held,
                self._plugin,
                call.method,
                call.arguments,
                shared,
                key=(self._tasks, *key),
                pure=False,
                workers=workers,
                allow_other_workers=workers is not None,
            )


@dataclass(eq=False)
class _Attempt:
    """One try at a call: `answer` completes when the result has come back."""

    number: int  # of the call
    future: Future
    answer: concurrent.futures.Future[Answer]
    start: float = field(default_factory=time.monotonic)


class _Run:
    """Some calls in progress."""

    def __init__(self, crew: Crew, calls: Sequence[Call], shared: object):
        self._crew = crew
        self._number = next(crew._numbers)
        self._client = crew._client
        self._calls = calls
        self._shared = shared
        self._sent = self._send_shared()
        self._answers: dict[int, Answer] = {}
        self._attempts: list[_Attempt] = []
        self._n_attempts = [0] * len(calls)
        self._seconds: list[float] = []
        self._last_look = time.monotonic()
        self._last_worker = time.monotonic()

    def answers(self) -> list[Answer]:
        crew = self._crew
        try:
            for number in range(len(self._calls)):
                self._start(number, self._sent, set(crew._suspects))
            while len(self._answers) < len(self._calls):
                done, _ = wait(
                    [one.answer for one in self._attempts], _TICK, return_when=FIRST_COMPLETED
                )
                for attempt in [one for one in self._attempts if one.answer in done]:
                    if attempt.number not in self._answers:
                        self._take(attempt)
                check_alive(self._client)
                if not done:
                    self._look()
                self._repeat_stragglers()
        finally:
            for attempt in self._attempts:
                attempt.answer.cancel()
        crew._usual = median(self._seconds) if self._seconds else crew._usual
        return [self._answers[number] for number in range(len(self._calls))]

    def _start(self, number: int, shared: object, not_on: set[str]) -> None:
        self._n_attempts[number] += 1
        key = (self._number, number, self._n_attempts[number])
        future = self._crew._submit(key, self._calls[number], shared, not_on)
        loop = cast("BaseAsyncIOLoop", self._client.loop).asyncio_loop
        answer = asyncio.run_coroutine_threadsafe(_answer(future), loop)
        self._attempts.append(_Attempt(number, future, answer))

    def _take(self, attempt: _Attempt) -> None:
        """Handle the end of an attempt, successful or not."""
        self._attempts.remove(attempt)
        number = attempt.number
        try:
            self._answers[number] = attempt.answer.result()
        except _OF_THE_CLUSTER as error:
            check_alive(self._client)
            log.warning("call %d of %s failed: %r", number, self._crew._tasks, error)
            if any(one.number == number for one in self._attempts):
                return
            if self._n_attempts[number] >= MAX_ATTEMPTS:
                raise ClusterError(
                    f"{MAX_ATTEMPTS} attempts at the same {type(error).__name__}: {error}; did "
                    "the workers run out of memory?"
                ) from error
            self._start(number, self._shared, set(self._crew._suspects))
        else:
            self._seconds.append(time.monotonic() - attempt.start)
            for other in [one for one in self._attempts if one.number == number]:
                other.answer.cancel()
                self._attempts.remove(other)

    def _repeat_stragglers(self) -> None:
        """Also run calls that take much longer than others on other workers."""
        usual = median(self._seconds) if self._seconds else self._crew._usual
        if usual is None:
            return
        late = time.monotonic() - max(self._crew._patience, _STRAGGLING * usual)
        under_way = [one.number for one in self._attempts]
        slow = [
            one
            for one in self._attempts
            if one.start < late
            and under_way.count(one.number) == 1
            and self._n_attempts[one.number] < MAX_ATTEMPTS
        ]
        if not slow:
            return
        processing = ask(self._client, "processing")
        where = {key: worker for worker, keys in processing.items() for key in keys}
        for attempt in slow:
            worker = where.get(attempt.future.key)
            if worker is None or not processing.keys() - self._crew._suspects.keys() - {worker}:
                continue
            log.warning("%s is late: its call runs elsewhere as well", worker)
            self._crew._suspects[worker] = attempt.future
            self._start(attempt.number, self._shared, set(self._crew._suspects))

    def _look(self) -> None:
        """Check that scheduler and workers are available while no results arrive."""
        now = time.monotonic()
        if now - self._last_look < _CHECK_SECONDS:
            return
        self._last_look = now
        if ask(self._client, "nthreads"):
            self._last_worker = now
        elif now - self._last_worker > NO_WORKERS_SECONDS:
            raise ClusterError(f"no worker was available for {NO_WORKERS_SECONDS:g} s")

    def _send_shared(self) -> object:
        """The argument that all calls share, sent once if it is large."""
        if not isinstance(self._shared, np.ndarray) or self._shared.nbytes <= _INLINE_BYTES:
            return self._shared
        healthy = [one for one in self._crew._known if one not in self._crew._suspects]
        try:
            return within(
                ANSWER_SECONDS,
                self._client.scatter,
                self._shared,
                workers=healthy or None,
                hash=False,
            )
        except (TimeoutError, OSError, ValueError):
            check_alive(self._client)
            return self._shared


async def _answer(future: Future) -> Answer:
    return await future


def _register(client: Client, name: str, holding: Holding) -> None:
    """Send a plugin to all workers, without waiting for suspended or dying ones."""
    try:
        within(_BEGIN_SECONDS, client.register_plugin, GuardPlugin(client.id, name), name=name)
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
