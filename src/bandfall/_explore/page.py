"""The explorer of a fitted model: a page that replays its training and answers what-ifs."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import NamedTuple

import numpy as np
import pandas as pd

from bandfall._drawing import POLICY, read_resource
from bandfall._typing import JsonDict
from bandfall.report._columns import (
    NO_VALUE,
    Points,
    moved_along,
    places,
    points_along,
    shown,
    typical_row,
)
from bandfall.report._errors import error_sections, worst_rows
from bandfall.report._features import importance_section, slice_section
from bandfall.report._findings import Findings
from bandfall.report._layout import json_script, section
from bandfall.report._page import model_page
from bandfall.report._score import path_section, score_section, trial_section

_PACKAGE = "bandfall._explore"
LIVE_POLICY = f"{POLICY}; connect-src 'self'"
MAX_CHOICES = 60  # levels in a list


class Feature(NamedTuple):
    """A feature that can be changed, and its values in the rows of a `WhatIf`."""

    name: str
    column: int  # its index in the table
    points: Points  # the values that it can take
    starts: list[int]  # the point nearest to the value of each row; −1 if its level is not listed
    given: list[str]  # values of the rows as text

    @classmethod
    def of(cls, name: str, column: int, train: pd.Series, values: pd.Series) -> Feature:
        """Points from the training rows, and values of some rows."""
        points, at = points_along(train, 41, MAX_CHOICES), places(values)
        given = [shown(value, NO_VALUE) for value in values]
        if at is None:
            starts = [points.labels.index(one) if one in points.labels else -1 for one in given]
        else:
            n, grid = len(points.grid), points.grid
            starts = [n if np.isnan(x) else int(np.argmin(np.abs(grid - x))) for x in at]
        return cls(name, column, points, starts, given)


class WhatIf:
    """Some rows whose features can be changed: the typical one and some with large errors."""

    def __init__(self, findings: Findings, n_rows: int = 5, n_features: int = 10):
        self._model, self._classes = findings.model, findings.target.classes
        train, scored, worst = findings.train, findings.scored, worst_rows(findings, n_rows)
        kind = "held-out" if findings.tested else "training"
        numbers = findings.row_numbers[worst]
        self.names = ["the most typical training row"]
        self.names += [f"{kind} row {number}, a large error" for number in numbers]
        typical = typical_row(train.X)
        self.rows = pd.concat([train.X.iloc[[typical]], scored.X.iloc[worst]], ignore_index=True)
        actual = [train.y[typical], *scored.y[worst]]
        self.actual = [self._classes[int(y)] if self._classes else shown(float(y)) for y in actual]
        self.features = [
            Feature.of(findings.features[j], j, train.X.iloc[:, j], self.rows.iloc[:, j])
            for j in findings.order[:n_features]
        ]

    def predict(self, row: int, changes: Mapping[int, int]) -> list[float]:
        """Outputs of a row with other points of some features, by index of the feature."""
        changed = self.rows.iloc[[row]].reset_index(drop=True)
        for place, point in changes.items():
            feature = self.features[place]
            value = feature.points.values.iloc[[point]].reset_index(drop=True)
            changed.isetitem(feature.column, value)
        return [float(output) for output in self._model.predict(changed)[0]]

    def as_data(self) -> JsonDict:
        """All data for a saved page, in which one feature of a row changes at a time."""
        everything = list(range(len(self.rows)))
        rows = zip(self.names, self.actual, _short(self._model.predict(self.rows)), strict=True)
        features = []
        for one in self.features:
            points = one.points
            moved = moved_along(self.rows, everything, one.column, points.values)
            outputs = self._model.predict(moved).reshape(len(everything), len(points.values), -1)
            features.append({
                "name": one.name,
                "kind": points.kind,
                "labels": points.labels,
                "starts": one.starts,
                "given": one.given,
                "outputs": _short(outputs),
            })  # fmt: skip
        return {
            "classes": self._classes,
            "rows": [dict(zip(("name", "actual", "outputs"), row, strict=True)) for row in rows],
            "features": features,
        }


def _short(outputs: np.ndarray) -> list:
    return np.vectorize(lambda value: float(f"{value:.7g}"))(outputs).tolist()


def render_explorer(
    findings: Findings, what_if: WhatIf, *, target: str, source: str, live: bool = False
) -> str:
    """The page as HTML; if it is `live`, a server answers what-ifs that change several features."""
    slices, film = slice_section(findings, target)
    sections = [
        score_section(findings, (), ""),
        slices,
        _what_if_section(target, live),
        importance_section(findings),
        *error_sections(findings, target),
        path_section(findings),
        trial_section(findings),
    ]
    data = what_if.as_data() | {"live": live, "target": target}
    return model_page(
        findings,
        target,
        source,
        "explorer",
        sections,
        data=film + json_script("what-if-data", data),
        policy=LIVE_POLICY if live else POLICY,
        style=read_resource(_PACKAGE, "explorer.css"),
        script=read_resource(_PACKAGE, "explorer.js"),
    )


def _what_if_section(target: str, live: bool) -> str:
    text = f"Take a row, change it, and see what the model would predict for {escape(target)}."
    if not live:
        text += (
            " A saved page can change one feature at a time; <code>bandfall explore</code> without "
            "<code>--out</code> can change several."
        )
    return section("what-if", "What if", text, read_resource(_PACKAGE, "what_if.html"))
