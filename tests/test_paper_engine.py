"""The engine: resuming, any number of workers, files, failures."""

import json
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from joblib import parallel_config

from bandfall import __version__
from bandfall.paper.artefacts import read_summaries, write_outcome
from bandfall.paper.engine import TaskError, Watcher, missing_modules, read_runs, run_experiments
from bandfall.paper.experiment import FULL, Claim, Data, Experiment, Outcome, Size, Task
from bandfall.paper.layout import Table
from bandfall.paper.store import Record, ResultFile

SIZE = Size(seeds=0.1)


def square(value):
    return {"square": value * value}


def fail(value):
    raise ValueError("too bad")


def toy(function=square, n_tasks=6, name="toy", requires=()):
    def tasks(data, size):
        return [Task(str(i), function, {"value": i}, cost=i + 1) for i in range(n_tasks)]

    def summarise(results, size):
        total = sum(result["square"] for result in results.values())
        return Outcome(
            tables=[Table(name, "Squares.", ["key"], [[key] for key in results])],
            claims=[Claim("sum", f"{total}", total == 55)],
        )

    return Experiment(name, "Squares", tasks, summarise, requires)


def run(out, *experiments, **options):
    finished = run_experiments(experiments or [toy()], data=Data(), size=SIZE, out=out, **options)
    return list(finished)


def results(out, name="toy"):
    return {
        key: r.result for key, r in ResultFile(out / "results" / f"{name}.jsonl").read().items()
    }


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


def test_results_of_another_version_are_not_used(tmp_path):
    file = ResultFile(tmp_path / "toy.jsonl")
    file.append(Record("a", 0.1, {"r2": 1.0}))
    text = file.path.read_text()
    file.path.write_text(text.replace(__version__, "0.0.0") + text.replace('"a"', '"b"'))
    assert list(file.read()) == ["b"]


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_come_back_exactly(value):
    assert json.loads(json.dumps(value)) == value


def test_numbers_that_json_cannot_hold_are_refused(tmp_path):
    with pytest.raises(ValueError, match="JSON"):
        ResultFile(tmp_path / "toy.jsonl").append(Record("a", 0.1, {"r2": float("nan")}))


def test_a_failing_task_is_named(tmp_path):
    with pytest.raises(TaskError, match="toy, task 0: ValueError: too bad"):
        run(tmp_path, toy(fail))


def test_several_experiments_share_the_pool_and_finish_on_their_own(tmp_path):
    finished = run(tmp_path, toy(name="one"), toy(name="two", n_tasks=2))
    assert {f.experiment.name: f.n_tasks for f in finished} == {"one": 6, "two": 2}
    assert len(results(tmp_path, "two")) == 2


def test_the_watcher_hears_all_work(tmp_path):
    class Counter(Watcher):
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


# Tables of text


def test_markup_is_translated():
    table = Table("t", "50 % & R²", ["a_b", "$v_{R^2}$"], [["**0.5**", "1 × 2"]])
    latex = table.latex()
    assert r"50 \% \& R$^2$" in latex
    assert r"a\_b & $v_{R^2}$" in latex
    assert r"\textbf{0.5} & 1 $\times$ 2" in latex
    assert "<b>0.5</b>" in table.html()
    assert table.csv() == "a_b,v_{R^2}\n0.5,1 × 2\n"


def test_html_is_escaped():
    assert "<script>" not in Table("t", "", ["<script>"], [["a < b"]]).html()
