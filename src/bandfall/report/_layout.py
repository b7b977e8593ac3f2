"""Parts of pages: sections, cards, figures, tables."""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Sequence
from html import escape

import numpy as np

from bandfall._drawing.chart import Axis, Chart
from bandfall._typing import Unchecked, Values
from bandfall.report._columns import shown

_DASHES = ("", " dashed", " dotted")


def section(name: str, title: str, text: str, *body: str) -> str:
    """A section, whose name is its anchor: a heading, a text, and the body."""
    guide = f'<p class="dim">{text}</p>' if text else ""
    return f'<section id="{name}"><h2>{escape(title)}</h2>{guide}{"".join(body)}</section>'


def key(entries: Sequence[tuple[str, str]]) -> str:
    """A legend: style and name of each mark."""
    marks = "".join(
        f'<span><i class="{style}"></i>{escape(name)}</span> ' for style, name in entries
    )
    return f'<p class="key">{marks}</p>' if marks else ""


def class_style(position: int) -> str:
    """Colour and dash of a class; the first thirty classes have distinct styles."""
    colour, dash = position % 10, _DASHES[position // 10 % len(_DASHES)]
    return f"c{colour}{dash}"


def figure(
    drawing: Chart | str, title: str, caption: str, entries: Sequence[tuple[str, str]] = ()
) -> str:
    """A drawing with its title, key and caption."""
    picture = drawing.svg() if isinstance(drawing, Chart) else drawing
    return (
        f"<figure><h3>{escape(title)}</h3>{key(entries)}{picture}"
        f"<figcaption>{caption}</figcaption></figure>"
    )


def grid(*figures: str, columns: int = 2) -> str:
    """Figures side by side."""
    return f'<div class="grid{columns}">{"".join(figures)}</div>'


def narrow(body: str) -> str:
    """One figure, not as wide as the page."""
    return f'<div class="narrow">{body}</div>'


def diagonal(x: str, y: str, *values: Values) -> Chart:
    """A chart of y against x with a dashed diagonal; from 0 to 1 if no values are given."""
    around = Axis.around("", *values) if values else Axis("", 0.0, 1.0)
    ends = around.low, around.high
    chart = Chart(Axis(x, *ends), Axis(y, *ends), f"{y} against {x}")
    return chart.line(ends, ends, "truth dashed")


def shares_chart(
    x: str, y: str, claimed: np.ndarray, found: np.ndarray, n: float | np.ndarray
) -> Chart:
    """Observed against claimed shares, with two standard errors of shares of `n` rows."""
    slack = 2.0 * np.sqrt(claimed * (1.0 - claimed) / n)
    lower, upper = np.maximum(claimed - slack, 0.0), np.minimum(claimed + slack, 1.0)
    return diagonal(x, y).band(claimed, lower, upper).line(claimed, found, "a")


def table(heads: Sequence[str], rows: Iterable[str], ours: Container[int] = ()) -> str:
    """A table of rows of cells; those with the numbers in `ours` are emphasised."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in heads)
    tag = {True: '<tr class="ours">', False: "<tr>"}
    lines = (f"{tag[i in ours]}{row}</tr>" for i, row in enumerate(rows))
    return (
        '<div class="scroll" tabindex="0" role="group" aria-label="table"><table><thead>'
        f"<tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table></div>"
    )


def cell(value: Unchecked, style: str = "", text: str = "", longest: int = 40) -> str:
    """A table cell, with `text` for the value unless it is missing; long text is a tip."""
    mark = f' class="{style}"' if style else ""
    text = shown(value) if not text or value != value else text
    cut = len(text) > longest
    tip = f' data-tip="{escape(text)}"' if cut else ""
    return f"<td{mark}{tip}>{escape(text[: longest - 1] + '…' if cut else text)}</td>"


def json_script(name: str, value: Unchecked) -> str:
    """JSON data inside the page, with "<" escaped."""
    data = json.dumps(value, allow_nan=False).replace("<", "\\u003c")
    return f'<script type="application/json" id="{name}">{data}</script>'
