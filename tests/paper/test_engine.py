"""The engine: resuming, any number of workers, files, failures."""

import importlib.util
import json
import os
import signal
import struct
import subprocess
import sys
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st
from joblib import parallel_config

from bandfall import __version__
from bandfall._paper.artefacts import read_summaries, write_outcome
from bandfall._paper.engine import (
    RunWatcher,
    TaskError,
    missing_modules,
    read_runs,
    run_experiments,
)
from bandfall._paper.experiment import FULL, Claim, Data, Experiment, Outcome, Size, Task
from bandfall._paper.fingerprint import source_digest
from bandfall._paper.layout import TextTable
from bandfall._paper.lock import BusyError, exclusive
from bandfall._paper.store import Record, append_json_line, read_json_lines, read_records

SIZE = Size(seeds=0.1)


def square(value):
    return {"square": value * value}


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


def run(out, *experiments, **options):
    finished = run_experiments(experiments or [toy()], data=Data(), size=SIZE, out=out, **options)
    return list(finished)


def results(out, name="toy"):
    return {r.key: r.result for r in read_records(out / "results" / f"{name}.jsonl").values()}


def test_an_outcome_sees_results_in_the_order_of_the_tasks(tmp_path):
    (finished,) = run(tmp_path)
    assert [row for (row,) in finished.outcome.tables[0].rows] == ["0", "1", "2", "3", "4", "5"]
    assert finished.outcome.claims[0].holds
    assert finished.n_tasks == 6


@pytest.mark.parametrize("n_done", [0, 1, 5, 6])
def test_a_stopped_run_goes_on_where_it_was(tmp_path, n_done):
    run(tmp_path / "whole")
    lines = (tmp_path / "whole/results/toy.jsonl").read_text().splitlines(keepends=True)
    part = tmp_path / "part/results/toy.jsonl"
    part.parent.mkdir(parents=True)
    part.write_text("".join(lines[:n_done]) + '{"key": "5", "ver')  # a crash left half a line
    seen = []
    run(tmp_path / "part", toy(partial(noting, seen)))
    assert results(tmp_path / "part") == results(tmp_path / "whole")
    assert seen == list(range(n_done, 6))


def noting(seen, value):
    seen.append(value)
    return square(value)


def test_an_interrupt_keeps_what_is_done(tmp_path):
    def interrupting(value):
        if value == 3:
            raise KeyboardInterrupt
        return square(value)

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, toy(interrupting))
    assert list(results(tmp_path)) == ["0", "1", "2"]
    (finished,) = run(tmp_path)
    assert finished.outcome.claims[0].holds
    assert [entry["tasks_done"] for entry in read_runs(tmp_path)] == [3, 3]


@pytest.mark.parametrize("backend", ["loky", "threading"])
def test_the_number_of_workers_and_the_backend_do_not_matter(tmp_path, backend):
    run(tmp_path / "1", n_jobs=1)
    with parallel_config(backend=backend):
        run(tmp_path / "2", n_jobs=2)
    assert results(tmp_path / "1") == results(tmp_path / "2")


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_come_back_from_the_store_exactly(value):
    with TemporaryDirectory() as directory:
        file = Path(directory) / "toy.jsonl"
        Record("a", "d", 0.1, {"r2": value}).write(file)
        found = read_records(file)["a", "d"].result["r2"]
    assert struct.pack("d", found) == struct.pack("d", value)


def test_numbers_that_json_cannot_hold_are_refused(tmp_path):
    with pytest.raises(ValueError, match="JSON"):
        Record("a", "d", 0.1, {"r2": float("nan")}).write(tmp_path / "toy.jsonl")


def test_a_failing_task_is_named(tmp_path):
    with pytest.raises(TaskError, match="toy, task 0: ValueError: too bad"):
        run(tmp_path, toy(fail))


def test_several_experiments_share_the_pool_and_finish_on_their_own(tmp_path):
    finished = run(tmp_path, toy(name="one"), toy(name="two", n_tasks=2))
    assert {f.experiment.name: f.n_tasks for f in finished} == {"one": 6, "two": 2}
    assert len(results(tmp_path, "two")) == 2


