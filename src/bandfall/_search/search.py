"""The search behind Bandfall: held-out rows choose encoding, metric, kernel, speed and stop.

A family is an encoding and a kernel. Families that measure distances in the same metric learn it
together, and each is judged at several speeds: a ladder of speeds costs little more than one path
and covers every stop. The best trial of every family is then compared with the others on more rows
or folds. The model is a weighted average of a few families, because models of different kinds make
a better average than the best few, which resemble each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace

import numpy as np

from bandfall._models.member import Family
from bandfall._search.averaging import Tuned, average_of, held_out_weights
from bandfall._search.clock import (
    AFTERWARDS,
    FINAL_FITS,
    FINALISTS,
    PATH,
    SEARCH,
    SUMMARY,
    Clock,
)
from bandfall._search.pace import affordable_settings
from bandfall._search.parts import Part, Rows
from bandfall._search.rounds import Found, judge_again, race
from bandfall._search.settings import Settings
from bandfall._search.splits import rung_splits
from bandfall._search.trainer import Trainer
from bandfall._search.trials import Trial
from bandfall._targets.losses import Judge, PowerLoss
from bandfall.kernels._kernel import Kernel, get_kernel


def tune(
    rows: Rows,
    *,
    kernels: Sequence[Kernel | str] | None = None,
    judge: Judge | None = None,
    random: np.random.RandomState,
    tried: Callable[[Trial], object] = lambda trial: None,
    clock: Clock | None = None,
    n_jobs: int | None = None,
) -> Tuned:
    """Search over at least four rows.

    `kernels` are tried under every encoding, by default those of the settings. `random` draws the
    held-out rows. `tried` is called with the best trial of every ladder of speeds. The search
    leaves time of the `clock` for the final fits; after `clock.end()` it returns the best so far.
    The result does not depend on `n_jobs`.
    """
    clock, judge = clock or Clock(), judge or PowerLoss()
    families = families_for(rows, kernels)
    exact = exact_families_for(rows) if kernels is None else []
    rows = replace(rows, settings=affordable_settings(rows, families, judge, clock))
    rungs = [[Part(rows, *split) for split in splits] for splits in rung_splits(rows, random)]
    expect(clock, rows, len(families), rungs)
    with closing(Trainer(rungs[0], judge, tried, clock, n_jobs=n_jobs)) as trainer:
        found = race(families, trainer, exact)
    if not found.predictions:
        raise KeyboardInterrupt
    parts = rungs[0]
    if clock.search_over() or trainer.cut:
        clock.skip(f"the search ended early, after {len(found.trials)} trials")
    else:
        parts, found = finals(rungs, found, trainer)
    outputs = {trial: found.predictions[trial] for trial in found.best}
    return average_of(outputs, parts, judge, found.trials, found.metrics)


def families_for(rows: Rows, kernels: Sequence[Kernel | str] | None = None) -> list[Family]:
    """The families that are searched for these rows: with these kernels, or those of settings."""
    if kernels is not None:
        return families_among(rows, dict.fromkeys(rows.views, tuple(kernels)))
    settings, n = rows.settings, len(rows)
    usual, more, most = settings.families, settings.more_for_numbers, n
    if rows.strata is not None:
        usual, more, most = settings.class_families, settings.more_for_classes, settings.exact_rows
    families = families_among(rows, usual)
    if settings.fold_rows <= n <= most:
        others = families_among(rows, more)
        most_columns = settings.more_columns
        families += [one for one in others if rows.n_columns(one.encoding) <= most_columns]
    if rows.strata is None and n < settings.constant_rows:
        gaussian = get_kernel("gaussian")
        families += [Family("standard", gaussian, width) for width in settings.constant_widths]
    return families


def exact_families_for(rows: Rows) -> list[Family]:
    """Further families for numbers of many rows, if they turn out to be almost free of noise."""
    tried = rows.strata is None and len(rows) >= rows.settings.fold_rows
    return families_among(rows, rows.settings.exact_families) if tried else []


def families_among(rows: Rows, kernels: Mapping[str, Sequence[Kernel | str]]) -> list[Family]:
    """The families of these kernels whose encodings the rows have."""
    return [
        Family(encoding, get_kernel(kernel))
        for encoding in rows.views
        for kernel in kernels.get(encoding, ())
    ]


def finals(rungs: Sequence[list[Part]], found: Found, trainer: Trainer) -> tuple[list[Part], Found]:
    """Judge the best of every family on more folds or rows; return the last rung and its trials."""
    parts, clock = rungs[0], trainer.clock
    try:
        for number, more in enumerate(rungs[1:], start=1):
            if number > 1 and not more_rows_help(found.trials, trainer.settings):
                break
            grows = len(more[0]) > len(parts[0])
            finalists = shortlist(found, parts, trainer.judge, grows=grows, last=number > 1)
            # More rows teach better metrics, but leaves learn theirs anyway. Of more folds, only
            # the new ones learn metrics.
            anew = grows and (number == 1 or len(parts[0].rows) <= parts[0].rows.leaf_rows)
            earlier = replace(found, metrics={}) if anew else found
            with closing(replace(trainer, parts=more, stage=FINALISTS)) as final:
                decided = judge_again(finalists, earlier, final)
            n_left = len(finalists) - len(decided.finalists)
            if n_left > 0:
                clock.skip(f"{n_left} of {len(finalists)} finalists were not tried further")
            if decided.predictions:
                parts, found = more, decided
            if clock.search_over():
                break
    except KeyboardInterrupt:
        clock.press()
    return parts, found


def more_rows_help(trials: Sequence[Trial], settings: Settings) -> bool:
    """Whether twice the rows lower the least loss by `min_gain_rows`, as far as known.

    The first two rungs have the same held-out rows.
    """
    ordered = sorted(trials, key=lambda trial: -trial.loss)
    least = {trial.n_rows: trial.loss for trial in ordered if not trial.log_odds}
    if len(least) < 2:
        return True
    few, many = sorted(least)[:2]
    return least[many] < (1.0 - settings.min_gain_rows) ** math.log2(many / few) * least[few]


def leaf_rows_for(rows: Rows, trials: Sequence[Trial]) -> int:
    """Most rows of a leaf: half of `leaf_rows`, unless many more rows help."""
    if len(rows) <= rows.leaf_rows or more_rows_help(trials, rows.settings):
        return rows.leaf_rows
    return min(rows.leaf_rows, max(rows.leaf_rows // 2, rows.settings.usual_leaf))


def shortlist(
    found: Found, parts: Sequence[Part], judge: Judge, *, grows: bool = False, last: bool = False
) -> list[Trial]:
    """The trials for the next rung: all families that may still win.

    If the next rung has more rows (`grows`), which take longer, only those near the best and those
    in the average of this rung; in the `last` only the latter.
    """
    settings, finalists = parts[0].rows.settings, found.finalists
    ratio = settings.max_ratio_rows if grows else settings.max_ratio_folds
    most = ratio * finalists[0].loss
    near = np.array([not (last or trial.loss > most) for trial in finalists])
    if grows or last:
        outputs = {trial: found.predictions[trial] for trial in finalists}
        near |= held_out_weights(outputs, parts, judge) > 0
    return [trial for trial, goes_on in zip(finalists, near, strict=True) if goes_on]


def expect(clock: Clock, rows: Rows, n_families: int, rungs: Sequence[Sequence[Part]]) -> None:
    """Announce the usual work of the whole fit."""
    settings, n = rows.settings, len(rows)
    n_ladders = PATH * rows.final_share(n) * settings.n_members
    clock.reserve(clock.estimate(n, 0.5 * n_ladders))
    clock.expect(FINAL_FITS, n_ladders * n**2)
    clock.expect(SUMMARY, AFTERWARDS * n**2)
    stage = SEARCH
    for parts in rungs:
        n_rounds = min(settings.max_rounds, settings.patience + 1)
        clock.expect(stage, n_families * (1.0 + n_rounds) * len(parts) * len(parts[0]) ** 2)
        stage, n_families = FINALISTS, min(n_families, settings.n_members)
