"""The sections of the page, one function each: findings in, HTML out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from html import escape
from typing import Any

import numpy as np

from bandfall.report.charts import Axis, Chart, number, ranking, sparkline
from bandfall.report.findings import Findings, Slice, is_number

MAX_DOTS = 600
MAX_IMPORTANCES = 15
HISTOGRAM_BINS = 12
MAX_SCALES = 24
MAX_TRIALS = 12


def figure(svg: str, title: str, caption: str, key: Sequence[tuple[str, str]] = ()) -> str:
    """A drawing with its title, key and caption."""
    legend = "".join(f'<i class="{style}"></i><span>{escape(t)}</span>' for style, t in key)
    legend = f'<p class="key">{legend}</p>' if legend else ""
    return (
        f"<figure><h3>{escape(title)}</h3>{legend}{svg}<figcaption>{caption}</figcaption></figure>"
    )


def section(name: str, title: str, text: str, body: str) -> str:
    """A heading that can be linked to, a sentence of guidance, and what it is about."""
    guide = f'<p class="dim">{text}</p>' if text else ""
    return f'<section id="{name}"><h2>{escape(title)}</h2>{guide}{body}</section>'


def scored_rows(findings: Findings) -> str:
    """What the rows behind scores are called."""
    return "held-out rows" if findings.held_out else "training rows"


def data_section(findings: Findings, target: str) -> str:
    """One line per column: range, spread, shape, correlation with the target."""
    rows = [
        _feature_row(name, findings.train.X.iloc[:, j], findings.train.y)
        for j, name in enumerate(findings.features)
    ]
    rows.append(_column_row(target, findings.train.y, None))
    names = ("column", "min", "median", "mean", "max", "std. dev.", "correlation")
    heads = "".join(f'<th data-sort="">{name}</th>' for name in names)
    table = (
        f'<div class="scroll"><table><thead><tr>{heads}<th>distribution</th></tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )
    text = (
        f"{len(findings.train.y):,} training rows. Correlation is with the target, which is the "
        "last line; near zero does not mean useless, for the model is not linear."
    )
    return section("data", "Data", text, table)


def _feature_row(name: str, column: Any, y: np.ndarray) -> str:
    """The line of a feature: numbers as such, of anything else how many values there are."""
    known = column.notna().to_numpy()
    if is_number(column) and known.any():
        values = column.to_numpy(dtype=float, na_value=np.nan)
        return _column_row(name, values[known], y[known])
    counts = column.value_counts()
    words = f"{len(counts):,} different values"
    if len(counts):
        words += f", most often {counts.index[0]} ({counts.iloc[0]:,} rows)"
    if not known.all():
        words += f", missing in {int(np.sum(~known)):,} rows"
    bars = sparkline(counts.to_numpy()[:HISTOGRAM_BINS], f"{name}: rows of its commonest values")
    spread = f'<td colspan="6" class="dim">{escape(words)}</td>'
    return f"<tr><td>{escape(name)}</td>{spread}<td>{bars if len(counts) else ''}</td></tr>"


def _column_row(name: str, values: np.ndarray, y: np.ndarray | None) -> str:
    statistics = [values.min(), np.median(values), values.mean(), values.max(), values.std()]
    cells = [_cell(float(v)) for v in statistics]
    varied = y is not None and values.std() > 0 and y.std() > 0
    correlation = float(np.corrcoef(values, y)[0, 1]) if varied and y is not None else np.nan
    cells.append(_cell(correlation) if y is not None else '<td class="dim">target</td>')
    low, high = np.quantile(values, [0.01, 0.99])
    inside = values[(values >= low) & (values <= high)]
    counts, edges = np.histogram(inside, bins=HISTOGRAM_BINS)
    tip = f"{name}: {number(edges[0])} to {number(edges[-1])} (98 % of rows)"
    style = "" if y is not None else ' class="ours"'
    return (
        f"<tr{style}><td>{escape(name)}</td>{''.join(cells)}<td>{sparkline(counts, tip)}</td></tr>"
    )


def _cell(value: float) -> str:
    return f'<td data-value="{value:.6g}">{number(value)}</td>'


def score_section(findings: Findings, rivals: Sequence[Any], name: str) -> str:
    """R² of the model and its rivals on the same rows."""
    if not findings.held_out:
        text = (
            "No rows were held out, so that there is nothing to score honestly: train with "
            "<code>--test-fraction 0.2</code>."
        )
        return section("score", "Score", text, "")
    if not rivals:
        text = f"R² {findings.r2:.4f} on {len(findings.scored.y):,} held-out rows."
        return section("score", "Score", text, "")
    lines = [(one.name, one.r2, one.mae, one.seconds, one.n_rows) for one in rivals]
    lines.sort(key=lambda line: -line[1])
    tips = [f"{line[0]}\nR² {line[1]:.4f}\nmean absolute error {number(line[2])}" for line in lines]
    drawing = ranking(
        [line[0] for line in lines],
        [max(line[1], -0.2) for line in lines],
        ["a" if line[0] == name else "soft" for line in lines],
        tips,
        "R² of all models",
    )
    heads = "".join(
        f'<th data-sort="">{head}</th>' for head in ("model", "R²", "MAE", "fit, s", "rows")
    )
    body = "".join(
        f"<tr{' class=ours' if line[0] == name else ''}><td>{escape(line[0])}</td>"
        f"<td>{line[1]:.4f}</td>{_cell(line[2])}<td>{line[3]:.2f}</td>"
        f'<td data-value="{line[4]}">{line[4]:,}</td></tr>'
        for line in lines
    )
    table = (
        f'<figure><div class="scroll"><table><thead><tr>{heads}</tr></thead>'
        f"<tbody>{body}</tbody></table></div></figure>"
    )
    picture = figure(drawing, "R², higher is better", "1 is perfect; 0 is predicting the mean.")
    text = (
        f"Every model was trained on the same rows with its usual settings and scored on the same "
        f"{len(findings.scored.y):,} held-out rows. Kernel ridge regression chooses bandwidth and "
        "penalty by cross-validation, on at most 1,000 rows. MAE is the mean absolute error."
    )
    return section(
        "score", "Score, with rivals", text, f'<div class="grid2">{picture}{table}</div>'
    )


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


def trial_section(selection: dict[str, np.ndarray] | None) -> str:
    """What a model that tunes itself has tried, best first."""
    if not selection or not len(selection.get("loss", ())):
        return ""
    order = np.argsort(selection["loss"])
    columns = "encoding" if "encoding" in selection else "transform"
    names = ("kernel", "min_speed", "n_rounds", columns, "n_rows", "score")
    shown = ("kernel", "speed", "metric rounds", "columns", "rows", "R² on held-out rows")
    heads = "".join(f'<th data-sort="">{name}</th>' for name in shown)
    rows = []
    for i in order[:MAX_TRIALS]:
        cells = [escape(str(selection[n][i])) for n in names[:5]]
        cells = [f"<td>{cell}</td>" for cell in cells]
        cells.append(f"<td>{selection['score'][i]:.4f}</td>")
        rows.append(f"<tr>{''.join(cells)}</tr>")
    table = (
        f'<div class="scroll"><table><thead><tr>{heads}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )
    more = len(order) - len(rows)
    rest = f" {more} more were worse." if more > 0 else ""
    text = (
        f"The model tuned itself: {len(order)} configurations were scored on rows held out from "
        f"the training rows.{rest}"
    )
    return section("trials", "What was tried", text, table)


def importance_section(findings: Findings) -> str:
    """Loss of R² when a feature is shuffled."""
    order = np.argsort(-findings.importances[:, 0])[:MAX_IMPORTANCES]
    means, deviations = findings.importances[order].T
    names = [findings.features[j] for j in order]
    drawing = ranking(
        names,
        means,
        ["a"] * len(names),
        [
            f"{n}\nloss of R² {m:.4f} ± {s:.4f}"
            for n, m, s in zip(names, means, deviations, strict=True)
        ],
        "feature importances",
        errors=deviations,
    )
    more = len(findings.features) - len(names)
    rest = f" The {more} least important ones are not shown." if more else ""
    body = figure(
        drawing,
        "Loss of R² when a feature is shuffled",
        f"Mean and standard deviation over 5 shuffles of {scored_rows(findings)}. Features that "
        f"say the same thing share their importance.{rest}",
    )
    return section("features", "Which features matter", "", f'<div class="narrow">{body}</div>')


def error_section(findings: Findings, target: str) -> str:
    """Predictions against targets, the shape of errors, and whether they are calibrated."""
    y, predictions, residuals = findings.scored.y, findings.predictions, findings.residuals
    quantiles = [float(q) for q in np.quantile(np.abs(residuals), [0.5, 0.9, 0.99])]
    text = (
        f"On {scored_rows(findings)}, half of all errors are below {number(quantiles[0])}, 90 % "
        f"below {number(quantiles[1])} and 99 % below {number(quantiles[2])} (in the units of "
        f"{escape(target)})."
    )
    body = (
        _agreement(y, predictions, target)
        + _residual_histogram(residuals)
        + _decile_calibration(y, predictions)
        + _coverage(residuals)
    )
    return section(
        "errors", "Errors and their calibration", text, f'<div class="grid2">{body}</div>'
    )


def _agreement(y: np.ndarray, predictions: np.ndarray, target: str) -> str:
    few = np.linspace(0, len(y) - 1, min(len(y), MAX_DOTS)).astype(int)
    axis = Axis.around("", y[few], predictions[few])
    chart = Chart(
        Axis("prediction", axis.low, axis.high), Axis(target, axis.low, axis.high), "agreement"
    )
    chart.line([axis.low, axis.high], [axis.low, axis.high], "truth dashed")
    tips = [
        f"predicted {number(p)}\nwas {number(t)}"
        for p, t in zip(predictions[few], y[few], strict=True)
    ]
    chart.dots(predictions[few], y[few], "a", tips=tips)
    shown = "" if len(few) == len(y) else f" {len(few)} of {len(y):,} rows are drawn."
    return figure(chart.svg(), "Predicted and true", f"Perfect predictions lie on the line.{shown}")


def _residual_histogram(residuals: np.ndarray) -> str:
    low, high = np.quantile(residuals, [0.005, 0.995])
    if not low < high:
        low, high = low - 0.5, high + 0.5
    counts, edges = np.histogram(np.clip(residuals, low, high), bins=31, range=(low, high))
    chart = Chart(
        Axis("target − prediction", float(low), float(high)),
        Axis("rows", 0.0, float(counts.max()) * 1.06 or 1.0),
        "histogram of errors",
    )
    tips = [
        f"{number(a)} to {number(b)}: {c:,} rows"
        for a, b, c in zip(edges[:-1], edges[1:], counts, strict=True)
    ]
    chart.bars(edges, counts, ["soft"] * len(counts), tips).rule(x=0.0)
    return figure(
        chart.svg(),
        "Errors",
        f"Mean {number(float(residuals.mean()))}, standard deviation "
        f"{number(float(residuals.std()))}. The outermost half per cents are put in the end bars.",
    )


def _decile_calibration(y: np.ndarray, predictions: np.ndarray) -> str:
    n_groups = min(10, max(1, len(y) // 5))
    groups = np.array_split(np.argsort(predictions, kind="stable"), n_groups)
    xs = [float(predictions[g].mean()) for g in groups]
    ys = [float(y[g].mean()) for g in groups]
    axis = Axis.around("", xs, ys)
    chart = Chart(
        Axis("mean prediction of a tenth", axis.low, axis.high),
        Axis("mean target of that tenth", axis.low, axis.high),
        "calibration",
    )
    chart.line([axis.low, axis.high], [axis.low, axis.high], "truth dashed").line(xs, ys, "a")
    tips = [
        f"{len(g):,} rows\nmean prediction {number(a)}\nmean target {number(b)}"
        for g, a, b in zip(groups, xs, ys, strict=True)
    ]
    chart.dots(xs, ys, "a solid", tips=tips, radius=4)
    return figure(
        chart.svg(),
        "Are high predictions high enough, low ones low enough?",
        "Rows in order of their prediction, in tenths: on the line, a tenth is right on average.",
    )


def _coverage(residuals: np.ndarray) -> str:
    sizes = np.abs(residuals)
    shuffled = np.random.default_rng(0).permutation(len(sizes))
    fitted, checked = sizes[shuffled[::2]], sizes[shuffled[1::2]]
    levels = np.linspace(0.05, 0.95, 19)
    if not len(checked):
        return ""
    covered = [float(np.mean(checked <= np.quantile(fitted, level))) for level in levels]
    chart = Chart(
        Axis("claimed share", 0.0, 1.0), Axis("share within the interval", 0.0, 1.0), "coverage"
    )
    chart.line([0, 1], [0, 1], "truth dashed")
    chart.line(
        levels, covered, "b", tip=lambda a, b: f"interval for {a:.0%}\nholds {b:.0%} of other rows"
    )
    width = number(float(np.quantile(sizes, 0.9)))
    return figure(
        chart.svg(),
        "Do error intervals hold?",
        "Intervals prediction ± e, with e from one half of the rows, checked on the other half. "
        f"For 90 %, e is {width}.",
    )


def slice_section(findings: Findings, target: str) -> tuple[str, dict[str, list[str]]]:
    """f along the most important features, at every frame of the film of training."""
    figures, lines = [], {}
    for i, one in enumerate(findings.slices):
        chart = Chart(
            _slice_axis(one),
            Axis.around(target, *(s.values for s in findings.slices)),
            f"slice along {one.feature}",
            width=400,
            height=260,
        )
        name = f"slice-{i}"
        chart.line(
            one.grid,
            one.values[-1],
            "a",
            tip=partial(_slice_tip, one),
            frames=name if findings.frames is not None else "",
        )
        figures.append(figure(chart.svg(), one.feature, ""))
        lines[name] = [chart.trace(one.grid, values) for values in one.values]
    text = (
        "How the prediction changes along one feature while the others stay as in the most "
        "typical training row. The most important features come first."
    )
    film = ""
    if findings.frames is not None:
        last = len(findings.frames) - 1
        text += " Move the slider to see what the model knew earlier in training."
        film = (
            '<div class="film"><button id="film-play" type="button">Play</button>'
            f'<input id="film-slider" type="range" min="0" max="{last}" value="{last}" '
            'aria-label="stage of training"><output id="film-text"></output></div>'
        )
    body = f'{film}<div class="grid3">{"".join(figures)}</div>'
    return section("slices", "Slices of the model", text, body), lines


def _slice_axis(one: Slice) -> Axis:
    """Of a feature without numbers, its values are counted and named by the tips."""
    low, high = float(one.grid[0]), float(one.grid[-1])
    if one.labels is None:
        return Axis("", low, high)
    return Axis(f"{one.labels[0]} … {one.labels[-1]}", low - 0.5, high + 0.5)


def _slice_tip(one: Slice, x: float, y: float) -> str:
    place = number(x) if one.labels is None else one.labels[int(np.argmin(np.abs(one.grid - x)))]
    return f"at {place}\nprediction {number(y)}"


def film_data(findings: Findings, lines: dict[str, list[str]]) -> str:
    """The film as JSON inside the page."""
    stages = findings.stages
    if stages is None or findings.frames is None:
        return ""
    texts = [
        f"bandwidth {number(float(stages.bandwidth[i]))} · training R² {stages.train_r2[i]:.3f} · "
        f"{scored_rows(findings)} R² {stages.scored_r2[i]:.3f}"
        for i in findings.frames
    ]
    data = json.dumps({"texts": texts, "lines": lines}).replace("<", "\\u003c")
    return f'<script type="application/json" id="film-data">{data}</script>'
