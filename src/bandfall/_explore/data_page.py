"""The explorer of a fitted model: a page that replays its training and answers what-ifs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from html import escape

import numpy as np
import pandas as pd

from bandfall._drawing import POLICY, Axis, Chart, number, read_resource
from bandfall._explore.what_if import WhatIf
from bandfall._models.member import Member
from bandfall.report._errors import error_sections
from bandfall.report._features import importance_section, slice_section
from bandfall.report._findings import Findings
from bandfall.report._layout import (
    cell,
    class_style,
    figure,
    json_script,
    page_shell,
    section,
    sortable_table,
)
from bandfall.report._learning import path_section
from bandfall.report._page import header
from bandfall.report._score import TRIAL_COLUMNS, score_section, trial_section

_PACKAGE = "bandfall._explore"
LIVE_POLICY = f"{POLICY}; connect-src 'self'"
MAX_GAIN_ROWS = 200
MAX_GAINS = 5


def render_explorer(
    findings: Findings, what_if: WhatIf, *, target: str, source: str, live: bool = False
) -> str:
    """The page as HTML; if it is `live`, a server answers what-ifs that change several features."""
    slices, film = slice_section(findings, target)
    sections = [
        score_section(findings, (), ""),
        slices,
        _what_if_section(target, live),
        importance_section(findings),
        _gain_section(findings),
        *error_sections(findings, target),
        path_section(findings),
        trial_section(findings),
        _member_section(findings.model.story.members),
    ]
    data = what_if.as_data() | {"live": live, "target": target}
    return page_shell(
        title=f"Predicting {target}",
        kind="explorer",
        header=header(findings, source),
        sections=sections,
        data=film + json_script("what-if-data", data),
        policy=LIVE_POLICY if live else POLICY,
        style=read_resource(_PACKAGE, "explorer.css"),
        script=read_resource(_PACKAGE, "explorer.js"),
    )


def _what_if_section(target: str, live: bool) -> str:
    alone = (
        " A saved page can change one feature at a time; <code>bandfall explore</code> without "
        "<code>--out</code> can change several."
    )
    text = (
        f"Take a row, change it, and see what the model would predict for {escape(target)}."
    ) + ("" if live else alone)
    body = (
        '<div class="what-if"><div class="chosen"><label>Row <select id="what-if-row"></select>'
        '</label><p class="answer"><output id="what-if-answer" aria-live="polite"></output></p>'
        '<ul id="what-if-classes"></ul><p class="dim" id="what-if-difference"></p>'
        '<button type="button" id="what-if-reset">Reset</button></div>'
        '<div class="controls" id="what-if-controls"></div></div>'
    )
    return section("what-if", "What if", text, body)


def _gain_section(findings: Findings) -> str:
    """How much each feature matters at every moment of training."""
    model, film, target = findings.model, findings.film, findings.target
    if film is None:
        return ""
    rows = findings.probed.sample(MAX_GAIN_ROWS, 0)

    def losses(X: pd.DataFrame) -> np.ndarray:
        return np.array([target.loss(rows.y, one) for one in model.film(X, film.moments)])

    whole = losses(rows.X)
    shuffled = np.random.default_rng(0).permutation(len(rows.y))
    rises = {}
    for j in findings.order[:MAX_GAINS]:
        changed = rows.X.copy()
        changed.isetitem(j, rows.X.iloc[shuffled, j].reset_index(drop=True))
        rises[findings.features[j]] = losses(changed) - whole
    at = target.score(film.train_loss)
    x = Axis.around(f"training {target.measure}", at)
    if at[-1] < at[0]:  # training goes from left to right
        x = Axis(x.label, x.high, x.low)
    harm = target.harm.lower().replace("r²", "R²")
    chart = Chart(x, Axis.around(harm, *rises.values(), [0.0]), f"{harm} along training")
    chart.rule(y=0.0)
    for i, (name, rise) in enumerate(rises.items()):
        chart.line(at, rise, class_style(i), tip=partial(_gain_tip, f"{name}\n{harm}"))
    body = figure(
        chart.svg(),
        f"{target.harm} when a feature is shuffled, along training",
        "A model relies first on what is simple and broad; details come later.",
        [(class_style(i), name) for i, name in enumerate(rises)],
    )
    return section(
        "gains", "When it learned which features", "", f'<div class="narrow">{body}</div>'
    )


def _gain_tip(label: str, _: float, rise: float) -> str:
    return f"{label} {number(rise)}"


def _member_section(members: Sequence[Member]) -> str:
    """The members of an average."""
    if len(members) < 2:
        return ""
    described = [{"weight": float(one.weight), **one.candidate.summary()} for one in members]
    heads = {
        name: head
        for name, head in {**TRIAL_COLUMNS, "width": "bandwidth, if only one"}.items()
        if name in described[0]
        and (name not in ("penalty", "width") or any(one[name] for one in described))
    }
    rows = []
    for one in described:
        cells = "".join(cell(one[name]) for name in heads)
        weight = cell(one["weight"], text=f"{one['weight']:.0%}")
        rows.append(f"<tr>{weight}{cells}</tr>")
    text = "The prediction is the weighted mean of these models, heaviest first."
    return section("members", "Members", text, sortable_table(["weight", *heads.values()], rows))
