"""Fits are watched, and ended, also where scikit-learn has no callbacks."""

import json
import os
import subprocess
import sys

import pytest

from bandfall._estimators.own_callbacks import CallbackSupportMixin
from shell import INTERRUPTED, frame

# scikit-learn as it was before 1.9 to us, and Ctrl-C at the first sign of progress.
PRESS = """
import builtins, os, signal
original = builtins.__import__

def without_callbacks(name, names=None, *more, **options):
    if name == "sklearn.callback" and (names or {}).get("__name__", "").startswith("bandfall"):
        raise ImportError(name)
    return original(name, names, *more, **options)

builtins.__import__ = without_callbacks
signal.signal(signal.SIGINT, signal.default_int_handler)
from bandfall._cli.main import main
from bandfall._cli import training
from bandfall._estimators.progress import FitProgress

def press(*arguments, presses=iter([signal.SIGINT]), **named):
    for one in presses:
        os.kill(os.getpid(), one)

FitProgress.tried = training._PathWatch.on_fit_task_end = press
main()
"""


@pytest.mark.parametrize("choice", ["auto", "kgdd"])
def test_ctrl_c_keeps_the_model_so_far(choice, tmp_path):
    frame().to_csv(tmp_path / "d.csv", index=False)
    arguments = ["fit", "d.csv", "--target", "y", "--model", choice, "--out", "m", "--json"]
    done = subprocess.run(
        [sys.executable, "-c", PRESS, *arguments],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 130, done.stderr
    assert json.loads(done.stdout)["interrupted"]
    assert done.stderr.splitlines()[1:] == [
        f"bandfall: {INTERRUPTED}",
        "bandfall: interrupted: m holds the model found so far",
    ]
    assert (tmp_path / "m").exists()


class Watcher:
    """Ends a fit at its second task, and keeps what it has seen."""

    def __init__(self):
        self.begun, self.seen = 0, []

    def on_fit_task_begin(self, estimator, context):
        self.begun += 1

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        self.seen.append(fitted_estimator)
        return len(self.seen) == 2


class Watched(CallbackSupportMixin):
    """Something that is fitted in tasks."""

    def fit(self):
        context = self._init_callback_context(max_subtasks=None)
        context.call_on_fit_task_begin(estimator=self)
        for i in range(5):
            task = context.subcontext(task_name="part")
            task.call_on_fit_task_begin(estimator=self)
            if task.call_on_fit_task_end(
                estimator=self, reconstruction_attributes=lambda i=i: {"part_": i}
            ):
                return i
        return None


def test_a_callback_sees_what_was_reached_and_ends_the_fit():
    watcher, model = Watcher(), Watched()
    assert model.set_callbacks(watcher).fit() == 1
    assert [one.part_ for one in watcher.seen] == [0, 1]
    assert not hasattr(model, "part_")
    assert watcher.begun == 3
    assert model.set_callbacks().fit() is None
    assert len(watcher.seen) == 2
