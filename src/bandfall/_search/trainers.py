"""Training for a search, in this process or on workers of a cluster, with the same result."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from bandfall._models.member import MetricKey
from bandfall._products import HOST
from bandfall._products.backend import Helpers
from bandfall._products.dask_workers import own_backend
from bandfall._search.candidates import Request
from bandfall._search.held_out import Outcome, run_parts
from bandfall._search.jobs import threads_for
from bandfall._search.ladder import Ladder
from bandfall._search.parts import Part, Rows, train_parts
from bandfall._targets.losses import Judge

Roots = dict[MetricKey, np.ndarray]


# A context around the training of one request; it excludes the time spent waiting for a thread.
Within: TypeAlias = Callable[[], AbstractContextManager[object]]


class LocalTrainer:
    """Trains on the parts of a search, in this process.

    `ended` returns True to stop training in progress. The threads of a `pool` train the requests
    of all callers in parallel. Without a pool, the caller trains each request only when its
    outcome is needed.
    """

    def __init__(
        self,
        parts: Sequence[Part],
        judge: Judge,
        ended: Callable[[], bool] = lambda: False,
        pool: ThreadPoolExecutor | None = None,
    ):
        self._parts, self._judge, self._ended = parts, judge, ended
        self._pool = pool

    @property
    def waits(self) -> bool:
        """Whether callers only wait for results, so that many may call at a time."""
        return self._pool is not None

    def outcomes(
        self, requests: Sequence[Request], within: Within = nullcontext
    ) -> Iterator[list[Outcome]]:
        """The outcomes of `run_parts` for each request, in order."""

        def train(request: Request) -> list[Outcome]:
            with within():
                return run_parts(self._parts, request, self._judge, self._ended)

        return map(train, requests) if self._pool is None else self._pool.map(train, requests)

    def ladders(
        self, parts: Sequence[Part], request: Request, within: Within = nullcontext
    ) -> list[Ladder]:
        """See `train_parts`."""

        def train() -> list[Ladder]:
            with within():
                return train_parts(parts, request, ended=self._ended)

        return train() if self._pool is None else self._pool.submit(train).result()


class RemoteTrainer:
    """Sends all requests at once to workers, which hold a `WorkerParts` of the same parts."""

    waits = True

    def __init__(self, helpers: Helpers, parts: Sequence[Part]):
        self._helpers, self._parts = helpers, parts

    def outcomes(
        self, requests: Sequence[Request], within: Within = nullcontext
    ) -> Iterator[list[Outcome]]:
        """See `LocalTrainer.outcomes`."""
        everywhere = range(len(self._parts))
        calls = [("outcomes", (one, self._roots(everywhere, one))) for one in requests]
        results = (one for batch in [calls] for one in self._helpers.call(batch))  # all at once
        for _ in requests:
            with within():
                outcomes = next(results)
            yield outcomes

    def ladders(
        self, parts: Sequence[Part], request: Request, within: Within = nullcontext
    ) -> list[Ladder]:
        """See `train_parts`."""
        numbers = [i for i, part in enumerate(self._parts) if any(part is one for one in parts)]
        calls = [("ladders", (numbers, request, self._roots(numbers, request)))]
        with within():
            return self._helpers.call(calls)[0]

    def _roots(self, numbers: Sequence[int], request: Request) -> list[Roots]:
        """The metrics that a request needs; they are learned locally and sent with it."""
        key = request.metric
        return [{key: self._parts[number].root(key)} for number in numbers]


@contextmanager
def trainer_for(
    rows: Rows,
    parts: Sequence[Part],
    judge: Judge,
    ended: Callable[[], bool] = lambda: False,
    n_jobs: int | None = 1,
) -> Iterator[Trainer]:
    """A trainer with the workers of the backend, or else with `n_jobs` threads of this process."""
    helpers = rows.backend.helpers(WorkerParts(rows, parts, judge, rows.backend.budget))
    if helpers is not None:
        try:
            yield RemoteTrainer(helpers, parts)
        finally:
            helpers.close()
        return
    n_threads = threads_for(len(parts[0]), n_jobs)
    if n_threads == 1:
        yield LocalTrainer(parts, judge, ended)
        return
    with ThreadPoolExecutor(n_threads, thread_name_prefix="bandfall-search") as pool:
        try:
            yield LocalTrainer(parts, judge, ended, pool)
        finally:
            pool.shutdown(cancel_futures=True)


Trainer: TypeAlias = LocalTrainer | RemoteTrainer


class WorkerParts:
    """The state of a worker that trains for a search; `budget` bytes are for kernel matrices."""

    def __init__(self, rows: Rows, parts: Sequence[Part], judge: Judge, budget: int):
        self.rows = replace(rows, backend=HOST)  # a Dask client cannot be pickled
        self.splits = [(part.train, part.held_out) for part in parts]
        self.judge = judge
        self.budget = budget

    @property
    def nbytes(self) -> int:
        """Bytes of the columns under all encodings and of targets."""
        n_rows = np.arange(1)
        width = sum(one.columns(n_rows, n_rows[:0])[0].nbytes for one in self.rows.views.values())
        return len(self.rows) * width + self.rows.y.nbytes

    def outcomes(self, request: Request, roots: Sequence[Roots], _: None) -> list[Outcome]:
        """See `run_parts`."""
        parts = self.parts(range(len(self.splits)), roots)
        return next(LocalTrainer(parts, self.judge).outcomes([request]))

    def ladders(
        self, numbers: Sequence[int], request: Request, roots: Sequence[Roots], _: None
    ) -> list[Ladder]:
        """See `train_parts`."""
        return train_parts(self.parts(numbers, roots), request)

    def parts(self, numbers: Sequence[int], roots: Sequence[Roots]) -> list[Part]:
        """New parts with these metrics: calls may run at the same time."""
        rows = replace(self.rows, backend=own_backend(self.budget, len(self.splits[0][0])))
        parts = [Part(rows, *self.splits[number]) for number in numbers]
        for part, known in zip(parts, roots, strict=True):
            part.roots.update(known)
        return parts
