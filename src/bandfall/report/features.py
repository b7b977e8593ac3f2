"""What the features are, which of them matter, and how predictions change along them."""

from __future__ import annotations

from functools import partial
from html import escape
from typing import Any

import numpy as np

from bandfall.drawing import Axis, Chart, number, ranking, sparkline
from bandfall.report.columns import is_number, places, shown
from bandfall.report.findings import N_REPEATS, Findings, Slice
from bandfall.report.layout import (
    cell,
    class_style,
    figure,
    grid,
    json_script,
    key,
    section,
    sortable_table,
)
from bandfall.report.scores import Classes

MAX_IMPORTANCES = 15
HISTOGRAM_BINS = 12


def data_section(findings: Findings, target: str) -> str:
    """One line per column: range, spread, shape, correlation with a target of numbers."""
    X, measure = findings.train.X, findings.measure
    classes = isinstance(measure, Classes)
    y = None if classes else findings.train.y
    rows = [
        _feature_row(name, X.iloc[:, j], y, findings.unused.get(name, ""))
        for j, name in enumerate(findings.features)
    ]
    heads = ["column", "min", "median", "mean", "max", "std. dev.", "correlation"]
    if isinstance(measure, Classes):
        heads.pop()
        counts = np.bincount(findings.train.y, minlength=len(measure.labels))
        names = ", ".join(f"{n} ({c:,})" for n, c in zip(measure.classes, counts, strict=True))
        rows.append(_word_row(target, f"target: {names}", counts, 5, "ours"))
        text = f"{len(findings.train.y):,} training rows. The target is the last line."
    else:
        rows.append(_number_row(target, findings.train.y, None, "ours"))
        text = (
            f"{len(findings.train.y):,} training rows. Correlation is with the target, which is "
            "the last line; a feature with a correlation near zero can still matter."
        )
    return section("data", "Data", text, sortable_table(heads, rows, last="distribution"))


def _feature_row(name: str, column: Any, y: np.ndarray | None, unused: str) -> str:
    """The line of a feature: statistics of numbers, ranges of times, counts of levels."""
    known = column.notna().to_numpy()
    values = places(column)
    if is_number(column) and known.any() and not unused:
        assert values is not None
        return _number_row(name, values[known], None if y is None else y[known], "", y is not None)
    n_columns = 5 if y is None else 6
    if values is not None and known.any():
        words = f"{shown(column.min())} to {shown(column.max())}"
        counts = np.histogram(values[known], bins=HISTOGRAM_BINS)[0]
    else:
        found = column.value_counts()
        words = f"{len(found):,} different values"
        if len(found):
            words += f", most often {shown(found.index[0])} ({found.iloc[0]:,} rows)"
        counts = found.to_numpy()[:HISTOGRAM_BINS]
    if not known.all():
        words += f", missing in {int(np.sum(~known)):,} rows"
    if unused:
        words += f"; not used: {unused}"
    return _word_row(name, words, counts, n_columns)


def _word_row(name: str, words: str, counts: np.ndarray, n_columns: int, style: str = "") -> str:
    bars = sparkline(counts[:HISTOGRAM_BINS], f"{name}: {words}") if len(counts) else ""
    mark = f' class="{style}"' if style else ""
    spread = f'<td colspan="{n_columns}" class="dim words">{escape(words)}</td>'
    return f"<tr{mark}>{cell(name)}{spread}<td>{bars}</td></tr>"


def _number_row(
    name: str, values: np.ndarray, y: np.ndarray | None, style: str, correlated: bool = True
) -> str:
    statistics = [values.min(), np.median(values), values.mean(), values.max(), values.std()]
    cells = [cell(float(v)) for v in statistics]
    if y is not None:
        varied = values.std() > 0 and y.std() > 0
        cells.append(cell(float(np.corrcoef(values, y)[0, 1]) if varied else np.nan))
    elif correlated:
        cells.append('<td class="dim">target</td>')
    low, high = np.quantile(values, [0.01, 0.99])
    inside = values[(values >= low) & (values <= high)]
    counts, edges = np.histogram(inside, bins=HISTOGRAM_BINS)
    tip = f"{name}: {number(edges[0])} to {number(edges[-1])} (98 % of rows)"
    mark = f' class="{style}"' if style else ""
    return f"<tr{mark}>{cell(name)}{''.join(cells)}<td>{sparkline(counts, tip)}</td></tr>"


