"""Ctrl-C: the first press keeps the best model so far, the second one stops everything."""

import os
import signal
import subprocess
import sys
import threading
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context, get_config
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score
from sklearn.utils.validation import check_is_fitted

from bandfall import BandfallClassifier, BandfallRegressor, KernelDescentRegressor
from bandfall._estimators.progress import FitProgress
from bandfall._interrupts import MESSAGE, finish_if_interrupted
from bandfall._search import tuning
from bandfall._warnings import warn_caller
from bandfall.descent import Status
from bandfall.descent._recorder import Recorder
from shell import INTERRUPTED, press_ctrl_c

X = np.random.default_rng(0).normal(size=(80, 2))
Y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2
QUICK = {"kernels": ("gaussian",)}


def interrupted(model, X, Y):
    """The model after a fit that Ctrl-C ended."""
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y)
    return model


@pytest.mark.parametrize("estimator", [BandfallRegressor, BandfallClassifier])
def test_the_first_press_keeps_the_best_model_so_far(estimator, monkeypatch, capsys):
    press_ctrl_c(monkeypatch, FitProgress, "tried")
    model = interrupted(estimator(**QUICK), X, Y > 0.5)
    assert INTERRUPTED in capsys.readouterr().err
    assert any("the search ended early" in what for what in model.skipped_)
    assert set(model.selection_["n_rounds"]) == {0}
    assert np.mean(model.predict(X) == (Y > 0.5)) > 0.5 or estimator is BandfallRegressor
    assert model.members_
    assert len(model.held_out_rows_)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_the_first_trial_is_trained_to_its_end(monkeypatch):
    """A path that is cut off at once predicts hardly more than the mean."""
    press_ctrl_c(monkeypatch, tuning.Search, "_take")
    model = interrupted(BandfallRegressor(**QUICK, n_jobs=1), X, Y)
    whole = BandfallRegressor(**QUICK, n_jobs=1, max_rounds=0).fit(X, Y)
    assert model.selection_["max_r2"][0] == whole.selection_["max_r2"][0]
    assert model.score(X, Y) > 0.9


def test_finalists_that_were_cut_off_do_not_count(monkeypatch):
    rows = np.random.default_rng(1).normal(size=(420, 2))
    press_ctrl_c(monkeypatch, tuning.Search, "decide")
    model = interrupted(BandfallRegressor(**QUICK, max_rounds=0, n_jobs=1), rows, rows[:, 0])
    assert any("finalists were not tried further" in what for what in model.skipped_)
    assert model.score(rows, rows[:, 0]) > 0.9


def test_leaves_that_kept_all_their_rows_are_not_listed(monkeypatch):
    rows = np.random.default_rng(1).normal(size=(700, 2))
    press_ctrl_c(monkeypatch, FitProgress, "tried")
    model = BandfallRegressor(**QUICK, leaf_rows=300, search_rows=200)
    interrupted(model, rows, rows[:, 0])
    assert model.path_.n_leaves > 1
    assert not any("of their rows" in what for what in model.skipped_)
    assert sum(len(leaf.model.X) for leaf in model.path_.model.leaves) >= 700


@pytest.mark.parametrize("fitted", [False, True])
def test_the_second_press_keeps_nothing(monkeypatch, fitted):
    model = BandfallRegressor(**QUICK)
    before = model.fit(X[:20], Y[:20]).predict(X) if fitted else None
    press_ctrl_c(monkeypatch, FitProgress, "tried", times=2)
    interrupted(model, X, Y)
    if fitted:
        np.testing.assert_array_equal(model.predict(X), before)
    else:
        with pytest.raises(NotFittedError):
            check_is_fitted(model)


def test_a_loop_of_fits_ends(monkeypatch):
    press_ctrl_c(monkeypatch, FitProgress, "tried")
    with pytest.raises(KeyboardInterrupt):
        cross_val_score(BandfallRegressor(**QUICK), X, Y, cv=3)


