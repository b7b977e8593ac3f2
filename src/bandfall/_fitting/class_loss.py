"""Members for classes by both losses, squared error and log-loss, in one average of log-odds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import numpy as np

from bandfall._fitting.paths import fit_member_path, log_loss_target
from bandfall._models.logistic import ClassTarget, fit_logistic, path_kernel
from bandfall._models.member import Candidate
from bandfall._models.metric import learned_root
from bandfall._products import DenseOperator
from bandfall._search.averaging import Tuned, average_of
from bandfall._search.clock import LOG_LOSS, Clock
from bandfall._search.metrics import Roots, roots_of
from bandfall._search.parts import Part, Rows, joined_targets, joined_weights
from bandfall._search.search import tune
from bandfall._search.settings import PENALTIES, Settings
from bandfall._search.splits import folds_for
from bandfall._search.trials import Trial
from bandfall._targets.links import SOFTMAX_LINKS, LogLoss
from bandfall._targets.losses import mean_and_error, mean_r2
from bandfall._threads import parallel_map
from bandfall.descent._sum import KernelSum
from bandfall.kernels._kernel import Kernel, get_kernel

_FEW_PER_CLASS = 5  # rows: with fewer, one Gaussian by squared error is all that is tried
_N_WIDE = 11  # fits of wide kernels, usually

Task = TypeVar("Task")


def tune_classes(
    rows: Rows,
    *,
    kernels: Sequence[Kernel | str] | None = None,
    clock: Clock | None = None,
    n_jobs: int | None = None,
    **arguments: Any,
) -> Tuned:
    """`tune`, and then the log-loss."""
    clock, settings = clock or Clock(), for_columns(rows.settings, rows.y.shape[1])
    if len(rows) > rows.leaf_rows:  # final fits to all rows take most of the time
        n_members = max(2, settings.member_columns // rows.y.shape[1])
        settings = replace(settings, n_members=min(settings.n_members, n_members))
    wide: Sequence[tuple[Kernel | str, float, float]] = settings.wide
    if len(rows) < _FEW_PER_CLASS * max(2, rows.y.shape[1]):  # too few to choose by
        few, speeds = {"standard": ("gaussian",)}, settings.first_speeds[:2]
        settings = replace(settings, class_families=few, first_speeds=speeds, max_rounds=0)
        settings = replace(settings, log_loss_rows=0)
    elif kernels is not None:
        wide = [(kernels[0], *wide[0][1:])]
    elif len(rows) < settings.few_kernel_rows:
        wide, kernels = wide[:1], settings.few_kernels
    rows = replace(rows, settings=settings)
    if _minimised(rows):
        n_rows, n_fits = min(len(rows), settings.penalty_rows), settings.n_members + _N_WIDE
        clock.expect(LOG_LOSS, n_fits * _entries(n_rows, folds_for(rows) or 1))
    tuned = tune(rows, kernels=kernels, clock=clock, n_jobs=n_jobs, **arguments)
    try:
        return with_log_odds(rows, tuned, wide_candidates(rows, wide), clock, n_jobs)
    except KeyboardInterrupt:
        clock.press()
        clock.skip("no models of the log-loss were tried")
        return tuned


def for_columns(settings: Settings, n_columns: int) -> Settings:
    """The settings with fewer rows for many classes.

    A rung costs rows² times columns, and a column more for each class and speed.
    """
    most = min(settings.rung_rows[-1], int(math.sqrt(settings.rung_entries / n_columns)))
    first = int(math.sqrt(settings.first_entries / n_columns))
    rung_rows = min(settings.rung_rows[0], first), *settings.rung_rows[1:]
    return replace(settings, rung_rows=rung_rows).up_to(most)


def wide_candidates(
    rows: Rows, wide: Sequence[tuple[Kernel | str, float, float]]
) -> list[Candidate]:
    """Kernels of one wide bandwidth under all encodings.

    Norms that add columns up do not need steps, which make curves of single columns.
    """
    return [
        Candidate(encoding, kernel=get_kernel(kernel), width=width, penalty=penalty)
        for encoding in rows.views
        for kernel, width, penalty in wide
        if encoding != "steps" or get_kernel(kernel).geometry.rotates
    ]


def with_log_odds(
    rows: Rows, tuned: Tuned, wide: Sequence[Candidate], clock: Clock, n_jobs: int | None
) -> Tuned:
    """The average of log-odds with the smallest held-out log-loss; of many rows that of the search.

    Log-odds are those of kernel logistic regressions, in the kernels of the members' paths and in
    wide kernels, whose metric is learned from log-odds, and the outputs of the members, each
    divided by a temperature. Held-out rows choose penalties and temperatures.
    """
    parts = [_some_rows(part, rows.settings.penalty_rows) for part in _partition(tuned.parts)]
    if not parts or not _affordable(rows, parts, len(tuned.members), clock):
        return tuned

    def each(task: Callable[[Task], list[Fit]], tasks: Sequence[Task]) -> list[Fit]:
        fits = parallel_map(task, tasks, n_rows=len(parts[0]), n_jobs=n_jobs, stop=clock.end)
        return [fit for some in fits for fit in some]

    def of_member(trial: Trial) -> list[Fit]:
        roots = roots_of(tuned.metrics, trial.candidate.metric, parts)[: len(parts)]
        return refit(parts, trial, roots, clock)

    members = [trial for trial, _ in tuned.members]
    fits = each(of_member, members)
    if len(fits) < len(members):
        return tuned
    # Members by squared error at their best temperatures; their paths are those of the fits, so
    # that both losses are compared on equal terms.
    y, weights, by_codes = joined_targets(parts), joined_weights(parts), {}
    for fit, trial in zip(fits, members, strict=True):
        link, loss = _judge(rows).best_link(fit.codes, y, weights, len(y), SOFTMAX_LINKS)
        as_odds = replace(trial, loss=loss, temperature=link.parameter)
        by_codes[as_odds] = fit.codes / link.parameter
    tried, learned = wide_fits(parts, wide, each, clock)
    fits += learned
    outputs = {fit.trial: fit.outputs for fit in fits}
    metrics = {fit.trial.candidate.metric: fit.roots for fit in fits}
    trials = [*tuned.trials, *(fit.trial for fit in tried), *outputs]
    return average_of(outputs | by_codes, parts, _judge(rows), trials, metrics)


def wide_fits(
    parts: Sequence[Part], wide: Sequence[Candidate], each: Callable[..., list[Fit]], clock: Clock
) -> tuple[list[Fit], list[Fit]]:
    """All fits of wide kernels that chose, and those that may join the average.

    Fewer rows choose kernels, penalties and metrics, which suit more rows, too.
    """
    settings = parts[0].rows.settings
    few = [_some_rows(part, settings.wide_rows) for part in parts]
    half, nan, n = first_half(few), np.nan, len(few[0])
    plain = [Trial(candidate, nan, nan, nan, Settings.max_r2, n) for candidate in wide]
    tried = each(lambda trial: refit(half, trial, _as_they_are(trial, half), clock, 2), plain)
    best = sorted([fit.trial for fit in tried], key=lambda trial: trial.loss)
    best = [trial for trial in best if trial.loss <= settings.wide_max_ratio * best[0].loss]
    learned = each(lambda trial: rounds(few, trial, clock), best[: settings.wide_finalists])
    if n == len(parts[0]):
        return tried, learned
    last_is_best = sorted(learned, key=lambda fit: -fit.trial.loss)
    finalists = {fit.trial.candidate.family: fit for fit in last_is_best}.values()
    refits = each(lambda fit: refit(parts, fit.trial, fit.roots, clock, 0), [*finalists])
    return [*tried, *learned], refits


def first_half(parts: Sequence[Part]) -> Sequence[Part]:
    """The parts that choose wide kernels and penalties: half of them at most, but at least one."""
    return parts[: max(1, len(parts) // 2)]


def _as_they_are(trial: Trial, parts: Sequence[Part]) -> Roots:
    return roots_of({}, trial.candidate.metric, parts)


class Fit(NamedTuple):
    """A trial with the log-loss, trained on some parts."""

    trial: Trial
    roots: Roots  # its metric on every part
    outputs: np.ndarray  # (m, k): log-odds for the held-out rows of all parts
    codes: np.ndarray  # (m, k): what its paths predict for them by squared error
    models: tuple[KernelSum, ...]  # log-odds of every part


def rounds(parts: Sequence[Part], trial: Trial, clock: Clock) -> list[Fit]:
    """Fits of a wide kernel, in metrics that are learned from log-odds while that helps."""
    settings, backend = parts[0].rows.settings, parts[0].rows.backend
    mixes, roots, fits = trial.candidate.metric.mixes, _as_they_are(trial, parts), []
    for number in range(1, min(settings.wide_rounds, settings.max_rounds) + 2):
        fits += refit(parts, trial, roots, clock)
        if len(fits) < number:
            break
        *_, fit = fits
        if number > 1 and fit.trial.loss > (1.0 - settings.wide_min_gain) * fits[-2].trial.loss:
            break
        trial = replace(fit.trial, candidate=replace(fit.trial.candidate, log_rounds=number))
        roots = tuple(
            learned_root(
                model, np.ones(len(model.offset)), root, diagonal=not mixes, backend=backend
            )
            for model, root in zip(fit.models, fit.roots, strict=True)
        )
    return fits


def refit(
    parts: Sequence[Part], trial: Trial, roots: Roots, clock: Clock, stride: int = 1
) -> list[Fit]:
    """A trial with the log-loss at its best penalty; none if interrupted.

    The first half of the parts chooses the penalty: downhill from the first, every `stride`-th; a
    stride of 0 keeps the first.
    """
    judge, half = _judge(parts[0].rows), first_half(parts)
    with clock.task(LOG_LOSS, _entries(len(parts[0]), len(parts))):
        problems = [Problem.of(*one, trial) for one in zip(parts, roots, strict=True)]
        some, y, weights = problems[: len(half)], joined_targets(half), joined_weights(half)
        solutions: dict[int, list[np.ndarray]] = {}  # by place among the penalties
        losses = {-1: math.inf, len(PENALTIES): math.inf}

        def loss(place: int) -> float:
            place = min(max(place, -1), len(PENALTIES))
            if place not in losses and not clock.interrupted:
                before = next(reversed(solutions.values()), [None] * len(half))
                pairs = zip(some, before, strict=True)
                solutions[place] = [one.solution(PENALTIES[place], alpha) for one, alpha in pairs]
                outputs = joined(some, solutions[place])
                losses[place] = float(np.average(judge.losses(outputs, y), weights=weights))
            return losses.get(place, math.inf)

        best = PENALTIES.index(trial.candidate.penalty or parts[0].rows.settings.first_penalty)
        step = stride if loss(best + stride) < loss(best) else -stride
        while loss(best + step) < loss(best):
            best += step
        if clock.interrupted:
            return []
        others = [one.solution(PENALTIES[best]) for one in problems[len(half) :]]
        alphas = [*solutions[best], *others]
    outputs, y, weights = joined(problems, alphas), joined_targets(parts), joined_weights(parts)
    mean, error = mean_and_error(judge.losses(outputs, y), weights)
    judged = replace(
        trial,
        candidate=replace(trial.candidate, penalty=PENALTIES[best]),
        loss=mean,
        standard_error=error,
        score=mean_r2(judge.codes(outputs), y, weights),
        n_rows=len(parts[0]),
    )
    codes = np.concatenate([one.codes for one in problems])
    models = [one.model(alpha) for one, alpha in zip(problems, alphas, strict=True)]
    return [Fit(judged, roots, outputs, codes, tuple(models))]


class Problem(NamedTuple):
    """Kernel logistic regression in the kernel of a path, or in a wide kernel, on one part."""

    start: KernelSum  # its bandwidths
    durations: np.ndarray  # what each of them counts in the kernel
    K: np.ndarray
    K_new: np.ndarray
    target: ClassTarget
    codes: np.ndarray  # what the path predicts for the held-out rows by squared error, (m, k)

    @classmethod
    def of(cls, part: Part, root: np.ndarray, trial: Trial) -> Problem:
        """The problem of a trial in a metric."""
        X, X_new = part.scaled(trial.candidate.encoding, root)
        target = log_loss_target(part.rows, part.train)
        if trial.candidate.width:
            return cls.wide(X, X_new, trial.candidate, target)
        path = fit_member_path(part.rows, part.train, X, trial)
        start, durations = path.undivided, path.durations
        codes = path.evaluate(X_new, backend=part.rows.backend)
        K, K_new = path_kernel(start, durations), path_kernel(start, durations, X_new)
        return cls(start, durations, K, K_new, target, codes)

    @classmethod
    def wide(
        cls, X: np.ndarray, X_new: np.ndarray, candidate: Candidate, target: ClassTarget
    ) -> Problem:
        """That of a wide kernel; in float64, because with small penalties rounding matters."""
        X, kernel, n_outputs = X.astype(np.float64), candidate.kernel, target.n_outputs
        operator = DenseOperator(X, kernel)
        bandwidths = np.array([candidate.width * operator.max_distance()])
        nothing, zero = np.zeros((1, len(X), n_outputs)), np.zeros(n_outputs)
        start, durations = KernelSum(X, kernel, bandwidths, nothing, zero), np.ones(1)
        K, K_new = operator.matrix(bandwidths[0]), path_kernel(start, durations, X_new)
        return cls(start, durations, K, K_new, target, np.zeros((len(X_new), n_outputs)))

    def solution(self, penalty: float, start: np.ndarray | None = None) -> np.ndarray:
        """The coefficients α, shape (n, k)."""
        return fit_logistic(self.K, self.target, penalty, start)

    def model(self, alpha: np.ndarray) -> KernelSum:
        """The log-odds of a solution."""
        coefficients = self.durations[:, None, None] * alpha
        return replace(self.start, coefficients=coefficients, offset=np.zeros(alpha.shape[1]))


def joined(problems: Sequence[Problem], alphas: Sequence[np.ndarray]) -> np.ndarray:
    """Log-odds of solutions for the held-out rows of all parts, (m, k)."""
    pairs = zip(problems, alphas, strict=True)
    return np.concatenate([one.K_new @ alpha for one, alpha in pairs])


def _judge(rows: Rows) -> LogLoss:
    """The log-loss of log-odds."""
    return LogLoss(log_loss_target(rows, np.arange(0)).prior, log_odds=True)


def _partition(parts: Sequence[Part]) -> Sequence[Part]:
    """Parts from the first on, as long as no row is held out twice."""
    seen: set[int] = set()
    for number, part in enumerate(parts):
        if not seen.isdisjoint(part.held_out):
            return parts[:number]
        seen.update(part.held_out)
    return parts


def _some_rows(part: Part, most: int) -> Part:
    """The part, with at most so many training rows.

    Penalties are those of a prior for the function: they suit any number of rows.
    """
    if len(part) <= most:
        return part
    some = np.random.RandomState(0).permutation(len(part))[:most]
    return Part(part.rows, part.train[np.sort(some)], part.held_out)


def _affordable(rows: Rows, parts: Sequence[Part], n_members: int, clock: Clock) -> bool:
    """Whether rows are few enough for matrices of their own, and there is time."""
    exact, n_together = len(rows) <= rows.settings.exact_rows, min(len(rows), rows.leaf_rows)
    # Five matrices of float64 in the search; two and a half of float32 in final fits to many rows.
    n_bytes = (8 * 5 if exact else 4 * 2.5) * n_together**2
    if not _minimised(rows) or n_bytes > rows.backend.budget:
        return False
    if not exact and clock.bounded:  # nothing has shown how long the final fits would take
        return False
    n_ladders = (n_members + _N_WIDE) * _n_ladders(len(parts[0]), len(parts))
    return clock.estimate(max(map(len, parts)), n_ladders) < clock.search_left


def _minimised(rows: Rows) -> bool:
    """Whether rows and classes are few enough for the log-loss; leaves of many take too long."""
    settings, divided = rows.settings, len(rows) > rows.leaf_rows
    if len(rows) > settings.log_loss_rows:
        return False
    if divided and rows.y.shape[1] > settings.leaf_columns:
        return False
    return min(len(rows), rows.leaf_rows) <= settings.cholesky_rows


def _n_ladders(n_rows: int, n_parts: int) -> float:
    """What a refit costs, in ladders of speeds; a Cholesky factor takes n³."""
    return n_parts * (1.0 + n_rows / 1000)


def _entries(n_rows: int, n_parts: int) -> float:
    """Entries of a refit: half a search's seconds per entry, as one penalty follows another."""
    return 0.5 * _n_ladders(n_rows, n_parts) * n_rows**2
