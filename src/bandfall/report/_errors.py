"""Errors of a model: residuals for numbers, calibration and confusion for classes."""

from __future__ import annotations

from html import escape

import numpy as np

from bandfall._drawing import Axis, Chart, number
from bandfall._targets import Classes
from bandfall._targets.scores import confusion, decimals, reliability, row_losses
from bandfall.report._columns import in_one_format, is_number
from bandfall.report._findings import LEVEL, Findings
from bandfall.report._layout import cell, diagonal, figure, grid, section, sortable_table

MAX_DOTS = 600
N_WORST, N_WORST_FEATURES = 8, 5
MAX_CONFUSION = 12  # classes in a square table


def error_sections(findings: Findings, target: str) -> list[str]:
    """Sections about errors on the scored rows, for numbers or classes."""
    if isinstance(findings.target, Classes):
        known = findings.scored.y >= 0
        if not known.any():
            return []
        return [
            _calibration(findings, findings.outputs[known], findings.scored.y[known]),
            _confusion(findings, findings.target.classes),
            section("errors", "Largest errors", "", _worst_table(findings, target)),
        ]
    return [_residuals(findings, target)]


def _residuals(findings: Findings, target: str) -> str:
    """Predictions against targets, the shape of errors, and whether they are calibrated."""
    y, residuals = findings.scored.y, findings.residuals
    quantiles = [float(q) for q in np.quantile(np.abs(residuals), [0.5, 0.9, 0.99])]
    text = (
        f"On {findings.rows_name}, half of all errors are below {number(quantiles[0])}, 90% "
        f"below {number(quantiles[1])} and 99% below {number(quantiles[2])}, in the units of "
        f"{escape(target)}."
    )
    body = (
        _agreement(findings, target)
        + _histogram(residuals)
        + _tenths(y, findings.predictions)
        + ("" if findings.intervals else _coverage(residuals))
        + _residuals_along(findings)
    )
    worst = _worst_table(findings, target)
    return section("errors", "Errors and their calibration", text, grid(body) + worst)


def _agreement(findings: Findings, target: str) -> str:
    y, predictions = findings.scored.y, findings.predictions
    few = np.linspace(0, len(y) - 1, min(len(y), MAX_DOTS)).astype(int)
    chart = diagonal("prediction", target, y[few], predictions[few])
    tips = [
        f"row {findings.row_numbers[i]}\npredicted {number(predictions[i])}\nwas {number(y[i])}"
        for i in few
    ]
    chart.dots(predictions[few], y[few], "a", tips=tips)
    drawn = "" if len(few) == len(y) else f" {len(few)} of {len(y):,} rows are drawn."
    return figure(chart.svg(), "Predicted and true", f"Perfect predictions lie on the line.{drawn}")


def _residuals_along(findings: Findings) -> str:
    """Errors against the most important numeric feature, to show what is left to learn."""
    X = findings.scored.X
    j = next((j for j in findings.order if is_number(X.iloc[:, j])), None)
    if j is None:
        return ""
    name = findings.features[j]
    values = X.iloc[:, j].to_numpy(dtype=float, na_value=np.nan)
    few = np.flatnonzero(np.isfinite(values))[:MAX_DOTS]
    if not len(few):
        return ""
    chart = Chart(
        Axis.around(name, values[few]),
        Axis.around("target − prediction", findings.residuals[few]),
        "errors",
    )
    chart.rule(y=0.0)
    tips = [
        f"row {findings.row_numbers[i]}\n{name} {number(values[i])}\n"
        f"error {number(findings.residuals[i])}"
        for i in few
    ]
    chart.dots(values[few], findings.residuals[few], "a", tips=tips)
    return figure(
        chart.svg(),
        f"Errors along {name}",
        "A pattern around the dashed line is something the model has not learned.",
    )


def _histogram(residuals: np.ndarray) -> str:
    low, high = np.quantile(residuals, [0.005, 0.995])
    if not low < high:
        low, high = low - 0.5, high + 0.5
    chart = _bins(
        np.clip(residuals, low, high), (float(low), float(high)), 31, "target − prediction"
    )
    return figure(
        chart.rule(x=0.0).svg(),
        "Errors",
        f"Mean {number(float(residuals.mean()))}, standard deviation "
        f"{number(float(residuals.std()))}. The outer bars include all larger errors.",
    )


def _bins(values: np.ndarray, ends: tuple[float, float], n_bins: int, label: str) -> Chart:
    """A histogram."""
    counts, edges = np.histogram(values, bins=n_bins, range=ends)
    chart = Chart(Axis(label, *ends), Axis.from_zero("rows", counts), f"histogram: {label}")
    tips = [
        f"{number(float(a))} to {number(float(b))}: {c:,} rows"
        for a, b, c in zip(edges[:-1], edges[1:], counts, strict=True)
    ]
    return chart.bars(edges, counts, ["soft"] * n_bins, tips)