def test_a_single_path_ends_after_its_stage(monkeypatch, capsys):
    press_ctrl_c(monkeypatch, Recorder, "interrupted")
    model = interrupted(KernelDescentRegressor(), X, Y)
    assert model.path_.status is Status.INTERRUPTED
    assert len(model.path_) >= 1
    assert INTERRUPTED in capsys.readouterr().err
    whole = KernelDescentRegressor().fit(X, Y)
    model.set_params(warm_start=True).fit(X, Y)
    np.testing.assert_allclose(model.predict(X), whole.predict(X), atol=1e-9)


def test_a_program_that_handles_ctrl_c_itself_keeps_doing_so(monkeypatch):
    seen = []

    def press(*_):
        os.kill(os.getpid(), signal.SIGINT)
        return False

    before = signal.signal(signal.SIGINT, lambda *_: seen.append("mine"))
    try:
        monkeypatch.setattr(FitProgress, "tried", press)
        model = BandfallRegressor(**QUICK, max_rounds=0).fit(X, Y)
    finally:
        signal.signal(signal.SIGINT, before)
    assert "mine" in seen
    assert model.skipped_ == []


def test_other_errors_end_the_work_and_pass_through():
    """As from the handler of an alarm, in the main thread; and in the work itself."""
    ended, kept = threading.Event(), []

    class Alarm(Exception):
        pass

    def alarm(*_):
        raise Alarm

    before = signal.signal(signal.SIGUSR1, alarm)
    try:
        with pytest.raises(Alarm):
            finish_if_interrupted(
                lambda: (os.kill(os.getpid(), signal.SIGUSR1), ended.wait(30)),
                ended.set,
                kept.append,
            )
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert ended.is_set()
    with pytest.raises(ZeroDivisionError):
        finish_if_interrupted(lambda: 1 / 0, lambda: None, kept.append)
    assert kept == []


def test_the_work_sees_the_settings_of_the_caller_and_warns_at_its_line():
    kept = []
    with config_context(assume_finite=True), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")

        def work():
            warn_caller("careful")
            return get_config()["assume_finite"], np.geterr()["over"]

        with np.errstate(over="raise"):
            finish_if_interrupted(work, lambda: None, kept.append)
    assert kept == [(True, "raise")]
    assert [one.filename for one in caught] == [__file__]


def test_fits_in_other_threads_need_no_thread_of_their_own():
    kept = []
    thread = threading.Thread(
        target=finish_if_interrupted,
        args=(threading.current_thread, lambda: None, kept.append),
    )
    thread.start()
    thread.join()
    assert kept == [thread]


STUCK = """
import signal, time
signal.signal(signal.SIGINT, lambda *_: print("pressed", flush=True))
from bandfall._cli.terminal import Watchdog

with Watchdog(), Watchdog.leaving_one_press():
    print("ready", flush=True)
    while True:
        time.sleep(60)  # as in a long call into C: nothing is raised
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
    for line in ("ready", "pressed"):  # the first press is left to the fit
        assert process.stdout.readline() == f"{line}\n"
        process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 130
    assert said.splitlines() == ["", "bandfall: stopped; nothing was written"]


@pytest.mark.parametrize("choice", ["auto", "kgdd"])
def test_the_command_writes_the_model_so_far(choice, tmp_path, monkeypatch):
    """Pressed in a process of its own, through the entry point."""
    pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": Y}).to_csv(tmp_path / "d.csv", index=False)
    where = "FitProgress.tried" if choice == "auto" else "_PathWatch.on_fit_task_end"
    program = f"""
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from bandfall._estimators.progress import FitProgress
from bandfall._cli.main import main
from bandfall._cli.training import _PathWatch

original = {where}
presses = iter([signal.SIGINT])
def press(*arguments, **named):
    for number in presses:
        os.kill(os.getpid(), number)
    return original(*arguments, **named)
{where} = press
sys.argv = ["bandfall", "fit", "d.csv", "--target", "y", "--model", "{choice}", "--out", "m"]
main()
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 130, done.stderr
    assert done.stderr.splitlines()[1:] == [
        f"bandfall: {MESSAGE}",
        "bandfall: interrupted: m holds the model found so far",
    ]
    assert (tmp_path / "m").exists()
