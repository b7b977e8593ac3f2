"""The page: sections put together with their style and script, everything inside one file."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from bandfall.drawing import POLICY, number, read_resource, style_sheet
from bandfall.report.errors import error_section
from bandfall.report.features import data_section, film_data, importance_section, slice_section
from bandfall.report.findings import Findings
from bandfall.report.intervals import interval_section
from bandfall.report.layout import scored_rows, section
from bandfall.report.learning import path_section, scale_section
from bandfall.report.score import score_section, trial_section
from bandfall.version import __version__

_PACKAGE = "bandfall.report"


def render_page(
    findings: Findings,
    *,
    target: str,
    source: str,
    details: dict[str, str],
    rivals: Sequence[Any] = (),
    model_name: str = "bandfall",
    selection: dict[str, Any] | None = None,
) -> str:
    """The report as HTML.

    Parameters
    ----------
    findings : Findings
    target, source : str
        Name of the target and of the file it came from.
    details : dict of str to str
        Further lines about the model, for the last section.
    rivals : sequence of RivalScore
        Including the model itself, under `model_name`.
    selection : dict of arrays, optional
        `BandfallRegressor.selection_`.
    """
    slices, lines = slice_section(findings, target)
    sections = [
        score_section(findings, rivals, model_name),
        path_section(findings),
        scale_section(findings),
        slices,
        importance_section(findings),
        interval_section(findings, target),
        error_section(findings, target),
        data_section(findings, target),
        trial_section(selection),
        model_section(details),
    ]
    return page_shell(
        title=f"Predicting {target}",
        kind="report",
        header=f'<div class="dim">from {len(findings.features)} features of '
        f"<code>{escape(source)}</code></div>{result_cards(findings)}",
        sections=sections,
        data=film_data(findings, lines),
    )


def page_shell(
    *,
    title: str,
    kind: str,
    header: str,
    sections: Sequence[str],
    data: str,
    policy: str = POLICY,
    style: str = "",
    script: str = "",
) -> str:
    """A page about a model: head, links to its sections, tips, sorted tables, film."""
    links = "".join(
        f'<a href="#{name}">{link}</a>'
        for name, link in _LINKS.items()
        if any(f'<section id="{name}"' in one for one in sections)
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta name="generator" content="bandfall {__version__}">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}: bandfall {kind}</title>"
        f"<style>{style_sheet(_PACKAGE, 'page.css')}{style}</style>"
        f"</head><body><header><h1>{escape(title)}</h1>{header}"
        f'<nav aria-label="sections">{links}</nav></header>'
        f"<main>{''.join(sections)}</main>"
        f"<footer>Made by bandfall {__version__}. This page holds everything it needs and loads "
        f'nothing.</footer><div id="tip" hidden></div>{data}'
        f"<script>{read_resource(_PACKAGE, 'page.js')}{script}</script></body></html>\n"
    )


_LINKS = {
    "score": "Score",
    "path": "Path",
    "scales": "Scales",
    "calibration": "Calibration",
    "confusion": "Confusion",
    "slices": "Slices",
    "what-if": "What if",
    "features": "Features",
    "gains": "Features in time",
    "intervals": "Intervals",
    "errors": "Errors",
    "data": "Data",
    "trials": "Trials",
    "members": "Members",
    "model": "Model",
}


def result_cards(findings: Findings) -> str:
    """The few numbers at the top of the page."""
    shown = [
        ("main", f"{findings.r2:.3f}", f"R² on {scored_rows(findings)}"),
        ("", number(findings.mae), "mean absolute error"),
        ("", f"{len(findings.train.y):,}", "training rows"),
    ]
    if findings.held_out:
        shown.append(("", f"{len(findings.scored.y):,}", "held-out rows"))
    if findings.path is not None:
        first, last = findings.path.bandwidths[[0, -1]]
        shown.append(("", f"{number(float(first))} → {number(float(last))}", "bandwidth"))
        shown.append(("", f"{findings.path.r2:.3f}", "training R²"))
    return cards(shown)


def cards(shown: Sequence[tuple[str, str, str]]) -> str:
    """Numbers in large type: style, value and label of each."""
    items = "".join(
        f'<div class="card {style}"><b>{value}</b><span>{escape(label)}</span></div>'
        for style, value, label in shown
    )
    return f'<div class="cards">{items}</div>'


def model_section(details: dict[str, str]) -> str:
    """Lines about the model, at the end of the page."""
    lines = "".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in details.items())
    return section("model", "The model", "", f"<dl>{lines}</dl>")
