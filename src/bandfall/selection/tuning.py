"""Choosing kernel, speed, metric and stop by evidence: the search behind `BandfallRegressor`.

One path serves every stop, one set of distances every speed. How many rounds of the learned
metric pay depends on kernel and speed, so each round is judged by a few of both; then speed,
kernel and feature transform are asked for one after the other. Everything that was tried is kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import joblib
import numpy as np

from bandfall.backends import HOST, Backend
from bandfall.descent import Flow, Path, Stopping, fit_path
from bandfall.kernels import get_kernel
from bandfall.metric import gradient_outer_product, metric_root, scaled
from bandfall.operators import KernelOperator
from bandfall.schedules import MinimumSpeed

SPEEDS = (0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.003)
KERNELS = ("gaussian", "matern52", "matern32", "matern12", "cauchy")
# What judges a round of the metric, and its gradients teach the next: the last.
PROBES = (("gaussian", 0.05), ("matern12", 0.02), ("matern32", 0.02))
MAX_R2 = 0.9999  # on training rows, where no earlier stop is better
_LOSS = 0.75  # power of squared errors
_WORTH = 0.005  # what the loss must fall by to be worth slower speeds and further rounds
_SHRINK = 0.2  # of the bandwidth from stage to stage: errors of 0.2 % of a standard deviation


@dataclass(frozen=True)
class Candidate:
    """A configuration: kernel, slowest speed, rounds of the learned metric, feature transform."""

    kernel: str = "gaussian"
    min_speed: float = 0.1
    n_rounds: int = 0
    transform: str = "standard"


@dataclass(frozen=True)
class Trial:
    """What a candidate achieved on held-out rows.

    Attributes
    ----------
    candidate : Candidate
    loss : float
        Mean of |error|^1.5 on held-out rows at the best stop, all splits together, errors in
        standard deviations of the target: what decides. Squares would let a few rows decide.
    standard_error : float
        Of `loss` minus the first trial's, over held-out rows; NaN for the first.
    score : float
        R² on the same rows.
    max_r2 : float
        Training R² at that stop.
    n_rows : int
        Training rows of a split.
    """

    candidate: Candidate
    loss: float
    standard_error: float
    score: float
    max_r2: float
    n_rows: int


@dataclass(frozen=True)
class Curve:
    """Squared errors (S+1, m) at held-out rows before and after every stage, and training R²."""

    squares: np.ndarray
    r2: np.ndarray
    weights: np.ndarray

    def at(self, level: float) -> np.ndarray:
        """Squared errors after the first stage that reaches a training R²."""
        stage = int(np.searchsorted(self.r2, level - 1e-12))
        return self.squares[min(max(stage, 1), len(self.squares) - 1)]


@dataclass
class HeldOut:
    """Rows to train on and rows to judge by; remembers metrics, and what it used last.

    Attributes
    ----------
    views : dict of str to (ndarray (n, d), ndarray (m, d))
        Training and held-out features under each transform.
    y, y_held_out : ndarray of shape (n, k), (m, k)
    weights, weights_held_out : ndarray or None
    backend : Backend
        Where to compute, and in how much memory.
    roots : dict of (str, int) to ndarray
        Metrics known for a transform and a number of rounds; further ones are learned here.
    """

    views: dict[str, tuple[np.ndarray, np.ndarray]]
    y: np.ndarray
    y_held_out: np.ndarray
    weights: np.ndarray | None = None
    weights_held_out: np.ndarray | None = None
    backend: Backend = HOST
    roots: dict[tuple[str, int], np.ndarray] = field(default_factory=dict)
    _operator: tuple[object, KernelOperator] | None = None
    _last: tuple[Candidate, Path] | None = None

    def root(self, transform: str, n_rounds: int, scout: Candidate) -> np.ndarray:
        """The metric after some rounds, learned with the scout's kernel and speed."""
        key = (transform, n_rounds)
        if key not in self.roots:
            if n_rounds == 0:
                self.roots[key] = np.ones(self.views[transform][0].shape[1])
            else:
                before = self.root(transform, n_rounds - 1, scout)
                path = self.train(replace(scout, n_rounds=n_rounds - 1, transform=transform), scout)
                product = gradient_outer_product(path, backend=self.backend)
                self.roots[key] = metric_root(product, before)
        return self.roots[key]

    def train(self, candidate: Candidate, scout: Candidate) -> Path:
        """The candidate's path on the training rows; the last one is kept."""
        if self._last is None or self._last[0] != candidate:
            root = self.root(candidate.transform, candidate.n_rounds, scout)
            self._last = candidate, self._fit(candidate, root)
        return self._last[1]

    def _fit(self, candidate: Candidate, root: np.ndarray) -> Path:
        X = scaled(self.views[candidate.transform][0], root)
        kernel = get_kernel(candidate.kernel)
        key = (candidate.transform, candidate.n_rounds, candidate.kernel)
        if self._operator is None or self._operator[0] != key:
            self._operator = None  # one at a time
            operator = self.backend.operator(X, kernel, n_columns=self.y.shape[1])
            self._operator = key, operator
        return fit_candidate(
            X,
            self.y,
            candidate,
            weights=self.weights,
            operator=self._operator[1],
            backend=self.backend,
        )

    def errors(self, candidate: Candidate, scout: Candidate) -> Curve:
        """The candidate's errors; targets count with their variance over the training rows."""
        path = self.train(candidate, scout)
        root = self.root(candidate.transform, candidate.n_rounds, scout)
        X = scaled(self.views[candidate.transform][1], root)
        start = np.broadcast_to(path.offset, (1, *self.y_held_out.shape))
        staged = path.evaluate_staged(X, backend=self.backend)
        staged = np.concatenate([start, staged])
        unit = np.where(path.scale > 0, path.scale, np.inf) / math.sqrt(len(self.y))
        squares = (((staged - self.y_held_out) / unit) ** 2).mean(axis=2)
        weights = self.weights_held_out
        weights = np.ones(len(X)) if weights is None else weights
        return Curve(squares, np.append(0.0, path.stage_r2), weights)


