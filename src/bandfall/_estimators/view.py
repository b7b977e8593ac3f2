"""One view of a fitted estimator for reports, displays, commands and exports, also in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np
from sklearn.pipeline import Pipeline

from bandfall._models.average import Average
from bandfall._models.intervals import Intervals
from bandfall._models.member import Member
from bandfall._targets import Numbers, Target
from bandfall._targets.scores import decimals
from bandfall._typing import Estimator, TableLike
from bandfall.descent import Path
from bandfall.descent._sum import KernelSum
from bandfall.kernels._kernel import Kernel
from bandfall.tables import TableEncoder


@dataclass(frozen=True)
class Story:
    """The model of a fitted estimator and how it was trained."""

    kernel_sum: KernelSum | None = None  # the model of an estimator with a single kernel sum
    average: Average[Target] | None = None  # the model of a self-tuning estimator
    intervals: Intervals | None = None  # prediction intervals of the average
    target: Target = field(default_factory=Numbers.plain)
    dtype: np.dtype = np.dtype(np.float64)  # noqa: RUF009  (of the features)
    # The training of the kernel sum, or of the heaviest member of the average.
    path: Path | None = None
    selection: dict[str, np.ndarray] | None = None  # trials of a search, one entry each
    skipped: Sequence[str] = ()  # for lack of time, or because the fit was interrupted
    leaks: Mapping[str, str] = field(default_factory=dict)  # features that predict alone, and why
    # (m,): numbers of the training rows that the search held out; a row may occur twice.
    held_out_rows: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=int))
    # (m,) or (m, k): predictions, or probabilities, by models that had not seen these rows.
    held_out_answers: np.ndarray | None = None

    @property
    def members(self) -> Sequence[Member]:
        """Members of the average, heaviest first."""
        return () if self.average is None else self.average.members

    @property
    def encoders(self) -> Mapping[str, TableEncoder]:
        """Encoders of the average, by name of the encoding."""
        return {} if self.average is None else self.average.encoders

    @property
    def paths(self) -> list[Path]:
        """The paths that predict: one per member, or the only one."""
        if self.members:
            return [member.path for member in self.members]
        return [] if self.path is None else [self.path]


def story_of(estimator: Estimator) -> Story:
    """The story of an estimator or of the last step of a pipeline; empty for other packages."""
    return getattr(last_step(estimator), "_story", Story)()


def answers_of(estimator: Estimator, X: TableLike) -> np.ndarray:
    """Predictions or probabilities of new rows, (m, k) in float64."""
    method = "predict_proba" if story_of(estimator).target.classes else "predict"
    answers = np.asarray(getattr(estimator, method)(X), dtype=np.float64)
    return answers.reshape(len(answers), -1)


def feature_names_of(estimator: Estimator) -> list[str] | None:
    """Names of the features that an estimator was fitted to; None if they had none."""
    names = getattr(estimator, "feature_names_in_", None)
    return None if names is None else list(names)


def steps_of(estimator: Estimator) -> list[Estimator]:
    """The steps of a pipeline, or the one estimator."""
    if isinstance(estimator, Pipeline):
        return [step for _, step in estimator.steps]
    return [estimator]


def last_step(estimator: Estimator) -> Estimator:
    """The estimator itself, or the one at the end of a pipeline."""
    return steps_of(estimator)[-1]


def steps_before(estimator: Estimator) -> Estimator:
    """A pipeline of all steps but the last; None if there is only one."""
    return estimator[:-1] if len(steps_of(estimator)) > 1 else None


def last_step_prefix(estimator: Estimator) -> str:
    """Prefix of parameters of the last step: ``name__`` in a pipeline, else empty."""
    return f"{estimator.steps[-1][0]}__" if isinstance(estimator, Pipeline) else ""


def held_out_band(story: Story, most: int = 1000) -> np.ndarray:
    """Predictions, targets, lower and upper ends of the 90 % band, (4, m, k), in units of y.

    They are those of a regressor's held-out rows, or of `most` of them, evenly spaced.
    """
    intervals, average = story.intervals, cast("Average[Numbers]", story.average)
    assert intervals is not None
    predictions = intervals.predictions.reshape(-1, average.target.n_columns).astype(np.float64)
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
    norm = kernel.geometry.p
    how = f" in the {norm:g}-norm" if norm != 2 else ""
    return f"{names.get(stem, stem.capitalize())} kernel{exponent}{how}"


def _short(value: float) -> str:
    return f"{float(f'{value:.3g}'):,g}"
