"""Jobs of one rung of a search, in threads or on workers, with the same result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from bandfall._models.member import MetricKey
from bandfall._products import HOST, resolve_backend
from bandfall._search.clock import SEARCH, Clock
from bandfall._search.metrics import Metrics, completed, roots_of
from bandfall._search.parts import Part
from bandfall._search.trials import Judged, Request, Trial, judge_parts
from bandfall._targets.losses import Judge
from bandfall._threads import parallel_map

Task = TypeVar("Task")
Result = TypeVar("Result")


@dataclass(eq=False)
class Trainer:
    """Learns metrics and judges requests on the parts of one rung, until the search is over.

    `tried` is called with the best trial of every request. If the backend has no workers, `n_jobs`
    threads serve.
    """

    parts: Sequence[Part]
    judge: Judge
    tried: Callable[[Trial], object]
    clock: Clock = field(default_factory=Clock)
    stage: str = SEARCH
    n_jobs: int | None = 1
    cut: bool = field(default=False, init=False)  # the plan had no room for everything

    def __post_init__(self) -> None:
        self.rows, self.settings = self.parts[0].rows, self.parts[0].rows.settings
        self._helpers = self.rows.backend.helpers(WorkerParts(self.parts))

    def close(self) -> None:
        """Remove the parts from the workers."""
        if self._helpers is not None:
            self._helpers.close()

    def planned(self, requests: Sequence[Request]) -> list[Request]:
        """The first requests for which the plan has room; they begin now."""
        n, n_parts = len(self.parts[0]), len(self.parts)
        for number, one in enumerate(requests):
            if not self.clock.begins(n, n_parts * (1.0 + one.candidate.metric.learned)):
                self.cut = True
                return list(requests[:number])
        return list(requests)

    def learned(
        self,
        requests: Sequence[Request],
        known: Metrics,
        scouts: Mapping[MetricKey, Trial],
        latest: Mapping[MetricKey, Judged],
    ) -> Metrics:
        """The metrics of requests on all parts, by likelihood or from the slopes of scouts."""
        groups: dict[MetricKey, set[MetricKey]] = {}
        for key in [one.candidate.metric for one in requests if one.candidate.metric.learned]:
            groups.setdefault(key.after(0), set()).add(key)

        def learn(first: MetricKey) -> Metrics:
            own = {key: roots for key, roots in known.items() if key.after(0) == first}
            paths = latest[first].paths if first in latest else None
            return self._call(completed, own, sorted(groups[first]), scouts, paths)

        results = [one for one in self._each(learn, list(groups)) if one is not None]
        return {key: roots for metrics in results for key, roots in metrics.items()}

    def judged(self, requests: Sequence[Request], metrics: Metrics) -> list[Judged]:
        """Judge requests in their metrics, except those that begin or end too late."""

        def judge(one: Request) -> Judged | None:
            with self.clock.task(self.stage, len(self.parts) * len(self.parts[0]) ** 2):
                roots = roots_of(metrics, one.candidate.metric, self.parts)
                result: Judged = self._call(judge_parts, one, roots, self.judge)
            if self.clock.search_over():
                return None
            self.clock.begun = True
            try:
                self.tried(result.best)
            except KeyboardInterrupt:  # the result counts
                self.clock.press()
            return result

        return [one for one in self._each(judge, requests) if one is not None]

    def _call(self, function: Callable[..., Result], *arguments: Any) -> Result:
        """The result of a function of parts, here or on a worker."""
        if self._helpers is None:
            return function(self.parts, *arguments, ended=self.clock.search_over)
        result: Result = self._helpers.call([("run", (function, arguments))])[0]
        return result

    def _each(
        self, job: Callable[[Task], Result | None], tasks: Sequence[Task]
    ) -> list[Result | None]:
        """Results of a job, in order; None for tasks that did not begin or were interrupted."""
        clock, n_rows = self.clock, len(self.parts[0])

        def run(task: Task) -> Result | None:
            try:
                return None if clock.search_over() else job(task)
            except KeyboardInterrupt:
                clock.press()
                return None

        n_jobs = self.n_jobs if self._helpers is None else max(1, len(tasks))
        return parallel_map(
            run, tasks, n_rows=n_rows, n_jobs=n_jobs, stop=clock.end, press=clock.press
        )


class WorkerParts:
    """Parts that a worker holds, to call functions of them."""

    def __init__(self, parts: Sequence[Part]):
        self.budget = parts[0].rows.backend.budget  # bytes for kernel matrices
        self._rows = replace(parts[0].rows, backend=HOST)  # a Dask client cannot be pickled
        self._splits = [(part.train, part.held_out) for part in parts]

    def run(self, function: Callable[..., Result], arguments: Sequence[Any]) -> Result:
        """The result of a function of the parts; each call has its own backend."""
        backend = resolve_backend("auto", self.budget, len(self._splits[0][0]))
        rows = replace(self._rows, backend=backend)
        return function([Part(rows, *split) for split in self._splits], *arguments)
