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
# What is shown of a trial, under which head; columns that a search does not have are left out.
TRIAL_COLUMNS = {
    "kernel": "kernel",
    "min_speed": "speed",
    "n_rounds": "metric rounds",
    "transform": "columns",
    "encoding": "columns",
    "n_rows": "rows",
    "score": "R² on held-out rows",
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
    rows = [
        f"<tr{' class=ours' if line[0] == name else ''}><td>{escape(line[0])}</td>"
        f"{number_cell(line[1])}{number_cell(line[2])}<td>{line[3]:.2f}</td>"
        f'<td data-value="{line[4]}">{line[4]:,}</td></tr>'
        for line in lines
    ]
    heads = ("model", "R²", "MAE", "fit, s", "rows")
    table = f"<figure>{sortable_table(heads, rows)}</figure>"
    picture = figure(drawing, "R², higher is better", "1 is perfect; 0 is predicting the mean.")
    text = (
        f"Every model was trained on the same rows with its usual settings and scored on the same "
        f"{len(findings.scored.y):,} held-out rows. Kernel ridge regression chooses bandwidth and "
        "penalty by cross-validation, on at most 1,000 rows. MAE is the mean absolute error."
    )
    return section(
        "score", "Score, with rivals", text, f'<div class="grid2">{picture}{table}</div>'
    )


def trial_section(selection: dict[str, np.ndarray] | None) -> str:
    """What a model that tunes itself has tried, best first."""
    if not selection or not len(selection.get("loss", ())):
        return ""
    order = np.argsort(selection["loss"], kind="stable")
    shown = [name for name in TRIAL_COLUMNS if name in selection]
    # Trials on more rows decide: the best of those was taken.
    n_rows = np.asarray(selection.get("n_rows", np.zeros(len(order))))
    taken = next(i for i in order if n_rows[i] == n_rows.max())
    rows = []
    for i in _with(order[:MAX_TRIALS], taken):
        cells = "".join(_trial_cell(selection[name][i]) for name in shown)
        mark = ' class="ours"' if i == taken else ""
        rows.append(f"<tr{mark}>{cells}<td>{'chosen' if i == taken else ''}</td></tr>")
    table = sortable_table([TRIAL_COLUMNS[name] for name in shown], rows, last=" ")
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
