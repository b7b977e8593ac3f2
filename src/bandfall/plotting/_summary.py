"""One figure of a fitted self-tuning model; see ``BandfallRegressor.plot``."""

from __future__ import annotations

from textwrap import fill
from typing import TYPE_CHECKING, cast

import numpy as np

from bandfall._estimators.view import Story, feature_names_of, held_out_band, story_of
from bandfall._targets import Numbers
from bandfall._typing import Estimator
from bandfall.descent import Path
from bandfall.plotting._path import PathDisplay
from bandfall.plotting._style import BLUE, GREEN, GREY, ORANGE, PURPLE, Axes, finish, pyplot

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLOURS = (BLUE, ORANGE, GREEN, PURPLE, GREY)


def draw_summary(model: Estimator) -> Figure:
    """Held-out predictions, importances, and the path of the heaviest member."""
    story, names = story_of(model), ("bandwidth", "r2", "speed")
    places = [["held out", "importances", name] for name in names]
    figure, axes = pyplot().subplot_mosaic(places, figsize=(12.0, 4.2), layout="constrained")
    (_draw_classes if story.target.classes else _draw_numbers)(axes["held out"], story)
    _draw_importances(axes["importances"], model)
    _draw_path([axes[name] for name in names], model.path_)
    return figure


def _draw_path(column: list[Axes], path: Path) -> None:
    """The course of training; between the steps only if the path can still be trained."""
    log = path.log
    if path.n_leaves == 1 and path.solver is None and len(log):
        # The outputs are no longer those of the last step: R² and speed at the end are unknown.
        display = PathDisplay(
            time=np.append(log.time, path.time),
            bandwidth=np.append(log.bandwidth, log.bandwidth[-1]),
            r2=np.append(log.r2, np.nan),
            speed=np.append(log.speed, np.nan),
        )
        for line in display.plot(axes=column).lines_[1:]:
            line.set(marker="o", linestyle=":")
    elif path.n_leaves == 1 and len(log):
        PathDisplay.from_estimator(path, axes=column)
    else:
        for ax in column:
            ax.set_axis_off()
        leaves = f"{path.n_leaves} leaves, each with a path of its own"
        why = leaves if path.n_leaves > 1 else path.status.explanation
        column[1].text(0.5, 0.5, fill(why, 40), ha="center", va="center", color=GREY)
    column[0].set_title("training of the heaviest member", fontsize="medium")


def _draw_numbers(ax: Axes, story: Story) -> None:
    """Targets over predictions, each with its band; several targets in standard deviations."""
    band, target = held_out_band(story), cast(Numbers, story.target)
    k = target.n_columns
    unit = "" if k == 1 else ", in standard deviations"
    for j in range(k):
        values = band[:, :, j]
        if k > 1:
            values = (values - target.offset[j]) / target.scale[j]
        colour, label = _COLOURS[j % len(_COLOURS)], f"target {j + 1}" if k > 1 else None
        predictions, truth, lower, upper = values
        if np.isfinite(lower).all():
            ax.vlines(predictions, lower, upper, color=colour, alpha=0.2, linewidth=2.0)
        ax.plot(predictions, truth, "o", color=colour, markersize=3.0, label=label)
    if band.shape[1]:
        ax.axline((values[0, 0], values[0, 0]), slope=1.0, color=GREY, linewidth=0.8)
    ax.set(xlabel=f"prediction{unit}", ylabel=f"target{unit}")
    known = ", 90 % band" if np.isfinite(band).all() else ""
    ax.set_title(f"held-out predictions{known}", fontsize="medium")
    finish(ax)
    if 1 < k <= len(_COLOURS):
        ax.legend(frameon=False, fontsize="small")


def _draw_classes(ax: Axes, story: Story) -> None:
    """How sure the model is of the class that it predicts."""
    answers, names = story.held_out_answers, story.target.classes
    assert answers is not None
    best, sure = answers.argmax(axis=1), answers.max(axis=1)
    shown = np.unique(best)[np.argsort(-np.bincount(best)[np.unique(best)], kind="stable")]
    parts = [sure[best == j] for j in shown]
    labels, colours = [names[j] for j in shown], [_COLOURS[j % len(_COLOURS)] for j in shown]
    if parts:
        bins = np.linspace(1.0 / len(names), 1.0, 21).tolist()
        ax.hist(parts, bins=bins, stacked=True, color=colours, label=labels)
    ax.set(xlabel="probability of the predicted class", ylabel="held-out rows")
    ax.set_title("held-out predictions", fontsize="medium")
    finish(ax)
    if 0 < len(parts) <= len(_COLOURS):
        ax.legend(frameon=False, fontsize="small", title="predicted")


def _draw_importances(ax: Axes, model: Estimator, most: int = 12) -> None:
    shares = np.nan_to_num(model.feature_importances_)
    names = feature_names_of(model) or [f"feature {j + 1}" for j in range(len(shares))]
    order = np.argsort(-shares, kind="stable")[:most]
    labels = [name if len(name) <= 20 else f"{name[:19]}…" for name in map(str, names)]
    ax.barh(np.arange(len(order)), shares[order], color=BLUE)
    ax.set_yticks(np.arange(len(order)), [labels[j] for j in order])
    ax.invert_yaxis()
    more = f", {most} of {len(shares)}" if len(shares) > most else ""
    ax.set(xlabel="share", xlim=(0.0, None if shares.any() else 1.0))
    ax.set_title(f"importances{more}", fontsize="medium")
    finish(ax)
