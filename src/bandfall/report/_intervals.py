"""The section about intervals: their coverage on held-out rows and their widths."""

from __future__ import annotations

from html import escape

import numpy as np

from bandfall._drawing import Axis, Chart, number
from bandfall.report._findings import LEVEL, Coverage, Findings
from bandfall.report._layout import diagonal, figure, grid, section

MAX_BARS = 150  # rows whose intervals are drawn

_WIDTHS = {
    "constant": "All intervals are equally wide, except those of rows far from the training rows, "
    "which are wider.",
    "prediction": "Widths depend on the prediction: they follow the errors at similar predictions.",
    "metric": "Widths depend on the row: they follow the errors at similar rows.",
}


def interval_section(findings: Findings, target: str) -> str:
    """Observed against promised coverage, and the intervals of held-out rows."""
    found = findings.intervals
    if found is None:
        return ""
    y = findings.scored.y
    inside = float(np.mean((found.lower <= y) & (y <= found.upper)))
    widths = found.upper - found.lower
    text = (
        f"{LEVEL:.0%} intervals contain {inside:.1%} of {len(y):,} held-out rows. Half of the "
        f"intervals are narrower than {number(float(np.median(widths)))}, in the units of "
        f"{escape(target)}. "
        f"{_WIDTHS[found.method]} They were learned from the errors at {found.n_rows:,} other rows "
        "that the search had held out from the training rows."
    )
    body = _coverage(findings, found) + _rows(findings, found, target)
    return section("intervals", "How sure it is", text, grid(body))


def _coverage(findings: Findings, found: Coverage) -> str:
    chart = diagonal("promised coverage", "share of rows inside")
    # Two standard errors, given the rows held out by the search and the scored rows.
    chance = 1.0 / len(findings.scored.y) + 1.0 / max(1, found.n_rows)
    slack = 2.0 * np.sqrt(found.coverages * (1.0 - found.coverages) * chance)
    low, high = found.coverages - slack, found.coverages + slack
    chart.band(found.coverages, np.maximum(low, 0.0), np.minimum(high, 1.0))
    chart.line(
        found.coverages,
        found.shares,
        "a",
        tip=lambda promised, share: f"promised {promised:.0%}\nfound {share:.1%}",
    )
    return figure(
        chart.svg(),
        "Do intervals contain as many rows as promised?",
        "On the dashed line they do; the band is what chance allows with this number of rows.",
    )


def _rows(findings: Findings, found: Coverage, target: str) -> str:
    """Intervals of some held-out rows, in the order of their predictions."""
    finite = np.flatnonzero(np.isfinite(found.lower) & np.isfinite(found.upper))
    if not len(finite):
        return ""
    few = finite[np.linspace(0, len(finite) - 1, min(len(finite), MAX_BARS)).astype(int)]
    few = few[np.argsort(findings.predictions[few], kind="stable")]
    y, lower, upper = findings.scored.y[few], found.lower[few], found.upper[few]
    places = np.arange(len(few), dtype=float)
    chart = Chart(
        Axis("held-out rows, in order of their prediction", -1.0, float(len(few))),
        Axis.around(target, lower, upper, y),
        "intervals of held-out rows",
    )
    chart.band(places, lower, upper).line(places, findings.predictions[few], "soft")
    outside = (y < lower) | (y > upper)
    for style, chosen in (("a", ~outside), ("b solid", outside)):
        tips = [
            f"row {findings.row_numbers[few[i]]}\n{target} {number(float(y[i]))}\n"
            f"{number(float(lower[i]))} to {number(float(upper[i]))}"
            for i in np.flatnonzero(chosen)
        ]
        chart.dots(places[chosen], y[chosen], style, tips=tips)
    shown = "" if len(few) == len(findings.scored.y) else f" {len(few)} rows are drawn."
    return figure(
        chart.svg(),
        f"{LEVEL:.0%} intervals and what was true",
        f"The band is the interval, the line the prediction.{shown}",
        [("a", "inside"), ("b", "outside")],
    )
