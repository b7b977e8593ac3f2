"""Sections about features: the data, importances, and predictions along each feature."""

from __future__ import annotations

from html import escape

import numpy as np
import pandas as pd

from bandfall._drawing import Axis, Bar, Chart, number, ranking, sparkline
from bandfall._targets import Classes
from bandfall._targets.scores import decimals
from bandfall.report._columns import is_number, places, shown
from bandfall.report._findings import LEVEL, N_REPEATS, Film, Findings, Slice
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


def data_section(findings: Findings, target: str) -> str:
    """One row per column: range, spread, distribution, and correlation with a numeric target."""
    X, y, kind = findings.train.X, findings.train.y, findings.target
    text = f"{len(y):,} training rows. The target is in the last row."
    heads = ["column", "missing", "min", "median", "mean", "max", "std. dev."]
    if isinstance(kind, Classes):
        counts = np.bincount(y, minlength=len(kind.labels))
        names = ", ".join(f"{n} ({c:,})" for n, c in zip(kind.classes, counts, strict=True))
        last = _row(target, 0, _span(f"target: {names}", len(heads)), counts)
    else:
        heads.append("correlation")
        text += (
            " Correlation is with the target; a feature with a correlation near zero can still "
            "matter."
        )
        last = _row(target, 0, [*_statistics(y), cell("target", "dim")], _counts(y))
    rows = []
    for j, name in enumerate(findings.features):
        column, unused = X.iloc[:, j], findings.unused.get(name, "")
        known, values = column.notna().to_numpy(), places(column)
        if is_number(column) and values is not None and known.any() and not unused:
            cells, counts = _statistics(values[known]), _counts(values[known])
            if not kind.classes:
                r = _correlation(values[known], y[known])
                cells.append(cell(r, text=f"{r:.2f}".replace("-", "−")))
        else:
            words, counts = _words(column, values)
            if unused:
                words = f"{words}; not used: {unused}" if known.any() else f"not used: {unused}"
            cells = _span(words, len(heads))
        rows.append(_row(name, int(np.sum(~known)), cells, counts))
    table = sortable_table(heads, [*rows, last], last="distribution", ours=[len(rows)])
    return section("data", "Data", text, table)


def _row(name: str, n_missing: int, cells: list[str], counts: np.ndarray) -> str:
    """Cells of a row: name, missing values, what is known of the values, and their distribution."""
    bars = sparkline(counts, f"distribution of {name}") if len(counts) else ""
    return f"{cell(name)}{cell(n_missing)}{''.join(cells)}<td>{bars}</td>"


def _span(words: str, n_heads: int) -> list[str]:
    return [f'<td colspan="{n_heads - 2}" class="dim words">{escape(words)}</td>']


def _statistics(values: np.ndarray) -> list[str]:
    parts = values.min(), np.median(values), values.mean(), values.max(), values.std()
    return [cell(float(part)) for part in parts]


def _correlation(values: np.ndarray, y: np.ndarray) -> float:
    varied = values.std() > 0 and y.std() > 0
    return float(np.corrcoef(values, y)[0, 1]) if varied else np.nan


def _counts(values: np.ndarray, n_bins: int = 12) -> np.ndarray:
    """A histogram from the 1 % to the 99 % quantile."""
    low, high = np.quantile(values, [0.01, 0.99])
    return np.histogram(values, n_bins, (low, high))[0]


def _words(column: pd.Series, values: np.ndarray | None, most: int = 12) -> tuple[str, np.ndarray]:
    """Description of a column without statistics, and its distribution."""
    if not column.notna().any():
        return "no values", np.zeros(0)
    if values is not None:
        words = f"{shown(column.min())} to {shown(column.max())}"
        return words, _counts(values[~np.isnan(values)])
    levels = column.value_counts()
    words = f"{len(levels):,} different values"
    if levels.iloc[0] > 1:
        words += f", most often {shown(levels.index[0])} ({levels.iloc[0]:,} rows)"
    return words, levels.to_numpy()[:most]


def importance_section(findings: Findings, most: int = 15) -> str:
    """The change of the score when each feature is shuffled."""
    if np.isnan(findings.loss) or not findings.order:
        return ""
    bars = [
        Bar(findings.features[j], mean, decimals(float(mean), 4), deviation)
        for j in findings.order[:most]
        for mean, deviation in [findings.importances[j]]
    ]
    more = len(findings.order) - len(bars)
    rest = f" The {more} least important ones are not shown." if more else ""
    if findings.unused:
        rest += f" Not used: {escape(', '.join(findings.unused))}."
    harm = findings.target.harm
    body = figure(
        ranking(bars, harm),
        f"{harm} when a feature is shuffled",
        f"Mean and standard deviation over {N_REPEATS} shuffles of {findings.probed_name}. "
        f"Features that contain the same information share their importance.{rest}",
    )
    return section("features", "Which features matter", "", f'<div class="narrow">{body}</div>')


