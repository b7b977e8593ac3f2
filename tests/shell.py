"""Calling ``bandfall`` in tests, and tables to call it with."""

import os
import signal

import numpy as np
import pandas as pd
from typer.testing import CliRunner

from bandfall import _estimators as estimators
from bandfall._cli.main import build_app
from bandfall._search.clock import PRESSED

# The quick model; what tunes itself is tested where it matters.
Y = ("--target", "y", "--model", "kgdd")
INTERRUPTED = PRESSED


def call(*arguments, stdin=None):
    """Run the command; the result has exit_code, stdout and stderr."""
    return CliRunner().invoke(build_app(), [str(a) for a in arguments], input=stdin)


def quick_flagship(**parameters):
    """What tunes itself, with little to choose from."""
    return estimators.BandfallRegressor(kernels=("gaussian",), max_rounds=0, **parameters)


def frame(n=60, seed=0):
    """A small table with two features and a target."""
    random = np.random.default_rng(seed)
    table = pd.DataFrame({"width": random.normal(size=n), "höhe": random.normal(size=n)})
    table["y"] = np.sin(2 * table["width"]) + table["höhe"] ** 2
    return table


def one_line(done, code=2):
    """The complaint: one line on standard error, nothing else, with this exit code."""
    assert done.exit_code == code, done.output
    assert "Traceback" not in done.output
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("bandfall: ")
    return lines[0]


def press_ctrl_c(monkeypatch, owner, method, times=1):
    """Press Ctrl-C when a method is called, before it does anything; `times` calls in all."""
    original, presses = getattr(owner, method), iter([signal.SIGINT] * times)

    def pressed(*arguments, **named):
        if number := next(presses, None):
            os.kill(os.getpid(), number)
        return original(*arguments, **named)

    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in background jobs
    monkeypatch.setattr(owner, method, pressed)
