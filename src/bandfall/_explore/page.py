"""The explorer of a fitted model: a page that replays its training and answers what-ifs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape

import numpy as np
import pandas as pd

from bandfall._drawing import POLICY, Axis, Chart, read_resource
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
from bandfall.report._errors import error_sections, worst_rows
from bandfall.report._features import importance_section, slice_section
from bandfall.report._findings import Findings
from bandfall.report._layout import class_style, figure, json_script, page_shell, section
from bandfall.report._learning import path_section
from bandfall.report._page import header
from bandfall.report._score import score_section, trial_section

_PACKAGE = "bandfall._explore"
LIVE_POLICY = f"{POLICY}; connect-src 'self'"
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
        _gain_section(findings),
        *error_sections(findings, target),
        path_section(findings),
        trial_section(findings),
    ]
    data = what_if.as_data() | {"live": live, "target": target}
    return page_shell(
        title=f"Predicting {target}",
        kind="explorer",
        header=header(findings, source),
        sections=sections,
        data=film + json_script("what-if-data", data),
        policy=LIVE_POLICY if live else POLICY,
        style=read_resource(_PACKAGE, "explorer.css"),
        script=read_resource(_PACKAGE, "explorer.js"),
    )


def _what_if_section(target: str, live: bool) -> str:
    alone = (
        " A saved page can change one feature at a time; <code>bandfall explore</code> without "
        "<code>--out</code> can change several."
    )
    text = (
        f"Take a row, change it, and see what the model would predict for {escape(target)}."
    ) + ("" if live else alone)
    body = (
        '<div class="what-if"><div class="chosen"><label>Row <select id="what-if-row"></select>'
        '</label><p class="answer"><output id="what-if-answer" aria-live="polite"></output></p>'
        '<ul id="what-if-classes"></ul><p class="dim" id="what-if-difference"></p>'
        '<button type="button" id="what-if-reset">Reset</button></div>'
        '<div class="controls" id="what-if-controls"></div></div>'
    )
    return section("what-if", "What if", text, body)


def _gain_section(findings: Findings, n_features: int = 5, n_rows: int = 200) -> str:
    model, film, target = findings.model, findings.film, findings.target
    if film is None:
        return ""
    rows = findings.probed.sample(n_rows, 0)

    def losses(X: pd.DataFrame) -> np.ndarray:
        return np.array([target.loss(rows.y, one) for one in model.film(X, film.moments)])

    whole = losses(rows.X)
    shuffled = np.random.default_rng(0).permutation(len(rows.y))
    rises = {}
    for j in findings.order[:n_features]:
        changed = rows.X.copy()
        changed.isetitem(j, rows.X.iloc[shuffled, j].reset_index(drop=True))
        rises[findings.features[j]] = losses(changed) - whole
    at = target.score(film.train_loss)
    x = Axis.around(f"training {target.measure}", at)
    if at[-1] < at[0]:  # training goes from left to right
        x = Axis(x.label, x.high, x.low)
    harm = target.harm.lower().replace("r²", "R²")
    chart = Chart(x, Axis.around(harm, *rises.values(), [0.0]), f"{harm} along training")
    chart.rule(y=0.0)
    for i, (name, rise) in enumerate(rises.items()):
        chart.line(at, rise, class_style(i), tip=name)
    body = figure(
        chart,
        f"{target.harm} when a feature is shuffled, along training",
        "A model relies first on what is simple and broad; details come later.",
        [(class_style(i), name) for i, name in enumerate(rises)],
    )
    title = "When it learned which features"
    return section("features-in-time", title, "", f'<div class="narrow">{body}</div>')
