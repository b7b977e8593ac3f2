"""Connections to Dask clusters, checks of their workers, and requests in bounded time."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from bandfall._products.base import GIBIBYTE

if TYPE_CHECKING:
    from distributed import Client

log = logging.getLogger("bandfall.cluster")

ANSWER_SECONDS = 10.0  # time limit for requests to schedulers and workers

_connected: dict[str, Client] = {}
_checked: WeakKeyDictionary[Client, set[str]] = WeakKeyDictionary()


class ClusterError(RuntimeError):
    """A cluster is unavailable, was lost, or cannot run a task."""


def is_cluster(device: object) -> bool:
    """Whether a device names a cluster: "dask", or an address such as "tcp://host:8786".

    Examples
    --------
    >>> from bandfall._products.dask_cluster import is_cluster
    >>> [is_cluster(name) for name in ("dask", "tcp://10.0.0.1:8786", "cuda:0", None)]
    [True, True, False, False]
    """
    return isinstance(device, str) and (device == "dask" or "://" in device)


def check_installed(device: str) -> None:
    """Raise ImportError unless Dask is installed."""
    if find_spec("distributed") is None:
        raise ImportError(
            f"device={device!r} needs Dask: pip install 'dask[array,dataframe]' distributed"
        )


def connect(device: str, seconds: float = ANSWER_SECONDS) -> Client:
    """The client for a device: the current client, or one for an address.

    A connection to an address is kept until the process ends, and renewed if it was lost. A new
    one takes at most the given `seconds`.
    """
    check_installed(device)
    from distributed import Client as DaskClient

    if device == "dask":
        try:
            client = DaskClient.current()
        except ValueError:
            raise ClusterError(
                "device='dask' needs a running client: `from distributed import Client; "
                "client = Client()` starts workers on this machine, `Client('tcp://host:8786')` "
                "connects to a scheduler; or name the scheduler, device='tcp://host:8786'"
            ) from None
    else:
        client = _connected.get(device)
        if client is None or client.status != "running":
            try:
                client = DaskClient(device, set_as_default=False, timeout=seconds)
            except (OSError, ValueError) as error:
                raise ClusterError(f"no scheduler answers at {device}: {error}") from error
            _connected[device] = client
    if client.asynchronous:
        raise ClusterError(f"device={device!r} needs a client with asynchronous=False")
    return client


def check_alive(client: Client, error: Exception | None = None) -> None:
    """Raise ClusterError if the connection is lost, or after an `error` of a request."""
    if client.status != "running" or error is not None:
        raise ClusterError(
            f"the connection to the Dask scheduler at {_address(client)} was lost; start the "
            "cluster again and fit again"
        ) from error


def ask(
    client: Client,
    method: Callable[..., Any],
    *arguments: object,
    seconds: float | None = None,
    **named: object,
) -> Any:
    """The result of a method of a client or its scheduler, in bounded time.

    A suspended worker does not answer, so a request to all workers could wait forever.
    """
    check_alive(client)
    try:
        limit = ANSWER_SECONDS if seconds is None else seconds
        return client.sync(method, *arguments, callback_timeout=limit, **named)
    except OSError as error:
        check_alive(client, error)


def workers_of(client: Client) -> dict[str, dict[str, Any]]:
    """What the scheduler knows about each worker, by address."""
    assert client.scheduler is not None
    workers: dict[str, dict[str, Any]] = ask(client, client.scheduler.identity)["workers"]
    return workers


def check_workers(client: Client, n_bytes: int) -> None:
    """Raise ClusterError for workers without this package or with too little memory."""
    workers = workers_of(client)
    # Held objects may take 60 % of the memory limit of a worker.
    small = {
        address: limit
        for address, worker in workers.items()
        if 0 < (limit := worker.get("memory_limit") or 0) * 0.6 < n_bytes
    }
    if small:
        raise MemoryError(
            f"every worker is to hold {n_bytes / GIBIBYTE:.3f} GiB, for which "
            + _listed(f"{a} ({limit / GIBIBYTE:.3f} GiB)" for a, limit in small.items())
            + " cannot spare the memory; raise --memory-limit there, or use fewer rows or float32"
        )
    known = _checked.setdefault(client, set())
    if not known >= workers.keys():
        _check_versions(client)
        known.update(workers)


def _check_versions(client: Client) -> None:
    """Raise ClusterError for another version of this package; log another NumPy."""
    get_versions = client.get_versions
    try:
        versions: Any = client.sync(
            get_versions, packages=["bandfall"], callback_timeout=ANSWER_SECONDS
        )
    except TimeoutError:
        log.warning("some worker does not answer: versions were not checked")
        return
    processes = {"scheduler": versions["scheduler"], **versions["workers"]}

    def differing(package: str, here: str | None) -> dict[str, str | None]:
        there = {name: own["packages"].get(package) for name, own in processes.items() if own}
        return {name: version for name, version in there.items() if version != here}

    here = versions["client"]["packages"].get("bandfall")
    if here is None:  # a source tree that is not installed has no version
        return
    other = differing("bandfall", here)
    without = [name for name, version in other.items() if version is None]
    if without:
        raise ClusterError(
            f"bandfall is not installed on {_listed(without)}: install it there, with its extra "
            "dask"
        )
    if other:
        listed = _listed(f"{name} ({version})" for name, version in other.items())
        raise ClusterError(f"bandfall is {here} here, but not on {listed}")
    numpy = versions["client"]["packages"].get("numpy")
    rounding = differing("numpy", numpy).keys() - {"scheduler"}
    if rounding:
        log.warning("NumPy is not version %s on %s: bits may differ", numpy, _listed(rounding))


def _listed(names: Iterable[str], most: int = 5) -> str:
    names = sorted(names)
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _address(client: Client) -> str:
    return getattr(getattr(client, "scheduler", None), "address", "an unknown address")
