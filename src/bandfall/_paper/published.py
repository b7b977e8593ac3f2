"""The numbers printed in the paper's Tables 2, 4, 5 and 6, and ours beside them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import wilcoxon

from bandfall._paper.experiment import AGREES, DATASETS, DIFFERS, KERNELS, Claim, Comparison
from bandfall._paper.layout import TextTable


class PublishedCell(NamedTuple):
    """One cell: a method with one kernel on one data set."""

    table: int  # number of the table in the paper
    dataset: str  # key of the data set, as in `bandfall.datasets.paper_splits`
    method: str  # "KGD-D", "KRR-CV", "KRR-MML", "KGF-CV", "MLP": name in the paper
    min_speed: float | None  # the speed v_R² of KGD-D
    kernel: str | None  # key of the kernel; None for the MLP
    # Median, first and third quartile of test R².
    median: float
    lower: float
    upper: float
    p_value: float | None  # None if the paper prints none
    significant: bool  # whether the p-value is printed in bold (p < 0.05)


@cache
def published_cells() -> tuple[PublishedCell, ...]:
    """All published cells, in the paper's order.

    Examples
    --------
    >>> cell = published_cells()[0]
    >>> cell.dataset, cell.method, cell.min_speed, cell.median, cell.p_value
    ('cpu', 'KGD-D', 0.02, 0.8, 4.7e-07)
    """
    text = files("bandfall._paper").joinpath("published.json").read_text(encoding="utf-8")
    return tuple(PublishedCell(*cell) for cell in json.loads(text)["cells"])


class Quartiles(NamedTuple):
    """Median, first and third quartile of one table cell."""

    median: float
    lower: float
    upper: float


def quartiles(r2: ArrayLike) -> Quartiles:
    """Median and quartiles of test R² over the splits, as Tables 2, 4, 5 and 6 print them.

    Linear interpolation between order statistics.

    Examples
    --------
    >>> quartiles([0.1, 0.2, 0.3, 0.4, 0.5])
    Quartiles(median=0.3, lower=0.2, upper=0.4)
    """
    lower, median, upper = np.quantile(np.asarray(r2, dtype=float), [0.25, 0.5, 0.75])
    return Quartiles(float(median), float(lower), float(upper))


def superiority_p_value(r2: ArrayLike, *rivals: ArrayLike) -> float:
    """The p-value of the tables, for the claim that a method beats all its rivals.

    One-sided Wilcoxon signed-rank tests of the differences in test R² per split, method minus
    rival. The largest p-value is returned, so a small value is evidence against all rivals. It is
    1 if a rival is equal on every split. The paper's rivals are KRR-CV and KRR-MML.

    Examples
    --------
    >>> superiority_p_value([0.8, 0.7, 0.9, 0.6, 0.5], [0.7, 0.5, 0.6, 0.2, 0.0])
    0.03125
    """
    p_values = []
    for rival in rivals:
        differences = np.asarray(r2, dtype=float) - np.asarray(rival, dtype=float)
        # Equal pairs carry no information; with few others, the approximation is too coarse.
        differences = differences[differences != 0.0]
        test = wilcoxon(differences, alternative="greater") if len(differences) else None
        p_values.append(1.0 if test is None else float(test.pvalue))
    return max(p_values)


def compare_cell(
    cell: PublishedCell,
    ours: Quartiles,
    p_value: float | None,
    *,
    median_tolerance: float,
    quartile_tolerance: float = 0.03,
) -> Comparison:
    """Compare one cell: it agrees if median and quartiles are within their tolerances.

    Examples
    --------
    >>> compare_cell(published_cells()[0], Quartiles(0.83, 0.65, 0.89), 1e-6,
    ...              median_tolerance=0.015).reason
    'median off by 0.030'
    """
    tolerances = (median_tolerance, quartile_tolerance, quartile_tolerance)
    published = Quartiles(cell.median, cell.lower, cell.upper)
    reasons = [
        f"{name} off by {abs(a - b):.3f}"
        for name, a, b, tolerance in zip(ours._fields, ours, published, tolerances, strict=True)
        if abs(a - b) > tolerance + 1e-9  # exactly the tolerance is inside it
    ]
    names = ("table", "dataset", "method", "min_speed", "kernel")
    return Comparison(
        cell={name: getattr(cell, name) for name in names},
        ours={**ours._asdict(), "p_value": p_value},
        published={**published._asdict(), "p_value": cell.p_value},
        verdict=DIFFERS if reasons else AGREES,
        reason="; ".join(reasons),
    )


def comparison_table(name: str, comparisons: Sequence[Comparison]) -> TextTable:
    """Every cell: published, ours, difference, p-values, verdict."""
    columns: dict[str, list[str]] = {
        "Data": [DATASETS[c.cell["dataset"]] for c in comparisons],
        "Kernel": [KERNELS.get(c.cell["kernel"], "–") for c in comparisons],
        "Method": [method_label(c) for c in comparisons],
        "Published 50 % (25 %, 75 %)": [
            "{median:.2f} ({lower:.2f}, {upper:.2f})".format(**c.published) for c in comparisons
        ],
        "Ours": ["{median:.3f} ({lower:.3f}, {upper:.3f})".format(**c.ours) for c in comparisons],
        "Difference of medians": [
            f"{c.ours['median'] - c.published['median']:+.3f}".replace("-", "−")
            for c in comparisons
        ],
    }
    if any(c.published["p_value"] is not None for c in comparisons):
        columns["p published"] = [p_value_text(c.published["p_value"]) for c in comparisons]
        columns["p ours"] = [p_value_text(c.ours["p_value"]) for c in comparisons]
    columns["Verdict"] = [c.verdict + (f" ({c.reason})" if c.reason else "") for c in comparisons]
    rows = [list(row) for row in zip(*columns.values(), strict=True)]
    return TextTable(name, "Every cell and the published one.", list(columns), rows)


def method_label(comparison: Comparison) -> str:
    """The method with its speed, as the tables name it."""
    method, speed = comparison.cell["method"], comparison.cell["min_speed"]
    return method if speed is None else f"{method}, {speed:g}"


def p_value_text(p_value: float | None) -> str:
    """A p-value with two digits, bold below 0.05; a dash for None.

    Examples
    --------
    >>> p_value_text(0.00047), p_value_text(0.17), p_value_text(None)
    ('**0.00047**', '0.17', '–')
    """
    if p_value is None:
        return "–"
    return f"**{p_value:.2g}**" if p_value < 0.05 else f"{p_value:.2g}"


def tally(comparisons: Sequence[Comparison], *, complete: bool = True) -> list[Claim]:
    """Claims about all cells of a table, 95 % of which are to agree if the run is `complete`."""
    off = [abs(c.ours["median"] - c.published["median"]) for c in comparisons]
    n_agree = sum(c.verdict == AGREES for c in comparisons)
    claims = [
        Claim(
            "The published medians and quartiles are reproduced",
            (f"{n_agree} of {len(comparisons)} cells within their tolerance; " if complete else "")
            + f"medians off by {sum(off) / len(off):.3f} on average, {max(off):.3f} at most",
            n_agree >= 0.95 * len(comparisons),
        )
    ]
    cells = [c for c in comparisons if c.cell["min_speed"] == 0.1 and c.published["p_value"] < 0.05]
    if cells:
        numbers = ", ".join(
            f"{DATASETS[c.cell['dataset']]} {KERNELS[c.cell['kernel']]}: {c.ours['p_value']:.2g}"
            for c in cells
        )
        claims.append(
            Claim(
                "KGD-D with speed 0.1 is significantly better than KRR-CV and KRR-MML on every "
                f"data set where the paper finds it so ({len(cells)})",
                f"p-values {numbers}",
                all(c.ours["p_value"] < 0.05 for c in cells),
            )
        )
    return claims
