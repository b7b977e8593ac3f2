"""What a model would say if a row were different: rows, the values they may take, predictions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from bandfall.drawing import number
from bandfall.report.findings import Findings, moved_along, points_along, typical_row
from bandfall.report.model import Model

MAX_FEATURES = 10
N_WORST = 5
EVERY = 2  # of the points of a slice


@dataclass(frozen=True)
class Feature:
    """A feature that can be changed.

    Attributes
    ----------
    name : str
    column : int
        Its place among the columns of the table.
    values : Series
        What it may become.
    labels : list of str
        The same for people.
    starts : list of int
        For each row, the value nearest to its own.
    given : list of str
        For each row, its own value.
    """

    name: str
    column: int
    values: pd.Series
    labels: list[str]
    starts: list[int]
    given: list[str]


class WhatIf:
    """Some rows, each of which may change in some features.

    Parameters
    ----------
    estimator : fitted estimator or pipeline with one target
    findings : Findings
        About that estimator.
    """

    def __init__(self, estimator: Any, findings: Findings):
        self._model = Model(estimator, float(findings.train.y.mean()))
        worst = np.argsort(-np.abs(findings.residuals))[:N_WORST]
        kind = "held-out" if findings.held_out else "training"
        self.names = ["the most typical training row"]
        self.names += [f"{kind} row {i + 1}, a large error" for i in worst]
        typical = typical_row(findings.train.X)
        parts = [findings.train.X.iloc[[typical]], findings.scored.X.iloc[worst]]
        self.rows = pd.concat(parts, ignore_index=True)
        self.actual = [float(findings.train.y[typical]), *map(float, findings.scored.y[worst])]
        order = np.argsort(-findings.importances[:, 0])[:MAX_FEATURES]
        self.features = [
            _feature(findings.features[int(j)], int(j), findings.train.X, self.rows) for j in order
        ]

    def predict(self, row: int, changes: Mapping[int, int]) -> float:
        """The prediction of a row with the named values of some features (by their numbers)."""
        changed = self.rows.iloc[[row]].reset_index(drop=True)
        for place, point in changes.items():
            feature = self.features[place]
            changed.isetitem(feature.column, feature.values.iloc[[point]].reset_index(drop=True))
        return float(self._model.predict(changed)[0])

    def as_data(self) -> dict[str, Any]:
        """All of it for a page that works alone: one feature of a row changes at a time."""
        rows = list(range(len(self.rows)))
        tables = [
            self._model.predict(moved_along(self.rows, rows, one.column, one.values)).reshape(
                len(rows), -1
            )
            for one in self.features
        ]
        return {
            "rows": [
                {"name": name, "actual": number(actual), "prediction": float(prediction)}
                for name, actual, prediction in zip(
                    self.names, self.actual, self._model.predict(self.rows), strict=True
                )
            ],
            "features": [
                {
                    "name": one.name,
                    "labels": one.labels,
                    "starts": one.starts,
                    "given": one.given,
                    "predictions": table.tolist(),
                }
                for one, table in zip(self.features, tables, strict=True)
            ],
        }


def _feature(name: str, column: int, train: pd.DataFrame, rows: pd.DataFrame) -> Feature:
    _, values, labels = points_along(train.iloc[:, column])
    own = rows.iloc[:, column]
    if labels is None:
        points = pd.Series(values)[::EVERY].reset_index(drop=True)
        numbers = own.to_numpy(dtype=float, na_value=np.nan)
        return Feature(
            name,
            column,
            points,
            [number(float(value)) for value in points],
            [int(np.nanargmin(np.append(np.abs(points - x), np.inf))) for x in numbers],
            [number(float(x)) for x in numbers],
        )
    points = pd.Series(values).reset_index(drop=True)
    given = [str(value) for value in own]
    known = [str(value) for value in points]
    starts = [known.index(one) if one in known else 0 for one in given]
    return Feature(name, column, points, labels, starts, given)