def slice_section(findings: Findings, target: str) -> tuple[str, str]:
    """Predictions along the most important features, and their data at every moment."""
    classes, film = findings.target.classes, findings.film
    charts = [_chart(findings, one, f"slice-{i}", target) for i, one in enumerate(findings.slices)]
    figures = [
        figure(chart, one.feature, _without_value(one, classes))
        for chart, one in zip(charts, findings.slices, strict=True)
    ]
    text = (
        f"How {'probabilities change' if classes else 'the prediction changes'} along one feature "
        "while the others stay as in the most typical training row. The most important features "
        "come first. Strokes at the bottom are training rows."
    )
    if not classes:
        text += " Thin lines start from other rows."
        if findings.held_out:
            text += f" The band contains {LEVEL:.0%} of held-out errors."
    controls = data = ""
    if film is not None:
        last = len(film.train_loss) - 1
        text += " Move the slider to see the model at an earlier moment of training."
        controls = (
            '<div class="film"><button id="film-play" type="button">Play</button>'
            f'<input id="film-slider" type="range" min="0" max="{last}" value="{last}" '
            'aria-label="moment of training"><output id="film-text"></output></div>'
        )
        lines = {name: paths for chart in charts for name, paths in chart.films.items()}
        data = json_script("film-data", {"texts": _film_texts(findings, film), "lines": lines})
    legend = key([(class_style(i), name) for i, name in enumerate(classes)])
    body = f"{controls}{legend}{grid(*figures, columns=3)}"
    return section("slices", "Slices of the model", text, body), data


def _chart(findings: Findings, one: Slice, name: str, target: str) -> Chart:
    """One slice; its lines have films if the model has one."""
    classes, at, levels = findings.target.classes, one.points.at, one.points.kind == "level"
    half = findings.half_width if findings.held_out and not classes else 0.0
    if classes:
        y = Axis("probability", 0.0, 1.0)
    elif levels:
        y = Axis.from_zero(target, one.values)
    else:
        y = Axis.around(
            target, one.values, one.others, one.values[-1] - half, one.values[-1] + half
        )
    chart = Chart(one.points.axis, y, f"slice along {one.feature}", width=400, height=260)

    def moving(values: np.ndarray, part: str = "") -> tuple[np.ndarray, str]:
        """Values to draw and the name of their film, if there is one."""
        return (values[-1], "") if findings.film is None else (values, name + part)

    if not levels:
        chart.rug(one.rug)
    for i, label in enumerate(classes):
        values, film = moving(one.values[..., i], f"-{i}")
        (chart.ledges if levels else chart.line)(at, values, class_style(i), film=film)
        chart.hits(at, one.values[-1, :, i], f"{one.feature}\n{label}")
    if classes:
        return chart
    values, film = moving(one.values[..., 0])
    if levels:
        chart.columns(at, values, film=film)
    else:
        for other in one.others[..., 0]:
            chart.line(at, other, "soft thin")
        if half:
            ends = one.values[..., 0] + half * np.array([-1.0, 1.0])[:, None, None]
            band, film_of_band = moving(np.moveaxis(ends, 0, 1), "-band")
            chart.band(at, band, film=film_of_band)
        chart.line(at, values, "a", film=film)
    return chart.hits(at, one.values[-1, :, 0], one.feature)


def _without_value(one: Slice, classes: list[str]) -> str:
    """What the final model says of rows without a value of this feature."""
    if one.missing is None:
        return ""
    outputs = [f"{escape(name)} {p:.2f}" for name, p in zip(classes, one.missing, strict=False)]
    return f"Missing: {', '.join(outputs) or number(float(one.missing[0]))}"


def _film_texts(findings: Findings, film: Film) -> list[str]:
    words, texts = findings.target.words, []
    for i, bandwidth in enumerate(film.bandwidth):
        text = f"bandwidth {number(float(bandwidth))}"
        for losses, rows in ((film.train_loss, "training"), (film.scored_loss, "held-out")):
            if losses is not None:
                text += f" · {words(float(losses[i]))} on {rows} rows"
        texts.append(text)
    return texts