def test_the_watcher_hears_all_work(tmp_path):
    class Counter(RunWatcher):
        def start(self, total, done):
            self.total, self.done = total, done

        def advance(self, cost):
            self.done += cost

        def finish(self):
            self.finished = True

    for done_before in (False, True):
        counter = Counter()
        run(tmp_path, watcher=counter)
        assert (counter.total, counter.done, counter.finished) == (21, 21, True), done_before


def test_missing_modules_are_named():
    experiment = toy(requires=("json", "no_such_module_anywhere"))
    assert missing_modules(experiment) == ["no_such_module_anywhere"]


def test_outcomes_survive_the_disk(tmp_path):
    (finished,) = run(tmp_path)
    written = write_outcome(finished, SIZE, tmp_path)
    assert read_summaries(tmp_path, ["missing", "toy"]) == [written]
    assert not written.complete
    assert (tmp_path / "tables/toy.csv").read_text().splitlines() == ["key", *"012345"]
    assert "\\toprule" in (tmp_path / "tables/toy.tex").read_text()


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


# What a result rests on

MODULE = """
from bandfall._paper.experiment import Experiment, Outcome, Task

def compute(value):
    return {{"number": {formula}}}

def tasks(data, size):
    return [Task("only", compute, {{"value": 3}})]

def summarise(results, size):
    return Outcome(notes=[str(results["only"]["number"])])

EXPERIMENT = Experiment("edited", "Edited", tasks, summarise)
"""


def edited(directory, formula, monkeypatch):
    """An experiment in a file, as it is after an edit."""
    file = directory / "edited_experiment.py"
    file.write_text(MODULE.format(formula=formula))
    spec = importlib.util.spec_from_file_location(file.stem, file)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, file.stem, module)
    # Compiled here: the import system may take a source of equal size and second for the old one.
    exec(compile(file.read_text(), file, "exec"), module.__dict__)
    return module.EXPERIMENT


def test_results_of_code_that_has_changed_are_not_used(tmp_path, monkeypatch):
    for formula, expected in (("value + 1", "4"), ("value + 2", "5"), ("value + 1", "4")):
        (finished,) = run(tmp_path, edited(tmp_path, formula, monkeypatch))
        assert finished.outcome.notes == [expected]
    assert [entry["tasks_done"] for entry in read_runs(tmp_path)] == [1, 1, 0]


def test_results_of_other_inputs_are_not_used(tmp_path):
    run(tmp_path)
    (finished,) = run(tmp_path, toy(offset=1))
    assert finished.outcome.claims[0].evidence == "91"


def test_lines_from_before_there_were_digests_are_not_used(tmp_path):
    file = tmp_path / "results/toy.jsonl"
    file.parent.mkdir()
    old = {"key": "0", "version": __version__, "seconds": 0.1, "result": {"square": 1000}}
    file.write_text(json.dumps(old) + "\n")
    (finished,) = run(tmp_path)
    assert finished.outcome.claims[0].holds


def package(directory, **changed):
    """A package of which `main` reaches `near` and, inside a function, `deep.far`."""
    sources = {
        "main": "from toybox import near",
        "near": "def f():\n    from toybox.deep.far import g\n    return g()",
        "deep/__init__": "",
        "deep/far": "def g():\n    return 1",
        "apart": "x = 1",
    }
    root = directory / "toybox"
    (root / "deep").mkdir(parents=True, exist_ok=True)
    for name, text in (sources | changed).items():
        (root / f"{name}.py").write_text(text)
    return source_digest(root / "main.py", root, leave_out=frozenset({"toybox.shown"}))


def test_the_digest_covers_what_is_imported_and_nothing_else(tmp_path):
    before = package(tmp_path)
    assert package(tmp_path, apart="x = 2") == before
    for name in ("main", "near", "deep/far"):
        assert package(tmp_path, **{name: "from toybox import near\ny = 3"}) != before, name
    shown = package(tmp_path, main="from toybox import near, shown", shown="colour = 1")
    assert package(tmp_path, main="from toybox import near, shown", shown="colour = 2") == shown


