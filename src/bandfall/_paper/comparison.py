"""Our values against the published ones, cell by cell, and claims about all cells."""

from __future__ import annotations

from collections.abc import Sequence

from bandfall._paper.experiment import AGREES, DIFFERS, NOT_JUDGED, Claim, Comparison
from bandfall._paper.layout import TextTable
from bandfall._paper.names import DATASETS, KERNELS
from bandfall._paper.published import PublishedCell
from bandfall._paper.summaries import Quartiles

_ROUNDING = 1e-9  # a difference of exactly the tolerance is inside it
_REQUIRED_SHARE = 0.95  # of the medians of Tables 5 and 6


def compare_cell(
    cell: PublishedCell,
    ours: Quartiles,
    p_value: float | None,
    *,
    median_tolerance: float,
    quartile_tolerance: float,
    complete: bool,
) -> Comparison:
    """Compare one cell; it is not judged unless the run was `complete`.

    Examples
    --------
    >>> from bandfall._paper.published import published_cells
    >>> compare_cell(published_cells(2)[0], Quartiles(0.83, 0.65, 0.89), 1e-6,
    ...              median_tolerance=0.015, quartile_tolerance=0.03, complete=True).reason
    'median off by 0.030'
    """
    published = {"median": cell.median, "lower": cell.lower, "upper": cell.upper}
    numbers = ours._asdict()
    reasons = [
        f"{name} off by {abs(numbers[name] - published[name]):.3f}"
        for name, tolerance in (
            ("median", median_tolerance),
            ("lower", quartile_tolerance),
            ("upper", quartile_tolerance),
        )
        if abs(numbers[name] - published[name]) > tolerance + _ROUNDING
    ]
    verdict = DIFFERS if reasons else AGREES
    if not complete:
        verdict, reasons = NOT_JUDGED, ["not all splits were run"]
    return Comparison(
        cell={
            "table": cell.table,
            "dataset": cell.dataset,
            "method": cell.method,
            "min_speed": cell.min_speed,
            "kernel": cell.kernel,
        },
        ours={**numbers, "p_value": p_value},
        published={**published, "p_value": cell.p_value},
        verdict=verdict,
        reason="; ".join(reasons),
    )


def comparison_table(name: str, comparisons: Sequence[Comparison]) -> TextTable:
    """Every cell: published, ours, difference, p-values, verdict."""
    header = [
        "Data",
        "Kernel",
        "Method",
        "Published 50 % (25 %, 75 %)",
        "Ours",
        "Difference of medians",
        "p published",
        "p ours",
        "Verdict",
    ]
    with_p = any(c.published["p_value"] is not None for c in comparisons)
    rows = []
    for c in comparisons:
        speed = c.cell["min_speed"]
        row = [
            DATASETS[c.cell["dataset"]],
            KERNELS[c.cell["kernel"]] if c.cell["kernel"] else "–",
            c.cell["method"] if speed is None else f"{c.cell['method']}, {speed:g}",
            "{median:.2f} ({lower:.2f}, {upper:.2f})".format(**c.published),
            "{median:.3f} ({lower:.3f}, {upper:.3f})".format(**c.ours),
            f"{c.ours['median'] - c.published['median']:+.3f}".replace("-", "−"),
            p_value_text(c.published["p_value"]),
            p_value_text(c.ours["p_value"]),
            c.verdict + (f" ({c.reason})" if c.verdict == DIFFERS else ""),
        ]
        rows.append(row if with_p else row[:6] + row[8:])
    header = header if with_p else header[:6] + header[8:]
    return TextTable(name, "Every cell and the published one.", header, rows)


def p_value_text(p_value: float | None) -> str:
    """A p-value with two digits, bold below 0.05; a dash for None.

    Examples
    --------
    >>> p_value_text(0.00047), p_value_text(0.17), p_value_text(None)
    ('**0.00047**', '0.17', '–')
    """
    if p_value is None:
        return "–"
    text = f"{p_value:.2g}"
    return f"**{text}**" if p_value < 0.05 else text


def tally(comparisons: Sequence[Comparison]) -> list[Claim]:
    """Claims about all cells of a table."""
    judged = [c for c in comparisons if c.verdict != NOT_JUDGED]
    claims = [_medians(comparisons, judged), _significance(comparisons, judged)]
    return [claim for claim in claims if claim is not None]


def _medians(comparisons: Sequence[Comparison], judged: Sequence[Comparison]) -> Claim:
    off = [abs(c.ours["median"] - c.published["median"]) for c in comparisons]
    n_agree = sum(c.verdict == AGREES for c in judged)
    return Claim(
        "The published medians and quartiles are reproduced",
        f"{n_agree} of {len(judged)} cells within their tolerance; medians off by "
        f"{sum(off) / len(off):.3f} on average, {max(off):.3f} at most",
        n_agree >= _REQUIRED_SHARE * len(judged) if judged else None,
    )


def _significance(comparisons: Sequence[Comparison], judged: Sequence[Comparison]) -> Claim | None:
    """Whether KGD-D at v = 0.1 beats both rivals wherever it does in the paper."""
    cells = [c for c in comparisons if c.cell["min_speed"] == 0.1 and c.published["p_value"] < 0.05]
    if not cells:
        return None
    p_values = [c.ours["p_value"] for c in cells]
    names = ", ".join(
        f"{DATASETS[c.cell['dataset']]} {KERNELS[c.cell['kernel']]}: {c.ours['p_value']:.2g}"
        for c in cells
    )
    return Claim(
        "KGD-D with speed 0.1 is significantly better than KRR-CV and KRR-MML on every data set "
        f"where the paper finds it so ({len(cells)})",
        f"p-values {names}",
        all(p < 0.05 for p in p_values) if judged else None,
    )
