"""Runs experiments: all tasks in one pool; `joblib.Memory` keeps every finished result."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import time
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from joblib import Memory, Parallel, cpu_count, delayed
from joblib.memory import MemorizedFunc
from threadpoolctl import ThreadpoolController

from bandfall._environment import environment_record
from bandfall._paper.double_descent import DOUBLE_DESCENT
from bandfall._paper.experiment import (
    DATASETS,
    FULL,
    NOT_JUDGED,
    Data,
    Entry,
    Experiment,
    Outcome,
    Size,
    Task,
)
from bandfall._paper.figures import FIGURES
from bandfall._paper.tables import TABLES

_PACKAGE = Path(__file__).resolve().parents[1]
# Rooms that the layers keep out of every experiment, and modules that only draw and print: a new
# colour must not cost hours of computing.
_WITHOUT_RESULTS = ("_cli", "demo", "_explore", "plotting", "report", "_drawing")
_PRESENTATION = ("_paper/drawing.py", "_paper/report.py")

# In the paper's order.
_ALL = sorted((*DOUBLE_DESCENT, *FIGURES, *TABLES), key=lambda experiment: experiment.name)
EXPERIMENTS = {experiment.name: experiment for experiment in _ALL}


class TaskError(RuntimeError):
    """A task failed; names experiment and task."""


@dataclass(frozen=True, kw_only=True)
class Finished(Outcome):
    """The outcome of an experiment, and how it was computed."""

    name: str
    title: str
    caption: str
    code: str  # digest of the code that computed it, see `code_digest`
    seconds: float  # processor time of its tasks
    n_tasks: int
    seeds: float  # share of the paper's seeds
    complete: bool  # whether all seeds were run that it has


def select(names: Sequence[str]) -> list[Experiment]:
    """The experiments with these names, in the paper's order; all if there are no names."""
    unknown = [name for name in names if name not in EXPERIMENTS and name != "all"]
    if unknown:
        allowed = ", ".join([*EXPERIMENTS, "all"])
        raise ValueError(f"no experiment is called {unknown[0]!r}; allowed: {allowed}")
    chosen = names if names and "all" not in names else list(EXPERIMENTS)
    return [experiment for name, experiment in EXPERIMENTS.items() if name in chosen]


def _unjudged(outcome: Outcome, size: Size) -> Outcome:
    """The outcome of a part of the seeds, which proves nothing."""
    reason = f"{100 * size.seeds:g} % of the seeds"
    comparisons = [replace(c, verdict=NOT_JUDGED, reason=reason) for c in outcome.comparisons]
    claims = [replace(claim, holds=None) for claim in outcome.claims]
    return replace(outcome, comparisons=comparisons, claims=claims)


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
    progress: Callable[[float, float], object] = lambda done, total: None,
) -> Generator[Finished, None, None]:
    """Run the missing tasks, and yield each experiment when its last task is done.

    Results are kept in ``out/cache`` by code and arguments, so a run that was stopped continues,
    and several runs may share `out`; a line per run goes to ``out/runs.jsonl``. `progress` gets the
    finished and the total work, in seconds of one core. The numbers do not depend on the `n_jobs`
    joblib workers: every task runs on one thread. Raises TaskError if a
    task fails, and OSError if `out` cannot be written to.
    """
    out.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings(action="ignore"):  # a disk that is full is an error below
        memory = Memory(out / "cache", verbose=0)
    compute = memory.cache(_compute, ignore=["label"])
    code = code_digest()
    # Writes the source of _compute into the cache before the workers compare it with theirs.
    compute(code, dict, {}, label="")
    tasks = {experiment.name: experiment.tasks(data, size) for experiment in experiments}
    total = sum(task.cost for each in tasks.values() for task in each)
    done, n_new, started = 0.0, 0, time.perf_counter()
    try:
        for experiment in experiments:
            seconds, results = 0.0, {}
            costs = {task.key: task.cost for task in tasks[experiment.name]}
            # Tasks longer than half a minute go first, so that none runs alone at the end.
            ordered = sorted(tasks[experiment.name], key=lambda task: min(-task.cost, -30.0))
            parallel = Parallel(n_jobs=n_jobs, return_as="generator_unordered", batch_size=1)
            calls = (delayed(_kept)(compute, code, experiment.name, task) for task in ordered)
            with closing(parallel(calls)) as computed:
                for key, is_new, (taken, result) in computed:
                    results[key] = result
                    seconds += taken
                    n_new += is_new
                    done += costs[key]
                    progress(done, total)
            in_order = {key: results[key] for key in costs}
            outcome = experiment.summarise(in_order, size)
            absent = [title for key, title in DATASETS.items() if key not in data.sets]
            if experiment.real_data and absent:
                note = f"Not run on these data sets: {', '.join(absent)}."
                outcome = replace(outcome, notes=[*outcome.notes, note])
            complete = size == FULL or not experiment.seeded
            yield Finished(
                **vars(outcome if complete else _unjudged(outcome, size)),
                name=experiment.name,
                title=experiment.title,
                caption=experiment.caption,
                code=code,
                seconds=round(seconds, 2),
                n_tasks=len(results),
                seeds=size.seeds,
                complete=complete,
            )
    finally:
        entry = environment_record() | {
            "experiments": list(tasks),
            "seeds": size.seeds,
            "jobs": n_jobs if n_jobs > 0 else cpu_count() + 1 + n_jobs,
            "tasks_done": n_new,
            "seconds": round(time.perf_counter() - started, 2),
        }
        with (out / "runs.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")


def _kept(
    compute: MemorizedFunc, code: str, name: str, task: Task
) -> tuple[str, bool, tuple[float, Entry]]:
    """The key of the task, whether its result is new, and seconds and result."""
    call = (code, task.function, dict(task.arguments), f"{name}, {task.key}")
    is_new = not compute.check_call_in_cache(*call)
    with warnings.catch_warnings():
        # A result that cannot be kept ends the run, instead of computing on in vain.
        warnings.filterwarnings("error", message="Unable to cache to disk")
        return task.key, is_new, compute(*call)


def _compute(
    code: str, function: Callable[..., Entry], arguments: Mapping[str, object], label: str
) -> tuple[float, Entry]:
    """Processor seconds and result of a task, on one thread, so workers do not change results.

    A result is found again if `code` (see `code_digest`), function and arguments are equal.
    """
    started = time.process_time()
    try:
        with _thread_pools().limit(limits=1):
            result = function(**arguments)
    except Exception as error:
        name, _, key = label.partition(", ")
        raise TaskError(f"{name}, task {key}: {type(error).__name__}: {error}") from error
    return time.process_time() - started, result


@cache
def _thread_pools() -> ThreadpoolController:  # finding them takes 5 ms
    return ThreadpoolController()


@cache
def code_digest(package: Path = _PACKAGE) -> str:
    """A digest of all source that a result may depend on; libraries are not covered."""
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        name = path.relative_to(package).as_posix()
        if name.partition("/")[0] not in _WITHOUT_RESULTS and name not in _PRESENTATION:
            source = path.read_bytes()
            digest.update(f"{name}\0{len(source)}\0".encode() + source)
    return digest.hexdigest()[:40]


def read_runs(out: Path) -> list[Entry]:
    """The runs that made the results in `out`, oldest first; incomplete lines are left out."""
    path = out / "runs.jsonl"
    runs = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        try:
            runs.append(json.loads(line))
        except ValueError:
            continue
    return runs