def importance_section(findings: Findings) -> str:
    """How much worse predictions get when a feature is shuffled."""
    if np.isnan(findings.loss) or not findings.order:
        return ""
    order = findings.order[:MAX_IMPORTANCES]
    means, deviations = findings.importances[order].T
    names = [findings.features[j] for j in order]
    harm = findings.measure.harm
    tips = [
        f"{name}\n{harm} {mean:.4f} ± {deviation:.4f}"
        for name, mean, deviation in zip(names, means, deviations, strict=True)
    ]
    drawing = ranking(
        names, means, ["a"] * len(names), tips, "feature importances", errors=deviations
    )
    more = len(findings.order) - len(names)
    rest = f" The {more} least important ones are not shown." if more else ""
    if findings.unused:
        rest += f" Not used: {escape(', '.join(findings.unused))}."
    body = figure(
        drawing,
        f"{harm} when a feature is shuffled",
        f"Mean and standard deviation over {N_REPEATS} shuffles of {findings.probed_name}. "
        f"Features that contain the same information share their importance.{rest}",
    )
    return section("features", "Which features matter", "", f'<div class="narrow">{body}</div>')


def slice_section(findings: Findings, target: str) -> tuple[str, str]:
    """Predictions along the most important features, and as data those at every moment."""
    figures, lines = [], {}
    for i, one in enumerate(findings.slices):
        svg, frames = _slice_chart(findings, one, f"slice-{i}", target)
        figures.append(figure(svg, one.feature, ""))
        lines.update(frames)
    what = "probabilities change" if findings.measure.classes else "the prediction changes"
    text = (
        f"How {what} along one feature while the others stay as in the most typical training row. "
        "The most important features come first. Strokes at the bottom are training rows."
    )
    if not findings.measure.classes:
        text += " Thin lines start from other rows."
        if findings.held_out:
            text += " The band contains 90 % of held-out errors."
    film = ""
    if findings.film is not None:
        last = len(findings.film.train_loss) - 1
        text += " Move the slider to see what the model knew earlier in training."
        film = (
            '<div class="film"><button id="film-play" type="button">Play</button>'
            f'<input id="film-slider" type="range" min="0" max="{last}" value="{last}" '
            'aria-label="moment of training"><output id="film-text"></output></div>'
        )
    names = enumerate(findings.measure.classes)
    body = f"{film}{key([(class_style(i), name) for i, name in names])}{grid(''.join(figures), 3)}"
    return section("slices", "Slices of the model", text, body), _film_data(findings, lines)


def _slice_chart(
    findings: Findings, one: Slice, name: str, target: str
) -> tuple[str, dict[str, list[str]]]:
    """One slice, and the path data of its lines at every moment."""
    classes, points = findings.measure.classes, one.points
    levels = points.kind == "level"
    half = findings.half_width if findings.held_out and not classes else 0.0
    final = one.values[-1]
    if classes:
        y = Axis("probability", 0.0, 1.0)
    elif levels:
        y = Axis.from_zero(target, one.values)
    else:
        y = Axis.around(target, one.values, one.others, final - half, final + half)
    chart = Chart(points.axis, y, f"slice along {one.feature}", width=400, height=260)
    lines: dict[str, list[str]] = {}

    def mark(label: str, draw: Any, shape: Any, values: np.ndarray, *more: Any) -> None:
        """Draw what the final model says, and keep how it looked at every moment."""
        film = label if findings.film is not None else ""
        draw(points.at, values[-1], *more, frames=film)
        if film:
            lines[film] = [shape(points.at, moment) for moment in values]

    if not levels:
        chart.rug(one.rug)
    if classes:
        for i, label in enumerate(classes):
            style, values = class_style(i), one.values[..., i]
            draw, shape = (chart.ledges, chart.ledge_trace) if levels else (chart.line, chart.trace)
            mark(f"{name}-{i}", draw, shape, values, style)
            chart.hits(points.at, values[-1], partial(_tip, one, label))
        return chart.svg(), lines
    values = one.values[..., 0]
    if levels:
        mark(name, chart.columns, chart.column_trace, values)
    else:
        for other in one.others[..., 0]:
            chart.line(points.at, other, "soft thin")
        if half:
            band = f"{name}-band" if findings.film is not None else ""
            chart.band(points.at, values[-1] - half, values[-1] + half, frames=band)
            if band:
                lines[band] = [chart.area(points.at, v - half, v + half) for v in values]
        mark(name, chart.line, chart.trace, values, "a")
    chart.hits(points.at, values[-1], partial(_tip, one, "prediction"))
    return chart.svg(), lines


def _tip(one: Slice, label: str, x: float, y: float) -> str:
    place = one.points.labels[int(np.argmin(np.abs(one.points.at - x)))]
    return f"{one.feature} {place}\n{label} {number(y)}"


def _film_data(findings: Findings, lines: dict[str, list[str]]) -> str:
    """The film as JSON inside the page."""
    film, words = findings.film, findings.measure.words
    if film is None:
        return ""
    texts = [
        f"bandwidth {number(float(bandwidth))} · {words(float(loss))} on training rows"
        for bandwidth, loss in zip(film.bandwidth, film.train_loss, strict=True)
    ]
    if film.scored_loss is not None:
        texts = [
            f"{text} · {words(float(loss))} on held-out rows"
            for text, loss in zip(texts, film.scored_loss, strict=True)
        ]
    return json_script("film-data", {"texts": texts, "lines": lines})
