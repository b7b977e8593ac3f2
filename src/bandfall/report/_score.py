"""Sections about scores: the model, its rivals and the trials of its search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import NamedTuple

import numpy as np

from bandfall._drawing import number, ranking
from bandfall._targets import Classes, Target
from bandfall._targets.scores import Scores, decimals, row_losses
from bandfall._typing import JsonDict, Weights
from bandfall.report._findings import Findings
from bandfall.report._layout import cards, cell, figure, section, sortable_table

MAX_TRIALS = 12
LOWEST_R2 = -0.2  # bars end here, so that one bad model does not squeeze the others
# Fields of trials and their headings; fields that a search does not have are left out.
TRIAL_COLUMNS = {
    "kernel": "kernel",
    "min_speed": "speed",
    "n_rounds": "metric rounds",
    "encoding": "columns",
    "n_rows": "rows",
    "penalty": "penalty of log-loss",
}


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
        shares = [self.target.measure] if not self.target.classes else list(self.target.heads)
        return {
            head: _score_text(self.scores[name]) if head in shares else number(self.scores[name])
            for head, name in self.target.heads.items()
        }

    def as_numbers(self) -> JsonDict:
        """Scores as numbers, by name."""
        scores = {key: value for key, value in self.scores.items() if key != "n_unseen"}
        return {"name": self.name, **scores, "seconds": self.seconds, "n_rows": self.n_rows}


def result_cards(findings: Findings) -> str:
    """The main numbers, for the top of the page."""
    scores, rows = findings.scores, findings.rows_name
    if isinstance(findings.target, Classes):
        shown = [
            ("main", decimals(scores["log_loss"]), f"log-loss on {rows}"),
            ("", f"{scores['accuracy']:.1%}", "accuracy"),
            ("", decimals(scores["auc"]), "AUC"),
            ("", decimals(scores["calibration_error"]), "calibration error"),
        ]
    else:
        shown = [
            ("main", decimals(scores["r2"]), f"R² on {rows}"),
            ("", number(scores["mae"]), "mean absolute error"),
        ]
    if not findings.held_out:  # training scores are not emphasised
        shown = [("", value, label) for _, value, label in shown]
    path = findings.model.path
    leaves = f" in {path.n_leaves} leaves" if path is not None and path.n_leaves > 1 else ""
    shown.append(("", f"{len(findings.train.y):,}", f"training rows{leaves}"))
    if findings.held_out:
        shown.append(("", f"{len(np.unique(findings.row_numbers)):,}", "held-out rows"))
    if path is not None and not findings.target.classes:
        ends = [number(float(f"{bandwidth:.3g}")) for bandwidth in path.bandwidths[[0, -1]]]
        shown.append(("", " → ".join(dict.fromkeys(ends)), "bandwidth"))
    return cards(shown)


def score_section(findings: Findings, rivals: Sequence[RivalScore], name: str) -> str:
    """The score of the model, and those of its rivals on the same rows."""
    text = _meaning(findings)
    if not findings.held_out:
        warning = (
            "No rows were held out: all numbers on this page are about training rows, and errors "
            "on new rows are larger. Pass test rows (<code>X_test</code> and <code>y_test</code>, "
            "or <code>--test-fraction 0.2</code>) to score the model."
        )
        return section("score", "Score", warning, "")
    n_rows = len(np.unique(findings.row_numbers))
    if np.isnan(findings.loss) and not findings.target.classes:
        text = f"R² is not defined on {n_rows:,} held-out rows: their targets are all equal."
        return section("score", "Score", text, "")
    words = f"{findings.target.words(findings.loss)} on {n_rows:,} held-out rows"
    words = f"{words[0].upper()}{words[1:]}"
    if not findings.tested:
        text = (
            f"{words}: no test rows were given, so these are training rows that the search held "
            f"out, predicted by models that had not seen them. {text}"
        )
        return section("score", "Score", text, "")
    if findings.unseen:
        text = f"{escape(findings.unseen)}. {text}"
    if not rivals or np.isnan(findings.loss):
        return section("score", "Score", f"{words}. {text}", "")
    if not findings.target.classes:
        text += (
            " Kernel ridge regression chooses bandwidth and "
            "penalty by cross-validation, on at most 1,000 rows."
        )
    text = (
        f"Every model was trained on the same rows with its usual settings and scored on the same "
        f"{n_rows:,} held-out rows. {text} Two models differ clearly if the mean difference of "
        "their losses on the same rows is more than two standard errors, which follow ±."
    )
    return section("score", "Score, with rivals", text, _race(findings, rivals, name))


def _meaning(findings: Findings) -> str:
    """An explanation of the scores."""
    target = findings.target
    if not isinstance(target, Classes):
        return "An R² of 1 is perfect, 0 is no better than predicting the mean."
    labels = findings.scored.y[findings.scored.y >= 0]
    shares = ""
    if len(labels):
        losses = row_losses(np.tile(target.prior, (len(labels), 1)), labels)
        shares = f"; predicting the shares of the classes gives {losses.mean():.3f}"
    return (
        "Log-loss is the mean of −log of the probability of the true class: 0 is certain and "
        f"right{shares}. AUC is the probability that a row of a class gets a higher "
        "probability of this class than a row of another class. The calibration error is the mean "
        "distance between predicted probabilities and the shares that came true."
    )


def _race(findings: Findings, rivals: Sequence[RivalScore], name: str) -> str:
    """Bars and a table of all models."""
    target, measure = findings.target, findings.target.measure
    columns = {head: name for head, name in target.heads.items() if head != measure}
    sign, unit = (1.0, 1.0) if target.classes else (-1.0, float(np.var(findings.scored.y)) or 1.0)
    ordered = sorted(rivals, key=lambda one: one.rank)
    ours = next((one for one in rivals if one.name == name), None)
    drawing = ranking(
        [one.name for one in ordered],
        [max(one.score, LOWEST_R2) for one in ordered],
        [decimals(one.score, 4) for one in ordered],
        ["a" if one.name == name else "soft" for one in ordered],
        [f"{one.name}\n{measure} {one.score:.4f}" for one in ordered],
        f"{measure} of all models",
        errors=[_standard_error(one.losses, unit) for one in ordered],
    )
    rows = []
    for one in ordered:
        mark = " class=ours" if one.name == name else ""
        scores = cell(one.score, text=decimals(one.score, 4))
        others = "".join(
            cell(one.scores[key], text=one.cells()[head]) for head, key in columns.items()
        )
        seconds = cell(one.seconds, text=_seconds(one.seconds))
        gap = "" if ours is None or one is ours else _verdict(one.losses, ours.losses, sign, unit)
        cells = f"{cell(one.name)}{scores}<td>{gap}</td>{others}{seconds}{cell(one.n_rows)}"
        rows.append(f"<tr{mark}>{cells}</tr>")
    picture = figure(
        drawing,
        f"{measure}, {'lower' if target.lower_is_better else 'higher'} is better",
        "Lines show one standard error over held-out rows.",
    )
    table = sortable_table(["model", measure, "difference", *columns, "fit, s", "rows"], rows)
    return f'<div class="narrow">{picture}</div><figure class="below">{table}</figure>'


def _seconds(value: float) -> str:
    return "< 0.01" if value < 0.005 else f"{value:,.2f}"


def _standard_error(losses: np.ndarray, unit: float) -> float:
    """Standard error of a score, from losses of held-out rows."""
    if len(losses) < 2:
        return 0.0
    return float(losses.std(ddof=1) / np.sqrt(len(losses)) / unit)


def _verdict(theirs: np.ndarray, own: np.ndarray, sign: float, unit: float) -> str:
    """The difference of a rival's score to this model's, or "no clear difference"."""
    paired = theirs - own
    difference = sign * float(paired.mean()) / unit
    margin = 2.0 * _standard_error(paired, unit)
    if abs(difference) <= margin:
        return "no clear difference"
    return f"{difference:+.4f} ± {margin:.4f}".replace("-", "−")


def _as_shown(selection: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Trials for display: total rounds, no speed for a single bandwidth, no zero penalty."""
    penalty = selection.get("penalty", np.zeros(1))
    if not np.any(penalty > 0):
        return {name: column for name, column in selection.items() if name != "penalty"}
    return {
        **selection,
        "n_rounds": selection["n_rounds"] + selection["log_rounds"],
        "min_speed": np.where(selection["width"] > 0, np.nan, selection["min_speed"]),
        "penalty": np.where(penalty > 0, penalty, np.nan),
    }


