"""Runs: results that are kept, any number of workers, files, failures."""

import os
import shutil
import subprocess
import sys

import pytest
from joblib import parallel_config

from bandfall import __version__
from bandfall._paper.experiment import FULL, Claim, Data, Experiment, Outcome, Size, Task, TextTable
from bandfall._paper.report import read_summaries, write_outcome
from bandfall._paper.run import (
    TaskError,
    code_digest,
    missing_modules,
    read_runs,
    run_experiments,
)

SIZE = Size(seeds=0.1)
CALLS = []


def square(value):
    CALLS.append(value)
    return {"square": value * value}


def interrupted(value):
    if value == 3 and not CALLS.count("resumed"):
        raise KeyboardInterrupt
    return square(value)


def fail(value):
    raise ValueError("too bad")


def toy(function=square, n_tasks=6, name="toy", requires=(), offset=0):
    def tasks(data, size):
        return [Task(str(i), function, {"value": i + offset}, cost=i + 1) for i in range(n_tasks)]

    def summarise(results, size):
        total = sum(result["square"] for result in results.values())
        return Outcome(
            tables=[TextTable(name, "Squares.", ["key"], [[key] for key in results])],
            claims=[Claim("sum", f"{total}", total == 55)],
        )

    return Experiment(name, "Squares", tasks, summarise, requires)


@pytest.fixture(autouse=True)
def no_calls():
    CALLS.clear()


def run(out, *experiments, size=FULL, **options):
    finished = run_experiments(experiments or [toy()], data=Data(), size=size, out=out, **options)
    return list(finished)


def tasks_done(out):
    return [entry["tasks_done"] for entry in read_runs(out)]


def test_an_outcome_sees_results_in_the_order_of_the_tasks(tmp_path):
    (finished,) = run(tmp_path)
    assert [row for (row,) in finished.tables[0].rows] == ["0", "1", "2", "3", "4", "5"]
    assert finished.claims[0].holds
    assert finished.n_tasks == 6


def test_an_interrupted_run_continues(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, toy(interrupted))
    assert CALLS == [0, 1, 2]
    CALLS[:] = ["resumed"]
    (finished,) = run(tmp_path, toy(interrupted))
    assert CALLS == ["resumed", 3, 4, 5]
    assert finished.claims[0].holds
    assert tasks_done(tmp_path) == [3, 3]


@pytest.mark.parametrize("backend", ["loky", "threading"])
def test_the_number_of_workers_and_the_backend_do_not_matter(tmp_path, backend):
    (alone,) = run(tmp_path / "1", n_jobs=1)
    with parallel_config(backend=backend):
        (together,) = run(tmp_path / "2", n_jobs=2)
    assert together.claims == alone.claims
    assert together.tables == alone.tables


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_failing_task_is_named(tmp_path, n_jobs):
    first = r"[01]" if n_jobs == 2 else "0"  # side by side, either may fail first
    with pytest.raises(TaskError, match=f"toy, task {first}: ValueError: too bad"):
        run(tmp_path, toy(fail), n_jobs=n_jobs)


def test_several_experiments_share_the_pool_and_finish_on_their_own(tmp_path):
    finished = run(tmp_path, toy(name="one"), toy(name="two", n_tasks=2, offset=9))
    assert {f.name: f.n_tasks for f in finished} == {"one": 6, "two": 2}


def test_progress_counts_all_work(tmp_path):
    for _ in range(2):  # the second time, all results are known
        seen = []
        run(tmp_path, progress=lambda done, total, seen=seen: seen.append((done, total)))
        assert seen == [(done, 21) for done in (1, 3, 6, 10, 15, 21)]


def test_missing_modules_are_named():
    experiment = toy(requires=("json", "no_such_module_anywhere"))
    assert missing_modules(experiment) == ["no_such_module_anywhere"]


