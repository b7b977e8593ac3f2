"""The numbers printed in the paper's Tables 2, 4, 5 and 6, as data."""

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

TABLES = (2, 4, 5, 6)


@dataclass(frozen=True)
class PublishedCell:
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


def published_cells(table: int | None = None) -> tuple[PublishedCell, ...]:
    """All published cells, or those of one table, in the paper's order.

    Examples
    --------
    >>> cell = published_cells(2)[0]
    >>> cell.dataset, cell.method, cell.min_speed, cell.median, cell.p_value
    ('cpu', 'KGD-D', 0.02, 0.8, 4.7e-07)
    """
    if table is not None and table not in TABLES:
        raise ValueError(f"table must be one of {TABLES} or None; got {table!r}")
    return tuple(cell for cell in _all_cells() if table is None or cell.table == table)


@cache
def _all_cells() -> tuple[PublishedCell, ...]:
    text = files("bandfall._paper").joinpath("published.json").read_text(encoding="utf-8")
    document = json.loads(text)
    return tuple(
        PublishedCell(**dict(zip(document["fields"], cell, strict=True)))
        for cell in document["cells"]
    )
