"""What happened during training: bandwidth and error along time, and scale by scale."""

from __future__ import annotations

from html import escape

import numpy as np

from bandfall.drawing import Axis, Chart, number
from bandfall.report.findings import Findings
from bandfall.report.layout import figure, scored_rows, section

MAX_SCALES = 24


def path_section(findings: Findings) -> str:
    """Bandwidth and R² against training time."""
    stages, path = findings.stages, findings.path
    if stages is None:
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
    train_error = np.maximum(1.0 - np.append(log.r2, path.r2), 1e-9)
    scored_r2 = np.append(stages.scored_r2[0] - stages.gain[0], stages.scored_r2)
    scored_error = np.maximum(1.0 - scored_r2, 1e-9)
    error_axis = Axis.around("1 − R²", train_error, scored_error, log=True)
    remaining = Chart(x, error_axis, "1 − R² over time")
    remaining.line(
        times,
        train_error,
        "truth dashed",
        tip=lambda t, e: f"time {number(t)}\ntraining R² {1 - e:.4f}",
    )
    remaining.line(
        np.append(start, np.maximum(stages.time, start)),
        scored_error,
        "a",
        tip=lambda t, e: f"time {number(t)}\n{scored_rows(findings)} R² {1 - e:.4f}",
    )
    zero = (
        " The lowest step stands for bandwidth 0: from there on only the training points "
        "themselves move."
        if np.any(log.bandwidth == 0)
        else ""
    )
    best = int(np.argmax(stages.scored_r2))
    body = figure(
        falling.svg(),
        "The bandwidth falls",
        f"From {number(float(path.bandwidths[0]))} to {number(float(path.bandwidths[-1]))} in "
        f"{len(path)} stages.{zero}",
    ) + figure(
        remaining.svg(),
        "The error falls",
        f"Best on {scored_rows(findings)}: {stages.scored_r2[best]:.4f} at bandwidth "
        f"{number(float(stages.bandwidth[best]))}; at the end {stages.scored_r2[-1]:.4f}.",
        [("truth", "training rows"), ("a", scored_rows(findings))],
    )
    text = (
        "Training starts with a bandwidth as wide as the data and narrows it whenever R² rises "
        f"too slowly. It ended because {escape(path.status.explanation)}."
    )
    return section("path", "The path of training", text, f'<div class="grid2">{body}</div>')


def scale_section(findings: Findings) -> str:
    """What each stage added, against its bandwidth."""
    stages = findings.stages
    if stages is None or len(stages.bandwidth) < 4 or stages.bandwidth[-2] == 0:
        return ""
    first = int(stages.moved[0] > 3 * stages.moved[1:].max())  # it would flatten all others
    note = ""
    if first:
        note = (
            f" The first and widest stage, bandwidth {number(float(stages.bandwidth[0]))}, is left "
            f"out of the charts: it alone made {stages.moved[0]:.0%} of all movement and changed "
            f"R² by {stages.gain[0]:+.3f}."
        )
    # Stages are as long as the solver needs; equal steps in bandwidth are what compares.
    bandwidth = _positive(stages.bandwidth)[first:]
    low, high = float(bandwidth.min()) / 1.01, float(bandwidth.max()) * 1.01
    n_scales = max(3, min(MAX_SCALES, len(bandwidth) // 2))
    edges = np.geomspace(high, low, n_scales + 1)
    places = np.searchsorted(-edges, -bandwidth) - 1
    moved, gain = (
        np.bincount(places, weights=values[first:], minlength=n_scales)
        for values in (stages.moved, stages.gain)
    )
    x = Axis("bandwidth, from wide to narrow", high, low, log=True)

    def bars(label: str, axis: Axis, values: np.ndarray, styles: list[str]) -> str:
        tips = [
            f"bandwidth {number(float(a))} to {number(float(b))}\n{label} {v:+.4f}"
            for a, b, v in zip(edges[:-1], edges[1:], values, strict=True)
        ]
        return Chart(x, axis, label).bars(edges, values, styles, tips).rule(y=0.0).svg()

    share = Axis("share of all movement", 0.0, float(moved.max()) * 1.08)
    change = Axis.around("change of R²", gain, [0.0])
    body = figure(
        bars("share of all movement", share, moved, ["a"] * n_scales),
        "How much each scale moved the predictions",
        "Root-mean-square change of predictions in each range of bandwidths, as a share of all.",
    ) + figure(
        bars("change of R²", change, gain, ["good" if g >= 0 else "bad" for g in gain]),
        f"What each scale was worth on {scored_rows(findings)}",
        "Wide bandwidths learn the broad shape; where bars turn red, the detail learned was noise.",
        [("good", "R² rose"), ("bad", "R² fell")],
    )
    text = f"Bandwidths are distances between rows in the space of the (scaled) features.{note}"
    return section(
        "scales", "What was learned at which scale", text, f'<div class="grid2">{body}</div>'
    )


def _positive(bandwidths: np.ndarray) -> np.ndarray:
    """Bandwidths with half the smallest positive one in place of zero."""
    return np.where(bandwidths > 0, bandwidths, bandwidths[bandwidths > 0].min() / 2)
