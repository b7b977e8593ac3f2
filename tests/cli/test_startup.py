"""What is imported when, and Ctrl-C meanwhile."""

import os
import subprocess
import sys

import pytest

# Presses Ctrl-C as soon as NumPy is asked for, which is among the first imports.
PRESS = """
import importlib.abc, os, runpy, signal, sys

class Press(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == "numpy":
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in background shells
sys.meta_path.insert(0, Press())
"""
AS_MODULE = 'sys.argv[0] = "-m"; sys.orig_argv[:] = ["python", "-m", "bandfall"]; import bandfall'
AS_SCRIPT = 'sys.argv[0] = "/usr/bin/bandfall"; import bandfall._cli.main'
AS_LIBRARY = "import bandfall"


def interrupted(statement):
    return subprocess.run(
        [sys.executable, "-c", PRESS + statement],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


@pytest.mark.parametrize("statement", [AS_MODULE, AS_SCRIPT])
def test_a_command_ends_in_one_line(statement):
    done = interrupted(statement)
    assert done.stderr == "bandfall: interrupted; nothing was written\n"
    assert done.returncode == 130


def test_a_library_leaves_interrupts_to_its_user():
    done = interrupted(AS_LIBRARY)
    assert "KeyboardInterrupt" in done.stderr
    assert done.returncode != 130


SLOW = """
import sys, time
sys.argv[0] = "/usr/bin/bandfall"
from bandfall import _startup as startup
time.sleep(1.5 * startup.SILENCE)
startup.ready()
print("done")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pty")
def test_a_slow_start_shows_a_line_and_removes_it():
    import pty

    screen, terminal = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", SLOW], stderr=terminal, check=True, env=environment, text=True
    )
    assert done.returncode == 0
    os.close(terminal)
    shown = os.read(screen, 1000).decode()
    os.close(screen)
    assert shown.startswith("bandfall: starting …")
    assert shown.endswith("\r")


FEW_ROWS = """
import sys
import numpy as np
from bandfall import BandfallRegressor

X = np.linspace(0.0, 1.0, 80)[:, None]
BandfallRegressor(kernels=("gaussian",), max_rounds=0).fit(X, X[:, 0] ** 2).predict(X)
sys.exit("torch" in sys.modules or "numba" in sys.modules)
"""
NO_DRIVER = """
import sys
from bandfall._products import device, resolve_backend

device.has_driver = lambda: False
assert resolve_backend("auto", n_rows=100_000) == resolve_backend(None)
sys.exit("torch" in sys.modules)
"""


@pytest.mark.parametrize("statement", [FEW_ROWS, NO_DRIVER], ids=["few rows", "no driver"])
def test_what_is_not_needed_is_not_imported(statement):
    done = subprocess.run(
        [sys.executable, "-c", statement],
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0
