"""Ctrl-C: the first press keeps the best model so far, the second one stops everything."""

import itertools
import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score
from sklearn.utils.validation import check_is_fitted

from bandfall import BandfallClassifier, BandfallRegressor, KernelDescentRegressor
from bandfall._estimators import training
from bandfall._estimators.training import FitProgress
from bandfall._fitting import class_loss, members
from bandfall._search import search, trainer
from bandfall._search.clock import PRESSED
from bandfall._search.rounds import judge_again
from bandfall.descent import Euler, Status
from bandfall.descent._front import TrainingFront
from shell import INTERRUPTED, press_ctrl_c

X = np.random.default_rng(0).normal(size=(80, 2))
Y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2
QUICK = {"kernels": ("gaussian",)}


pytestmark = pytest.mark.filterwarnings("ignore:column .* alone it explains")


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


def test_finalists_that_were_cut_off_do_not_count(monkeypatch):
    rows = np.random.default_rng(1).normal(size=(420, 2))

    def late(*arguments):
        press_ctrl_c(monkeypatch, trainer, "judge_parts")
        return judge_again(*arguments)

    monkeypatch.setattr(search, "judge_again", late)
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
@pytest.mark.parametrize("stage", ["finishing", "before the first trial"])
def test_what_keeps_nothing_leaves_the_estimator_as_it_was(monkeypatch, fitted, stage):
    """A second press while the fit is finishing, or a first one before there is a model."""
    model = BandfallRegressor(**QUICK)
    before = model.fit(X[:20, :1], Y[:20]).predict(X[:, :1]) if fitted else None
    if stage == "finishing":
        press_ctrl_c(monkeypatch, FitProgress, "tried")
        press_ctrl_c(monkeypatch, training, "fit_members")
    else:
        press_ctrl_c(monkeypatch, trainer, "judge_parts")
    interrupted(model, X, Y)
    if fitted:
        np.testing.assert_array_equal(model.predict(X[:, :1]), before)
    else:
        with pytest.raises(NotFittedError):
            check_is_fitted(model)


@pytest.mark.parametrize("times", [1, 2])
def test_a_press_during_the_final_fits_keeps_a_model(monkeypatch, times):
    press_ctrl_c(monkeypatch, members, "_fit_member", times=times)
    model = interrupted(BandfallRegressor(**QUICK, max_rounds=0), X, Y)
    if times == 1:
        assert model.score(X, Y) > 0.5
    else:
        with pytest.raises(NotFittedError):
            check_is_fitted(model)


def test_a_press_during_the_summary_keeps_the_whole_model(monkeypatch):
    press_ctrl_c(monkeypatch, training, "novelty_scale")
    model = interrupted(BandfallRegressor(**QUICK, max_rounds=0), X, Y)
    whole = BandfallRegressor(**QUICK, max_rounds=0).fit(X, Y)
    np.testing.assert_array_equal(model.predict(X), whole.predict(X))


def test_a_press_while_log_odds_are_tried_keeps_the_search(monkeypatch):
    press_ctrl_c(monkeypatch, class_loss, "with_log_odds")
    model = interrupted(BandfallClassifier(**QUICK, max_rounds=0), X, Y > 0.5)
    assert any("log-loss" in what for what in model.skipped_)
    assert model.score(X, Y > 0.5) > 0.7


def test_threads_of_a_search_end_with_it(monkeypatch):
    """With enough rows, trials are trained in threads while the main thread waits."""
    rows = np.random.default_rng(1).normal(size=(300, 2))
    press_ctrl_c(monkeypatch, FitProgress, "tried")
    model = interrupted(BandfallRegressor(n_jobs=2), rows, np.sin(rows[:, 0]))
    assert any("the search ended early" in what for what in model.skipped_)
    assert not [t for t in threading.enumerate() if t.name.startswith("bandfall-search")]


def test_a_loop_of_fits_ends(monkeypatch):
    press_ctrl_c(monkeypatch, FitProgress, "tried")
    with pytest.raises(KeyboardInterrupt):
        cross_val_score(BandfallRegressor(**QUICK), X, Y, cv=3)


@pytest.mark.parametrize("solver", ["flow", Euler(step_size=0.01)])
def test_a_single_path_keeps_its_complete_stages(monkeypatch, solver):
    """Pressed in the middle of a step, with some stages before it."""
    original, calls = TrainingFront._move_to, itertools.count()

    def pressed(front, residual, time):
        if next(calls) == 20:
            os.kill(os.getpid(), signal.SIGINT)
        original(front, residual, time)

    monkeypatch.setattr(TrainingFront, "_move_to", pressed)
    model = interrupted(KernelDescentRegressor(solver=solver), X, Y)
    assert model.path_.status is Status.INTERRUPTED
    assert len(model.path_) >= 1
    predictions = model.predict(X)
    np.testing.assert_allclose(model.path_.residual[:, 0], Y - predictions, atol=1e-9)


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


@pytest.mark.slow
@pytest.mark.parametrize("choice", ["auto", "kgdd"])
def test_the_command_writes_the_model_so_far(choice, tmp_path, monkeypatch):
    """Pressed in a process of its own, through the entry point."""
    pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": Y}).to_csv(tmp_path / "d.csv", index=False)
    where = "FitProgress.tried" if choice == "auto" else "PathProgress.reach"
    message = ["", f"bandfall: {PRESSED}"] if choice == "auto" else []
    program = f"""
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from bandfall._estimators import training
from bandfall._progress import PathProgress
from bandfall._estimators.training import FitProgress
from bandfall._cli.main import main

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
    said = "bandfall: interrupted: m holds the model found so far"
    assert done.stderr.splitlines() == [*message, said]
    assert (tmp_path / "m").exists()
