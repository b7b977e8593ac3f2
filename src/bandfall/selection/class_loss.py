"""Squared error or log-loss: held-out rows decide what the members for classes minimise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from bandfall.selection.averaging import greedy_weights
from bandfall.selection.candidates import Trial
from bandfall.selection.classes import LogLoss
from bandfall.selection.deadline import Deadline
from bandfall.selection.jobs import parallel_map
from bandfall.selection.logistic import fit_logistic, log_loss_target, path_kernel
from bandfall.selection.parts import Part, Rows
from bandfall.selection.paths import fit_member_path
from bandfall.selection.tuning import Tuned, tune
from bandfall.selection.work import FINALISTS

_FEW_ROWS = 700
_FEW_KERNELS = ("gaussian", "matern12")
MAX_ROWS = 5000  # beyond, a Cholesky factor takes longer than the whole search
PENALTIES = (10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
_FIRST = 3  # of PENALTIES: what suits most tables
_WORTH = 0.02  # share by which the held-out log-loss must fall
_WORK = "log-loss"
_MATRICES = 5  # of float64 that a part needs at a time


def tune_classes(
    rows: Rows, *, deadline: Deadline | None = None, n_jobs: int | None = None, **settings: Any
) -> Tuned:
    """`tune`, and then the loss that suits.

    Few rows choose among few kernels: with more of them the held-out log-loss falls and that of
    new rows rises (docs/research.md).
    """
    deadline = deadline or Deadline()
    if settings.get("kernels") is None and len(rows) < _FEW_ROWS:
        settings["kernels"] = _FEW_KERNELS
    tuned = tune(rows, deadline=deadline, n_jobs=n_jobs, **settings)
    return with_better_loss(rows, tuned, deadline, n_jobs)


def with_better_loss(
    rows: Rows, tuned: Tuned, deadline: Deadline, n_jobs: int | None = None
) -> Tuned:
    """The search's average, or the same members with the log-loss where that is clearly better.

    Every member is trained again on the parts of the search, its coefficients are those of
    kernel logistic regression in its path's kernel, and its penalty is chosen by held-out rows.
    """
    parts = _partition(tuned.parts)
    if not parts or not _affordable(rows, parts, len(tuned.members), deadline):
        return tuned
    prior = log_loss_target(rows, np.arange(0)).prior
    judge = LogLoss(prior, log_odds=True)
    trials = [trial for trial, _ in tuned.members]
    entries = _n_ladders(parts, 1) * len(parts[0]) ** 2
    deadline.work.expect(FINALISTS, len(trials) * entries, part=_WORK)

    def refit(trial: Trial) -> tuple[Trial, np.ndarray] | None:
        with deadline.work.task(FINALISTS, entries, part=_WORK):
            return _refit(rows, parts, trial, judge, deadline)

    results = parallel_map(refit, trials, n_rows=len(parts[0]), n_jobs=n_jobs, stop=deadline.end)
    found = [one for one in results if one is not None]
    if len(found) < len(trials):
        return tuned
    evidence = _HeldOutRows(rows, parts, judge, dict(found))
    better = evidence.tuned(tuned, list(evidence.predictions))
    before = evidence.loss(tuned.predictions[: len(better.held_out)], LogLoss(prior))
    if evidence.loss(better.predictions, judge) < (1.0 - _WORTH) * before:
        return better
    return replace(tuned, trials=better.trials)


@dataclass(frozen=True)
class _HeldOutRows:
    """Held-out rows of some parts, and what trials with the log-loss predict for them."""

    rows: Rows
    parts: Sequence[Part]
    judge: LogLoss
    predictions: dict[Trial, np.ndarray]

    @property
    def held_out(self) -> np.ndarray:
        """Row numbers."""
        return np.concatenate([part.held_out for part in self.parts])

    @property
    def weights(self) -> np.ndarray:
        """Of the held-out rows."""
        if self.parts[0].weights is None:
            return np.ones(len(self.held_out))
        return np.concatenate([part.weights for part in self.parts])

    def loss(self, predictions: np.ndarray, judge: LogLoss) -> float:
        """Log-loss with the best link."""
        held_out = self.held_out
        return judge.best_link(
            predictions, self.rows.y[held_out], self.weights, len(np.unique(held_out))
        )[1]

    def tuned(self, before: Tuned, trials: Sequence[Trial]) -> Tuned:
        """The average of these trials."""
        predictions = [self.predictions[trial] for trial in trials]
        weights = greedy_weights(
            predictions,
            self.rows.y[self.held_out],
            self.judge,
            n_members=len(trials),
            weights=self.weights,
        )
        order = np.argsort(-weights, kind="stable")
        among: Callable[[Sequence[Trial]], Tuned] = partial(self.tuned, before)
        return replace(
            before,
            members=[(trials[i], float(weights[i])) for i in order if weights[i] > 0],
            held_out=self.held_out,
            predictions=np.tensordot(weights, np.stack(predictions), 1),
            trials=[*before.trials, *self.predictions],
            among=among,
        )


def _refit(
    rows: Rows, parts: Sequence[Part], trial: Trial, judge: LogLoss, deadline: Deadline
) -> tuple[Trial, np.ndarray] | None:
    """A member with the log-loss at its best penalty, and its held-out predictions (m, k).

    None if the fit is interrupted.
    """
    candidate = trial.candidate
    problems = [_Problem(rows, part, trial) for part in parts]
    y = np.concatenate([part.y for part in parts])
    weights = None if parts[0].weights is None else np.concatenate([p.weights for p in parts])
    found: dict[int, tuple[float, np.ndarray]] = {}

    def loss(place: int) -> float:
        if deadline.interrupted or not 0 <= place < len(PENALTIES):
            return np.inf
        if place not in found:
            outputs = np.concatenate([one.outputs(PENALTIES[place]) for one in problems])
            found[place] = float(np.average(judge.losses(outputs, y), weights=weights)), outputs
        return found[place][0]

    best = _FIRST
    step = 1 if loss(best + 1) < loss(best) else -1
    while loss(best + step) < loss(best):
        best += step
    if deadline.interrupted:
        return None
    mean, predictions = found[best]
    better = replace(candidate, penalty=PENALTIES[best])
    return replace(trial, candidate=better, loss=mean), predictions


class _Problem:
    """Kernel logistic regression on one part, from penalty to penalty."""

    def __init__(self, rows: Rows, part: Part, trial: Trial):
        X, X_new = part.scaled_rows(trial.candidate.metric)
        path = fit_member_path(rows, part.train, X, trial)
        self._K, self._K_new = path_kernel(path), path_kernel(path, X_new)
        self._target = log_loss_target(rows, part.train)
        self._alpha: np.ndarray | None = None

    def outputs(self, penalty: float) -> np.ndarray:
        """For the held-out rows, shape (m, k)."""
        self._alpha = fit_logistic(self._K, self._target, penalty, self._alpha)
        return self._K_new @ self._alpha


def _partition(parts: Sequence[Part]) -> list[Part]:
    """Parts from the first on, as long as no row is held out twice."""
    chosen: list[Part] = []
    seen: set[int] = set()
    for part in parts:
        rows = set(part.held_out.tolist())
        if rows & seen:
            break
        seen |= rows
        chosen.append(part)
    return chosen


def _affordable(rows: Rows, parts: Sequence[Part], n_members: int, deadline: Deadline) -> bool:
    """Whether rows are few enough for matrices of their own, and there is time."""
    n = max(map(len, parts))
    if len(rows) > MAX_ROWS or 8 * _MATRICES * len(rows) ** 2 > rows.backend.budget:
        return False
    return deadline.has_room(n, _n_ladders(parts, n_members))


def _n_ladders(parts: Sequence[Part], n_members: int) -> float:
    """What refitting costs, in ladders of speeds; a Cholesky factor takes n³."""
    return n_members * len(parts) * (1.0 + len(parts[0]) / 1000)
