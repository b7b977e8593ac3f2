"""The page about a classifier: log-loss beside rivals, calibration, confusion, slices."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from html import escape
from typing import Any

import numpy as np

from bandfall.drawing import Axis, Chart, number, ranking
from bandfall.report.class_findings import ClassFindings, ClassSlice
from bandfall.report.class_scores import confusion, reliability
from bandfall.report.layout import figure, number_cell, section, sortable_table
from bandfall.report.page import cards, model_section, page_shell
from bandfall.report.score import trial_section

STYLES = ("a", "b", "good", "bad", "truth", "soft")  # of lines, one a class
MAX_IMPORTANCES = 15
MAX_CONFUSION = 20  # classes that a table can hold
N_WORST, N_WORST_FEATURES = 8, 5


def render_class_page(
    findings: ClassFindings,
    *,
    target: str,
    source: str,
    details: dict[str, str],
    rivals: Sequence[Any] = (),
    model_name: str = "bandfall",
    selection: dict[str, Any] | None = None,
) -> str:
    """The report about a classifier as HTML; parameters as those of `render_page`."""
    sections = [
        score_section(findings, rivals, model_name),
        path_section(findings),
        calibration_section(findings),
        confusion_section(findings),
        slice_section(findings),
        importance_section(findings),
        worst_section(findings, target),
        trial_section(selection, ("loss", "log-loss on held-out rows")),
        model_section(details),
    ]
    return page_shell(
        title=f"Predicting {target}",
        kind="report",
        header=f'<div class="dim">{len(findings.classes)} classes, from {len(findings.features)} '
        f"features of <code>{escape(source)}</code></div>{_result_cards(findings)}",
        sections=sections,
        data="",
    )


def _rows_name(findings: ClassFindings) -> str:
    return "held-out rows" if findings.held_out else "training rows"


def _result_cards(findings: ClassFindings) -> str:
    scores = findings.scores
    return cards(
        [
            ("main", _shown(scores.log_loss), f"log-loss on {_rows_name(findings)}"),
            ("", f"{scores.accuracy:.1%}", "of them right"),
            ("", _shown(scores.auc), "AUC"),
            ("", _shown(scores.calibration_error), "calibration error"),
            ("", f"{len(findings.train.y):,}", "training rows"),
            ("", f"{len(findings.scored.y):,}", _rows_name(findings)),
        ]
    )


def _shown(value: float) -> str:
    return "–" if np.isnan(value) else f"{value:.3f}"


def score_section(findings: ClassFindings, rivals: Sequence[Any], name: str) -> str:
    """Log-loss of the model and its rivals on the same rows."""
    prior = float(-np.log(np.maximum(findings.prior, 1e-15)) @ findings.prior)
    meaning = (
        "Log-loss is the mean of −log of the probability given to the true class: 0 is certain and "
        f"right, {prior:.3f} is what the shares of the classes alone would have. AUC is the chance "
        "that a row of a class is given more of it than a row of another. The calibration error is "
        "how far shares of right rows are from the probabilities given."
    )
    if not findings.held_out:
        text = (
            "No rows were held out, so that there is nothing to score honestly: train with "
            "<code>--test-fraction 0.2</code>."
        )
        return section("score", "Score", text, "")
    if findings.unseen:
        meaning = f"{escape(findings.unseen)}. {meaning}"
    if not rivals or np.isnan(findings.scores.log_loss):
        return section("score", "Score", meaning, "")
    ordered = sorted(rivals, key=lambda one: one.log_loss)
    ours = next((one for one in rivals if one.name == name), None)
    drawing = ranking(
        [one.name for one in ordered],
        [one.log_loss for one in ordered],
        ["a" if one.name == name else "soft" for one in ordered],
        [f"{o.name}\nlog-loss {o.log_loss:.4f}\naccuracy {o.accuracy:.1%}" for o in ordered],
        "log-loss of all models",
        errors=[_standard_error(one.losses) for one in ordered],
    )
    rows = [_rival_row(one, ours, name) for one in ordered]
    heads = ("model", "log-loss", "difference", "AUC", "accuracy", "calibration error", "fit, s")
    picture = figure(
        drawing,
        "Log-loss, lower is better",
        "Lines reach one standard error over held-out rows to either side.",
    )
    table = f'<figure class="below">{sortable_table(heads, rows)}</figure>'
    text = (
        "Every model was trained on the same rows with its usual settings and scored on the same "
        f"{len(findings.scored.y):,} held-out rows. {meaning} Two models differ clearly where "
        "their losses on the same rows do, by more than two standard errors of the mean difference."
    )
    body = f'<div class="narrow">{picture}{table}</div>'
    return section("score", "Score, with rivals", text, body)


def _rival_row(one: Any, ours: Any, name: str) -> str:
    mark = " class=ours" if one.name == name else ""
    figures = (one.auc, one.accuracy, one.calibration_error)
    cells = "".join(number_cell(value) for value in figures)
    return (
        f"<tr{mark}><td>{escape(one.name)}</td>{number_cell(one.log_loss)}"
        f"<td>{_verdict(one, ours)}</td>{cells}<td>{one.seconds:.2f}</td></tr>"
    )


def _standard_error(losses: np.ndarray) -> float:
    return float(losses.std(ddof=1) / np.sqrt(len(losses))) if len(losses) > 1 else 0.0


def _verdict(one: Any, ours: Any) -> str:
    """How the log-loss of a rival differs from that of this model, if it does clearly."""
    if ours is None or one is ours:
        return ""
    paired = one.losses - ours.losses
    difference, margin = float(paired.mean()), 2.0 * _standard_error(paired)
    if abs(difference) <= margin:
        return "no clear difference"
    return f"{difference:+.3f} ± {margin:.3f}".replace("-", "−")


def path_section(findings: ClassFindings) -> str:
    """Log-loss against the stage of training."""
    stages = findings.stages
    if stages is None:
        return ""
    numbers = np.arange(1, len(stages.bandwidth) + 1, dtype=float)
    x = Axis("stage of training", 1.0, float(numbers[-1]))

    def tip(rows: str) -> Any:
        return lambda stage, loss: (
            f"stage {stage:.0f}\nbandwidth {number(float(stages.bandwidth[int(stage) - 1]))}\n"
            f"log-loss {loss:.4f} on {rows}"
        )

    losses = Axis.around("log-loss", stages.train_loss, stages.scored_loss, [0.0])
    chart = Chart(x, losses, "log-loss along training")
    chart.line(numbers, stages.train_loss, "truth dashed", tip=tip("training rows"))
    chart.line(numbers, stages.scored_loss, "a", tip=tip(_rows_name(findings)))
    best = int(np.argmin(stages.scored_loss))
    picture = figure(
        chart.svg(),
        "What each stage was worth",
        f"Best on {_rows_name(findings)}: {stages.scored_loss[best]:.4f} after stage {best + 1} "
        f"of {len(numbers)}.",
        [("truth", "training rows"), ("a", _rows_name(findings))],
    )
    text = (
        "Training starts with a bandwidth as wide as the data, where all rows get the shares of "
        f"the classes, and narrows it: from {number(float(stages.bandwidth[0]))} to "
        f"{number(float(stages.bandwidth[-1]))}. Where to stop was chosen by rows held out from "
        "the training rows."
    )
    body = f'<div class="narrow">{picture}</div>'
    return section("path", "The path of training", text, body)


def calibration_section(findings: ClassFindings) -> str:
    """Whether seven in ten rows of probability 0.7 come true, and how sure the model is."""
    known = findings.labels >= 0
    if not known.any():
        return ""
    given, labels = findings.probabilities[known], findings.labels[known]
    if len(findings.classes) == 2:
        asked, happened = given[:, 1], labels == 1
        what = f"probability of {findings.classes[1]}"
    else:
        asked, happened = given.max(axis=1), given.argmax(axis=1) == labels
        what = "probability of the class predicted"
    bins = reliability(asked, happened)
    chart = Chart(Axis(what, 0.0, 1.0), Axis("share that came true", 0.0, 1.0), "calibration")
    chart.line([0, 1], [0, 1], "truth dashed")
    xs, ys = [one.probability for one in bins], [one.share for one in bins]
    tips = [
        f"{one.weight:,.0f} rows\nmean probability {one.probability:.3f}\ncame true {one.share:.3f}"
        for one in bins
    ]
    chart.line(xs, ys, "a").dots(xs, ys, "a solid", tips=tips, radius=4)
    counts, edges = np.histogram(asked, bins=20, range=(0.0, 1.0))
    spread = Chart(
        Axis(what, 0.0, 1.0), Axis("rows", 0.0, float(counts.max()) * 1.06), "probabilities given"
    )
    ranges = [
        f"{a:.2f} to {b:.2f}: {c:,} rows"
        for a, b, c in zip(edges[:-1], edges[1:], counts, strict=True)
    ]
    spread.bars(edges, counts, ["soft"] * len(counts), ranges)
    body = figure(
        chart.svg(),
        "Do probabilities come true?",
        "Rows in tenths of probability: on the dashed line, seven in ten rows of probability 0.7 "
        f"come true. The calibration error is {_shown(findings.scores.calibration_error)}.",
    ) + figure(
        spread.svg(), "How sure is it?", "Probabilities near 0 and 1 decide; those between tell."
    )
    text = f"On {known.sum():,} {_rows_name(findings)}."
    return section("calibration", "Calibration", text, f'<div class="grid2">{body}</div>')


def confusion_section(findings: ClassFindings) -> str:
    """Which classes are taken for which."""
    counts = confusion(findings.probabilities, findings.labels)
    if len(counts) > MAX_CONFUSION:
        return _confused_pairs(findings, counts)
    rows = []
    for i, name in enumerate(findings.classes):
        n_rows = counts[i].sum()
        cells = "".join(
            f'<td data-value="{count}"{" class=right" if i == j else ""}>{count:,}</td>'
            for j, count in enumerate(counts[i])
        )
        share = number_cell(float(counts[i, i] / n_rows)) if n_rows else "<td></td>"
        rows.append(f"<tr><td>{escape(name)}</td>{cells}{share}</tr>")
    heads = ["class", *(f"taken for {name}" for name in findings.classes), "share right"]
    text = f"{_rows_name(findings).capitalize()} by their class, and by the one predicted."
    return section("confusion", "Confusion", text, sortable_table(heads, rows))


def _confused_pairs(findings: ClassFindings, counts: np.ndarray) -> str:
    """The most frequent mistakes, where there are too many classes for a square table."""
    wrong = counts - np.diag(np.diag(counts))
    order = np.argsort(-wrong, axis=None)[:MAX_CONFUSION]
    rows = []
    for i, j in zip(*np.unravel_index(order, wrong.shape), strict=True):
        if wrong[i, j]:
            names = f"<td>{escape(findings.classes[i])}</td><td>{escape(findings.classes[j])}</td>"
            rows.append(f"<tr>{names}{number_cell(float(wrong[i, j]))}</tr>")
    text = f"The most frequent mistakes on {_rows_name(findings)}."
    return section(
        "confusion", "Confusion", text, sortable_table(("class", "taken for", "rows"), rows)
    )


def slice_section(findings: ClassFindings) -> str:
    """Probabilities along the most important features."""
    order = np.argsort(-findings.prior, kind="stable")[: len(STYLES)]
    if len(findings.classes) == 2:
        order = np.array([1])
    shown = [(STYLES[i], int(j)) for i, j in enumerate(order)]
    key = [(style, findings.classes[j]) for style, j in shown]
    figures = [
        figure(_slice_chart(one, findings.classes, shown), one.feature, "", key)
        for one in findings.slices
    ]
    text = (
        "How probabilities change along one feature while the others stay as in the most typical "
        "training row. The most important features come first."
    )
    body = f'<div class="grid3">{"".join(figures)}</div>'
    return section("slices", "Slices of the model", text, body)


def _slice_chart(one: ClassSlice, classes: list[str], shown: list[tuple[str, int]]) -> str:
    low, high = float(one.grid[0]), float(one.grid[-1])
    x = Axis("", low, high)
    if one.labels is not None:
        x = Axis("", low - 0.5, high + 0.5, names=tuple(one.labels))
    y = Axis("probability", 0.0, 1.0)
    chart = Chart(x, y, f"slice along {one.feature}", width=400, height=260)
    for style, j in shown:
        values = one.probabilities[:, j]
        if one.labels is None:
            chart.line(one.grid, values, style)
        else:
            chart.dots(one.grid, values, f"{style} solid", radius=4)
        chart.hits(one.grid, values, partial(_slice_tip, one, classes[j]))
    return chart.svg()


def _slice_tip(one: ClassSlice, label: str, x: float, probability: float) -> str:
    place = number(x) if one.labels is None else one.labels[int(np.argmin(np.abs(one.grid - x)))]
    return f"{one.feature} {place}\n{label} {probability:.3f}"


def importance_section(findings: ClassFindings) -> str:
    """Rise of log-loss when a feature is shuffled, where that can be told."""
    if np.isnan(findings.scores.log_loss):
        return ""
    order = np.argsort(-findings.importances[:, 0])[:MAX_IMPORTANCES]
    means, deviations = findings.importances[order].T
    names = [findings.features[j] for j in order]
    tips = [
        f"{name}\nrise of log-loss {mean:.4f} ± {deviation:.4f}"
        for name, mean, deviation in zip(names, means, deviations, strict=True)
    ]
    drawing = ranking(
        names, means, ["a"] * len(names), tips, "feature importances", errors=deviations
    )
    body = figure(
        drawing,
        "Rise of log-loss when a feature is shuffled",
        f"Mean and standard deviation over 5 shuffles of {_rows_name(findings)}. Features that "
        "say the same thing share their importance.",
    )
    return section("features", "Which features matter", "", f'<div class="narrow">{body}</div>')


def worst_section(findings: ClassFindings, target: str) -> str:
    """The rows whose class was given the least probability."""
    known = np.flatnonzero(findings.labels >= 0)
    if not len(known):
        return ""
    given = findings.probabilities[known, findings.labels[known]]
    best = findings.probabilities.argmax(axis=1)
    features = [int(j) for j in np.argsort(-findings.importances[:, 0])[:N_WORST_FEATURES]]
    rows = []
    for i in known[np.argsort(given, kind="stable")[:N_WORST]]:
        label = int(findings.labels[i])
        cells = f"<td>{escape(findings.classes[label])}</td>"
        cells += number_cell(float(findings.probabilities[i, label]))
        cells += f"<td>{escape(findings.classes[int(best[i])])}</td>"
        cells += "".join(
            f"<td>{escape(str(findings.scored.X.iloc[int(i), j])[:40])}</td>" for j in features
        )
        rows.append(f'<tr><td data-value="{i + 1}">{i + 1}</td>{cells}</tr>')
    heads = [
        "row",
        target,
        "its probability",
        "predicted",
        *(findings.features[j] for j in features),
    ]
    text = f"The {len(rows)} of {_rows_name(findings)} that the model thought least of."
    return section("errors", "Largest errors", text, sortable_table(heads, rows))
