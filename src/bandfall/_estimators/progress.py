"""Progress of a fit: messages with ``verbose=``, reports to callbacks (scikit-learn 1.9)."""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from bandfall._estimators.view import kernel_words
from bandfall._targets import Target
from bandfall._typing import ArrayLike, Estimator, State, TableLike
from bandfall._warnings import warn_caller

if TYPE_CHECKING:  # predictions need no search
    from bandfall._search.averaging import Tuned
    from bandfall._search.candidates import Trial
    from bandfall._search.clock import Clock

Method = TypeVar("Method")

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # older versions of scikit-learn have no callbacks

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """An estimator without callbacks."""

    def with_callbacks(method: Method) -> Method:
        """The method itself."""
        return method


_LONG, _TOO_LONG = 20.0, 600.0  # seconds of the final fits that cause a message, and a warning
_SILENCE = 1.75  # seconds without a message before the progress is printed


class Reports:
    """Reports the tasks of a fit to the estimator's callbacks, together with X and y."""

    def __init__(self, estimator: Estimator, X: TableLike, y: ArrayLike) -> None:
        self._estimator = estimator
        self._data = {"X": X, "y": y}
        self._context = None
        if hasattr(estimator, "_init_callback_context"):
            self._context = estimator._init_callback_context(max_subtasks=None)
            self._context.call_on_fit_task_begin(estimator=estimator, **self._data)

    def task(self, name: str, state: Callable[[], State] | None = None) -> bool:
        """Report the end of a task; True if a callback ends the fit.

        `state` returns the fitted attributes so far.
        """
        if self._context is None or not getattr(self._estimator, "_skl_callbacks", None):
            return False
        task = self._context.subcontext(task_name=name)
        task.call_on_fit_task_begin(estimator=self._estimator, **self._data)
        return task.call_on_fit_task_end(
            estimator=self._estimator, reconstruction_attributes=state, **self._data
        )

    def finish(self, state: Callable[[], State]) -> None:
        """Report the end of the fit; `state` returns the fitted attributes."""
        if self._context is not None:
            self._context.call_on_fit_task_end(
                estimator=self._estimator, reconstruction_attributes=state, **self._data
            )


class FitProgress:
    """Reports a search to callbacks, and prints lines to standard error.

    With `verbose` 1 it prints every improvement, with 2 every trial. It also prints the progress
    whenever nothing else was printed for two seconds.
    """

    def __init__(self, reports: Reports, verbose: int, target: type[Target], clock: Clock) -> None:
        self.clock = clock
        self._reports, self._verbose, self._target = reports, int(verbose), target
        self._start = self._last = time.monotonic()
        self._least, self._n_trials, self._over = math.inf, 0, False
        self._lock = threading.RLock()  # encodings are searched in parallel
        self._ended = threading.Event()

    def __enter__(self) -> FitProgress:
        if self._verbose:
            threading.Thread(target=self._break_silence, daemon=True).start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._ended.set()

    def begins(self, n_rows: int, expected: Callable[[], float]) -> None:
        """Announce before the search how long the final fits will take.

        `expected` measures these seconds; it is called only if they will be shown.
        """
        bounded = self.clock.bounded
        if bounded and not self._verbose and not self.clock.observed:
            return
        seconds = expected()
        if seconds > 0.0:
            self.clock.expect_final_fits(seconds)
        if seconds < _LONG:
            return
        about = f"fitting all {n_rows:,} rows takes about {_minutes(seconds)} here"
        self._say(about)
        if not bounded and seconds >= _TOO_LONG:
            warn_caller(f"{about}; limit it with max_seconds (in the shell --max-seconds)")

    def tried(self, trial: Trial) -> bool:
        """Report the best trial of a ladder of speeds; True if the search should end."""
        with self._lock:
            self._n_trials += 1
            better, self._least = trial.loss < self._least, min(trial.loss, self._least)
            if self._verbose > 1 or better:
                self._say(self._words(trial, better))
        return self._asked("trial")

    def interrupted(self) -> bool:
        """True if the fit should end; called after every stage of a long path."""
        return self._asked("stage")

    def chosen(self, tuned: Tuned, n_rows: int) -> None:
        """The search is over; the chosen models are fitted to all rows next."""
        n_members = len(tuned.members)
        models = "1 model" if n_members == 1 else f"an average of {n_members} models"
        tried = f"{self._n_trials} trials of {len(tuned.trials)} speeds"
        self._say(f"{tried}; fitting {models} to {n_rows:,} rows")

    def ended(self, skipped: list[str]) -> None:
        """The fit is over."""
        for what in skipped:
            self._say(f"skipped: {what}")
        self._say("done")

    def _asked(self, task: str) -> bool:
        """Report a task; True if a callback or Ctrl-C has asked the fit to end."""
        self._over = self._reports.task(task) or self._over
        return self._over or self.clock.interrupted

    def _break_silence(self) -> None:
        while not self._ended.wait(0.25):
            if time.monotonic() - self._last >= _SILENCE and not self._ended.is_set():
                share, left = self.clock.share(), self.clock.expected()
                rest = "" if left is None else f", about {_minutes(max(left, 1.0))} left"
                self._say(f"{share:.0%} done{rest}" if share else "working")

    def _words(self, trial: Trial, better: bool) -> str:
        one = trial.candidate
        details = [
            kernel_words(one.kernel),
            f"{one.encoding} columns",
            f"speed {one.min_speed:g}",
            *[f"round {one.n_rounds} of the metric"][: one.n_rounds],
            *["scales by likelihood"][: one.likelihood],
        ]
        score = f"{self._target.measure} {getattr(trial, self._target.trial_column):.4f}"
        new = "new best; " if better else ""
        return f"trial {self._n_trials}: {score} on held-out rows ({new}{', '.join(details)})"

    def _say(self, message: str) -> None:
        if self._verbose:
            with self._lock:
                self._last = time.monotonic()
                sys.stderr.write(f"[bandfall] {self._last - self._start:7.1f} s  {message}\n")


def _minutes(seconds: float) -> str:
    """An estimate in words, with one or two digits."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} minutes" if minutes < 90 else f"{minutes / 60:.0f} hours"