def _tenths(y: np.ndarray, predictions: np.ndarray) -> str:
    n_groups = min(10, max(1, len(y) // 5))
    groups = np.array_split(np.argsort(predictions, kind="stable"), n_groups)
    xs = [float(predictions[g].mean()) for g in groups]
    ys = [float(y[g].mean()) for g in groups]
    chart = diagonal("mean prediction of a tenth", "mean target of that tenth", xs, ys)
    tips = [
        f"{len(g):,} rows\nmean prediction {number(a)}\nmean target {number(b)}"
        for g, a, b in zip(groups, xs, ys, strict=True)
    ]
    chart.line(xs, ys, "a").dots(xs, ys, "a solid", tips=tips, radius=4)
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
    chart = diagonal("claimed share", "share within the interval").line(
        levels, covered, "b", tip=lambda a, b: f"interval for {a:.0%}\nholds {b:.0%} of other rows"
    )
    width = number(float(np.quantile(sizes, LEVEL)))
    return figure(
        chart.svg(),
        "Do error intervals hold?",
        "Intervals prediction ± e, with e from one half of the rows, checked on the other half. "
        f"For 90%, e is {width}.",
    )


def _calibration(findings: Findings, given: np.ndarray, labels: np.ndarray) -> str:
    """Predicted probabilities against observed shares, and how sure the model is."""
    names = findings.target.classes
    if len(names) == 2:
        asked, happened = given[:, 1], labels == 1
        what, sure = f"probability of {names[1]}", "near 0 or 1"
    else:
        asked, happened = given.max(axis=1), given.argmax(axis=1) == labels
        what, sure = "probability of the predicted class", "near 1"
    bins = reliability(asked, happened)
    xs, ys = [one.probability for one in bins], [one.share for one in bins]
    tips = [
        f"{one.weight:,.0f} rows\nmean probability {one.probability:.3f}\ncame true {one.share:.3f}"
        for one in bins
    ]
    chart = diagonal(what, "share that came true").line(xs, ys, "a")
    chart.dots(xs, ys, "a solid", tips=tips, radius=4)
    body = figure(
        chart.svg(),
        "Do probabilities come true?",
        "Rows in tenths of probability: on the dashed line, seven in ten rows of probability 0.7 "
        f"come true. The calibration error is {decimals(findings.scores['calibration_error'])}.",
    ) + figure(
        _bins(asked, (0.0, 1.0), 20, what).svg(),
        "How sure is it?",
        f"The model is sure where the probability is {sure}.",
    )
    text = f"On {len(labels):,} {findings.rows_name}."
    return section("calibration", "Calibration", text, grid(body))


def _confusion(findings: Findings, names: list[str]) -> str:
    """Counts of true and predicted classes."""
    counts = confusion(findings.outputs, findings.scored.y)
    rows = []
    if len(names) > MAX_CONFUSION:  # the most frequent mistakes instead of a square
        wrong = counts - np.diag(np.diag(counts))
        order = np.argsort(-wrong, axis=None)[: 2 * MAX_CONFUSION]
        for i, j in zip(*np.unravel_index(order, wrong.shape), strict=True):
            if wrong[i, j]:
                cells = cell(names[i]) + cell(names[j]) + cell(wrong[i, j])
                rows.append(f"<tr>{cells}</tr>")
        text, heads = f"The most frequent mistakes on {findings.rows_name}.", ["class", "predicted"]
        return section("confusion", "Confusion", text, sortable_table([*heads, "rows"], rows))
    for i, name in enumerate(names):
        n_rows = counts[i].sum()
        cells = "".join(cell(count, "right" if i == j else "") for j, count in enumerate(counts[i]))
        share = counts[i, i] / n_rows if n_rows else np.nan
        right = cell(share, text=f"{share:.1%}")
        rows.append(f"<tr>{cell(name)}{cells}{right}</tr>")
    text = (
        f"{findings.rows_name.capitalize()}: a row for each true class, a column for each "
        "predicted class."
    )
    heads = ["class", *names, "share right"]
    return section("confusion", "Confusion", text, sortable_table(heads, rows))


def worst_rows(findings: Findings, n: int) -> list[int]:
    """Indices of the scored rows with the largest errors, without repeated rows."""
    y = findings.scored.y
    if findings.target.classes:
        errors = np.full(len(y), -np.inf)
        errors[y >= 0] = row_losses(findings.outputs[y >= 0], y[y >= 0])
    else:
        errors = np.abs(findings.residuals)
    order = np.argsort(-errors, kind="stable")
    _, first = np.unique(findings.row_numbers[order], return_index=True)
    return [int(i) for i in order[np.sort(first)][:n] if np.isfinite(errors[i])]


def _worst_table(findings: Findings, target: str) -> str:
    """The rows with the largest errors, with their most important features."""
    names, outputs = findings.target.classes, findings.outputs
    features = findings.order[:N_WORST_FEATURES]
    heads = ["its probability", "predicted"] if names else ["prediction", "error"]
    heads = ["row", target, *heads, *(findings.features[j] for j in features)]
    columns = [in_one_format(findings.scored.X.iloc[:, j]) for j in features]
    rows = []
    for i in worst_rows(findings, N_WORST):
        y = findings.scored.y[i]
        if names:
            given = float(outputs[i, int(y)])
            cells = cell(names[int(y)]) + cell(given, text=decimals(given))
            cells += cell(names[int(outputs[i].argmax())])
        else:
            cells = cell(y) + cell(outputs[i, 0]) + cell(findings.residuals[i])
        cells += "".join(cell(column.iloc[i]) for column in columns)
        number = findings.row_numbers[i]
        rows.append(f'<tr><td data-value="{number}">{number}</td>{cells}</tr>')
    title = f"The {len(rows)} largest errors on {findings.rows_name}"
    return f'<figure class="below"><h3>{title}</h3>{sortable_table(heads, rows)}</figure>'
