"""What the features are, which of them matter, and how predictions change along them."""

from __future__ import annotations

from functools import partial
from html import escape
from typing import Any

import numpy as np

from bandfall.drawing import Axis, Chart, number, ranking, sparkline
from bandfall.report.findings import Findings, Slice, is_number
from bandfall.report.layout import (
    figure,
    json_script,
    number_cell,
    scored_rows,
    section,
    sortable_table,
)

MAX_IMPORTANCES = 15
HISTOGRAM_BINS = 12


def data_section(findings: Findings, target: str) -> str:
    """One line per column: range, spread, shape, correlation with the target."""
    rows = [
        _feature_row(name, findings.train.X.iloc[:, j], findings.train.y)
        for j, name in enumerate(findings.features)
    ]
    rows.append(_column_row(target, findings.train.y, None))
    heads = ("column", "min", "median", "mean", "max", "std. dev.", "correlation")
    table = sortable_table(heads, rows, last="distribution")
    text = (
        f"{len(findings.train.y):,} training rows. Correlation is with the target, which is the "
        "last line; near zero does not mean useless, for the model is not linear."
    )
    return section("data", "Data", text, table)


def _feature_row(name: str, column: Any, y: np.ndarray) -> str:
    """The line of a feature: numbers as such, of anything else how many values there are."""
    known = column.notna().to_numpy()
    if is_number(column) and known.any():
        values = column.to_numpy(dtype=float, na_value=np.nan)
        return _column_row(name, values[known], y[known])
    counts = column.value_counts()
    words = f"{len(counts):,} different values"
    if len(counts):
        words += f", most often {counts.index[0]} ({counts.iloc[0]:,} rows)"
    if not known.all():
        words += f", missing in {int(np.sum(~known)):,} rows"
    bars = sparkline(counts.to_numpy()[:HISTOGRAM_BINS], f"{name}: rows of its commonest values")
    spread = f'<td colspan="6" class="dim">{escape(words)}</td>'
    return f"<tr><td>{escape(name)}</td>{spread}<td>{bars if len(counts) else ''}</td></tr>"


def _column_row(name: str, values: np.ndarray, y: np.ndarray | None) -> str:
    statistics = [values.min(), np.median(values), values.mean(), values.max(), values.std()]
    cells = [number_cell(float(v)) for v in statistics]
    varied = y is not None and values.std() > 0 and y.std() > 0
    correlation = float(np.corrcoef(values, y)[0, 1]) if varied and y is not None else np.nan
    cells.append(number_cell(correlation) if y is not None else '<td class="dim">target</td>')
    low, high = np.quantile(values, [0.01, 0.99])
    inside = values[(values >= low) & (values <= high)]
    counts, edges = np.histogram(inside, bins=HISTOGRAM_BINS)
    tip = f"{name}: {number(edges[0])} to {number(edges[-1])} (98 % of rows)"
    style = "" if y is not None else ' class="ours"'
    return (
        f"<tr{style}><td>{escape(name)}</td>{''.join(cells)}<td>{sparkline(counts, tip)}</td></tr>"
    )


def importance_section(findings: Findings) -> str:
    """Loss of R² when a feature is shuffled."""
    order = np.argsort(-findings.importances[:, 0])[:MAX_IMPORTANCES]
    means, deviations = findings.importances[order].T
    names = [findings.features[j] for j in order]
    drawing = ranking(
        names,
        means,
        ["a"] * len(names),
        [
            f"{n}\nloss of R² {m:.4f} ± {s:.4f}"
            for n, m, s in zip(names, means, deviations, strict=True)
        ],
        "feature importances",
        errors=deviations,
    )
    more = len(findings.features) - len(names)
    rest = f" The {more} least important ones are not shown." if more else ""
    body = figure(
        drawing,
        "Loss of R² when a feature is shuffled",
        f"Mean and standard deviation over 5 shuffles of {scored_rows(findings)}. Features that "
        f"say the same thing share their importance.{rest}",
    )
    return section("features", "Which features matter", "", f'<div class="narrow">{body}</div>')


def slice_section(findings: Findings, target: str) -> tuple[str, dict[str, list[str]]]:
    """f along the most important features, at every moment of the film of training."""
    figures, lines = [], {}
    for i, one in enumerate(findings.slices):
        svg, frames = _slice_chart(findings, one, f"slice-{i}", target)
        figures.append(figure(svg, one.feature, ""))
        lines.update(frames)
    text = (
        "How the prediction changes along one feature while the others stay as in the most "
        "typical training row. The most important features come first. Strokes at the bottom are "
        "training rows; thin lines start from other rows."
    )
    if findings.held_out:
        text += " Nine in ten held-out errors are smaller than the band is high to either side."
    film = ""
    if findings.film is not None:
        last = len(findings.film.train_r2) - 1
        text += " Move the slider to see what the model knew earlier in training."
        film = (
            '<div class="film"><button id="film-play" type="button">Play</button>'
            f'<input id="film-slider" type="range" min="0" max="{last}" value="{last}" '
            'aria-label="moment of training"><output id="film-text"></output></div>'
        )
    body = f'{film}<div class="grid3">{"".join(figures)}</div>'
    return section("slices", "Slices of the model", text, body), lines


def _slice_chart(
    findings: Findings, one: Slice, name: str, target: str
) -> tuple[str, dict[str, list[str]]]:
    """One slice, and the path data of its line and band at every moment."""
    half = findings.half_width if findings.held_out else 0.0
    final = one.values[-1]
    y = Axis.around(target, one.values, one.others, final - half, final + half)
    chart = Chart(_slice_axis(one), y, f"slice along {one.feature}", width=400, height=260)
    film = findings.film is not None
    lines: dict[str, list[str]] = {}
    if one.labels is not None:
        chart.columns(one.grid, final, frames=name if film else "")
        lines[name] = [chart.column_trace(one.grid, values) for values in one.values]
    else:
        for values in one.others:
            chart.line(one.grid, values, "soft thin")
        if half:
            chart.band(one.grid, final - half, final + half, frames=f"{name}-band" if film else "")
            lines[f"{name}-band"] = [
                chart.area(one.grid, values - half, values + half) for values in one.values
            ]
        chart.rug(one.rug)
        chart.line(one.grid, final, "a", frames=name if film else "")
        lines[name] = [chart.trace(one.grid, values) for values in one.values]
    chart.hits(one.grid, final, partial(_slice_tip, one))
    return chart.svg(), lines if film else {}


def _slice_axis(one: Slice) -> Axis:
    low, high = float(one.grid[0]), float(one.grid[-1])
    if one.labels is None:
        return Axis("", low, high)
    return Axis("", low - 0.5, high + 0.5, names=tuple(one.labels))


def _slice_tip(one: Slice, x: float, y: float) -> str:
    place = number(x) if one.labels is None else one.labels[int(np.argmin(np.abs(one.grid - x)))]
    return f"{one.feature} {place}\nprediction {number(y)}"


def film_data(findings: Findings, lines: dict[str, list[str]]) -> str:
    """The film as JSON inside the page."""
    film = findings.film
    if film is None:
        return ""
    texts = [
        f"bandwidth {number(float(bandwidth))} · training R² {train:.3f} · "
        f"{scored_rows(findings)} R² {scored:.3f}".replace("-", "−").replace("held−out", "held-out")
        for train, scored, bandwidth in zip(*film[:3], strict=True)
    ]
    return json_script("film-data", {"texts": texts, "lines": lines})
