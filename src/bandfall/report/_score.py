"""Sections about scores and training: the model, its rivals, its search and its path."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

import numpy as np

from bandfall._drawing.chart import Axis, Chart, number
from bandfall._estimators.view import member_words
from bandfall._targets import Classes, Target
from bandfall._targets.scores import Scores, decimals
from bandfall._typing import JsonDict, Weights
from bandfall.report._findings import LEVEL, Findings, Stages
from bandfall.report._layout import cell, figure, grid, section, table

_RIDGE = (
    " Kernel ridge regression chooses bandwidth and penalty by cross-validation, on at most 1,000 "
    "rows."
)


class RivalScore(NamedTuple):
    """The scores of one model in a comparison.

    `losses` has one loss per held-out row, for tests whether two models differ.
    """

    name: str
    scores: Scores
    seconds: float
    n_rows: int
    losses: np.ndarray
    target: Target

    @classmethod
    def of(
        cls,
        name: str,
        answers: np.ndarray,
        y: np.ndarray,
        target: Target,
        *,
        weights: Weights = None,
        seconds: float,
        n_rows: int,
    ) -> RivalScore:
        """Score answers (m, k) on held-out rows with targets y."""
        values = target.read(y)
        losses = target.row_losses(values, answers)
        scores = target.scores(values, answers, weights)
        return cls(name, scores, seconds, n_rows, losses, target)

    @property
    def score(self) -> float:
        """The main score."""
        return self.scores[next(iter(self.target.heads.values()))]

    @property
    def rank(self) -> float:
        """A sort key: smaller is better."""
        return self.score if self.target.lower_is_better else -self.score

    def cells(self) -> dict[str, str]:
        """Scores as text, by heading."""
        shares = list(self.target.heads) if self.target.classes else [self.target.measure]
        return {
            head: number(self.scores[name])
            if head not in shares
            else "not defined"
            if np.isnan(self.scores[name])
            else decimals(self.scores[name], 4)
            for head, name in self.target.heads.items()
        }

    def as_numbers(self) -> JsonDict:
        """Scores as numbers, by name."""
        scores = {key: value for key, value in self.scores.items() if key != "n_unseen"}
        return {"name": self.name, **scores, "seconds": self.seconds, "n_rows": self.n_rows}


def result_cards(findings: Findings) -> str:
    """The main numbers, for the top of the page: first the score, beside that of no model."""
    scores, plain, on = findings.scores, findings.baseline, f"on {findings.rows_name}"
    if isinstance(findings.target, Classes):
        loss, right = scores["log_loss"], scores["accuracy"]
        always = f"always answering “{findings.target.classes[int(findings.model.start.argmax())]}”"
        shares, frequent = plain["log_loss"], plain["accuracy"]
        its = f"predicting the class shares: {decimals(shares)}"
        cards = [
            _card(decimals(loss), f"log-loss {on}", its, shares - loss),
            _card(f"{right:.1%}", "accuracy", f"{always}: {frequent:.1%}", right - frequent),
            _card(decimals(scores["auc"]), "AUC"),
            _card(decimals(scores["calibration_error"]), "calibration error"),
        ]
    else:
        r2, error, known = scores["r2"], scores["mae"], plain["mae"]
        its = f"predicting the mean: {number(known)}"
        cards = [
            _card(decimals(r2), f"R² {on}", "predicting the mean: 0", r2),
            _card(number(error), "mean absolute error", its, known - error),
        ]
        if findings.held_out:
            band = f"±{number(float(f'{findings.half_width:.3g}'))}"
            cards.insert(1, _card(band, f"contains {LEVEL:.0%} of held-out errors"))
    path = findings.model.path
    leaves = f" in {path.n_leaves} leaves" if path is not None and path.n_leaves > 1 else ""
    cards.append(_card(f"{len(findings.train.y):,}", f"training rows{leaves}"))
    if findings.held_out:
        cards.append(_card(f"{len(np.unique(findings.row_numbers)):,}", "held-out rows"))
        cards[0] = cards[0].replace('"card "', '"card main"')
    return f'<div class="cards">{"".join(cards)}</div>'


def _card(value: str, label: str, rule: str = "", gain: float = np.inf) -> str:
    """A number in large type, compared with that of a simple rule, as in "the mean: 0.2"."""
    style, words = "", f"{label} ({rule})" if rule else label
    if gain <= 0.0:
        simple, _, its = rule.rpartition(": ")
        style, words = "poor", f"{label}, no better than {simple} ({its})"
    return f'<div class="card {style}"><b>{value}</b><span>{escape(words)}</span></div>'


def score_section(findings: Findings, rivals: Sequence[RivalScore], name: str) -> str:
    """The score of the model, and those of its rivals on the same rows."""
    title, meaning, race = "Score", _meaning(findings), ""
    n_rows = f"{len(np.unique(findings.row_numbers)):,} held-out rows"
    words = f"{findings.target.words(findings.loss)} on {n_rows}"
    words = f"{words[0].upper()}{words[1:]}"
    unseen = f"{escape(findings.unseen)}. " if findings.unseen else ""
    if not findings.held_out:
        text = (
            "No rows were held out: all numbers on this page are about training rows, and errors "
            "on new rows are larger. Pass test rows (<code>X_test</code> and <code>y_test</code>, "
            "or <code>--test-fraction 0.2</code>) to score the model."
        )
    elif np.isnan(findings.loss) and not findings.target.classes:
        text = f"R² is not defined on {n_rows}: their targets are all equal."
    elif not findings.tested:
        text = (
            f"{words}: no test rows were given, so these are training rows that the search held "
            f"out, predicted by models that had not seen them. {meaning}"
        )
    elif not rivals or np.isnan(findings.loss):
        text = f"{words}. {unseen}{meaning}"
    else:
        title, race = "Score, with rivals", _race(findings, rivals, name)
        text = (
            "Every model was trained on the same rows with its usual settings and scored on the "
            f"same {n_rows}. {unseen}{meaning}{'' if findings.target.classes else _RIDGE} A "
            "difference is clear if it exceeds two standard errors, the number after ±; the losses "
            "of two models are compared row by row."
        )
    return section("score", title, text, _leaks(findings) + race)


def _leaks(findings: Findings) -> str:
    leaks = findings.model.story.leaks.items()
    lines = "".join(f"<li><b>{escape(name)}</b>: {escape(why)}</li>" for name, why in leaks)
    return lines and (
        '<div class="warning"><p>Is this known before the target? If not, drop it: the scores on '
        f"this page would not hold for new rows.</p><ul>{lines}</ul></div>"
    )


def _meaning(findings: Findings) -> str:
    if not findings.target.classes:
        return "An R² of 1 is perfect, 0 is no better than predicting the mean."
    plain = findings.baseline["log_loss"]
    shares = f"; predicting the shares of the classes gives {plain:.3f}" if plain == plain else ""
    return (
        "Log-loss is the mean of −log of the probability of the true class: 0 is certain and "
        f"right{shares}. AUC is the probability that a row of a class gets a higher "
        "probability of this class than a row of another class. The calibration error is the mean "
        "distance between predicted probabilities and the shares that came true."
    )


def _race(findings: Findings, rivals: Sequence[RivalScore], name: str) -> str:
    target, measure = findings.target, findings.target.measure
    heads = {head: key for head, key in target.heads.items() if head != measure}
    unit = 1.0 if target.classes else -(float(np.var(findings.scored.y)) or 1.0)  # of R², falling
    ours = next((rival for rival in rivals if rival.name == name), None)
    ordered = sorted(rivals, key=lambda rival: rival.rank)
    rows = []
    for rival in ordered:
        gap = ""
        if ours is not None and rival is not ours:
            gap = _verdict((rival.losses - ours.losses) / unit)
        score, texts = decimals(rival.score, 4), rival.cells()
        cells = [cell(rival.name), cell(rival.score, text=score), f"<td>{gap}</td>"]
        cells += [cell(rival.scores[key], text=texts[head]) for head, key in heads.items()]
        seconds = "< 0.01" if rival.seconds < 0.005 else f"{rival.seconds:,.2f}"
        rows.append("".join([*cells, cell(rival.seconds, text=seconds), cell(rival.n_rows)]))
    columns = ["model", measure, "difference", *heads, "fit, s", "rows"]
    return table(columns, rows, ours=[i for i, one in enumerate(ordered) if one is ours])


def _verdict(differences: np.ndarray) -> str:
    """The difference of a rival's score to this model's, or "no clear difference"."""
    mean, n = float(differences.mean()), len(differences)
    margin = 2.0 * float(differences.std(ddof=1) / np.sqrt(n)) if n > 1 else 0.0
    if abs(mean) <= margin:
        return "no clear difference"
    return f"{mean:+.4f} ± {margin:.4f}".replace("-", "−")


def trial_section(findings: Findings) -> str:
    """The members of a self-tuning model."""
    story = findings.model.story
    if not story.selection or not len(story.selection["loss"]):
        return ""
    members = "".join(
        f"<li>{member.weight:.0%}: {escape(member_words(member))}</li>" for member in story.members
    )
    text = (
        f"The model tuned itself: {len(story.selection['loss']):,} configurations were scored on "
        "rows held out from the training rows, and the prediction is a weighted average of these:"
    )
    return section("members", "What was chosen", text, f"<ul>{members}</ul>")


def path_section(findings: Findings) -> str:
    """Bandwidth and loss against training time."""
    stages, path = findings.stages, findings.model.path
    if stages is None or path is None:
        return ""
    log = path.log
    first = float(log.time[1]) if len(log) > 1 else path.time
    start = first / 3  # stands for zero
    times = np.maximum(np.append(log.time, path.time), start)
    x = Axis("training time", float(times[0]), float(times[-1]) * 1.02, log=True)
    floor = float(log.bandwidth[log.bandwidth > 0].min(initial=np.inf)) / 3
    floor = floor if np.isfinite(floor) else 1e-3  # stands for zero
    bandwidths = np.where(log.bandwidth > 0, log.bandwidth, floor)
    y = Axis.around("bandwidth", bandwidths, log=True, zero=floor)
    falling = Chart(x, y, "bandwidth over time")
    falling.line(np.repeat(times, 2)[1:-1], np.repeat(bandwidths, 2), "a")
    falling.dots(times[:-1], bandwidths)
    wide, narrow = (number(float(f"{bandwidth:.3g}")) for bandwidth in path.bandwidths[[0, -1]])
    fall = f"From {wide} to {narrow} in {len(path)} stages."
    if len(path) == 1:
        fall = f"One stage, of bandwidth {wide}."
    elif np.any(log.bandwidth == 0):
        fall += " The lowest step stands for bandwidth 0, where only training points move."
    text = "The bandwidth begins as wide as the data and shrinks whenever training slows down. "
    if findings.model.story.members:
        text += "Rows held out from the training rows decided where to stop."
    else:
        text += f"It ended because {escape(path.status.explanation)}."
    body = grid(figure(falling, "The bandwidth", fall), _losses(findings, stages, x, start))
    return section("path", "The path of training", text, body)


def _losses(findings: Findings, stages: Stages, x: Axis, start: float) -> str:
    target, words = findings.target, findings.target.words
    times = np.append(start, np.maximum(stages.time, start))
    lines = [("truth dashed", "training rows", np.maximum(stages.train_loss, 1e-9))]
    caption = f"At the end {words(float(stages.train_loss[-1]))} on training rows."
    if stages.scored_loss is not None:
        lines.append(("a", "held-out rows", np.maximum(stages.scored_loss, 1e-9)))
        best = int(np.argmin(stages.scored_loss[1:]))
        caption = (
            f"Best on held-out rows: {words(float(stages.scored_loss[best + 1]))} at bandwidth "
            f"{number(stages.bandwidth[best])}; at the end {words(float(stages.scored_loss[-1]))}."
        )
    axis = Axis.around(target.loss_name, *(loss for *_, loss in lines), log=True)
    chart = Chart(x, axis, f"{target.loss_name} over time")
    for style, name, loss in lines:
        chart.line(times, loss, style).dots(times, loss, names=name)
    key = [(style.split()[0], name) for style, name, _ in lines]
    return figure(chart, "The error falls", caption, key)
