"""What happened during training: bandwidth and loss along time, and scale by scale."""

from __future__ import annotations

from collections.abc import Callable
from html import escape

import numpy as np

from bandfall.descent import Status
from bandfall.drawing import Axis, Chart, number
from bandfall.report.findings import Findings
from bandfall.report.layout import figure, grid, section

MAX_SCALES = 24
_LEAST_FALL = 1.2  # of the bandwidth, to distinguish scales


def path_section(findings: Findings) -> str:
    """Bandwidth and loss against training time."""
    stages, path = findings.stages, findings.model.path
    if stages is None or path is None:
        return ""
    log = path.log
    first = float(log.time[1]) if len(log) > 1 else path.time
    # Linear time shows the story unless its beginning would vanish.
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
        falling.svg(),
        "The bandwidth falls" if len(path) > 1 else "The bandwidth",
        fall + zero,
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
    """What each stage added, against its bandwidth."""
    stages = findings.stages
    if stages is None or len(stages.bandwidth) < 4 or stages.bandwidth[-2] == 0:
        return ""
    if stages.bandwidth[0] < _LEAST_FALL * stages.bandwidth[-1]:
        return ""
    name = findings.target.measure
    gain = stages.gain
    first = int(stages.moved[0] > 3 * stages.moved[1:].max())  # it would flatten all others
    note = ""
    if first:
        worth = ""
        if gain is not None:
            value = f"{_change(findings, gain[0]):+.3f}".replace("-", "−")
            worth = f" and changed {name} by {value}"
        note = (
            f" The charts leave out the first and widest stage, bandwidth "
            f"{number(float(stages.bandwidth[0]))}: it alone made {stages.moved[0]:.0%} of all "
            f"movement{worth}."
        )
    # Stages are as long as the solver needs; equal steps in bandwidth are what compares.
    # In place of zero: half the smallest positive bandwidth.
    least = stages.bandwidth[stages.bandwidth > 0].min() / 2
    bandwidth = np.maximum(stages.bandwidth, least)[first:]
    low, high = float(bandwidth.min()) / 1.01, float(bandwidth.max()) * 1.01
    n_scales = max(3, min(MAX_SCALES, len(bandwidth) // 2))
    edges = np.geomspace(high, low, n_scales + 1)
    places = np.searchsorted(-edges, -bandwidth) - 1
    x = Axis("bandwidth, from wide to narrow", high, low, log=True)

    def summed(values: np.ndarray) -> np.ndarray:
        return np.bincount(places, weights=values[first:], minlength=n_scales)

    def bars(label: str, axis: Axis, values: np.ndarray, styles: list[str]) -> str:
        tips = [
            f"bandwidth {number(float(a))} to {number(float(b))}\n{label} {v:+.4f}"
            for a, b, v in zip(edges[:-1], edges[1:], values, strict=True)
        ]
        return Chart(x, axis, label).bars(edges, values, styles, tips).rule(y=0.0).svg()

    moved = summed(stages.moved)
    share = Axis("share of all movement", 0.0, float(moved.max()) * 1.08)
    body = figure(
        bars("share of all movement", share, moved, ["a"] * n_scales),
        "How much each scale moved the predictions",
        "Root-mean-square change of predictions in each range of bandwidths, as a share of all.",
    )
    if gain is not None:
        gains = summed(gain)
        change = _change(findings, gains)
        body += figure(
            bars(
                f"change of {name}",
                Axis.around(f"change of {name}", change, [0.0]),
                change,
                ["good" if one >= 0 else "bad" for one in gains],
            ),
            "What each scale was worth on held-out rows",
            "Wide bandwidths learn the broad shape; where bars turn red, the detail learned was "
            "noise.",
            [("good", "better"), ("bad", "worse")],
        )
    text = f"Bandwidths are distances between rows in the space of the (scaled) features.{note}"
    return section("scales", "What was learned at which scale", text, grid(body))


def _change(findings: Findings, gain: np.ndarray) -> np.ndarray:
    """What a fall of the loss means for the score: R² rises, log-loss falls."""
    return findings.target.score(-gain) - findings.target.score(0.0)
