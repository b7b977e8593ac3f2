"""Sections about training: bandwidth and loss over time, and by scale."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import NamedTuple

import numpy as np

from bandfall._drawing import Axis, Chart, number
from bandfall.descent import Status
from bandfall.report._findings import Findings, Stages
from bandfall.report._layout import figure, grid, section

MAX_SCALES = 24
_LEAST_FALL = 1.2  # ratio of the first to the last bandwidth that makes scales distinct


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
    positive = log.bandwidth[log.bandwidth > 0]
    floor = float(positive.min()) / 3 if len(positive) else 1e-3
    bandwidths = np.where(log.bandwidth > 0, log.bandwidth, floor)
    x = Axis("training time", float(times[0]), float(times[-1]) * 1.02, log=logarithmic)

    def bandwidth_tip(time: float, bandwidth: float) -> str:
        shown = "0" if bandwidth <= floor else number(bandwidth)
        return f"time {number(time)}\nbandwidth {shown}"

    falling = Chart(x, Axis.around("bandwidth", bandwidths, log=True), "bandwidth over time")
    falling.steps(times, bandwidths, "a", tip=bandwidth_tip)
    zero = (
        " The lowest step stands for bandwidth 0: from there on only the training points "
        "themselves move."
        if np.any(log.bandwidth == 0)
        else ""
    )
    wide, narrow = (number(float(bandwidth)) for bandwidth in path.bandwidths[[0, -1]])
    fall = f"From {wide} to {narrow} in {len(path)} stages."
    if len(path) == 1:
        fall = f"One stage, of bandwidth {wide}."
    body = figure(
        falling.svg(), "The bandwidth falls" if len(path) > 1 else "The bandwidth", fall + zero
    ) + _losses(findings, x, start)
    text = (
        "Training starts with a bandwidth as wide as the data and narrows it whenever training "
        "slows down. "
    )
    if findings.target.classes and len(path) == 1:
        text = "The heaviest model has one wide bandwidth; held-out rows chose its penalty."
    elif findings.target.classes or (
        findings.model.story.members and path.status is Status.R2_REACHED
    ):
        text += "Rows held out from the training rows decided where to stop."
    else:
        text += f"It ended because {escape(path.status.explanation)}."
    return section("path", "The path of training", text, grid(body))


def _losses(findings: Findings, x: Axis, start: float) -> str:
    """The loss over time, on training rows and on test rows."""
    stages, target = findings.stages, findings.target
    assert stages is not None
    times = np.append(start, np.maximum(stages.time, start))
    lines = [("truth dashed", "training rows", np.maximum(stages.train_loss, 1e-9))]
    caption = f"At the end {target.words(float(stages.train_loss[-1]))} on training rows."
    if stages.scored_loss is not None:
        lines.append(("a", "held-out rows", np.maximum(stages.scored_loss, 1e-9)))
        best = int(np.argmin(stages.scored_loss[1:]))
        words, last = (target.words(float(stages.scored_loss[i])) for i in (best + 1, -1))
        at = number(float(stages.bandwidth[best]))
        caption = f"Best on held-out rows: {words} at bandwidth {at}; at the end {last}."

    def tip(rows: str) -> Callable[[float, float], str]:
        return lambda time, loss: f"time {number(time)}\n{target.words(loss)} on {rows}"

    axis = Axis.around(target.loss_name, *(loss for *_, loss in lines), log=True)
    chart = Chart(x, axis, f"{target.loss_name} over time")
    for style, name, loss in lines:
        chart.line(times, loss, style, tip=tip(name))
    key = [(style.split()[0], name) for style, name, *_ in lines]
    return figure(chart.svg(), "The error falls", caption, key)


def scale_section(findings: Findings) -> str:
    """The contribution of each stage, against its bandwidth."""
    stages = findings.stages
    if stages is None or len(stages.bandwidth) < 4 or stages.bandwidth[-2] == 0:
        return ""
    if stages.bandwidth[0] < _LEAST_FALL * stages.bandwidth[-1]:
        return ""
    first = int(stages.moved[0] > 3 * stages.moved[1:].max())  # it would dwarf all others
    scales = _Scales.of(stages.bandwidth[first:])
    moved = scales.summed(stages.moved[first:])
    share = Axis("share of all movement", 0.0, float(moved.max()) * 1.08)
    body = figure(
        scales.chart("share of all movement", share, moved, ["a"] * len(moved)),
        "How much each scale moved the predictions",
        "Root-mean-square change of predictions in each range of bandwidths, as a share of all.",
    )
    if stages.gain is not None:
        gains = scales.summed(stages.gain[first:])
        change, label = _change(findings, gains), f"change of {findings.target.measure}"
        styles = ["good" if one >= 0 else "bad" for one in gains]
        body += figure(
            scales.chart(label, Axis.around(label, change, [0.0]), change, styles),
            "What each scale was worth on held-out rows",
            "Wide bandwidths learn the broad shape. Red bars mean that the learned detail was "
            "noise.",
            [("good", "better"), ("bad", "worse")],
        )
    text = "Bandwidths are distances between rows in the space of the (scaled) features."
    text += _first_stage_note(findings, stages) if first else ""
    return section("scales", "What was learned at which scale", text, grid(body))


def _first_stage_note(findings: Findings, stages: Stages) -> str:
    worth = ""
    if stages.gain is not None:
        value = f"{_change(findings, stages.gain[0]):+.3f}".replace("-", "−")
        worth = f" and changed {findings.target.measure} by {value}"
    return (
        f" The charts leave out the first and widest stage, bandwidth "
        f"{number(float(stages.bandwidth[0]))}: it alone made {stages.moved[0]:.0%} of all "
        f"movement{worth}."
    )


class _Scales(NamedTuple):
    """Ranges of bandwidths, equal on a logarithmic axis: lengths of stages depend on the solver."""

    edges: np.ndarray  # (n + 1,), falling
    places: np.ndarray  # the range of each stage

    @classmethod
    def of(cls, bandwidths: np.ndarray) -> _Scales:
        """Ranges for these stages; half the smallest positive bandwidth stands for zero."""
        bandwidths = np.maximum(bandwidths, bandwidths[bandwidths > 0].min() / 2)
        low, high = float(bandwidths.min()) / 1.01, float(bandwidths.max()) * 1.01
        n_scales = max(3, min(MAX_SCALES, len(bandwidths) // 2))
        edges = np.geomspace(high, low, n_scales + 1)
        return cls(edges, np.searchsorted(-edges, -bandwidths) - 1)

    def summed(self, values: np.ndarray) -> np.ndarray:
        """Sums over the stages of each range."""
        return np.bincount(self.places, weights=values, minlength=len(self.edges) - 1)

    def chart(self, label: str, axis: Axis, values: np.ndarray, styles: list[str]) -> str:
        """Bars of one value per range."""
        x = Axis("bandwidth, from wide to narrow", self.edges[0], self.edges[-1], log=True)
        tips = [
            f"bandwidth {number(float(a))} to {number(float(b))}\n{label} {v:+.4f}"
            for a, b, v in zip(self.edges[:-1], self.edges[1:], values, strict=True)
        ]
        return Chart(x, axis, label).bars(self.edges, values, styles, tips).rule(y=0.0).svg()


def _change(findings: Findings, gain: np.ndarray) -> np.ndarray:
    """Convert a fall of the loss to a change of the score: R² rises, log-loss falls."""
    return findings.target.score(-gain) - findings.target.score(0.0)
