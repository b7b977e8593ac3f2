"""Predictions for changed rows: the rows, the values they may take, and the outputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from bandfall._typing import JsonDict
from bandfall.report._columns import (
    NO_VALUE,
    Points,
    moments,
    moved_along,
    places,
    points_along,
    shown,
    typical_row,
)
from bandfall.report._errors import worst_rows
from bandfall.report._findings import Findings

MAX_CHOICES = 60  # levels in a list, or dates in a saved page
_DAY = 86400.0


@dataclass(frozen=True)
class Feature:
    """A feature that can be changed."""

    name: str
    column: int  # its index in the table
    points: Points  # the values that it can take
    whole_days: bool  # dates without a time of day
    # Of each row: the point nearest to its value (−1 if its level is not listed), its value as
    # text and, for dates, in seconds since 1970.
    starts: list[int]
    given: list[str]
    own: list[float | None]


class WhatIf:
    """Some rows whose features can be changed: the typical one and some with large errors."""

    def __init__(self, findings: Findings, n_rows: int = 5, n_features: int = 10):
        self._model = findings.model
        self._classes = findings.target.classes
        worst = worst_rows(findings, n_rows)
        kind = "held-out" if findings.tested else "training"
        numbers = findings.row_numbers[worst]
        self.names = ["the most typical training row"]
        self.names += [f"{kind} row {number}, a large error" for number in numbers]
        typical = typical_row(findings.train.X)
        parts = [findings.train.X.iloc[[typical]], findings.scored.X.iloc[worst]]
        self.rows = pd.concat(parts, ignore_index=True)
        actual = [findings.train.y[typical], *findings.scored.y[worst]]
        self.actual = [self._classes[int(y)] if self._classes else shown(float(y)) for y in actual]
        self.features = [
            _feature(findings.features[j], j, findings.train.X, self.rows)
            for j in findings.order[:n_features]
        ]

    def predict(self, row: int, changes: Mapping[int, int | float]) -> list[float]:
        """Outputs of a row with other values of some features, by index of the feature.

        A value is the index of a point or, for dates, seconds since 1970 as a float.
        """
        changed = self.rows.iloc[[row]].reset_index(drop=True)
        for place, value in changes.items():
            feature = self.features[place]
            if isinstance(value, float):
                one = moments(np.array([value]), feature.points.values)
            else:
                one = feature.points.values.iloc[[value]].reset_index(drop=True)
            changed.isetitem(feature.column, one)
        return [float(output) for output in self._model.predict(changed)[0]]

    def as_data(self) -> JsonDict:
        """All data for a saved page, in which one feature of a row changes at a time."""
        outputs = _short(self._model.predict(self.rows))
        return {
            "classes": self._classes,
            "rows": [
                {"name": name, "actual": actual, "outputs": output}
                for name, actual, output in zip(self.names, self.actual, outputs, strict=True)
            ],
            "features": [
                {
                    "name": one.name,
                    "kind": one.points.kind,
                    "wholeDays": one.whole_days,
                    "labels": one.points.labels,
                    "seconds": one.points.grid.tolist() if one.points.kind == "time" else [],
                    "own": one.own,
                    "starts": one.starts,
                    "given": one.given,
                    "outputs": _short(self._along(one)),
                }
                for one in self.features
            ],
        }

    def _along(self, one: Feature) -> np.ndarray:
        """Outputs of every row at every point of a feature, (n_rows, n_points, k)."""
        rows, values = list(range(len(self.rows))), one.points.values
        moved = moved_along(self.rows, rows, one.column, values)
        return self._model.predict(moved).reshape(len(rows), len(values), -1)


def _short(outputs: np.ndarray) -> list:
    return np.vectorize(lambda value: float(f"{value:.7g}"))(outputs).tolist()


def _feature(name: str, column: int, train: pd.DataFrame, rows: pd.DataFrame) -> Feature:
    known, values = train.iloc[:, column], rows.iloc[:, column]
    points, whole_days = points_along(known, 41, MAX_CHOICES), False
    if points.kind == "time":
        points, whole_days = _dates(known)
    given, seconds = [shown(value, NO_VALUE) for value in values], places(values)
    if seconds is None:
        starts = [points.labels.index(one) if one in points.labels else -1 for one in given]
        return Feature(name, column, points, False, starts, given, [])
    n = len(points.grid)
    starts = [n if np.isnan(x) else int(np.argmin(np.abs(points.grid - x))) for x in seconds]
    own = [None if np.isnan(x) else float(x) for x in seconds] if points.kind == "time" else []
    return Feature(name, column, points, whole_days, starts, given, own)


def _dates(column: pd.Series) -> tuple[Points, bool]:
    """Whole days or minutes between the first and last date, and whether they are days."""
    seconds = places(column.dropna())
    assert seconds is not None
    whole_days = bool(np.all(seconds % _DAY == 0))
    unit = _DAY if whole_days else 60.0
    low, high = seconds.min() / unit, seconds.max() / unit
    grid = unit * np.unique(np.round(np.linspace(low, high, MAX_CHOICES)))
    return Points.of("time", grid, moments(grid, column), column), whole_days
