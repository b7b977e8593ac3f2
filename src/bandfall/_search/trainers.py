"""Training for one rung of a search, in this process or on workers, with the same result."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from bandfall._products import HOST, resolve_backend
from bandfall._products.backend import Helpers
from bandfall._search.candidates import Request, Trial
from bandfall._search.clock import PATH, SEARCH, Clock, work
from bandfall._search.jobs import threads_for
from bandfall._search.ladder import Ladder
from bandfall._search.metrics import Roots
from bandfall._search.parts import Outcome, Part, run_parts, train_ladder
from bandfall._search.rows import Rows
from bandfall._search.settings import Settings
from bandfall._search.splits import Split
from bandfall._targets.losses import Judge


class Trainer(ABC):
    """Trains on the parts of one rung, and keeps the time.

    Parameters
    ----------
    parts : sequence of Part
    judge : Judge
    clock : Clock, optional
    stage : str
        The stage of the fit, for the progress.
    interrupted : callable (Trial) -> bool
        Called with the best trial of every ladder of speeds; True ends the search.
    """

    waits: bool  # whether callers only wait for results, so that many may call at a time

    def __init__(
        self,
        parts: Sequence[Part],
        judge: Judge,
        clock: Clock | None = None,
        stage: str = SEARCH,
        interrupted: Callable[[Trial], bool] = lambda trial: False,
    ):
        self.parts, self.judge = parts, judge
        self.clock, self.stage = clock or Clock(), stage
        self.over = False  # the search ends with what there is
        self.cut = False  # the plan had no room for everything
        self._interrupted = interrupted

    @abstractmethod
    def outcomes(self, requests: Sequence[Request], roots: Roots) -> Iterator[list[Outcome]]:
        """The outcomes of `run_parts` for each request, in order; all have one metric."""

    @abstractmethod
    def ladders(
        self, numbers: Sequence[int], request: Request, roots: Sequence[np.ndarray]
    ) -> list[Ladder]:
        """The result of `train_ladder` on the parts with these numbers, with their roots."""

    def tried(self, trial: Trial) -> None:
        """Report the best trial of a request."""
        self.clock.begun = True
        interrupted = self._interrupted(trial)
        self.over = self.over or interrupted or self.clock.search_over

    def press(self) -> None:
        """Handle a KeyboardInterrupt; see `Clock.press`."""
        self.clock.press()
        self.over = True

    def begins(self, n_ladders: float) -> bool:
        """Whether the plan has room for ladders of speeds on every part, which begin now."""
        room = self.clock.begins(work(len(self.parts[0]), n_ladders * len(self.parts)))
        self.cut = self.cut or not room
        return room

    def planned(self, requests: Sequence[Request]) -> list[Request]:
        """Those of the requests for one metric that the plan has room for; they begin now."""
        if not requests:
            return []
        settings, views = self.settings, self.parts[0].rows.views
        first, *_ = views.values()
        widths = [
            one.Z.shape[1] / settings.wide_columns for one in (first, views[requests[0].encoding])
        ]
        if requests[0].likelihood:
            n_rows = min(len(self.parts[0]), settings.likelihood_rows)
            self.clock.begins(settings.likelihood_ladders * n_rows**2 * len(self.parts))
        elif requests[0].n_rounds:
            self.begins(PATH + widths[1])
        relative = (1.0 + widths[1]) / (1.0 + widths[0])
        sizes = [relative * (1.0 if len(one.speeds) > 1 else PATH) for one in requests]
        return [one for one, size in zip(requests, sizes, strict=True) if self.begins(size)]

    def has_room(self, n_ladders: float) -> bool:
        """Whether there is time for ladders of speeds on every part."""
        room = self.clock.has_room(len(self.parts[0]), n_ladders * len(self.parts))
        return room and not self.over

    @property
    def settings(self) -> Settings:
        """Those of the rows."""
        return self.parts[0].rows.settings

    @contextmanager
    def _training(self, request: Request, n_parts: int) -> Iterator[None]:
        """Count the training inside as work."""
        n_ladders = n_parts * (1.0 if len(request.speeds) > 1 else PATH)
        with self.clock.task(self.stage, n_ladders * len(self.parts[0]) ** 2):
            yield


class LocalTrainer(Trainer):
    """Trains in this process.

    The threads of a `pool` train the requests of all callers in parallel. Without a pool, the
    caller trains each request only when its outcome is needed.
    """

    pool: ThreadPoolExecutor | None = None

    @property
    def waits(self) -> bool:  # type: ignore[override]
        """With a pool."""
        return self.pool is not None

    def outcomes(self, requests: Sequence[Request], roots: Roots) -> Iterator[list[Outcome]]:
        def train(request: Request) -> list[Outcome]:
            with self._training(request, len(self.parts)):
                return run_parts(self.parts, request, roots, self.judge, self.clock.search_ended)

        return map(train, requests) if self.pool is None else self.pool.map(train, requests)

    def ladders(
        self, numbers: Sequence[int], request: Request, roots: Sequence[np.ndarray]
    ) -> list[Ladder]:
        parts = [self.parts[number] for number in numbers]

        def train() -> list[Ladder]:
            with self._training(request, len(parts)):
                return train_ladder(parts, request, roots, self.clock.search_ended)

        return train() if self.pool is None else self.pool.submit(train).result()


class RemoteTrainer(Trainer):
    """Sends all requests at once to workers, which hold a `WorkerParts` of the same parts."""

    helpers: Helpers
    waits = True

    def outcomes(self, requests: Sequence[Request], roots: Roots) -> Iterator[list[Outcome]]:
        calls = [("outcomes", (request, roots)) for request in requests]
        results = (one for batch in [calls] for one in self.helpers.call(batch))  # all at once
        for request in requests:
            with self._training(request, len(self.parts)):
                outcomes = next(results)
            yield outcomes

    def ladders(
        self, numbers: Sequence[int], request: Request, roots: Sequence[np.ndarray]
    ) -> list[Ladder]:
        with self._training(request, len(numbers)):
            return self.helpers.call([("ladders", (numbers, request, roots))])[0]


@contextmanager
def trainer_for(
    parts: Sequence[Part],
    judge: Judge,
    clock: Clock | None = None,
    stage: str = SEARCH,
    interrupted: Callable[[Trial], bool] = lambda trial: False,
    n_jobs: int | None = 1,
) -> Iterator[Trainer]:
    """A trainer with the workers of the backend, or else with `n_jobs` threads of this process."""
    rows = parts[0].rows
    splits = [(part.train, part.held_out) for part in parts]
    helpers = rows.backend.helpers(WorkerParts(rows, splits, judge))
    if helpers is not None:
        remote = RemoteTrainer(parts, judge, clock, stage, interrupted)
        remote.helpers = helpers
        try:
            yield remote
        finally:
            helpers.close()
        return
    local = LocalTrainer(parts, judge, clock, stage, interrupted)
    n_threads = threads_for(len(parts[0]), n_jobs)
    if n_threads == 1:
        yield local
        return
    with ThreadPoolExecutor(n_threads, thread_name_prefix="bandfall-search") as pool:
        local.pool = pool
        try:
            yield local
        finally:
            pool.shutdown(cancel_futures=True)


class WorkerParts:
    """The state of a worker that trains for a search."""

    def __init__(self, rows: Rows, splits: Sequence[Split], judge: Judge):
        self.rows = replace(rows, backend=HOST)  # a Dask client cannot be pickled
        self.splits = splits
        self.judge = judge
        self.budget = rows.backend.budget  # bytes for kernel matrices

    def outcomes(self, request: Request, roots: Roots) -> list[Outcome]:
        """See `run_parts`."""
        return run_parts(self.parts(range(len(self.splits))), request, roots, self.judge)

    def ladders(
        self, numbers: Sequence[int], request: Request, roots: Sequence[np.ndarray]
    ) -> list[Ladder]:
        """See `train_ladder`."""
        return train_ladder(self.parts(numbers), request, roots)

    def parts(self, numbers: Sequence[int]) -> list[Part]:
        """New parts with a backend of this worker: calls may run at the same time."""
        backend = resolve_backend("auto", self.budget, len(self.splits[0][0]))
        rows = replace(self.rows, backend=backend)
        return [Part(rows, *self.splits[number]) for number in numbers]
