"""Sections about training: bandwidth and loss over time, and by scale."""

from __future__ import annotations

from html import escape

import numpy as np

from bandfall._drawing.chart import Axis, Chart, number
from bandfall.descent import Status
from bandfall.report._findings import Findings, Stages
from bandfall.report._layout import figure, grid, section


def path_section(findings: Findings) -> str:
    """Bandwidth and loss against training time."""
    stages, path = findings.stages, findings.model.path
    if stages is None or path is None:
        return ""
    log = path.log
    first = float(log.time[1]) if len(log) > 1 else path.time
    # Time is linear unless its beginning would be invisible.
    logarithmic = path.time > 50 * first
    start = first / 3 if logarithmic else 0.0
    times = np.maximum(np.append(log.time, path.time), start)
    x = Axis("training time", float(times[0]), float(times[-1]) * 1.02, log=logarithmic)
    floor = float(log.bandwidth[log.bandwidth > 0].min(initial=np.inf)) / 3
    floor = floor if np.isfinite(floor) else 1e-3  # stands for zero
    bandwidths = np.where(log.bandwidth > 0, log.bandwidth, floor)
    y = Axis.around("bandwidth", bandwidths, log=True, zero=floor)
    falling = Chart(x, y, "bandwidth over time")
    falling.line(np.repeat(times, 2)[1:-1], np.repeat(bandwidths, 2), "a")
    falling.dots(times[:-1], bandwidths)
    wide, narrow = (number(float(f"{bandwidth:.3g}")) for bandwidth in path.bandwidths[[0, -1]])
    fall = f"From {wide} to {narrow} in {len(path)} stages."
    if len(path) == 1:
        fall = f"One stage, of bandwidth {wide}."
    elif np.any(log.bandwidth == 0):
        fall += (
            " The lowest step stands for bandwidth 0: from there on only the training points "
            "themselves move."
        )
    title = "The bandwidth falls" if len(path) > 1 else "The bandwidth"
    text = (
        "Training starts with a bandwidth as wide as the data and narrows it whenever training "
        "slows down. "
    )
    searched = findings.model.story.members and path.status is Status.R2_REACHED
    if findings.target.classes and len(path) == 1:
        text = "The heaviest model has one wide bandwidth; held-out rows chose its penalty."
    elif findings.target.classes or searched:
        text += "Rows held out from the training rows decided where to stop."
    else:
        text += f"It ended because {escape(path.status.explanation)}."
    body = grid(figure(falling, title, fall), _losses(findings, stages, x, start))
    return section("path", "The path of training", text, body)


def _losses(findings: Findings, stages: Stages, x: Axis, start: float) -> str:
    target, words = findings.target, findings.target.words
    times = np.append(start, np.maximum(stages.time, start))
    lines = [("truth dashed", "training rows", np.maximum(stages.train_loss, 1e-9))]
    caption = f"At the end {words(float(stages.train_loss[-1]))} on training rows."
    if stages.scored_loss is not None:
        lines.append(("a", "held-out rows", np.maximum(stages.scored_loss, 1e-9)))
        best = int(np.argmin(stages.scored_loss[1:]))
        caption = (
            f"Best on held-out rows: {words(float(stages.scored_loss[best + 1]))} at bandwidth "
            f"{number(stages.bandwidth[best])}; at the end {words(float(stages.scored_loss[-1]))}."
        )
    axis = Axis.around(target.loss_name, *(loss for *_, loss in lines), log=True)
    chart = Chart(x, axis, f"{target.loss_name} over time")
    for style, name, loss in lines:
        chart.line(times, loss, style).dots(times, loss, names=name)
    key = [(style.split()[0], name) for style, name, _ in lines]
    return figure(chart, "The error falls", caption, key)


def scale_section(findings: Findings) -> str:
    """The contribution of each range of bandwidths to the model."""
    stages, measure = findings.stages, findings.target.measure
    if stages is None or len(stages.bandwidth) < 4 or stages.bandwidth[-2] == 0:
        return ""
    if stages.bandwidth[0] < 1.2 * stages.bandwidth[-1]:  # hardly distinct scales
        return ""
    text = "Bandwidths are distances between rows in the space of the (scaled) features."
    first = int(stages.moved[0] > 3 * stages.moved[1:].max())  # it would dwarf all others
    edges, places = _scales(stages.bandwidth[first:])

    def summed(values: np.ndarray) -> np.ndarray:
        return np.bincount(places, values[first:], len(edges) - 1)

    gain = None
    if stages.gain is not None:  # R² rises where the loss falls, log-loss falls with it
        gain = findings.target.score(-stages.gain) - findings.target.score(0.0)
    if first:
        worth = "" if gain is None else f" and changed {measure} by {gain[0]:+.3f}"
        text += (
            f" The charts leave out the first and widest stage, bandwidth "
            f"{number(stages.bandwidth[0])}: it alone made {stages.moved[0]:.0%} of all "
            f"movement{worth.replace('-', '−')}."
        )
    x = Axis("bandwidth, from wide to narrow", edges[0], edges[-1], log=True)
    moved = summed(stages.moved)
    share = Axis("share of all movement", 0.0, float(moved.max()) * 1.08)
    figures = [
        figure(
            Chart(x, share, share.label).bars(edges, moved, ["a"] * len(moved)),
            "How much each scale moved the predictions",
            "Root-mean-square change of predictions in each range of bandwidths, as a share of "
            "all.",
        )
    ]
    if gain is not None and stages.gain is not None:
        y = Axis.around(f"change of {measure}", summed(gain), [0.0])
        styles = ["good" if fall >= 0 else "bad" for fall in summed(stages.gain)]
        chart = Chart(x, y, y.label).bars(edges, summed(gain), styles)
        figures.append(
            figure(
                chart.rule(y=0.0),
                "What each scale was worth on held-out rows",
                "Wide bandwidths learn the broad shape. Red bars mean that the learned detail was "
                "noise.",
                [("good", "better"), ("bad", "worse")],
            )
        )
    return section("scales", "What was learned at which scale", text, grid(*figures))


def _scales(bandwidths: np.ndarray, most: int = 24) -> tuple[np.ndarray, np.ndarray]:
    """Ends of ranges of bandwidths, falling, and the range of each stage.

    The ranges are equal on a logarithmic axis, because lengths of stages depend on the solver. Half
    the smallest positive bandwidth stands for zero.
    """
    bandwidths = np.maximum(bandwidths, bandwidths[bandwidths > 0].min() / 2)
    low, high = float(bandwidths.min()) / 1.01, float(bandwidths.max()) * 1.01
    edges = np.geomspace(high, low, max(3, min(most, len(bandwidths) // 2)) + 1)
    return edges, np.searchsorted(-edges, -bandwidths) - 1
