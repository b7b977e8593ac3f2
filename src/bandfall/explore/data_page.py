"""The explorer of a fitted model: a page that plays its training and answers what-ifs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from html import escape
from typing import Any

import numpy as np
from sklearn.metrics import r2_score

from bandfall.drawing import POLICY, Axis, Chart, number, read_resource
from bandfall.explore.what_if import WhatIf
from bandfall.report.errors import error_section
from bandfall.report.features import film_data, importance_section, slice_section
from bandfall.report.findings import Findings, Rows
from bandfall.report.layout import figure, json_script, number_cell, section, sortable_table
from bandfall.report.learning import path_section
from bandfall.report.model import Model
from bandfall.report.page import page_shell, result_cards
from bandfall.report.score import trial_section
from bandfall.selection.members import Member

_PACKAGE = "bandfall.explore"
LIVE_POLICY = f"{POLICY}; connect-src 'self'"
MAX_GAIN_ROWS = 200
GAIN_STYLES = ("a", "b", "good", "bad", "soft")


def render_explorer(
    estimator: Any,
    findings: Findings,
    what_if: WhatIf,
    *,
    target: str,
    source: str,
    live: bool = False,
) -> str:
    """The page as HTML.

    Parameters
    ----------
    estimator : fitted estimator or pipeline with one target
    findings : Findings
    what_if : WhatIf
    target, source : str
        Name of the target and of the file it came from.
    live : bool
        Whether a server answers what-ifs that change several features.
    """
    slices, lines = slice_section(findings, target)
    model = Model(estimator, float(findings.train.y.mean()))
    sections = [
        slices,
        _what_if_section(target, live),
        importance_section(findings),
        _gain_section(model, findings),
        error_section(findings, target),
        path_section(findings),
        trial_section(model.story.selection),
        _member_section(model.story.members),
    ]
    data = what_if.as_data() | {"live": live, "target": target}
    return page_shell(
        title=f"Predicting {target}",
        kind="explorer",
        header=f'<div class="dim">from {len(findings.features)} features of '
        f"<code>{escape(source)}</code></div>{result_cards(findings)}",
        sections=sections,
        data=film_data(findings, lines) + json_script("what-if-data", data),
        policy=LIVE_POLICY if live else POLICY,
        style=read_resource(_PACKAGE, "explorer.css"),
        script=read_resource(_PACKAGE, "explorer.js"),
    )


def _what_if_section(target: str, live: bool) -> str:
    alone = "" if live else " In this file one feature differs from the row at a time."
    text = (
        f"Take a row, change it, and see what the model would predict for {escape(target)}.{alone}"
    )
    body = (
        '<div class="what-if"><div class="chosen"><label>Row <select id="what-if-row"></select>'
        '</label><p class="answer"><output id="what-if-answer" aria-live="polite"></output></p>'
        '<p class="dim" id="what-if-difference"></p>'
        '<button type="button" id="what-if-reset">As it was</button></div>'
        '<div class="sliders" id="what-if-sliders"></div></div>'
    )
    return section("what-if", "What if", text, body)


def _gain_section(model: Model, findings: Findings) -> str:
    """How much each feature matters at every moment of training."""
    if findings.film is None:
        return ""
    rows = findings.scored.sample(MAX_GAIN_ROWS, 0)
    moments = findings.film.moments
    whole = _scores(rows, model.film(rows.X, moments))
    order = np.argsort(-findings.importances[:, 0])[: len(GAIN_STYLES)]
    shuffled = np.random.default_rng(0).permutation(len(rows.y))
    losses = []
    for j in order:
        changed = rows.X.copy()
        column = rows.X.iloc[shuffled, int(j)].reset_index(drop=True)
        changed.isetitem(int(j), column.set_axis(rows.X.index))
        losses.append(whole - _scores(rows, model.film(changed, moments)))
    chart = Chart(
        Axis.around("training R²", findings.film.train_r2),
        Axis.around("loss of R²", *losses, [0.0]),
        "importance of features along training",
    )
    chart.rule(y=0.0)
    names = [findings.features[int(j)] for j in order]
    for name, style, loss in zip(names, GAIN_STYLES, losses, strict=False):
        chart.line(
            findings.film.train_r2,
            loss,
            style,
            tip=partial(_gain_tip, name),
        )
    body = figure(
        chart.svg(),
        "Loss of R² when a feature is shuffled, along training",
        "What a model relies on first is simple and broad; what comes later is detail.",
        list(zip(GAIN_STYLES, names, strict=False)),
    )
    return section(
        "gains", "Which features it learned when", "", f'<div class="narrow">{body}</div>'
    )


def _gain_tip(name: str, r2: float, loss: float) -> str:
    return f"{name}\nat training R² {r2:.3f}\nloss of R² {number(loss)}"


def _scores(rows: Rows, predictions: np.ndarray) -> np.ndarray:
    return np.array([r2_score(rows.y, one) for one in predictions])


def _member_section(members: Sequence[Member]) -> str:
    """The models that an average is made of."""
    if len(members) < 2:
        return ""
    described = [_member(one) for one in members]
    heads = list(described[0])
    rows = [
        f"<tr>{''.join(_member_cell(one.get(head, '')) for head in heads)}</tr>"
        for one in described
    ]
    text = "The prediction is the weighted mean of these models, heaviest first."
    return section("members", "Members", text, sortable_table(heads, rows))


def _member(member: Member) -> dict[str, Any]:
    return {"weight": float(member.weight)} | asdict(member.candidate)


def _member_cell(value: Any) -> str:
    if isinstance(value, int | float | np.number) and not isinstance(value, bool):
        return number_cell(float(value))
    return f"<td>{escape(str(value))}</td>"
