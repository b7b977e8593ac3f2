"""Sections about features: the data, importances, and predictions along each feature."""

from __future__ import annotations

from html import escape

import numpy as np
import pandas as pd

from bandfall._drawing.chart import Axis, Bar, Chart, number, ranking
from bandfall._targets.scores import decimals
from bandfall.report._columns import places, shown
from bandfall.report._findings import LEVEL, N_REPEATS, Findings, Slice, Stages
from bandfall.report._layout import (
    cell,
    class_style,
    figure,
    grid,
    json_script,
    key,
    narrow,
    section,
    table,
)

MAX_IMPORTANCES = 15
# Corners of the mark above a level: a bar for a number, a ledge for a probability.
_BAR = np.array([[-0.32, -0.32, 0.32, 0.32, np.nan], [0.0, 1.0, 1.0, 0.0, 0.0]])
_LEDGE = np.array([[-0.36, 0.36, np.nan], [1.0, 1.0, 0.0]])


def data_section(findings: Findings, target: str) -> str:
    """One row per column: missing values, range or levels."""
    X, y, classes = findings.train.X, findings.train.y, findings.target.classes
    last = pd.Series(np.array(classes, dtype=object)[y] if classes else y)
    columns = [(name, X.iloc[:, j]) for j, name in enumerate(findings.features)]
    rows = []
    for name, column in [*columns, (target, last)]:
        words = _words(column)
        if name in findings.unused:
            words += f"; not used: {findings.unused[name]}"
        n_missing = int(column.isna().sum())
        rows.append(cell(name) + cell(n_missing) + cell(words, "dim words", longest=200))
    text = f"{len(y):,} training rows. The target is in the last row."
    body = table(["column", "missing", "values"], rows, ours=[len(columns)])
    return section("data", "Data", text, body)


def _words(column: pd.Series) -> str:
    """Range or levels of a column."""
    if not column.notna().any():
        return "no values"
    if places(column) is not None:
        return f"{shown(column.min())} to {shown(column.max())}, median {shown(column.median())}"
    levels = column.value_counts()
    words = f"{len(levels):,} different values"
    if levels.iloc[0] > 1:
        words += f", most often {shown(levels.index[0])} ({levels.iloc[0]:,} rows)"
    return words


def importance_section(findings: Findings) -> str:
    """The change of the score when each feature is shuffled."""
    if np.isnan(findings.loss) or not findings.order:
        return ""
    bars = [
        Bar(findings.features[j], mean, decimals(mean, 4), deviation)
        for j in findings.order[:MAX_IMPORTANCES]
        for mean, deviation in [findings.importances[j]]
    ]
    more = len(findings.order) - len(bars)
    rest = f" The {more} least important ones are not shown." if more else ""
    if findings.unused:
        rest += f" Not used: {escape(', '.join(findings.unused))}."
    harm, rows = findings.target.harm, "held-out" if findings.tested else "training"
    body = figure(
        ranking(bars, harm),
        f"{harm} when a feature is shuffled",
        f"Mean and standard deviation over {N_REPEATS} shuffles of {rows} rows. Features that "
        f"contain the same information share their importance.{rest}",
    )
    return section("features", "Which features matter", "", narrow(body))


def slice_section(findings: Findings, target: str) -> tuple[str, str]:
    """Predictions along the most important features, and their data at every moment."""
    classes, stages = findings.target.classes, findings.stages
    charts = [_chart(findings, one, f"slice-{i}", target) for i, one in enumerate(findings.slices)]
    figures = [
        figure(chart, one.feature, "") for chart, one in zip(charts, findings.slices, strict=True)
    ]
    text = (
        f"How {'probabilities change' if classes else 'the prediction changes'} along one feature "
        "while the others stay as in the most typical training row. The most important features "
        "come first. Strokes at the bottom are training rows."
    )
    if findings.held_out and not classes:
        text += f" The band contains {LEVEL:.0%} of held-out errors."
    controls = data = ""
    if stages is not None:
        last = len(stages.moments) - 1
        text += " Move the slider to see the model at an earlier moment of training."
        controls = (
            '<div class="card film"><button id="film-play" type="button">Play</button>'
            f'<input id="film-slider" type="range" min="0" max="{last}" value="{last}" '
            'aria-label="moment of training"><output id="film-text"></output></div>'
        )
        lines = {name: paths for chart in charts for name, paths in chart.films.items()}
        data = json_script("film-data", {"texts": _film_texts(findings, stages), "lines": lines})
    legend = key([(class_style(i), name) for i, name in enumerate(classes)])
    pictures = grid(*figures, columns=3)
    return section("slices", "Slices of the model", text, controls, legend, pictures), data


def _chart(findings: Findings, one: Slice, name: str, target: str) -> Chart:
    """One slice; its lines have films if the model has one."""
    classes, at, levels = findings.target.classes, one.points.grid, one.points.kind == "level"
    half = findings.half_width if findings.held_out and not classes else 0.0
    y = _slice_axis(one, half, target, is_class=bool(classes))
    chart = Chart(one.points.axis, y, f"slice along {one.feature}", width=400, height=260)
    if not levels:
        chart.rug(one.rug)
    if half and not levels:
        middle = one.values[..., 0]
        chart.band(at, middle - half, middle + half, name=f"{name}-band")
    for i, style in enumerate([class_style(j) for j in range(len(classes))] or ["a"]):
        xs, values = at, one.values[..., i]
        if levels:
            dx, dy = _LEDGE if classes else _BAR
            xs = np.add.outer(at, dx).ravel()
            values = np.multiply.outer(values, dy).reshape(len(values), -1)
        shape = "bar" if levels and not classes else "line"
        chart.path(xs, values, f"{shape} {style}", name=f"{name}-{i}")
        chart.dots(at, one.values[-1, :, i], names="\n".join([one.feature, *classes[i : i + 1]]))
    return chart


def _slice_axis(one: Slice, half: float, target: str, *, is_class: bool) -> Axis:
    if is_class:
        return Axis("probability", 0.0, 1.0)
    if one.points.kind == "level":
        return Axis.around(target, one.values, [0.0])
    final = one.values[-1]
    return Axis.around(target, one.values, final - half, final + half)


def _film_texts(findings: Findings, stages: Stages) -> list[str]:
    words, texts = findings.target.words, []
    for i in stages.moments:
        text = f"bandwidth {number(stages.bandwidth[max(i - 1, 0)])}"
        for losses, rows in ((stages.train_loss, "training"), (stages.scored_loss, "held-out")):
            if losses is not None:
                text += f" · {words(float(losses[i]))} on {rows} rows"
        texts.append(text)
    return texts