def test_another_process_finds_the_same_results():
    code = (
        "from bandfall._paper.registry import select\n"
        "from bandfall._paper.experiment import Data, Size\n"
        "from bandfall._paper.fingerprint import code_digest, task_digest\n"
        "for e in select(['figure1', 'figure5', 'table3']):\n"
        "    code = code_digest(e.tasks)\n"
        "    tasks = e.tasks(Data(), Size(seeds=0.02, n_floors=5))\n"
        "    print(*(task_digest(code, task) for task in tasks))"
    )
    printed = set()
    for seed in ("1", "2"):
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONHASHSEED": seed}
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            env=environment,
            check=True,
        )
        printed.add(done.stdout)
    assert len(printed) == 1
    assert len(set(printed.pop().split())) > 5


# Files that were cut off or damaged, and several runs


def test_a_line_torn_at_any_byte_is_replaced(tmp_path):
    path = tmp_path / "lines.jsonl"
    entries = [{"key": "a"}, {"key": "höhe"}, {"key": "c", "result": {"r2": [0.5, 1e-300]}}]
    for entry in entries:
        append_json_line(path, entry)
    whole = path.read_bytes()
    last = whole.rstrip(b"\n").rfind(b"\n") + 1
    for end in range(last, len(whole)):
        path.write_bytes(whole[:end])
        # A kill is no damage: nobody need hear of it.
        assert read_json_lines(path, {"key": str}, note=pytest.fail) == entries[:2]
        append_json_line(path, entries[2])
        assert path.read_bytes() == whole


class Listener(RunWatcher):
    def __init__(self, notes):
        self.note = notes.append


@pytest.mark.parametrize(
    "damage", [b"{]", b"7", b"\xff\xfe", b"\0" * 9, b'{"key": "1"}', b"[" * 9999]
)
def test_damaged_lines_are_named_and_done_again(tmp_path, damage):
    run(tmp_path)
    for name in ("results/toy.jsonl", "runs.jsonl"):
        lines = (tmp_path / name).read_bytes().splitlines()
        lines[0] = damage
        (tmp_path / name).write_bytes(b"\n".join([*lines, b""]))
    notes = []
    (finished,) = run(tmp_path, watcher=Listener(notes))
    assert finished.outcome.claims[0].holds
    assert [entry["tasks_done"] for entry in read_runs(tmp_path, notes.append)] == [1]
    assert [note.partition(": ")[2] for note in notes] == ["damaged and left out: line 1"] * 2
    assert "toy.jsonl" in notes[0]
    assert "runs.jsonl" in notes[1]


def test_a_second_run_on_the_same_results_is_refused(tmp_path):
    first = run_experiments([toy(name="a"), toy(name="b")], data=Data(), size=SIZE, out=tmp_path)
    next(first)
    with pytest.raises(BusyError, match=rf"another run \(process {os.getpid()} on .*wait until"):
        run(tmp_path)
    list(first)
    run(tmp_path)
    assert [entry["tasks_done"] for entry in read_runs(tmp_path)] == [12, 6]


def test_a_killed_run_leaves_no_lock(tmp_path):
    code = (
        "import sys, time, pathlib\n"
        "from bandfall._paper.lock import exclusive\n"
        "with exclusive(pathlib.Path(sys.argv[1])):\n"
        "    print('locked', flush=True)\n"
        "    time.sleep(60)"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", code, tmp_path], stdout=subprocess.PIPE, env=environment
    ) as holder:
        assert holder.stdout.readline() == b"locked\n"
        with pytest.raises(BusyError, match=f"process {holder.pid} on"), exclusive(tmp_path):
            pass
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    run(tmp_path)


# Tables of text


def test_markup_is_translated():
    table = TextTable("t", "50 % & R²", ["a_b", "$v_{R^2}$"], [["**0.5**", "1 × 2"]])
    latex = table.latex()
    assert r"50 \% \& R$^2$" in latex
    assert r"a\_b & $v_{R^2}$" in latex
    assert r"\textbf{0.5} & 1 $\times$ 2" in latex
    assert "<b>0.5</b>" in table.html()
    assert table.csv() == "a_b,v_{R^2}\n0.5,1 × 2\n"


def test_html_is_escaped():
    assert "<script>" not in TextTable("t", "", ["<script>"], [["a < b"]]).html()
