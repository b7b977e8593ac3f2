"""Tasks on a Dask cluster: calls of an object that every worker holds, and functions of blocks.

The scheduler repeats the tasks of lost workers. Tasks include their arguments, so that it can
repeat each of them without the others.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar
from weakref import finalize

import dask
import numpy as np
from distributed import (
    Client,
    Future,
    KilledWorker,
    Scheduler,
    Worker,
    get_worker,
)
from distributed.diagnostics.plugin import SchedulerPlugin, WorkerPlugin

from bandfall._products.backend import Holding
from bandfall._products.dask_cluster import (
    ANSWER_SECONDS,
    ClusterError,
    ask,
    check_alive,
    check_workers,
    log,
    workers_of,
)

if TYPE_CHECKING:
    pass

R = TypeVar("R")

Handle: TypeAlias = Future  # the result of a task, on the worker where it ran

_PLUGIN_SECONDS = 60.0  # for the plugins of a fit to arrive at a busy scheduler and its workers
_CHECK_SECONDS = 5.0  # between checks of the workers while a call waits for results
_SILENT_SECONDS = 10.0  # without a heartbeat; the scheduler itself waits for minutes


def submit(
    client: Client,
    name: str,
    function: Callable[..., object],
    *arguments: object,
    workers: list[str] | None = None,
) -> Future:
    """Submit a task, on one of some workers if possible; a dashboard shows it as bandfall-name."""
    with _large_arguments():
        return client.submit(
            function,
            *arguments,
            key=f"bandfall-{name}-{uuid.uuid4().hex}",
            pure=False,
            workers=workers,
            allow_other_workers=workers is not None,
        )


@contextmanager
def _large_arguments() -> Iterator[None]:
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 TiB"}):
        yield


@contextmanager
def _losses_explained(client: Client) -> Iterator[None]:
    try:
        yield
    except (KilledWorker, CancelledError, OSError) as error:
        check_alive(client)
        raise ClusterError(
            f"a task was lost too often ({error}); did the workers run out of memory?"
        ) from error


class HoldingPlugin(WorkerPlugin):
    """Keeps an object on every worker, also on those that join later, until it is unregistered."""

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


class Call(NamedTuple):
    """A method of the held object, its arguments, and the preferred worker, if any."""

    method: str
    arguments: tuple[object, ...]
    worker: str | None = None


def call_held(plugin: str, method: str, arguments: tuple[object, ...], *shared: object) -> object:
    """Run a call on this worker; an argument that all calls share comes last."""
    worker = get_worker()
    until = time.monotonic() + _PLUGIN_SECONDS
    while not isinstance(held := worker.plugins.get(plugin), HoldingPlugin):
        if time.monotonic() > until:
            raise OSError(f"{worker.address} does not hold {plugin}")
        time.sleep(0.02)
    return getattr(held.holding, method)(*arguments, *shared)


class Crew:
    """The workers of a cluster, each with a copy of `holding`.

    Any worker can run any call, any number of times.

    Parameters
    ----------
    client : Client
    holding : Holding
    name : str
        Of tasks; see `submit`.
    inline_bytes : int
        A larger argument that all calls share is sent once.
    worker_seconds : float
        A cluster may be without workers for this time.
    """

    def __init__(
        self,
        client: Client,
        holding: Holding,
        name: str = "product",
        inline_bytes: int = 1 << 20,
        worker_seconds: float = 60.0,
    ):
        check_workers(client, holding.nbytes)
        self.client = client
        self._name, self._plugin = name, f"bandfall-{uuid.uuid4().hex}"
        self._inline_bytes, self._worker_seconds = inline_bytes, worker_seconds
        self._known: set[str] = set()
        self._silent: set[str] = set()
        self.close = finalize(self, _unregister, client, self._plugin)
        try:
            register, guard = client.register_plugin, GuardPlugin(client.id, self._plugin)
            ask(client, register, guard, name=self._plugin, seconds=_PLUGIN_SECONDS)
            with suppress(TimeoutError):  # suspended workers do not answer
                plugin, seconds = HoldingPlugin(holding), ANSWER_SECONDS
                client.sync(register, plugin, name=self._plugin, callback_timeout=seconds)
        except BaseException:
            self.close()
            raise

    def threads(self) -> list[str]:
        """The worker of each thread, without silent workers; logs workers that join or leave."""
        present = workers_of(self.client)
        lost, joined = self._known - present.keys(), present.keys() - self._known
        if lost or joined:
            log.info("%d workers (%d joined, %d lost)", len(present), len(joined), len(lost))
        if lost:
            log.warning("lost %s", ", ".join(sorted(lost)))
        heard = max((one["last_seen"] for one in present.values()), default=0.0) - _SILENT_SECONDS
        silent = {address for address, one in present.items() if one["last_seen"] < heard}
        for address in silent - self._silent:
            log.warning("%s does not answer: its calls run elsewhere", address)
        self._known, self._silent = set(present), silent
        answering = sorted(self._known - silent)
        return [address for address in answering for _ in range(present[address]["nthreads"])]

    def call(self, calls: Sequence[tuple[Any, ...]], shared: np.ndarray | None = None) -> list[Any]:
        """Results of calls, in order; an error of a call is raised.

        Each has the fields of a `Call`. `shared` is one more argument of all calls.
        """
        check_alive(self.client)
        named = [Call(*call) for call in calls]
        inline: tuple[object, ...] = () if shared is None else (shared,)
        sent = inline
        if shared is not None and shared.nbytes > self._inline_bytes:
            sent = (self._submit(None, _itself, shared),)
        futures = [self._called(call, sent) for call in named]
        last_worker = time.monotonic()
        with _losses_explained(self.client):
            while not self._finished(futures):
                if self.threads():
                    last_worker = time.monotonic()
                elif time.monotonic() - last_worker > self._worker_seconds:
                    raise ClusterError(f"no worker was available for {self._worker_seconds:g} s")
                if self._silent:
                    stuck = self._stuck_tasks()
                    for number, future in enumerate(futures):
                        # A silent worker may also hold the argument that was sent.
                        if future.key in stuck or (sent is not inline and not future.done()):
                            futures[number] = self._called(named[number], inline)
                    sent = inline
            return self.client.gather(futures)

    def _finished(self, futures: Sequence[Future]) -> bool:
        """Wait for all tasks; False if it is time to look after the workers."""

        async def all_of_them() -> None:
            await asyncio.gather(*(future.exception() for future in futures))

        try:
            seconds = min(_CHECK_SECONDS, self._worker_seconds)
            self.client.sync(all_of_them, callback_timeout=seconds)
        except TimeoutError:
            return False
        return True

    def _called(self, call: Call, shared: tuple[object, ...]) -> Future:
        return self._submit(
            call.worker, call_held, self._plugin, call.method, call.arguments, *shared
        )

    def _submit(
        self, worker: str | None, function: Callable[..., object], *arguments: object
    ) -> Future:
        """A future of the preferred worker, or of any; not of a silent one."""
        workers = None if worker is None else [worker]
        if self._silent and (worker is None or worker in self._silent):
            workers = sorted(self._known - self._silent)
        return submit(self.client, self._name, function, *arguments, workers=workers)

    def _stuck_tasks(self) -> set[object]:
        """Keys of tasks that the scheduler has given to silent workers."""
        processing = ask(self.client, self.client.processing)
        return {key for address in self._silent for key in processing.get(address, ())}


def _itself(argument: object) -> object:
    return argument


def _unregister(client: Client, name: str) -> None:
    """Remove a plugin; a suspended worker removes it when it continues.

    Errors are only logged, because the fit may be about to raise its own.
    """
    for unregister in (client.unregister_scheduler_plugin, client.unregister_worker_plugin):
        if client.status == "running":
            try:
                client.sync(unregister, name, callback_timeout=ANSWER_SECONDS)
            except Exception as error:
                log.warning("%s could not be taken back everywhere: %r", name, error)
