"""Ctrl-C: the first press keeps the best model so far, the second one stops everything."""

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from bandfall import (
    BandfallClassifier,
    BandfallRegressor,
    KernelDescentRegressor,
)
from bandfall import (
    _interrupts as interrupts,
)
from bandfall._estimators.progress import FitProgress
from bandfall._interrupts import Interrupt
from bandfall._search import tuning
from bandfall.descent import Status
from bandfall.descent._recorder import Recorder
from shell import INTERRUPTED, press_ctrl_c

X = np.random.default_rng(0).normal(size=(80, 2))
Y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2


@pytest.mark.parametrize("estimator", [BandfallRegressor, BandfallClassifier])
def test_the_first_press_keeps_the_best_model_so_far(estimator, monkeypatch, capsys):
    press_ctrl_c(monkeypatch, FitProgress, "tried")
    model = estimator(kernels=("gaussian",)).fit(X, Y > 0.5)
    assert INTERRUPTED in capsys.readouterr().err
    assert any("the search ended early" in what for what in model.given_up_)
    assert set(model.selection_["n_rounds"]) == {0}
    assert np.mean(model.predict(X) == (Y > 0.5)) > 0.5 or estimator is BandfallRegressor
    assert model.members_
    assert len(model.held_out_rows_)


def test_the_first_trial_is_trained_to_its_end(monkeypatch):
    """A path that is cut off at once predicts hardly more than the mean."""
    press_ctrl_c(monkeypatch, tuning.Search, "_take")
    model = BandfallRegressor(kernels=("gaussian",), n_jobs=1).fit(X, Y)
    whole = BandfallRegressor(kernels=("gaussian",), n_jobs=1, max_rounds=0).fit(X, Y)
    assert model.selection_["max_r2"][0] == whole.selection_["max_r2"][0]
    assert model.score(X, Y) > 0.9


def test_finalists_that_were_cut_off_do_not_count(monkeypatch):
    rows = np.random.default_rng(1).normal(size=(420, 2))
    press_ctrl_c(monkeypatch, tuning.Search, "decide")
    model = BandfallRegressor(kernels=("gaussian",), max_rounds=0, n_jobs=1).fit(rows, rows[:, 0])
    assert any("finalists were not tried further" in what for what in model.given_up_)
    assert model.score(rows, rows[:, 0]) > 0.9


def test_leaves_that_kept_all_their_rows_are_not_listed(monkeypatch):
    rows = np.random.default_rng(1).normal(size=(700, 2))
    press_ctrl_c(monkeypatch, FitProgress, "tried")
    model = BandfallRegressor(kernels=("gaussian",), leaf_rows=300, search_rows=200)
    model.fit(rows, rows[:, 0])
    assert model.path_.n_leaves > 1
    assert not any("of their rows" in what for what in model.given_up_)
    assert sum(len(leaf.model.X) for leaf in model.path_.model.leaves) >= 700


def test_the_second_press_raises(monkeypatch):
    press_ctrl_c(monkeypatch, FitProgress, "tried", times=2)
    model = BandfallRegressor(kernels=("gaussian",))
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y)
    assert not hasattr(model, "members_")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_press_soon_after_another_raises_in_the_next_fit(monkeypatch):
    """Whoever presses twice while many short fits run wants all of them to end."""
    press_ctrl_c(monkeypatch, FitProgress, "tried")
    BandfallRegressor(kernels=("gaussian",), max_rounds=0).fit(X, Y)
    with pytest.raises(KeyboardInterrupt), Interrupt():
        os.kill(os.getpid(), signal.SIGINT)


def test_a_single_path_ends_after_its_stage(monkeypatch, capsys):
    press_ctrl_c(monkeypatch, Recorder, "interrupted")
    model = KernelDescentRegressor().fit(X, Y)
    assert model.path_.status is Status.INTERRUPTED
    assert len(model.path_) >= 1
    assert INTERRUPTED in capsys.readouterr().err


def test_a_program_that_handles_ctrl_c_itself_keeps_doing_so():
    seen = []
    before = signal.signal(signal.SIGINT, lambda *_: seen.append("mine"))
    try:
        with Interrupt() as interrupt:
            os.kill(os.getpid(), signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
    assert seen == ["mine"]
    assert not interrupt.pressed


def test_other_threads_leave_signals_alone():
    signal.signal(signal.SIGINT, signal.default_int_handler)
    errors = []

    def fit():
        try:
            with Interrupt():
                assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        except Exception as error:  # pragma: no cover
            errors.append(error)

    thread = threading.Thread(target=fit)
    thread.start()
    thread.join()
    assert not errors


STUCK = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
from bandfall import _interrupts as interrupts
from bandfall._cli.terminal import Watchdog

def stuck():  # as in a long call into C: Python gets no chance to raise
    while True:
        try:
            time.sleep(10)
        except KeyboardInterrupt:
            pass

with Watchdog(), interrupts.Interrupt():
    print("ready", flush=True)
    stuck()
"""


@pytest.mark.skipif(os.name == "nt", reason="Windows has no POSIX signals")
def test_the_second_press_ends_a_command_that_is_stuck():
    process = subprocess.Popen(
        [sys.executable, "-c", STUCK],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    time.sleep(2.0)
    assert process.poll() is None  # the first press is left to the fit
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=10)
    assert process.returncode == 130
    assert said.splitlines()[1:] == [
        f"bandfall: {interrupts.MESSAGE}",
        "",
        "bandfall: stopped; nothing was written",
    ]
