"""Choosing encoding, metric, kernel, speed and stop by evidence: the search behind Bandfall.

Under every encoding the metric is learned round by round, each round judged by all kernels and
speeds: one ladder of speeds costs little more than one path, and serves every stop. The best of
all encodings then meet on more rows or folds, and the model is a weighted average of few of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import joblib
import numpy as np

from bandfall.selection.averaging import greedy_weights
from bandfall.selection.candidates import KERNELS, SPEEDS, Budget, Candidate, Judge, PowerLoss, Trial
from bandfall.selection.parts import Outcome, Part, Rows, split_rows

_N_FIRST_SPEEDS = 7  # of SPEEDS: the slower ones are asked for where slow ones pay
_MAX_STOPS = 60


@dataclass(frozen=True)
class Tuned:
    """What a search has found.

    Attributes
    ----------
    members : list of (Trial, float)
        What to average, with weights of sum one, heaviest first.
    scouts : dict of (str, int) to Trial
        With what the metric of an encoding and a number of rounds is learned further.
    held_out : ndarray of shape (m,)
        Row numbers of the evidence; a row may stand there more than once.
    predictions : ndarray of shape (m, k)
        Of the average for these rows, by models that have not seen them.
    score : float
        Their R².
    trials : list of Trial
        Everything tried, in order.
    roots : dict of (str, int) to ndarray
        Metrics learned from enough rows to be used as they are.
    """

    members: list[tuple[Trial, float]]
    scouts: Mapping[tuple[str, int], Trial]
    held_out: np.ndarray
    predictions: np.ndarray
    score: float
    trials: list[Trial]
    roots: Mapping[tuple[str, int], np.ndarray]


def tune(
    rows: Rows,
    *,
    budget: Budget | None = None,
    judge: Judge | None = None,
    kernels: Sequence[str] = KERNELS,
    random: np.random.RandomState,
    out_of_time: Callable[[], bool] = lambda: False,
    n_jobs: int | None = None,
) -> Tuned:
    """Search.

    Parameters
    ----------
    rows : Rows
        At least four.
    budget : Budget, optional
    judge : Judge, optional
        `PowerLoss` by default.
    kernels : sequence of str
    random : RandomState
        Draws the held-out rows.
    out_of_time : callable () -> bool
        Asked after every trial; True ends the search with the best so far.
    n_jobs : int, optional
        Parts to work on at a time, each on a thread of its own. The result does not depend on it.
    """
    budget = budget or Budget()
    judge = judge or PowerLoss()
    first, second = _parts(rows, budget, random)
    search = Search(first, judge, out_of_time, n_jobs)
    for encoding in rows.views:
        search.rounds(encoding, kernels, budget.max_rounds, budget.worth)
        if search.over:
            break
    if second and not search.over:
        search = search.finals(second)
    return search.tuned(budget.n_members, reuse_roots=len(rows) >= budget.fold_rows)


class Search:
    """Tries candidates on all its parts and keeps what happened.

    Parameters
    ----------
    parts : list of Part
    judge : Judge
    out_of_time : callable () -> bool
    n_jobs : int, optional
    """

    def __init__(
        self,
        parts: list[Part],
        judge: Judge,
        out_of_time: Callable[[], bool] = lambda: False,
        n_jobs: int | None = None,
    ):
        self.parts = parts
        self.trials: list[Trial] = []
        self.scouts: dict[tuple[str, int], Trial] = {}
        self.over = False
        self._judge = judge
        self._out_of_time = out_of_time
        self._n_jobs = n_jobs
        self._parallel = joblib.Parallel(n_jobs=n_jobs, require="sharedmem")
        self._y = np.concatenate([part.y for part in parts])
        self._weights = _joined_weights(parts)
        self._predictions: dict[Candidate, np.ndarray] = {}
        self._reference: np.ndarray | None = None

    @property
    def best(self) -> list[Trial]:
        """The best speed of every encoding, metric and kernel, best first."""
        kept = [trial for trial in self.trials if trial.candidate in self._predictions]
        return sorted(kept, key=lambda trial: trial.loss)

    def rounds(self, encoding: str, kernels: Sequence[str], max_rounds: int, worth: float) -> None:
        """Learn the metric round by round while that helps any kernel."""
        speeds = dict.fromkeys(kernels, SPEEDS[:_N_FIRST_SPEEDS])
        least, misses = math.inf, 0
        for n_rounds in range(max_rounds + 1):
            best: tuple[Trial, list[Outcome], int] | None = None
            for kernel in kernels:
                trial, outcomes, index = self.run(encoding, n_rounds, kernel, speeds[kernel])
                if best is None or trial.loss < best[0].loss:
                    best = trial, outcomes, index
                speeds[kernel] = _neighbours(trial.candidate.min_speed)
                if self.over:
                    return
            assert best is not None
            scout, outcomes, index = best
            self.scouts[encoding, n_rounds] = scout
            misses = 0 if scout.loss < (1.0 - worth) * least else misses + 1
            least = min(least, scout.loss)
            flat = self.parts[0].root(encoding, n_rounds, {}).shape[0] < 2
            if misses == 2 or flat or n_rounds == max_rounds:
                return
            self._parallel(
                joblib.delayed(part.learn)(scout, outcome.ladder, index)
                for part, outcome in zip(self.parts, outcomes, strict=True)
            )

    def run(
        self, encoding: str, n_rounds: int, kernel: str, speeds: Sequence[float]
    ) -> tuple[Trial, list[Outcome], int]:
        """Try some speeds; the best trial, what happened on each part, and which speed it was."""
        outcomes = self._parallel(
            joblib.delayed(self._run)(part, encoding, n_rounds, kernel, speeds)
            for part in self.parts
        )
        trials = []
        losses = [_losses(self._judge, part, o) for part, o in zip(self.parts, outcomes, strict=True)]
        for i, speed in enumerate(speeds):
            candidate = Candidate(encoding, n_rounds, kernel, speed)
            trials.append(self._judged(candidate, outcomes, losses, i))
        best = int(np.argmin([trial.loss for trial in trials]))
        self.trials += trials
        self._predictions[trials[best].candidate] = _at_stop(outcomes, best, trials[best].max_r2)
        self.over = self._out_of_time()
        return trials[best], outcomes, best

    def finals(self, parts: list[Part]) -> Search:
        """A search in which the best of every encoding and kernel meet, on other parts.

        Models that differ in kind make a better average than the best few, which are alike.
        Parts of this search take part where they are among them: what they know is used again.
        """
        final = Search(parts, self._judge, self._out_of_time, self._n_jobs)
        final.scouts = self.scouts
        finalists: dict[tuple[str, str], Candidate] = {}
        for trial in self.best:
            candidate = trial.candidate
            finalists.setdefault((candidate.encoding, candidate.kernel), candidate)
        for candidate in finalists.values():
            speeds = _neighbours(candidate.min_speed)
            final.run(candidate.encoding, candidate.n_rounds, candidate.kernel, speeds)
            if final.over:
                break
        final.trials = self.trials + final.trials
        return final

    def tuned(self, n_members: int, reuse_roots: bool) -> Tuned:
        """The average to take, and the evidence for it."""
        best = self.best
        predictions = [self._predictions[trial.candidate] for trial in best]
        weights = greedy_weights(
            predictions, self._y, self._judge, n_members=n_members, weights=self._weights
        )
        members = [(best[i], float(weights[i])) for i in np.argsort(-weights) if weights[i] > 0]
        average = np.tensordot(weights, np.stack(predictions), 1)
        return Tuned(
            members,
            self.scouts,
            np.concatenate([part.held_out for part in self.parts]),
            average,
            _r2(average, self._y, self._weights),
            self.trials,
            self.parts[0].roots if reuse_roots else {},
        )

    def _run(
        self, part: Part, encoding: str, n_rounds: int, kernel: str, speeds: Sequence[float]
    ) -> Outcome:
        part.root(encoding, n_rounds, self.scouts)
        return part.run(encoding, n_rounds, kernel, speeds)

    def _judged(
        self, candidate: Candidate, outcomes: list[Outcome], losses: list[np.ndarray], speed: int
    ) -> Trial:
        """The trial of one speed, at the stop that is best for all parts together."""
        levels = np.unique(np.concatenate([outcome.ladder.r2[1:, speed] for outcome in outcomes]))
        places = np.linspace(0, len(levels) - 1, min(len(levels), _MAX_STOPS)).astype(int)
        best: tuple[float, float, np.ndarray] | None = None
        for level in levels[places] if len(levels) else [0.0]:
            rows = np.concatenate(
                [
                    loss[outcome.ladder.reached(speed, level) if len(loss) > 1 else 0, :, speed]
                    for loss, outcome in zip(losses, outcomes, strict=True)
                ]
            )
            mean = float(np.average(rows, weights=self._weights))
            if best is None or mean < best[0]:
                best = mean, float(level), rows
        assert best is not None
        loss, level, rows = best
        standard_error = math.nan
        if self._reference is None:
            self._reference = rows
        else:
            weights = np.ones_like(rows) if self._weights is None else self._weights
            difference = (rows - self._reference) * weights / weights.mean()
            standard_error = float(difference.std()) / math.sqrt(len(rows))
        score = _r2(_at_stop(outcomes, speed, level), self._y, self._weights)
        return Trial(candidate, loss, standard_error, score, level, len(self.parts[0]))


def _parts(
    rows: Rows, budget: Budget, random: np.random.RandomState
) -> tuple[list[Part], list[Part]]:
    """Parts for the whole search, and those for its finalists (none: the same)."""
    n = len(rows)
    if n < budget.fold_rows:
        folds = split_rows(n, random, budget.n_folds)
        if n < budget.few_rows:
            again = split_rows(n, random, budget.n_folds)
            parts = [Part(rows, *split) for split in folds + again]
            return parts[: len(folds)], parts
        parts = [Part(rows, *split) for split in folds]
        return parts[: budget.race_folds], parts
    order = random.permutation(n)
    n_held_out = min(n // 6, budget.held_out_rows)
    held_out, others = order[:n_held_out], order[n_held_out:]
    first = Part(rows, others[: budget.first_rows], held_out)
    if len(others) <= budget.first_rows:
        return [first], []
    return [first], [Part(rows, others[: budget.second_rows], held_out)]


def _neighbours(speed: float) -> tuple[float, ...]:
    """A speed, the next faster and the next slower one."""
    place = SPEEDS.index(speed)
    return SPEEDS[max(0, place - 1) : place + 2]


def _losses(judge: Judge, part: Part, outcome: Outcome) -> np.ndarray:
    """Of every held-out row at every stop and speed, shape (L + 1, m, V)."""
    y = part.y[:, None, :]
    return np.stack([judge.losses(level, y) for level in outcome.predictions])


def _at_stop(outcomes: Sequence[Outcome], speed: int, level: float) -> np.ndarray:
    """Predictions of one speed for all held-out rows, shape (m, k)."""
    return np.concatenate(
        [
            outcome.predictions[
                outcome.ladder.reached(speed, level) if len(outcome.predictions) > 1 else 0,
                :,
                speed,
            ]
            for outcome in outcomes
        ]
    )


def _joined_weights(parts: Sequence[Part]) -> np.ndarray | None:
    weights = [part.weights for part in parts if part.weights is not None]
    return np.concatenate(weights) if weights else None


def _r2(predictions: np.ndarray, y: np.ndarray, weights: np.ndarray | None) -> float:
    """R² averaged over targets that vary; NaN where none does."""
    mean = np.average(y, axis=0, weights=weights)
    variance = np.average((y - mean) ** 2, axis=0, weights=weights)
    error = np.average((predictions - y) ** 2, axis=0, weights=weights)
    varies = variance > 0
    return float(np.mean(1.0 - error[varies] / variance[varies])) if varies.any() else math.nan

