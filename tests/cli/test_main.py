"""The command: its list of commands, what it imports, and Ctrl-C meanwhile."""

import os
import subprocess
import sys

import pytest

from bandfall._cli import main as cli

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


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pty")
def test_a_slow_start_shows_a_line_and_removes_it():
    import pty

    screen, terminal = pty.openpty()
    # The line is shown after no time at all; then the imports go on until it is on the screen.
    slow = (
        "import time\nfrom bandfall._cli import main\n"
        "with main.start_shown(after=0.0) as shown:\n"
        "    while not shown: time.sleep(0.01)\n"
    )
    subprocess.run(
        [sys.executable, "-c", slow],
        stderr=terminal,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    os.close(terminal)
    lines = os.read(screen, 1000).decode()
    os.close(screen)
    assert lines.startswith("bandfall: starting …")
    assert lines.endswith("\r")
