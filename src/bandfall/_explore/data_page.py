"""The explorer of a fitted model: a page that replays its training and answers what-ifs."""

from __future__ import annotations

from html import escape

import numpy as np
import pandas as pd

from bandfall._drawing import POLICY, Axis, Chart, read_resource
from bandfall._explore.what_if import WhatIf
from bandfall.report._errors import error_sections
from bandfall.report._features import importance_section, slice_section
from bandfall.report._findings import Findings
from bandfall.report._layout import class_style, figure, json_script, page_shell, section
from bandfall.report._learning import path_section
from bandfall.report._page import header
from bandfall.report._score import score_section, trial_section

_PACKAGE = "bandfall._explore"
LIVE_POLICY = f"{POLICY}; connect-src 'self'"


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


def _gain_section(findings: Findings, n_features: int = 5, n_rows: int = 200) -> str:
    model, film, target = findings.model, findings.film, findings.target
    if film is None:
        return ""
    rows = findings.probed.sample(n_rows, 0)

    def losses(X: pd.DataFrame) -> np.ndarray:
        return np.array([target.loss(rows.y, one) for one in model.film(X, film.moments)])

    whole = losses(rows.X)
    shuffled = np.random.default_rng(0).permutation(len(rows.y))
    rises = {}
    for j in findings.order[:n_features]:
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
        chart.line(at, rise, class_style(i), tip=name)
    body = figure(
        chart,
        f"{target.harm} when a feature is shuffled, along training",
        "A model relies first on what is simple and broad; details come later.",
        [(class_style(i), name) for i, name in enumerate(rises)],
    )
    title = "When it learned which features"
    return section("features-in-time", title, "", f'<div class="narrow">{body}</div>')