@pytest.mark.parametrize(("size", "holds"), [(FULL, True), (SIZE, None)])
def test_outcomes_survive_the_disk(tmp_path, size, holds):
    (finished,) = run(tmp_path, size=size)
    write_outcome(finished, tmp_path)
    assert read_summaries(tmp_path, ["missing", "toy"]) == [finished]
    assert finished.complete == (size == FULL)
    assert finished.claims[0].holds is holds
    assert "| key |\n| --- |\n| 0 |" in (tmp_path / "tables/toy.md").read_text()


def test_sizes():
    assert FULL.count(200) == 200
    assert Size(seeds=0.1).count(100) == 10
    assert Size(seeds=0.001).count(100) == 2
    assert Size(seeds=0.001).count(1) == 1


def test_a_run_is_recorded_with_machine_and_versions(tmp_path):
    run(tmp_path, n_jobs=1)
    (entry,) = read_runs(tmp_path)
    assert entry["versions"]["bandfall"] == __version__
    assert entry["jobs"] == 1
    assert entry["seconds"] >= 0
    assert "UTC" in entry["date"]


def test_a_torn_line_of_the_runs_is_left_out(tmp_path):
    run(tmp_path)
    runs = tmp_path / "runs.jsonl"
    lines = runs.read_text()
    runs.write_text(lines + lines[:40])
    assert tasks_done(tmp_path) == [6]


# What a result rests on


def test_results_of_other_inputs_are_not_used(tmp_path):
    run(tmp_path)
    (finished,) = run(tmp_path, toy(offset=1))
    assert finished.claims[0].evidence == "91"
    assert tasks_done(tmp_path) == [6, 1]  # five squares are known


def test_results_of_other_code_are_not_used(tmp_path, monkeypatch):
    for code, done in (("now", 6), ("edited", 6), ("now", 0)):
        monkeypatch.setattr("bandfall._paper.run.code_digest", lambda code=code: code)
        run(tmp_path)
        assert tasks_done(tmp_path)[-1] == done


def test_a_damaged_result_is_computed_again(tmp_path):
    run(tmp_path)
    for path in sorted(tmp_path.rglob("output.pkl"))[:4]:
        path.write_bytes(b"\x80torn")
    (finished,) = run(tmp_path)
    assert finished.claims[0].holds


def test_the_digest_covers_what_computes_and_nothing_else(tmp_path):
    package = tmp_path / "bandfall"
    for room in ("descent", "_cli", "_paper"):
        (package / room).mkdir(parents=True)
    for file in ("descent/flow.py", "_cli/main.py", "_paper/run.py", "_paper/drawing.py"):
        (package / file).write_text("x = 1")

    def digest():
        code_digest.cache_clear()
        return code_digest(package)

    before = digest()
    for file in ("_cli/main.py", "_paper/drawing.py"):
        (package / file).write_text("x = 2")
    assert digest() == before
    for file in ("descent/flow.py", "_paper/run.py"):
        (package / file).write_text("x = 2")
        assert digest() != before
        (package / file).write_text("x = 1")
    shutil.rmtree(package / "descent")
    assert digest() != before


def test_another_process_finds_the_same_results(tmp_path):
    code = (
        "import sys, pathlib\n"
        "from bandfall._paper.run import select\n"
        "from bandfall._paper.experiment import Data, Size\n"
        "from bandfall._paper.run import run_experiments\n"
        "size = Size(seeds=0.02, n_floors=5)\n"
        "out = pathlib.Path(sys.argv[1])\n"
        "list(run_experiments(select(['figure1', 'table3']), data=Data(), size=size, out=out))"
    )
    for seed in ("1", "2"):
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONHASHSEED": seed}
        subprocess.run([sys.executable, "-c", code, tmp_path], env=environment, check=True)
    assert tasks_done(tmp_path) == [7, 0]


def test_two_runs_may_share_a_folder(tmp_path):
    first = run_experiments([toy(name="a"), toy(name="b")], data=Data(), size=FULL, out=tmp_path)
    next(first)
    run(tmp_path)
    list(first)
    assert tasks_done(tmp_path) == [0, 6]  # b has the tasks of a