def _weights(findings: Findings, order: np.ndarray) -> dict[int, float]:
    """Weights of the members in the average, by index of their trial."""
    selection = findings.model.story.selection or {}
    found: dict[int, float] = {}
    for member in findings.model.story.members:
        parts = member.candidate.summary().items()
        same = np.all(
            [selection[name] == value for name, value in parts if name in selection], axis=0
        )
        ours = order[same[order]]
        if len(ours):  # the trial on the most rows
            best = int(ours[np.argmax(selection["n_rows"][ours])])
            found[best] = found.get(best, 0.0) + float(member.weight)
    return found


def trial_section(findings: Findings) -> str:
    """The trials of a self-tuning model, best first."""
    selection = findings.model.story.selection
    if not selection or not len(selection.get("loss", ())):
        return ""
    selection = _as_shown(selection)
    order = np.argsort(selection["loss"], kind="stable")
    score = findings.target.trial_column
    columns = TRIAL_COLUMNS | {score: f"{findings.target.measure} on held-out rows"}
    shown = [name for name in columns if name in selection]
    weights = _weights(findings, order)
    listed = [int(i) for i in order if i in weights or i in order[:MAX_TRIALS]]
    rows = []
    for i in listed:
        cells = "".join(
            cell(value, text=decimals(float(value), 4) if name == score else "")
            for name in shown
            for value in [selection[name][i]]
        )
        mark, weight = (' class="ours"', f"{weights[i]:.0%}") if i in weights else ("", "")
        rows.append(f"<tr{mark}>{cells}<td>{weight}</td></tr>")
    table = sortable_table([columns[name] for name in shown], rows, last="weight")
    more = len(order) - len(rows)
    text = (
        f"The model tuned itself: {len(order)} configurations were scored on rows held out from "
        f"the training rows, and the prediction is a weighted average of a few. Best first"
        f"{', by the mean of |error|^1.5' if not findings.target.classes else ''}"
        f"{f'; {more:,} more are not shown' if more else ''}. The bandwidth shrinks whenever "
        "training is slower than the given speed. Each metric round learns the weights of the "
        "features again. “Columns” says how the features are encoded."
    )
    return section("trials", "What was tried", text, table)


def _score_text(value: float) -> str:
    return "not defined" if value != value else decimals(value, 4)
