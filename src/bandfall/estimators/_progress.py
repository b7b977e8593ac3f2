"""What a fit tells people who asked for it with ``verbose=``."""

from __future__ import annotations

import math
import sys
import threading
import time
import warnings
from collections.abc import Callable

from bandfall.estimators._callbacks import Reports
from bandfall.selection.candidates import Trial
from bandfall.selection.tuning import Tuned

_LONG, _TOO_LONG = 20.0, 600.0  # seconds that are worth a word, and a warning


class Progress:
    """Tells callbacks how a search goes, and people on standard error, a line at a time.

    Parameters
    ----------
    reports : Reports
    verbose : int or bool
        0 for nothing, 1 for what is better than all before, 2 for everything tried.
    measure : {"R²", "log-loss"}
        By which trials are named: their score or their loss.
    """

    def __init__(self, reports: Reports, verbose: int, measure: str = "R²"):
        self._reports = reports
        self._verbose = int(verbose)
        self._measure = measure
        self._start = time.monotonic()
        self._least = math.inf
        self._over = False
        self._lock = threading.Lock()  # encodings are searched side by side

    def begins(self, n_rows: int, expected: Callable[[], float], bounded: bool) -> None:
        """The search begins; to fit all rows after it will take about the expected seconds.

        They are measured, and asked for only where somebody may be told.
        """
        if bounded and not self._verbose:
            return
        seconds = expected()
        if seconds < _LONG:
            return
        about = f"fitting all {n_rows:,} rows takes about {_minutes(seconds)} here"
        self._say(about)
        if not bounded and seconds >= _TOO_LONG:
            warnings.warn(
                f"{about}; max_seconds (in the shell --max-seconds) bounds it, and a GPU takes "
                "seconds",
                UserWarning,
                stacklevel=2,
            )

    def tried(self, trial: Trial) -> bool:
        """One more ladder of speeds, of which this is the best; whether the search is to end."""
        with self._lock:
            better, self._least = trial.loss < self._least, min(trial.loss, self._least)
            if self._verbose > 1 or better:
                self._say(f"{self._words(trial)}{', the best so far' if better else ''}")
        return self._asked("trial")

    def interrupted(self) -> bool:
        """Whether the fit is to end; asked where it takes long, after every stage."""
        return self._asked("stage")

    def chosen(self, tuned: Tuned, n_rows: int) -> None:
        """The search is over; what it chose is fitted to all rows."""
        n_members = len(tuned.members)
        models = "1 model" if n_members == 1 else f"an average of {n_members} models"
        self._say(f"{len(tuned.trials)} trials; fitting {models} to {n_rows:,} rows")

    def ended(self, given_up: list[str]) -> None:
        """The fit is over."""
        for what in given_up:
            self._say(f"given up: {what}")
        self._say("done")

    def _asked(self, task: str) -> bool:
        """Report a task; whether a callback wants the fit to end, or has ever wanted it."""
        self._over = self._reports.task(task) or self._over
        return self._over

    def _words(self, trial: Trial) -> str:
        one = trial.candidate
        value = trial.score if self._measure == "R²" else trial.loss
        return (
            f"{one.encoding}, {one.kernel}, metric round {one.n_rounds}, "
            f"speed {one.min_speed:g}: {self._measure} {value:.4f} on held-out rows"
        )

    def _say(self, message: str) -> None:
        if self._verbose:
            seconds = time.monotonic() - self._start
            sys.stderr.write(f"[bandfall] {seconds:7.1f} s  {message}\n")


def _minutes(seconds: float) -> str:
    """As people say it: an estimate has one digit that counts, or two."""
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    minutes = seconds / 60
    return f"{minutes:.0f} minutes" if minutes < 90 else f"{minutes / 60:.0f} hours"
