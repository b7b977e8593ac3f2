"""A fitted self-tuning model in plain words, and its band at the held-out rows."""

from __future__ import annotations

from typing import cast

import numpy as np

from bandfall._estimators.view import Story
from bandfall._models.average import Average
from bandfall._models.member import Member
from bandfall._targets import Numbers
from bandfall._targets.scores import decimals
from bandfall.kernels._kernel import Kernel


def held_out_band(story: Story, most: int = 1000) -> np.ndarray:
    """Predictions, targets, lower and upper ends of the 90 % band, (4, m, k), in units of y.

    They are those of a regressor's held-out rows, or of `most` of them, evenly spaced.
    """
    intervals, average = story.intervals, cast("Average[Numbers]", story.average)
    assert intervals is not None
    predictions = intervals.predictions.reshape(len(intervals.rows), -1).astype(np.float64)
    residuals = intervals.residuals.reshape(predictions.shape)
    shown = np.arange(0, len(predictions), max(1, -(-len(predictions) // most)))
    overall, smoother = intervals.size_rule(average)
    if smoother is None:
        sizes = np.broadcast_to(overall, (len(shown), len(overall)))
    elif len(shown) == len(predictions):  # no row may judge itself; among many that is no matter
        sizes = smoother.left_out(np.array([intervals.bandwidth]))[0]
    else:
        sizes = smoother.at(smoother.coordinates[shown], intervals.bandwidth)
    sizes = np.where(overall > 0, sizes, 1.0) * average.target.scale
    offsets = intervals.offsets(np.array([0.05, 0.95]))
    with np.errstate(over="ignore", invalid="ignore"):
        lower, upper = (np.where(offset == 0, 0.0, sizes * offset) for offset in offsets)
    known, zero = predictions[shown], np.zeros_like(lower)
    return known + np.stack([zero, residuals[shown], lower, upper])


def headlines(story: Story, score: float) -> list[str]:
    """Size, held-out score and band of a fitted model, a line each."""
    target, average = story.target, story.average
    assert average is not None
    size = f"trained on {len(average):,} rows, {average.schema.width} features"
    n_held = len(np.unique(story.held_out_rows))
    if not n_held:
        return [size, "no rows were held out: neither score nor band is known"]
    if np.isnan(score):
        return [size, f"the score on {n_held:,} held-out rows is not defined"]
    on = f"on {n_held:,} held-out rows"
    if target.classes:
        prior = target.start(np.zeros(0))
        plain = -float(np.sum(prior * np.log(np.maximum(prior, 1e-300))))
        given = f"predicting the shares of the {len(prior)} classes: {decimals(plain, 4)}"
        return [size, f"log-loss {decimals(-score, 4)} {on} ({given})"]
    *_, lower, upper = held_out_band(story)
    widths = 0.5 * np.median(upper - lower, axis=0)
    typical = ", ".join(_short(width) for width in widths[:5]) + ", …" * (len(widths) > 5)
    line = f"90 % of new targets within ± {typical} of the prediction (typical half width)"
    if not np.isfinite(widths).all():
        line = "too few held-out rows for a 90 % band"
    return [size, f"R² {decimals(score, 4)} {on} (predicting the mean: 0)", line]


def member_words(member: Member) -> str:
    """What a member is: kernel, columns, bandwidths, metric."""
    one, path = member.candidate, member.path
    columns = {
        "steps": "columns as steps",
        "quantile": "columns as quantiles",
        "target": "mean targets of categories",
        "pairs": "pairs of categories",
    }.get(one.encoding, f"{one.encoding} columns")
    ends = [f"{width:.3g}" for width in path.bandwidths[[0, -1]]] if len(path) else []
    bandwidth = f", bandwidth {' → '.join(dict.fromkeys(ends))}" if ends else ""
    n_rounds = one.n_rounds + one.log_rounds
    by = [f"in {n_rounds} round{'s' * (n_rounds > 1)}"] * (n_rounds > 0)
    by += ["by marginal likelihood"] * one.likelihood
    metric = f", metric learned {' and '.join(by)}" if by else ""
    loss = ", trained with the log-loss" if one.penalty else ""
    return f"{kernel_words(one.kernel)} on {columns}{bandwidth}{metric}{loss}"


def text_of(story: Story, score: float) -> str:
    """The summary, without the name of the estimator."""
    members = [f"  weight {one.weight:.2f}: {member_words(one)}" for one in story.members]
    count = f"average of {len(members)} models, heaviest first" if len(members) > 1 else "one model"
    return "\n".join([*headlines(story, score), f"{count}:", *members])


def kernel_words(kernel: Kernel) -> str:
    """A kernel and its norm, as in "Laplace kernel in the 1-norm"."""
    if not kernel.built_in:
        return f"kernel {kernel}"
    stem = kernel.name.partition("^")[0].partition("-")[0]
    names = {"matern12": "Laplace", "matern32": "Matérn 3/2", "matern52": "Matérn 5/2"}
    exponent = f" with exponent {kernel.power:g}" if "^" in kernel.name else ""
    norm = getattr(kernel.geometry, "p", 2.0)
    how = f" in the {norm:g}-norm" if norm != 2 else ""
    return f"{names.get(stem, stem.capitalize())} kernel{exponent}{how}"


def _short(value: float) -> str:
    return f"{float(f'{value:.3g}'):,g}"
