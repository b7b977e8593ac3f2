"""Where the model is wrong: predictions against targets, shape of errors, worst rows."""

from __future__ import annotations

from html import escape

import numpy as np

from bandfall.drawing import Axis, Chart, number
from bandfall.report.findings import Findings, is_number
from bandfall.report.layout import figure, number_cell, scored_rows, section, sortable_table

MAX_DOTS = 600
N_WORST, N_WORST_FEATURES = 8, 5


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
        + ("" if findings.intervals else _coverage(residuals))
        + _residuals_along(findings)
    )
    return section(
        "errors",
        "Errors and their calibration",
        text,
        f'<div class="grid2">{body}</div>{_worst_rows(findings, target)}',
    )


def _agreement(y: np.ndarray, predictions: np.ndarray, target: str) -> str:
    few = np.linspace(0, len(y) - 1, min(len(y), MAX_DOTS)).astype(int)
    axis = Axis.around("", y[few], predictions[few])
    chart = Chart(
        Axis("prediction", axis.low, axis.high), Axis(target, axis.low, axis.high), "agreement"
    )
    chart.line([axis.low, axis.high], [axis.low, axis.high], "truth dashed")
    tips = [
        f"row {i + 1}\npredicted {number(p)}\nwas {number(t)}"
        for i, p, t in zip(few, predictions[few], y[few], strict=True)
    ]
    chart.dots(predictions[few], y[few], "a", tips=tips)
    shown = "" if len(few) == len(y) else f" {len(few)} of {len(y):,} rows are drawn."
    return figure(chart.svg(), "Predicted and true", f"Perfect predictions lie on the line.{shown}")


def _residuals_along(findings: Findings) -> str:
    """Errors against the most important feature of numbers: what is left to learn shows."""
    order = np.argsort(-findings.importances[:, 0])
    numeric = [int(j) for j in order if is_number(findings.scored.X.iloc[:, int(j)])]
    if not numeric:
        return ""
    name = findings.features[numeric[0]]
    values = findings.scored.X.iloc[:, numeric[0]].to_numpy(dtype=float, na_value=np.nan)
    few = np.flatnonzero(np.isfinite(values))[:MAX_DOTS]
    if not len(few):
        return ""
    x = Axis.around(name, values[few])
    chart = Chart(x, Axis.around("target − prediction", findings.residuals[few]), "errors")
    chart.rule(y=0.0)
    tips = [
        f"row {i + 1}\n{name} {number(values[i])}\nerror {number(findings.residuals[i])}"
        for i in few
    ]
    chart.dots(values[few], findings.residuals[few], "a", tips=tips)
    return figure(
        chart.svg(),
        f"Errors along {name}",
        "A pattern around the dashed line is something the model has not learned.",
    )


def _worst_rows(findings: Findings, target: str) -> str:
    """The rows with the largest errors, with their most important features."""
    worst = np.argsort(-np.abs(findings.residuals))[:N_WORST]
    order = [int(j) for j in np.argsort(-findings.importances[:, 0])[:N_WORST_FEATURES]]
    heads = ["row", target, "prediction", "error", *(findings.features[j] for j in order)]
    rows = []
    for i in worst:
        numbers = (findings.scored.y[i], findings.predictions[i], findings.residuals[i])
        cells = "".join(number_cell(float(value)) for value in numbers)
        cells += "".join(_value_cell(findings.scored.X.iloc[int(i), j]) for j in order)
        rows.append(f'<tr><td data-value="{i + 1}">{i + 1}</td>{cells}</tr>')
    table = sortable_table(heads, rows)
    title = f"The {len(worst)} largest errors of {scored_rows(findings)}"
    return f'<figure class="below"><h3>{title}</h3>{table}</figure>'


def _value_cell(value: object) -> str:
    if isinstance(value, int | float | np.number) and not isinstance(value, bool):
        return number_cell(float(value))
    return f"<td>{escape(str(value)[:40])}</td>"


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
