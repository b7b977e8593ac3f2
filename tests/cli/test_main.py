"""The command: its list of commands, what it imports, and Ctrl-C meanwhile."""

import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from bandfall._cli import main as cli
from shell import call

# Presses Ctrl-C as soon as NumPy is imported, which a command does before its own code runs.
PRESS = """
import importlib.abc, os, signal, sys

class Press(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == "numpy":
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in background shells
sys.meta_path.insert(0, Press())
"""
COMMAND = 'sys.argv[:] = ["bandfall", "inspect", "m"]; from bandfall._cli.main import main; main()'


def python(statement, **options):
    return subprocess.run(
        [sys.executable, "-c", statement],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        **options,
    )


def test_a_press_during_imports_ends_in_one_line():
    done = python(PRESS + COMMAND)
    assert done.stderr == "bandfall: interrupted; nothing was written\n"
    assert done.returncode == 130


def test_a_library_leaves_interrupts_to_its_user():
    done = python(PRESS + "from bandfall import BandfallRegressor")
    assert "KeyboardInterrupt" in done.stderr
    assert done.returncode != 130


def test_the_list_of_commands_says_the_same_as_the_commands():
    shown = {command.name: command.callback.__doc__ for command in _commands()}
    shown["paper"] = cli.build_app(("paper",)).registered_groups[0].typer_instance.info.help
    assert {name: text.splitlines()[0] for name, text in shown.items()} == cli.COMMANDS


def _commands():
    return cli.build_app().registered_commands


def test_each_command_alone():
    for name in cli.COMMANDS:
        app = cli.build_app((name,))
        full = [command.name for command in app.registered_commands if command.callback.__doc__]
        assert full == ([] if name == "paper" else [name])


@pytest.mark.parametrize(
    "statement",
    [
        "import bandfall; dir(bandfall)",
        "from bandfall._cli.main import build_app; build_app(())",
    ],
)
def test_the_list_of_names_needs_no_large_package(statement):
    large = "{'numpy', 'scipy', 'sklearn', 'pandas', 'matplotlib', 'numba', 'torch'}"
    done = python(f"import sys; {statement}; sys.exit(bool({large} & set(sys.modules)))")
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A model file, and the table that it was trained on."""
    folder = tmp_path_factory.mktemp("model")
    x = np.linspace(0.0, 1.0, 60)
    table = pd.DataFrame({"x": x, "größe": x**2, "name": "=1+1", "y": np.sin(x)})
    table.to_csv(folder / "d.csv", index=False)
    options = ("--target", "y", "--drop", "name", "--model", "kgdd", "--out", folder / "m")
    assert call("fit", folder / "d.csv", *options).exit_code == 0
    return folder / "m", folder / "d.csv"


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "cp437"])
def test_output_that_is_not_utf_8(model, encoding):
    """As on Windows, where redirected output has the code page of the machine."""
    done = subprocess.run(
        [sys.executable, "-m", "bandfall", "inspect", str(model[0])],
        capture_output=True,
        check=False,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(sys.path),
            "PYTHONIOENCODING": encoding,
            "PYTHONUTF8": "0",
        },
    )
    assert done.returncode == 0, done.stderr
    shown = done.stdout.decode(encoding)
    assert "R? " in shown or "R² " in shown


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_full_disk_is_a_failure(model, options):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "bandfall", "predict", *map(str, model), *options],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "bandfall: No space left on device"
    assert "Exception ignored" not in done.stderr
