"""``bandfall paper`` from a shell."""

import json
import os
import platform
import re
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from bandfall._cli import main as cli
from bandfall._cli.main import build_app
from shared_files import data_directory
from shell import one_line


@pytest.fixture
def command(monkeypatch):
    monkeypatch.delenv("BANDFALL_DATA", raising=False)
    runner = CliRunner()

    def call(*arguments):
        return runner.invoke(build_app(), [str(argument) for argument in arguments])

    return call


def test_list(command):
    done = command("paper", "list")
    assert done.exit_code == 0
    for name in ("figure1", "figure7", "table1", "table6"):
        assert name in done.stdout


def test_list_says_where_the_data_are(command, tmp_path):
    (tmp_path / "power.csv").write_text("")
    done = command("paper", "list", "--data", tmp_path)
    words = " ".join(done.stdout.split())
    assert "power.csv" in words
    assert "the real data sets" in words
    assert "missing: put compactiv.csv.gz or compactiv.csv into --data" in words
    assert "downloaded when needed from https://archive.ics.uci.edu" in words


def test_a_run_uses_the_data_there_are_and_names_the_others(command, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data/power.csv.gz").symlink_to(data_directory() / "power.csv.gz")
    arguments = ["table1", "--sets", "cpu", "--sets", "power", "--data", tmp_path / "data"]
    done = command("paper", "run", *arguments, "--jobs", 1, "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    assert "52416 × 7" in done.stdout
    assert "Without data, and so not run on them: CPU Run Time" in done.stdout
    assert "compactiv.csv.gz" in done.stdout
    summary = json.loads((tmp_path / "out/summaries/table1.json").read_text())
    assert [c["cell"] for c in summary["comparisons"]] == [{"dataset": "power"}]
    assert "Superconductors" in summary["notes"][-1]


def test_a_quick_run_is_not_judged(command, tmp_path):
    done = command("paper", "run", "figure1", "--quick", "--jobs", 1, "--out", tmp_path)
    assert "not judged (10 % of the seeds)" in done.stdout
    assert "holds" not in done.stdout


def test_run_and_report(command, tmp_path):
    done = command("paper", "run", "table3", "figure5", "--out", tmp_path, "--jobs", 1, "--quick")
    assert done.exit_code == 0, done.output
    assert "Additional kernels" in done.stdout
    assert "holds" in done.stdout
    assert done.stderr == ""  # no bar where nobody looks
    text = tmp_path / "docs/reproduction.md"
    done = command("paper", "report", "--out", tmp_path, "--markdown", text)
    assert done.exit_code == 0, done.output
    assert "figure5" in (tmp_path / "report.html").read_text(encoding="utf-8")
    machine = rf"with 1 parallel job on {re.escape(platform.platform())}, \d+ cores; Python \d"
    assert re.search(machine, text.read_text(encoding="utf-8"))
    assert (text.parent / "reproduction/figure5.png").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "table9"], "no experiment is called 'table9'; allowed: figure1"),
        (["report"], "holds no results"),
    ],
)
def test_wrong_calls_are_one_line(command, tmp_path, arguments, message):
    done = command("paper", *arguments, "--out", tmp_path / "out")
    assert done.exit_code == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("option", "value"), [("--data", "/no/such/place"), ("--jobs", "-1"), ("--sets", "cars")]
)
def test_wrong_options_are_named(command, option, value):
    done = command("paper", "run", "table2", option, value)
    assert done.exit_code == 2
    assert option in done.stderr


def test_a_damaged_summary_is_one_line(command, tmp_path):
    (tmp_path / "summaries").mkdir()
    (tmp_path / "summaries/table2.json").write_text('{"name": "table2"}')
    done = command("paper", "report", "--out", tmp_path)
    assert done.exit_code == 2
    assert "table2.json is damaged or of another version" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_directory_without_the_data_is_one_line(command, tmp_path):
    done = command("paper", "run", "table2", "--data", tmp_path, "--out", tmp_path / "out")
    assert done.exit_code == 2
    assert done.stderr.startswith("bandfall: the CPU")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("file", "File exists"),
        ("file/below", "Not a directory"),
        ("x" * 300, "File name too long"),
        ("taken/out", "Is a directory"),
    ],
)
def test_a_place_that_cannot_be_written_is_one_line(command, tmp_path, place, reason):
    (tmp_path / "file").touch()
    (tmp_path / "taken/out/runs.jsonl").mkdir(parents=True)
    done = command("paper", "run", "table3", "--jobs", 1, "--out", tmp_path / place)
    line = one_line(done)
    assert line.startswith(f"bandfall: {tmp_path}")
    assert line.endswith(reason)


@pytest.mark.skipif(not hasattr(os, "statvfs"), reason="needs POSIX limits on file size")
@pytest.mark.parametrize("limit", [0, 100])
def test_a_full_disk_is_one_line_and_loses_nothing(command, tmp_path, limit):
    code = (
        "import joblib, resource\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))\n"
        "from bandfall._cli.main import main; main()"
    )
    arguments = ["paper", "run", "table3", "--jobs", "1", "--out", str(tmp_path)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert done.stderr == "bandfall: File too large\n"
    assert command(*arguments).exit_code == 0  # there is room again


def test_a_report_says_which_code_has_changed(command, tmp_path):
    command("paper", "run", "table3", "figure5", "--jobs", 1, "--out", tmp_path)
    summary = tmp_path / "summaries/table3.json"
    summary.write_text(json.dumps(json.loads(summary.read_text()) | {"code": "older"}))
    assert command("paper", "report", "--out", tmp_path).exit_code == 0
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "The code has changed since these were run: table3." in page


def test_a_report_that_cannot_be_written_is_one_line(command, tmp_path):
    command("paper", "run", "table3", "--jobs", 1, "--out", tmp_path)
    done = command("paper", "report", "--out", tmp_path, "--markdown", tmp_path / "runs.jsonl/page")
    assert done.exit_code == 2
    assert "runs.jsonl: " in done.stderr
    assert done.stderr.count("\n") == 1


def test_places_are_printed_as_they_are_called(command, tmp_path):
    out = tmp_path / "runs [old]"
    done = command("paper", "run", "table3", "--jobs", 1, "--out", out)
    assert "runs [old]" in done.stdout.replace("\n", "")
    done = command("paper", "report", "--out", out)
    assert "runs [old]/report.html" in done.stdout.replace("\n", "")


def test_without_the_extra_there_is_a_hint(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "typer", None)
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert stop.value.code == 2
    assert "pip install '.[cli]'" in capsys.readouterr().err


def test_as_a_module():
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-m", "bandfall", "paper", "--help"],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert done.returncode == 0
    assert "Reproduce the paper" in done.stdout
