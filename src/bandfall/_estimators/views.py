"""A training table under all encodings that there is time for."""

from __future__ import annotations

from typing import TypedDict

import numpy as np

from bandfall._search.clock import Clock
from bandfall._search.rows import Encoded, TargetEncoded
from bandfall._typing import Weights
from bandfall.tables import Table, TableEncoder, prepare_table
from bandfall.tables._numbers import steps_for


class Settings(TypedDict, total=False):
    """Settings of a `TableEncoder`."""

    numbers: str
    categories: str


# "target" helps if the mean target describes a category, "pairs" if two categories interact.
ENCODINGS: dict[str, Settings] = {
    "standard": {},
    "steps": {"numbers": "steps"},
    "quantile": {"numbers": "quantile"},
    "target": {"categories": "target"},
    "pairs": {"categories": "pairs"},
}
# Typical seconds, relative to the standard encoding.
_USUAL = {"standard": 1.0, "steps": 9.0, "quantile": 4.0, "target": 1.0, "pairs": 2.0}
_SHARE = 0.2  # of the time left, for encoding
_PROBED_ROWS = 100, 400
_FEWEST_ROWS = 500
_ROUNDING = 1e-5  # of encoded columns, whose deviation is about 1


def affordable_rows(table: Table, clock: Clock) -> np.ndarray | None:
    """Indices of the rows that can be encoded in a fifth of the time left; None for all."""
    n = len(table)
    if not clock.bounded or n <= _FEWEST_ROWS:
        return None
    few, more = (_seconds(table, n_rows, clock) for n_rows in _PROBED_ROWS)
    growth = max(more - few, 0.0) / (_PROBED_ROWS[1] - _PROBED_ROWS[0])
    seconds = sum(_USUAL.values()) * (more + growth * (n - _PROBED_ROWS[1]))
    allowed = _SHARE * max(clock.left, 0.0)
    if seconds <= allowed:
        return None
    kept = max(_FEWEST_ROWS, int(n * allowed / seconds))
    clock.skip(f"used {kept:,} of {n:,} rows", seconds)
    return np.sort(np.random.RandomState(0).permutation(n)[:kept])


def _seconds(table: Table, n_rows: int, clock: Clock) -> float:
    """Seconds that the standard encoding of `n_rows` rows takes."""
    some = table.take(np.linspace(0, len(table) - 1, n_rows).astype(int))
    start = clock.now()
    TableEncoder().fit_transform(prepare_table(some, warn=False), warn=False)
    return clock.now() - start


def encoded_views(
    table: Table, codes: np.ndarray, weights: Weights, dtype: np.dtype, clock: Clock
) -> tuple[dict[str, TableEncoder], dict[str, Encoded]]:
    """Encoders and encoded views of a prepared table, by name; none has the distances of another.

    The standard encoding is always included, others if they take at most a fifth of the time left.
    """
    n_steps = steps_for(len(table), table.width)
    encoders: dict[str, TableEncoder] = {}
    views: dict[str, Encoded] = {}
    plains: list[np.ndarray] = []  # columns in the order of the table
    unit = 0.0
    for name, settings in ENCODINGS.items():
        if "categories" in settings and all(one.kind != "category" for one in table.readings):
            continue
        if clock.bounded and _USUAL[name] * unit > _SHARE * max(clock.left, 0.0):
            clock.skip(f"the encoding {name!r} was not tried", _USUAL[name] * unit)
            continue
        start = clock.now()
        encoder = TableEncoder(**settings, n_steps=n_steps)
        Z = encoder.fit_transform(table, codes, weights, dtype, warn=False, by_content=True)
        assert encoder.fitted is not None
        plain = np.take(Z, np.argsort(encoder.fitted.order), axis=1)
        if encoder.uses_target:
            views[name] = TargetEncoded(encoder, table, codes, weights, Z)
        elif not any(_same_distances(plain, other) for other in plains):
            views[name] = Encoded(Z)
        if name in views:
            encoders[name] = encoder
            plains.append(plain)
        unit = max(unit, (clock.now() - start) / _USUAL[name])
    return encoders, views


def _same_distances(Z: np.ndarray, other: np.ndarray) -> bool:
    """Whether columns differ by constants, up to rounding, as two scales of 0 and 1 do."""
    if Z.shape != other.shape:
        return False
    return all(
        np.ptp(Z[:n_rows] - other[:n_rows], axis=0).max(initial=0.0) <= _ROUNDING
        for n_rows in (_PROBED_ROWS[0], len(Z))  # most encodings differ in the first rows already
    )
