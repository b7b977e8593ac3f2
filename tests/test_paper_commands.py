"""``bandfall paper`` from a shell."""

import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from bandfall import cli
from bandfall.cli import build_app


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


def test_run_and_report(command, tmp_path):
    done = command("paper", "run", "table3", "figure5", "--out", tmp_path, "--jobs", 1, "--quick")
    assert done.exit_code == 0, done.output
    assert "Additional kernels" in done.stdout
    assert "holds" in done.stdout
    assert done.stderr == ""  # no bar where nobody looks
    page, text = tmp_path / "page.html", tmp_path / "docs/reproduction.md"
    done = command("paper", "report", "--out", tmp_path, "--html", page, "--markdown", text)
    assert done.exit_code == 0, done.output
    assert "figure5" in page.read_text(encoding="utf-8")
    assert (text.parent / "reproduction/figure5.png").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "table9"], "no experiment is called 'table9'; allowed: figure1"),
        (["run", "table2", "--data", "/no/such/place"], "--data names '/no/such/place'"),
        (["run", "table3", "--jobs", "-1"], "--jobs must be 0 or more; got -1"),
        (["report"], "holds no results"),
    ],
)
def test_wrong_calls_are_one_line(command, tmp_path, arguments, message):
    done = command("paper", *arguments, "--out", tmp_path / "out")
    assert done.exit_code == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


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


def test_without_the_extra_there_is_a_hint(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "typer", None)
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert stop.value.code == 2
    assert "pip install 'bandfall[cli]'" in capsys.readouterr().err


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
