"""The section about intervals: their coverage on held-out rows and their widths."""

from __future__ import annotations

from html import escape

import numpy as np

from bandfall._drawing import Axis, Chart, number
from bandfall.report._findings import LEVEL, Coverage, Findings
from bandfall.report._layout import diagonal, figure, grid, section

_WIDTHS = {
    "constant": "All intervals are equally wide, except those of rows far from the training rows, "
    "which are wider.",
    "prediction": "Widths depend on the prediction: they follow the errors at similar predictions.",
    "metric": "Widths depend on the row: they follow the errors at similar rows.",
}


def interval_section(findings: Findings, target: str) -> str:
    """Observed against promised coverage, and the intervals of held-out rows."""
    coverage = findings.intervals
    if coverage is None:
        return ""
    y = findings.scored.y
    inside = float(np.mean((coverage.lower <= y) & (y <= coverage.upper)))
    width = float(np.median(coverage.upper - coverage.lower))
    text = (
        f"{LEVEL:.0%} intervals contain {inside:.1%} of {len(y):,} held-out rows. Half of the "
        f"intervals are narrower than {number(width)}, in the units of {escape(target)}. "
        f"{_WIDTHS[coverage.method]} They were learned from the errors at {coverage.n_rows:,} "
        "other rows that the search had held out from the training rows."
    )
    body = grid(_coverage(findings, coverage), _rows(findings, coverage, target))
    return section("intervals", "How sure it is", text, body)


def _coverage(findings: Findings, coverage: Coverage) -> str:
    chart = diagonal("promised coverage", "share of rows inside")
    promised = coverage.coverages
    # Two standard errors, given the rows held out by the search and the scored rows.
    chance = 1.0 / len(findings.scored.y) + 1.0 / max(1, coverage.n_rows)
    slack = 2.0 * np.sqrt(promised * (1.0 - promised) * chance)
    chart.band(promised, (np.maximum(promised - slack, 0.0), np.minimum(promised + slack, 1.0)))
    return figure(
        chart.line(promised, coverage.shares, "a", tip=""),
        "Do intervals contain as many rows as promised?",
        "On the dashed line they do; the band is what chance allows with this number of rows.",
    )


def _rows(findings: Findings, coverage: Coverage, target: str, most: int = 150) -> str:
    """Intervals of some held-out rows, in the order of their predictions."""
    finite = np.flatnonzero(np.isfinite(coverage.lower) & np.isfinite(coverage.upper))
    if not len(finite):
        return ""
    few = finite[np.linspace(0, len(finite) - 1, min(len(finite), most)).astype(int)]
    few = few[np.argsort(findings.predictions[few], kind="stable")]
    y, lower, upper = findings.scored.y[few], coverage.lower[few], coverage.upper[few]
    places = np.arange(len(few), dtype=float)
    x = Axis("rows in order of their prediction", -1.0, float(len(few)))
    chart = Chart(x, Axis.around(target, lower, upper, y), "intervals of held-out rows")
    chart.band(places, (lower, upper)).line(places, findings.predictions[few], "soft")
    outside = (y < lower) | (y > upper)
    names = np.array(
        [
            f"row {row}\n{number(float(low))} to {number(float(high))}"
            for row, low, high in zip(findings.row_numbers[few], lower, upper, strict=True)
        ]
    )
    for style, chosen in (("a", ~outside), ("b solid", outside)):
        chart.dots(places[chosen], y[chosen], style, names=names[chosen])
    drawn = "" if len(few) == len(findings.scored.y) else f" {len(few)} rows are drawn."
    return figure(
        chart,
        f"{LEVEL:.0%} intervals and what was true",
        f"The band is the interval, the line the prediction.{drawn}",
        [("a", "inside"), ("b", "outside")],
    )
