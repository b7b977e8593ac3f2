"""Rows of a dask array or dataframe that stay on the workers of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from operator import getitem
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import dask
import numpy as np
from distributed import Client, Future, KilledWorker, futures_of
from distributed.client import FutureCancelledError

from bandfall._products.dask_cluster import ClusterError, check_alive, check_workers
from bandfall._typing import Array

if TYPE_CHECKING:
    import pandas
    from dask.delayed import Delayed

R = TypeVar("R")

Handle: TypeAlias = Future  # the result of a task, on the worker where it ran


class Blocks:
    """Consecutive blocks of rows, each on some worker.

    Tasks are functions of a block, or of results of such functions. Each task includes its
    arguments, so that the scheduler can repeat exactly the tasks of a lost worker. Block i
    has the rows ``starts[i]`` to ``starts[i + 1]``.
    """

    def __init__(self, client: Client, blocks: Sequence[Handle]):
        check_workers(client, 0)
        self._client = client
        self._blocks = blocks
        sizes = self.gathered([self._submit("size", len, block) for block in blocks])
        self.starts = np.concatenate([[0], np.cumsum(sizes)]).astype(int)

    def __len__(self) -> int:
        return int(self.starts[-1])

    @property
    def n_threads(self) -> int:
        """Number of threads of all current workers."""
        return max(1, sum(self._client.nthreads().values()))

    def own(self, numbers: np.ndarray) -> list[np.ndarray]:
        """Split sorted row numbers by block, counted from the start of each block."""
        borders = np.searchsorted(numbers, self.starts)
        return [
            numbers[first:last] - start
            for first, last, start in zip(borders[:-1], borders[1:], self.starts[:-1], strict=True)
        ]

    def take(self, numbers: np.ndarray) -> np.ndarray | pandas.DataFrame:
        """Gather some rows as an array or a frame; numbers are sorted."""
        wanted = [(rows,) for rows in self.own(numbers)]
        parts = self.gathered(self.each("sample", _some, wanted))
        if hasattr(parts[0], "iloc"):
            import pandas

            return pandas.concat(parts)
        return np.concatenate(parts)

    def each(
        self, name: str, function: Callable[..., object], arguments: Sequence[tuple[object, ...]]
    ) -> list[Handle]:
        """Run function(block, *arguments) on every block, on its worker."""
        return [
            self._submit(name, function, block, *own)
            for block, own in zip(self._blocks, arguments, strict=True)
        ]

    def pieces(self, held: Sequence[Handle], number: int) -> list[Handle]:
        """The same entry of each result, left on its worker."""
        return [self._submit("piece", getitem, one, number) for one in held]

    def result(self, name: str, function: Callable[..., R], *arguments: object) -> R:
        """Run a function on some worker and return its result; handles in lists are resolved."""
        return self.gathered([self._submit(name, function, *arguments)])[0]

    def gathered(self, handles: Sequence[Handle]) -> list[Any]:
        """Gather the results of tasks; raises their errors."""
        with _losses_explained(self._client):
            return [handle.result() for handle in handles]

    def _submit(self, name: str, function: Callable[..., object], *arguments: object) -> Handle:
        with large_arguments():
            token = dask.base.tokenize(id(self), name, next(_numbers))
            key = f"bandfall-{name}-{token}"
            return self._client.submit(function, *arguments, key=key, pure=False)


def computed(client: Client, rows: Array, blocks: Sequence[Delayed]) -> list[Handle]:
    """Compute the blocks of a dask array or dataframe and leave them on the workers.

    Rows that another client persists are awaited first: messages of two clients may overtake
    each other, and a scheduler cancels tasks whose dependencies it does not know yet.
    """
    with _losses_explained(client), large_arguments():
        for persisted in futures_of(rows):
            persisted.exception()
        return client.compute(list(blocks))


@contextmanager
def _losses_explained(client: Client) -> Iterator[None]:
    try:
        yield
    except (KilledWorker, FutureCancelledError, OSError) as error:
        check_alive(client)
        raise ClusterError(
            f"a task was lost too often ({error}); did the workers run out of memory?"
        ) from error


def _some(block: Array, rows: np.ndarray) -> Array:
    return block.iloc[rows] if hasattr(block, "iloc") else block[rows]


_numbers = count()  # of tasks


@contextmanager
def large_arguments() -> Iterator[None]:
    """Tasks inline their arguments, however large, so that retries depend on no other task."""
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 TiB"}):
        yield
