"""Runs experiments: all tasks in one pool; every result is written to disk at once."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from joblib import Parallel, cpu_count, delayed
from threadpoolctl import ThreadpoolController

from bandfall._environment import environment_record
from bandfall._paper.experiment import Data, Experiment, Outcome, Result, Size, Task
from bandfall._paper.fingerprint import code_digest, task_digest
from bandfall._paper.lock import exclusive
from bandfall._paper.store import (
    Entry,
    Fields,
    Note,
    Record,
    append_json_line,
    ignore,
    read_json_lines,
    read_records,
)

# Tasks longer than this (seconds) go first, so that none runs alone at the end.
_LONG = 30.0

# Facts about a run in the report.
_RUN_FIELDS: Fields = {
    "date": str,
    "machine": str,
    "processor": str,
    "cores": (int, type(None)),
    "memory_gib": (int, float, type(None)),
    "python": str,
    "versions": dict,
    "experiments": list,
    "jobs": int,
    "tasks_done": int,
    "seconds": (int, float),
}


class TaskError(RuntimeError):
    """A task failed; names experiment and task."""


class RunWatcher:
    """Receives the progress of a run; this one does nothing."""

    def note(self, message: str) -> None:
        """Show a message to the user."""

    def start(self, total: float, done: float) -> None:
        """Set the total and the finished work, in seconds of one core."""

    def advance(self, cost: float) -> None:
        """Add finished work, in seconds of one core."""

    def finish(self) -> None:
        """The run is over."""


@dataclass(frozen=True)
class Finished:
    """A finished experiment and its outcome."""

    experiment: Experiment
    outcome: Outcome
    seconds: float  # computing time of its tasks
    n_tasks: int


@dataclass
class _Job:
    """An experiment in progress."""

    experiment: Experiment
    tasks: Sequence[Task]
    digests: dict[str, str]
    file: Path
    records: dict[str, Record] = field(default_factory=dict)

    @property
    def pending(self) -> list[Task]:
        return [task for task in self.tasks if task.key not in self.records]

    def resume(self, note: Note) -> None:
        """Reuse results of earlier runs with the same code and arguments."""
        known = read_records(self.file, note)
        for key, digest in self.digests.items():
            if (key, digest) in known:
                self.records[key] = known[key, digest]

    def finish(self, size: Size) -> Finished:
        # Results are passed in the order of the tasks, not in the order of completion.
        records = [self.records[task.key] for task in self.tasks]
        outcome = self.experiment.summarise({r.key: r.result for r in records}, size)
        return Finished(
            self.experiment, outcome, sum(record.seconds for record in records), len(records)
        )


def missing_modules(experiment: Experiment) -> list[str]:
    """Modules that an experiment requires and that are not installed."""
    return [name for name in experiment.requires if importlib.util.find_spec(name) is None]


def run_experiments(
    experiments: Sequence[Experiment],
    *,
    data: Data,
    size: Size,
    out: Path,
    n_jobs: int = 1,
    watcher: RunWatcher | None = None,
) -> Generator[Finished, None, None]:
    """Run the missing tasks, and yield each experiment when its last task is done.

    Results go to ``out/results``, a line per run to ``out/runs.jsonl``; `out` is locked from the
    first result to the last. The numbers do not depend on the `n_jobs` joblib workers: every task
    runs on one thread. Raises TaskError if a task fails, BusyError if another run works in `out`,
    and OSError if `out` cannot be written to.
    """
    watcher = watcher or RunWatcher()
    jobs = {e.name: _job(e, data, size, out) for e in experiments}
    with exclusive(out):
        # Read under the lock, because a run that has just ended may have finished these tasks.
        for job in jobs.values():
            job.resume(watcher.note)
        yield from _run_jobs(jobs, size=size, out=out, n_jobs=n_jobs, watcher=watcher)


def _run_jobs(
    jobs: dict[str, _Job], *, size: Size, out: Path, n_jobs: int, watcher: RunWatcher
) -> Generator[Finished, None, None]:
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
        parallel = Parallel(n_jobs=n_jobs, return_as="generator_unordered", batch_size=1)
        tasks = (delayed(_compute)(name, task) for name, task in pending)
        with closing(parallel(tasks)) as computed:
            for name, key, seconds, result in computed:
                job = jobs[name]
                record = Record(key, job.digests[key], seconds, result)
                record.write(job.file)
                job.records[key] = record
                n_done += 1
                watcher.advance(costs[name, key])
                if not job.pending:
                    yield job.finish(size)
    finally:
        watcher.finish()
        _log_run(out, list(jobs), size, n_jobs, n_done, time.perf_counter() - started)


def _job(experiment: Experiment, data: Data, size: Size, out: Path) -> _Job:
    tasks = experiment.tasks(data, size)
    code = code_digest(experiment.tasks)
    digests = {task.key: task_digest(code, task) for task in tasks}
    return _Job(experiment, tasks, digests, out / "results" / f"{experiment.name}.jsonl")


def _compute(name: str, task: Task) -> tuple[str, str, float, Result]:
    """Run one task on one thread, so that the number of workers does not change results.

    Returns the experiment's name, the task's key, seconds and result.
    """
    started = time.perf_counter()
    try:
        with _thread_pools().limit(limits=1):
            result = task.function(**task.arguments)
    except Exception as error:
        raise TaskError(f"{name}, task {task.key}: {type(error).__name__}: {error}") from error
    return name, task.key, time.perf_counter() - started, result


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
    append_json_line(out / "runs.jsonl", entry)


def read_runs(out: Path, note: Note = ignore) -> list[Entry]:
    """The runs that made the results in `out`, oldest first; `note` gets damaged lines."""
    return read_json_lines(out / "runs.jsonl", _RUN_FIELDS, note)
