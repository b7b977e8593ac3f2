"""Sections about features: the data, importances, and predictions along each feature."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from html import escape

import numpy as np
import pandas as pd

from bandfall._drawing import Axis, Chart, number, ranking, sparkline
from bandfall._targets import Classes
from bandfall._targets.scores import decimals
from bandfall.report._columns import is_number, places, shown
from bandfall.report._findings import N_REPEATS, Findings, Slice
from bandfall.report._layout import (
    cell,
    class_style,
    figure,
    grid,
    json_script,
    key,
    section,
    sortable_table,
)

MAX_IMPORTANCES = 15
HISTOGRAM_BINS = 12


def data_section(findings: Findings, target: str) -> str:
    """One row per column: range, spread, distribution, and correlation with a numeric target."""
    X, y, kind = findings.train.X, findings.train.y, findings.target
    text = f"{len(y):,} training rows. The target is in the last row."
    heads = ["column", "missing", "min", "median", "mean", "max", "std. dev."]
    if isinstance(kind, Classes):
        counts = np.bincount(y, minlength=len(kind.labels))
        names = ", ".join(f"{n} ({c:,})" for n, c in zip(kind.classes, counts, strict=True))
        last = _row(target, 0, [("words", f"target: {names}")], counts, len(heads), "ours")
    else:
        heads.append("correlation")
        text += (
            " Correlation is with the target; a feature with a correlation near zero can still "
            "matter."
        )
        cells = [*_statistics(y), ("dim", "target")]
        last = _row(target, 0, cells, _counts(y), len(heads), "ours")
    rows = []
    for j, name in enumerate(findings.features):
        column, unused = X.iloc[:, j], findings.unused.get(name, "")
        known, values = column.notna().to_numpy(), places(column)
        n_missing = int(np.sum(~known))
        if is_number(column) and values is not None and known.any() and not unused:
            cells = _statistics(values[known])
            if not kind.classes:
                cells.append(("correlation", _correlation(values[known], y[known])))
            rows.append(_row(name, n_missing, cells, _counts(values[known]), len(heads)))
        else:
            words, counts = _words(column, values)
            if unused:
                words = f"{words}; not used: {unused}" if known.any() else f"not used: {unused}"
            rows.append(_row(name, n_missing, [("words", words)], counts, len(heads)))
    return section("data", "Data", text, sortable_table(heads, [*rows, last], last="distribution"))


def _row(
    name: str,
    n_missing: int,
    cells: list[tuple[str, str | float]],
    counts: np.ndarray,
    n_columns: int,
    style: str = "",
) -> str:
    """A table row: missing values, cells (or words that span all of them), and distribution."""
    bars = sparkline(counts, f"distribution of {name}") if len(counts) else ""
    mark = f' class="{style}"' if style else ""
    if cells[0][0] == "words":
        middle = f'<td colspan="{n_columns - 2}" class="dim words">{escape(str(cells[0][1]))}</td>'
    else:
        middle = "".join(_cell(kind, value) for kind, value in cells)
    return f"<tr{mark}>{cell(name)}{cell(n_missing)}{middle}<td>{bars}</td></tr>"


def _cell(kind: str, value: str | float) -> str:
    """A cell of numbers; correlations have two decimals."""
    if kind == "correlation" and isinstance(value, float):
        return cell(value, text=f"{value:.2f}".replace("-", "−"))
    return cell(value, kind)


def _statistics(values: np.ndarray) -> list[tuple[str, str | float]]:
    found = [values.min(), np.median(values), values.mean(), values.max(), values.std()]
    return [("", float(one)) for one in found]


def _correlation(values: np.ndarray, y: np.ndarray) -> float:
    varied = values.std() > 0 and y.std() > 0
    return float(np.corrcoef(values, y)[0, 1]) if varied else np.nan


def _counts(values: np.ndarray) -> np.ndarray:
    """A histogram from the 1 % to the 99 % quantile."""
    low, high = np.quantile(values, [0.01, 0.99])
    return np.histogram(values, bins=HISTOGRAM_BINS, range=(low, high))[0]


def _words(column: pd.Series, values: np.ndarray | None) -> tuple[str, np.ndarray]:
    """Description of a column without statistics, and its distribution."""
    if not column.notna().any():
        return "no values", np.zeros(0)
    if values is not None:
        words = f"{shown(column.min())} to {shown(column.max())}"
        return words, _counts(values[~np.isnan(values)])
    found = column.value_counts()
    words = f"{len(found):,} different values"
    if found.iloc[0] > 1:
        words += f", most often {shown(found.index[0])} ({found.iloc[0]:,} rows)"
    return words, found.to_numpy()[:HISTOGRAM_BINS]


def importance_section(findings: Findings) -> str:
    """The change of the score when each feature is shuffled."""
    if np.isnan(findings.loss) or not findings.order:
        return ""
    order = findings.order[:MAX_IMPORTANCES]
    means, deviations = findings.importances[order].T
    names = [findings.features[j] for j in order]
    harm = findings.target.harm
    tips = [
        f"{name}\n{harm} {mean:.4f} ± {deviation:.4f}"
        for name, mean, deviation in zip(names, means, deviations, strict=True)
    ]
    drawing = ranking(
        names,
        means,
        [decimals(float(mean), 4) for mean in means],
        ["a"] * len(names),
        tips,
        "feature importances",
        errors=deviations,
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
    """Predictions along the most important features, and their data at every moment."""
    figures, lines = [], {}
    for i, one in enumerate(findings.slices):
        svg, frames = _slice_chart(findings, one, f"slice-{i}", target)
        figures.append(figure(svg, one.feature, ""))
        lines.update(frames)
    what = "probabilities change" if findings.target.classes else "the prediction changes"
    text = (
        f"How {what} along one feature while the others stay as in the most typical training row. "
        "The most important features come first. Strokes at the bottom are training rows."
    )
    if not findings.target.classes:
        text += " Thin lines start from other rows."
        if findings.held_out:
            text += " The band contains 90% of held-out errors."
    film = ""
    if findings.film is not None:
        last = len(findings.film.train_loss) - 1
        text += " Move the slider to see the model at an earlier moment of training."
        film = (
            '<div class="film"><button id="film-play" type="button">Play</button>'
            f'<input id="film-slider" type="range" min="0" max="{last}" value="{last}" '
            'aria-label="moment of training"><output id="film-text"></output></div>'
        )
    names = enumerate(findings.target.classes)
    body = f"{film}{key([(class_style(i), name) for i, name in names])}{grid(''.join(figures), 3)}"
    return section("slices", "Slices of the model", text, body), _film_data(findings, lines)


def _slice_chart(
    findings: Findings, one: Slice, name: str, target: str
) -> tuple[str, dict[str, list[str]]]:
    """One slice, and the SVG paths of its lines at every moment."""
    classes, points = findings.target.classes, one.points
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

    def mark(
        label: str,
        draw: Callable[..., Chart],
        shape: Callable[[np.ndarray, np.ndarray], str],
        values: np.ndarray,
        *style: str,
    ) -> None:
        """Draw the final model, and keep its shape at every moment."""
        film = label if findings.film is not None else ""
        draw(points.at, values[-1], *style, frames=film)
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
    film, words = findings.film, findings.target.words
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