def fit_candidate(
    X: np.ndarray,
    y: np.ndarray,
    candidate: Candidate,
    *,
    max_r2: float = MAX_R2,
    **resources: Any,
) -> Path:
    """Train on scaled rows; `resources` as for `fit_path`.

    Coarser than `KernelDescentRegressor`: on held-out rows the difference does not show.
    """
    return fit_path(
        X,
        y,
        get_kernel(candidate.kernel),
        solver=Flow(tolerance=1e-5),
        schedule=MinimumSpeed(candidate.min_speed, _SHRINK),
        stopping=Stopping(max_r2=max_r2, max_iter=2000),
        **resources,
    )


class Search:
    """Tries candidates on all splits and keeps what happened.

    Parameters
    ----------
    splits : sequence of HeldOut
    trials : list of Trial
        Where trials are appended.
    out_of_time : callable () -> bool
        Asked before every trial but the first.
    n_jobs : int, optional
        Splits at a time, each on a thread of its own.
    """

    def __init__(
        self,
        splits: Sequence[HeldOut],
        trials: list[Trial],
        out_of_time: Callable[[], bool] = lambda: False,
        n_jobs: int | None = None,
    ):
        self.splits = splits
        self.trials = trials
        self.scout = Candidate()
        self._out_of_time = out_of_time
        self._parallel = joblib.Parallel(n_jobs=n_jobs, require="sharedmem")
        self._known: dict[Candidate, Trial] = {}
        self._reference: np.ndarray | None = None

    def run(self, candidate: Candidate) -> Trial | None:
        """The trial of a candidate, from memory where it was tried; None once time is up."""
        if candidate in self._known:
            return self._known[candidate]
        if self._known and self._out_of_time():
            return None
        curves = self._parallel(
            joblib.delayed(split.errors)(candidate, self.scout) for split in self.splits
        )
        level, squares = _best_stop(curves)
        weights = np.concatenate([curve.weights for curve in curves])
        start = np.concatenate([curve.squares[0] for curve in curves])
        variance = np.average(start, weights=weights)
        losses = weights / weights.mean() * squares**_LOSS
        if self._reference is None:
            self._reference = losses
        difference = float((losses - self._reference).std()) / math.sqrt(len(losses))
        trial = Trial(
            candidate,
            loss=float(losses.mean()),
            standard_error=difference if self._known else math.nan,
            score=float(1.0 - np.average(squares, weights=weights) / variance) if variance else 0.0,
            max_r2=level,
            n_rows=len(self.splits[0].y),
        )
        self._known[candidate] = trial
        self.trials.append(trial)
        return trial

    @property
    def ranked(self) -> list[Trial]:
        """All trials, best first."""
        return sorted(self._known.values(), key=lambda trial: trial.loss)

    @property
    def best(self) -> Trial:
        """The best trial so far."""
        return self.ranked[0]

    @property
    def first(self) -> Trial:
        """The first trial: what the others are measured against."""
        return next(iter(self._known.values()))

    def improved(self, before: Trial) -> bool:
        """Whether the best trial is better than one before by enough to go on."""
        return self.best.loss < (1.0 - _WORTH) * before.loss

    def climb(self, step: Callable[[Candidate], Candidate], most: int) -> None:
        """Go on from the best candidate, a step at a time, while that helps."""
        for _ in range(most):
            best = self.best
            if self.run(step(best.candidate)) is None or not self.improved(best):
                return

    def ladder(self, around: Candidate, speeds: Sequence[float] = SPEEDS) -> None:
        """Climb down from a speed to slower ones while that helps, then up to faster ones."""
        start = speeds.index(around.min_speed)
        for rungs in (speeds[start + 1 :], speeds[:start][::-1]):
            misses = 0
            for speed in rungs:
                best = self.best
                if self.run(replace(around, min_speed=speed)) is None:
                    return
                misses = 0 if self.improved(best) else misses + 1
                if misses == 2:
                    break

    def rounds(self, probes: Sequence[Candidate], max_rounds: int) -> None:
        """Learn the metric round by round while that helps any of the probes."""
        self.scout, misses = probes[-1], 0
        for n_rounds in range(max_rounds + 1):
            best = self.best
            for probe in probes:
                if self.run(replace(probe, n_rounds=n_rounds)) is None:
                    return
            misses = 0 if self.improved(best) else misses + 1
            if misses == 2:
                return


