"""Errors of a model: residuals and intervals for numbers, calibration and confusion for classes."""

from __future__ import annotations

from html import escape

import numpy as np

from bandfall._drawing.chart import Axis, Chart, number
from bandfall._targets.scores import confusion, decimals, reliability, row_losses
from bandfall.report._findings import LEVEL, Findings
from bandfall.report._layout import (
    cell,
    diagonal,
    figure,
    grid,
    narrow,
    section,
    shares_chart,
    table,
)

MAX_DOTS = 600
N_WORST, N_WORST_FEATURES = 8, 5
MAX_CONFUSED = 12  # classes in a table


def error_sections(findings: Findings, target: str) -> list[str]:
    """Sections about errors on the scored rows, for numbers or classes."""
    if not findings.target.classes:
        return [_residuals(findings, target)]
    if not (findings.scored.y >= 0).any():
        return []
    worst = section("errors", "Largest errors", "", _worst_table(findings, target))
    return [_calibration(findings), _confusion(findings), worst]


def _residuals(findings: Findings, target: str) -> str:
    y, predictions, residuals = findings.scored.y, findings.predictions, findings.residuals
    half, most, nearly = (number(q) for q in np.quantile(np.abs(residuals), [0.5, 0.9, 0.99]))
    text = (
        f"On {findings.rows_name}, half of all errors are below {half}, 90% below {most} and 99% "
        f"below {nearly}, in the units of {escape(target)}."
    )
    few = np.linspace(0, len(y) - 1, min(len(y), MAX_DOTS)).astype(int)
    agreement = diagonal("prediction", target, y[few], predictions[few])
    names = [f"row {number}" for number in findings.row_numbers[few]]
    agreement.dots(predictions[few], y[few], "a", names=names)
    drawn = "" if len(few) == len(y) else f" {len(few)} of {len(y):,} rows are drawn."
    low, high = np.quantile(residuals, [0.005, 0.995])
    if not low < high:
        low, high = low - 0.5, high + 0.5
    counts, edges = np.histogram(np.clip(residuals, low, high), 31, (low, high))
    x = Axis("target − prediction", float(low), float(high))
    spread = Chart(x, Axis.around("rows", counts, [0.0]), "histogram of errors")
    spread.bars(edges, counts, ["soft"] * len(counts))
    body = grid(
        figure(agreement, "Predicted and true", f"Perfect predictions lie on the line.{drawn}"),
        figure(
            spread.rule(x=0.0),
            "Errors",
            f"Mean {number(residuals.mean())}, standard deviation {number(residuals.std())}. The "
            "outer bars include all larger errors.",
        ),
    )
    worst = _worst_table(findings, target)
    return section("errors", "Errors and their calibration", text, body, worst)


def _calibration(findings: Findings) -> str:
    """Predicted probabilities against observed shares."""
    known, names = findings.scored.y >= 0, findings.target.classes
    given, labels = findings.outputs[known], findings.scored.y[known]
    if len(names) == 2:
        asked, happened = given[:, 1], labels == 1
        what = f"probability of {names[1]}"
    else:
        asked, happened = given.max(axis=1), given.argmax(axis=1) == labels
        what = "probability of the predicted class"
    xs, ys, weights = reliability(asked, happened)
    chart = shares_chart(what, "share that came true", xs, ys, weights)
    error = decimals(findings.scores["calibration_error"])
    body = figure(
        chart.dots(xs, ys, "a solid", names=[f"{weight:,.0f} rows" for weight in weights]),
        "Do probabilities come true?",
        "Rows in tenths of probability: on the dashed line, seven in ten rows of probability 0.7 "
        "come true; the band is what chance allows with this number of rows. The calibration error "
        f"is {error}.",
    )
    return section(
        "calibration", "Calibration", f"On {len(labels):,} {findings.rows_name}.", narrow(body)
    )


def _confusion(findings: Findings) -> str:
    """Counts of true and predicted classes, unless there are too many for a table."""
    names, counts = findings.target.classes, confusion(findings.outputs, findings.scored.y)
    if len(names) > MAX_CONFUSED:
        return ""
    heads, rows = ["class", *names, "share right"], []
    for i, row in enumerate(counts):
        cells = [cell(count, "right" * (i == j)) for j, count in enumerate(row)]
        share = row[i] / row.sum() if row.sum() else np.nan
        rows.append("".join([cell(names[i]), *cells, cell(share, text=f"{share:.1%}")]))
    text = f"{findings.rows_name.capitalize()}: a row for each class, a column for each prediction."
    return section("confusion", "Confusion", text, table(heads, rows))


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
    names, outputs = findings.target.classes, findings.outputs
    features = findings.order[:N_WORST_FEATURES]
    columns = [findings.scored.X.iloc[:, j] for j in features]
    rows = []
    for i in worst_rows(findings, N_WORST):
        y, row = findings.scored.y[i], findings.row_numbers[i]
        if names:
            given, likeliest = float(outputs[i, int(y)]), names[int(outputs[i].argmax())]
            cells = [cell(names[int(y)]), cell(given, text=decimals(given)), cell(likeliest)]
        else:
            cells = [cell(y), cell(outputs[i, 0]), cell(findings.residuals[i])]
        values = [cell(column.iloc[i]) for column in columns]
        rows.append("".join([cell(row, text=str(row)), *cells, *values]))
    heads = ["its probability", "predicted"] if names else ["prediction", "error"]
    heads = ["row", target, *heads, *(findings.features[j] for j in features)]
    title = f"The {len(rows)} largest errors on {findings.rows_name}"
    if names:
        title = f"The {len(rows)} {findings.rows_name} whose class was least likely"
    return f'<figure class="below"><h3>{title}</h3>{table(heads, rows)}</figure>'


def interval_section(findings: Findings, target: str) -> str:
    """Observed against promised coverage, and the intervals of held-out rows."""
    coverage, learned = findings.intervals, findings.model.story.intervals
    if coverage is None or learned is None:
        return ""
    y, lower, upper = findings.scored.y, coverage.lower, coverage.upper
    inside = float(np.mean((lower <= y) & (y <= upper)))
    text = (
        f"{LEVEL:.0%} intervals contain {inside:.1%} of {len(y):,} held-out rows. Half of the "
        f"intervals are narrower than {number(np.median(upper - lower))}, in the units of "
        f"{escape(target)}. They were learned from the errors at "
        f"{learned.n_rows:,} other rows that the search had held out from the training rows."
    )
    promised, shares = coverage.coverages, coverage.shares
    # Chance has a part in the rows held out by the search and in the scored rows.
    n = 1.0 / (1.0 / len(y) + 1.0 / max(1, learned.n_rows))
    chart = shares_chart("promised coverage", "share of rows inside", promised, shares, n)
    promises = figure(
        chart.dots(promised, shares),
        "Do intervals contain as many rows as promised?",
        "On the dashed line they do; the band is what chance allows with this number of rows.",
    )
    return section("intervals", "How sure it is", text, narrow(promises))
