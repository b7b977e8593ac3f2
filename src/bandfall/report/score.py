"""How good the model is, beside its rivals, and what it tried on the way."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from bandfall.drawing import number, ranking
from bandfall.report.findings import Findings
from bandfall.report.layout import figure, number_cell, section, sortable_table

MAX_TRIALS = 12
LOWEST_R2 = -0.2  # longer bars to the left would squeeze all others
# What is shown of a trial, under which head; columns that a search does not have are left out.
TRIAL_COLUMNS = {
    "kernel": "kernel",
    "min_speed": "speed",
    "n_rounds": "metric rounds",
    "transform": "columns",
    "encoding": "columns",
    "n_rows": "rows",
}


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
    ordered = sorted(rivals, key=lambda one: -one.r2)
    ours = next((one for one in rivals if one.name == name), None)
    variance = float(np.var(findings.scored.y)) or 1.0
    drawing = ranking(
        [one.name for one in ordered],
        [max(one.r2, LOWEST_R2) for one in ordered],
        ["a" if one.name == name else "soft" for one in ordered],
        [f"{o.name}\nR² {o.r2:.4f}\nmean absolute error {number(o.mae)}" for o in ordered],
        "R² of all models",
        errors=[_standard_error(one.squared_errors, variance) for one in ordered],
    )
    rows = [
        f"<tr{' class=ours' if one.name == name else ''}><td>{escape(one.name)}</td>"
        f"{number_cell(one.r2)}<td>{_verdict(one, ours, variance)}</td>"
        f"{number_cell(one.mae)}"
        f'<td>{one.seconds:.2f}</td><td data-value="{one.n_rows}">{one.n_rows:,}</td></tr>'
        for one in ordered
    ]
    heads = ("model", "R²", "difference", "MAE", "fit, s", "rows")
    table = f'<figure class="below">{sortable_table(heads, rows)}</figure>'
    picture = figure(
        drawing,
        "R², higher is better",
        "1 is perfect; 0 is predicting the mean. Lines reach one standard error over held-out rows "
        "to either side.",
    )
    text = (
        f"Every model was trained on the same rows with its usual settings and scored on the same "
        f"{len(findings.scored.y):,} held-out rows. Kernel ridge regression chooses bandwidth and "
        "penalty by cross-validation, on at most 1,000 rows. MAE is the mean absolute error. Two "
        "models differ clearly where their errors on the same rows do, by more than two standard "
        "errors of the mean difference."
    )
    body = f'<div class="narrow">{picture}{table}</div>'
    return section("score", "Score, with rivals", text, body)


def _standard_error(squared_errors: np.ndarray | None, variance: float) -> float:
    """Of R², from the spread of squared errors over held-out rows."""
    if squared_errors is None or len(squared_errors) < 2:
        return 0.0
    return float(squared_errors.std(ddof=1) / np.sqrt(len(squared_errors)) / variance)


def _verdict(one: Any, ours: Any, variance: float) -> str:
    """How R² of a rival differs from that of this model, if it does clearly."""
    if ours is None or one is ours or one.squared_errors is None or ours.squared_errors is None:
        return ""
    paired = ours.squared_errors - one.squared_errors
    difference, margin = paired.mean() / variance, 2.0 * _standard_error(paired, variance)
    if abs(difference) <= margin:
        return "no clear difference"
    return f"{difference:+.3f} ± {margin:.3f}".replace("-", "−")


def trial_section(
    selection: dict[str, np.ndarray] | None,
    measure: tuple[str, str] = ("score", "R² on held-out rows"),
) -> str:
    """What a model that tunes itself has tried, best first; `measure` is shown last."""
    if not selection or not len(selection.get("loss", ())):
        return ""
    order = np.argsort(selection["loss"], kind="stable")
    columns = TRIAL_COLUMNS | dict([measure])
    shown = [name for name in columns if name in selection]
    # Trials on more rows decide: the best of those was taken.
    n_rows = np.asarray(selection.get("n_rows", np.zeros(len(order))))
    taken = next(i for i in order if n_rows[i] == n_rows.max())
    rows = []
    for i in _with(order[:MAX_TRIALS], taken):
        cells = "".join(_trial_cell(selection[name][i]) for name in shown)
        mark = ' class="ours"' if i == taken else ""
        rows.append(f"<tr{mark}>{cells}<td>{'chosen' if i == taken else ''}</td></tr>")
    table = sortable_table([columns[name] for name in shown], rows, last=" ")
    more = len(order) - len(rows)
    rest = f" {more} more were worse." if more > 0 else ""
    text = (
        f"The model tuned itself: {len(order)} configurations were scored on rows held out from "
        f"the training rows.{rest}"
    )
    return section("trials", "What was tried", text, table)


def _with(order: np.ndarray, taken: int) -> list[int]:
    return [int(i) for i in order] if taken in order else [*(int(i) for i in order), int(taken)]


def _trial_cell(value: Any) -> str:
    if isinstance(value, str | bytes | bool | np.bool_):
        return f"<td>{escape(str(value))}</td>"
    return number_cell(float(value))