def search(
    splits: Sequence[HeldOut],
    trials: list[Trial],
    *,
    kernels: Sequence[str] = KERNELS,
    max_rounds: int = 10,
    transforms: Sequence[str] = ("standard",),
    out_of_time: Callable[[], bool] = lambda: False,
    n_jobs: int | None = None,
) -> Search:
    """Rounds of the metric, then speed, kernel and speed again, then the feature transform."""
    tried = Search(splits, trials, out_of_time, n_jobs)
    tried.run(Candidate())  # the paper's rule: what everything is measured against
    probes = [Candidate(kernel, speed) for kernel, speed in PROBES if kernel in kernels]
    tried.rounds(probes or [Candidate(kernels[0], 0.02)], max_rounds)
    tried.ladder(tried.best.candidate)
    for kernel in kernels:
        tried.run(replace(tried.best.candidate, kernel=kernel))
    tried.ladder(tried.best.candidate)
    for transform in transforms:
        tried.run(replace(tried.best.candidate, transform=transform))
    return tried


def _best_stop(curves: Sequence[Curve]) -> tuple[float, np.ndarray]:
    """The training R² at which to stop, the same on all splits, and squared errors there."""
    levels = np.unique(np.concatenate([curve.r2[1:] for curve in curves]))
    if not len(levels):
        return 0.0, np.concatenate([curve.squares[-1] for curve in curves])
    levels = levels[np.linspace(0, len(levels) - 1, min(len(levels), 60)).astype(int)]
    weights = np.concatenate([curve.weights for curve in curves])
    totals = [np.concatenate([curve.at(level) for curve in curves]) for level in levels]
    best = int(np.argmin([np.average(total**_LOSS, weights=weights) for total in totals]))
    return float(levels[best]), totals[best]
