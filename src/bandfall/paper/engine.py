"""Runs experiments: all tasks in one pool, every result on disk at once, each outcome when due."""

from __future__ import annotations

import importlib.util
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from joblib import Parallel, cpu_count, delayed
from threadpoolctl import ThreadpoolController

from bandfall.paper.environment import environment_record
from bandfall.paper.experiment import Data, Experiment, Outcome, Size, Task
from bandfall.paper.store import Record, ResultFile

# A task this long (seconds) goes first, so that it does not run alone at the end.
_LONG = 30.0


class TaskError(RuntimeError):
    """A task failed; names experiment and task."""


class Watcher:
    """Told how far a run is; this one does nothing."""

    def start(self, total: float, done: float) -> None:
        """Work in all and already done, in seconds of one core."""

    def advance(self, cost: float) -> None:
        """So much more is done."""

    def finish(self) -> None:
        """The run is over."""


@dataclass(frozen=True)
class Finished:
    """An experiment and what came of it.

    Parameters
    ----------
    experiment : Experiment
    outcome : Outcome
    seconds : float
        Computing time of its tasks.
    n_tasks : int
    """

    experiment: Experiment
    outcome: Outcome
    seconds: float
    n_tasks: int


@dataclass
class _Job:
    """An experiment under way."""

    experiment: Experiment
    tasks: Sequence[Task]
    file: ResultFile
    records: dict[str, Record] = field(default_factory=dict)

    @property
    def pending(self) -> list[Task]:
        return [task for task in self.tasks if task.key not in self.records]

    def finish(self, size: Size) -> Finished:
        # Results are handed over in the order of the tasks, whatever order they came in.
        records = [self.records[task.key] for task in self.tasks]
        outcome = self.experiment.summarise({r.key: r.result for r in records}, size)
        return Finished(
            self.experiment, outcome, sum(record.seconds for record in records), len(records)
        )


def missing_modules(experiment: Experiment) -> list[str]:
    """What an experiment requires and is not installed."""
    return [name for name in experiment.requires if importlib.util.find_spec(name) is None]


def results_path(out: Path, name: str) -> Path:
    """Where an experiment's finished tasks are."""
    return out / "results" / f"{name}.jsonl"


def run_experiments(
    experiments: Sequence[Experiment],
    *,
    data: Data,
    size: Size,
    out: Path,
    n_jobs: int = 1,
    watcher: Watcher | None = None,
) -> Iterator[Finished]:
    """Run what is not done yet and yield each experiment when its last task is done.

    Parameters
    ----------
    experiments : sequence of Experiment
    data : Data
    size : Size
    out : Path
        Results go to ``out/results``, a line per run to ``out/runs.jsonl``.
    n_jobs : int
        joblib workers; the backend is joblib's choice or that of `joblib.parallel_config`. The
        numbers do not depend on it: every task runs on one thread.
    watcher : Watcher, optional

    Yields
    ------
    Finished
    """
    watcher = watcher or Watcher()
    jobs = {e.name: _job(e, data, size, out) for e in experiments}
    pending = [(name, task) for name, job in jobs.items() for task in job.pending]
    pending.sort(key=lambda pair: -pair[1].cost if pair[1].cost >= _LONG else 0.0)
    total = sum(task.cost for job in jobs.values() for task in job.tasks)
    watcher.start(total, total - sum(task.cost for _, task in pending))
    started = time.perf_counter()
    n_done = 0
    try:
        for job in jobs.values():
            if not job.pending:
                yield job.finish(size)
        costs = {(name, task.key): task.cost for name, task in pending}
        with closing(_computed(pending, n_jobs)) as computed:
            for name, record in computed:
                job = jobs[name]
                job.file.append(record)
                job.records[record.key] = record
                n_done += 1
                watcher.advance(costs[name, record.key])
                if not job.pending:
                    yield job.finish(size)
    finally:
        watcher.finish()
        _log_run(out, list(jobs), size, n_jobs, n_done, time.perf_counter() - started)


def _job(experiment: Experiment, data: Data, size: Size, out: Path) -> _Job:
    tasks = experiment.tasks(data, size)
    file = ResultFile(results_path(out, experiment.name))
    known = file.read()
    records = {task.key: known[task.key] for task in tasks if task.key in known}
    return _Job(experiment, tasks, file, records)


def _computed(pending: Sequence[tuple[str, Task]], n_jobs: int) -> Any:
    """A generator of (experiment's name, record), in the order of completion."""
    parallel = Parallel(n_jobs=n_jobs, return_as="generator_unordered", batch_size=1)
    return parallel(delayed(_compute)(name, task) for name, task in pending)


def _compute(name: str, task: Task) -> tuple[str, Record]:
    """Run one task on one thread: the number of workers must not change a sum's order."""
    started = time.perf_counter()
    try:
        with _thread_pools().limit(limits=1):
            result = task.function(**task.arguments)
    except Exception as error:
        raise TaskError(f"{name}, task {task.key}: {type(error).__name__}: {error}") from error
    return name, Record(task.key, time.perf_counter() - started, result)


@cache
def _thread_pools() -> ThreadpoolController:
    return ThreadpoolController()


def _log_run(
    out: Path, names: list[str], size: Size, n_jobs: int, n_tasks: int, seconds: float
) -> None:
    entry = environment_record() | {
        "experiments": names,
        "seeds": size.seeds,
        "jobs": n_jobs if n_jobs > 0 else cpu_count() + 1 + n_jobs,
        "tasks_done": n_tasks,
        "seconds": round(seconds, 2),
    }
    out.mkdir(parents=True, exist_ok=True)
    with (out / "runs.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(entry) + "\n")


def read_runs(out: Path) -> list[dict[str, Any]]:
    """The runs that made the results in `out`, oldest first."""
    path = out / "runs.jsonl"
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]
