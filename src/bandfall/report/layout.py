"""What sections are made of: headings, figures, tables that can be sorted."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from typing import Any

from bandfall.drawing import number
from bandfall.report.findings import Findings


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


def sortable_table(heads: Sequence[str], rows: Sequence[str], *, last: str = "") -> str:
    """A table whose columns can be sorted by pointer or keyboard; `last` heads one that cannot."""
    cells = "".join(
        f'<th scope="col" aria-sort="none"><button type="button">{escape(head)}</button></th>'
        for head in heads
    )
    plain = f'<th scope="col">{escape(last)}</th>' if last else ""
    return (
        '<div class="scroll" tabindex="0" role="group" aria-label="table"><table><thead>'
        f"<tr>{cells}{plain}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def number_cell(value: float) -> str:
    """A cell that is sorted by its number."""
    return f'<td data-value="{value:.6g}">{number(value)}</td>'


def scored_rows(findings: Findings) -> str:
    """What the rows behind scores are called."""
    return "held-out rows" if findings.held_out else "training rows"


def json_script(name: str, value: Any) -> str:
    """Data inside the page, safe whatever its texts hold."""
    data = json.dumps(value, allow_nan=False).replace("<", "\\u003c")
    return f'<script type="application/json" id="{name}">{data}</script>'
