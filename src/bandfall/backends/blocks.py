"""Rows of a dask array or dataframe that stay where they are: on the workers of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from operator import getitem
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import dask
import numpy as np
from distributed import Client, Future, KilledWorker
from distributed.client import FutureCancelledError

from bandfall.backends.cluster import ClusterError, check_alive, check_workers
from bandfall.typing import Array

if TYPE_CHECKING:
    import pandas
    from dask.delayed import Delayed

R = TypeVar("R")

Handle: TypeAlias = Future  # what a task returned, on the worker where it ran


class Blocks:
    """Blocks of whole rows, each on some worker, one after the other.

    Tasks are functions of a block, or of what such a function returned. Each task carries its own
    arguments, so that the scheduler can repeat what a lost worker held, and nothing else. Block i
    has the rows ``starts[i]`` to ``starts[i + 1]``.
    """

    def __init__(self, client: Client, delayed: Sequence[Delayed]):
        check_workers(client, 0)
        self._client = client
        with large_arguments():
            self._blocks = client.compute(list(delayed))
        sizes = self.gathered([self._submit("size", len, block) for block in self._blocks])
        self.starts = np.concatenate([[0], np.cumsum(sizes)]).astype(int)

    def __len__(self) -> int:
        return int(self.starts[-1])

    @property
    def n_threads(self) -> int:
        """Of all workers that there are now."""
        return max(1, sum(self._client.nthreads().values()))

    def own(self, numbers: np.ndarray) -> list[np.ndarray]:
        """Sorted numbers of rows as those of each block, counted from its start."""
        borders = np.searchsorted(numbers, self.starts)
        return [
            numbers[first:last] - start
            for first, last, start in zip(borders[:-1], borders[1:], self.starts[:-1], strict=True)
        ]

    def take(self, numbers: np.ndarray) -> np.ndarray | pandas.DataFrame:
        """Some rows, brought here: an array or a frame; numbers are sorted."""
        wanted = [(rows,) for rows in self.own(numbers)]
        parts = self.gathered(self.each("sample", _some, wanted))
        if hasattr(parts[0], "iloc"):
            import pandas

            return pandas.concat(parts)
        return np.concatenate(parts)

    def each(
        self, name: str, function: Callable[..., object], arguments: Sequence[tuple[object, ...]]
    ) -> list[Handle]:
        """function(block, *arguments) on every block, where the block is."""
        return [
            self._submit(name, function, block, *own)
            for block, own in zip(self._blocks, arguments, strict=True)
        ]

    def pieces(self, held: Sequence[Handle], number: int) -> list[Handle]:
        """The same entry of what tasks returned, each where it is."""
        return [self._submit("piece", getitem, one, number) for one in held]

    def result(self, name: str, function: Callable[..., R], *arguments: object) -> R:
        """What a function returns that runs on some worker; handles among lists are followed."""
        return self.gathered([self._submit(name, function, *arguments)])[0]

    def gathered(self, handles: Sequence[Handle]) -> list[Any]:
        """What tasks returned, brought here; an error of theirs is raised."""
        try:
            return [handle.result() for handle in handles]
        except (KilledWorker, FutureCancelledError, OSError) as error:
            check_alive(self._client)
            raise ClusterError(
                f"a task was lost too often ({error}); did the workers run out of memory?"
            ) from error

    def _submit(self, name: str, function: Callable[..., object], *arguments: object) -> Handle:
        with large_arguments():
            token = dask.base.tokenize(id(self), name, next(_numbers))
            key = f"bandfall-{name}-{token}"
            return self._client.submit(function, *arguments, key=key, pure=False)


def _some(block: Array, rows: np.ndarray) -> Array:
    return block.iloc[rows] if hasattr(block, "iloc") else block[rows]


_numbers = count()  # of tasks


@contextmanager
def large_arguments() -> Iterator[None]:
    """Tasks inline their arguments, however large, so that retries depend on no other task."""
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 TiB"}):
        yield
