"""Sections about scores: the model, its rivals and the trials of its search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import NamedTuple

import numpy as np

from bandfall._drawing.chart import Bar, number, ranking
from bandfall._targets import Classes, Target
from bandfall._targets.scores import Scores, decimals
from bandfall._typing import JsonDict, Weights
from bandfall.report._findings import LEVEL, Findings
from bandfall.report._layout import cell, figure, section, sortable_table

# Fields of trials and their headings; fields that a search does not have are left out.
TRIAL_COLUMNS = {
    "kernel": "kernel",
    "min_speed": "speed",
    "n_rounds": "metric rounds",
    "encoding": "columns",
    "n_rows": "rows",
    "penalty": "penalty of log-loss",
}
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
    bars, rows = [], []
    for rival in ordered:  # bars end at −.2: one bad model would squeeze the others
        score, style = decimals(rival.score, 4), "a" if rival is ours else "soft"
        error = _standard_error(rival.losses / unit)
        bars.append(Bar(rival.name, max(rival.score, -0.2), score, error, style))
        gap = ""
        if ours is not None and rival is not ours:
            gap = _verdict((rival.losses - ours.losses) / unit)
        cells = [cell(rival.name), cell(rival.score, text=score), f"<td>{gap}</td>"]
        texts = rival.cells()
        cells += [cell(rival.scores[key], text=texts[head]) for head, key in heads.items()]
        seconds = "< 0.01" if rival.seconds < 0.005 else f"{rival.seconds:,.2f}"
        rows.append("".join([*cells, cell(rival.seconds, text=seconds), cell(rival.n_rows)]))
    picture = figure(
        ranking(bars, measure),
        f"{measure}, {'lower' if target.lower_is_better else 'higher'} is better",
        "Lines show one standard error over held-out rows.",
    )
    columns = ["model", measure, "difference", *heads, "fit, s", "rows"]
    table = sortable_table(columns, rows, ours=[i for i, one in enumerate(ordered) if one is ours])
    return f'<div class="narrow">{picture}</div><figure class="below">{table}</figure>'


def _standard_error(losses: np.ndarray) -> float:
    return float(losses.std(ddof=1) / np.sqrt(len(losses))) if len(losses) > 1 else 0.0


def _verdict(differences: np.ndarray) -> str:
    """The difference of a rival's score to this model's, or "no clear difference"."""
    mean, margin = float(differences.mean()), 2.0 * _standard_error(differences)
    if abs(mean) <= margin:
        return "no clear difference"
    return f"{mean:+.4f} ± {margin:.4f}".replace("-", "−")


def trial_section(findings: Findings, most: int = 12) -> str:
    """The trials of a self-tuning model, best first."""
    trials = findings.model.story.selection
    if not trials or not len(trials["loss"]):
        return ""
    order = np.argsort(trials["loss"], kind="stable")
    weights = _weights(findings, trials, order)
    trials, score = _as_shown(trials), findings.target.trial_column
    columns = TRIAL_COLUMNS | {score: f"{findings.target.measure} on held-out rows"}
    heads = {name: head for name, head in columns.items() if name in trials}
    listed = [int(i) for i in order if i in weights or i in order[:most]]
    rows = []
    for i in listed:
        cells = [cell(trials[name][i]) for name in heads if name != score]
        cells.append(cell(trials[score][i], text=decimals(float(trials[score][i]), 4)))
        rows.append(f"{''.join(cells)}<td>{f'{weights[i]:.0%}' if i in weights else ''}</td>")
    members = [place for place, i in enumerate(listed) if i in weights]
    table = sortable_table(list(heads.values()), rows, last="weight", ours=members)
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


def _weights(
    findings: Findings, trials: Mapping[str, np.ndarray], order: np.ndarray
) -> dict[int, float]:
    """Weights of the members in the average, by index of their trial on the most rows."""
    weights: dict[int, float] = {}
    for member in findings.model.story.members:
        parts = member.candidate.summary().items()
        same = np.all([trials[name] == value for name, value in parts if name in trials], axis=0)
        ours = order[same[order]]
        if len(ours):
            best = int(ours[np.argmax(trials["n_rows"][ours])])
            weights[best] = weights.get(best, 0.0) + float(member.weight)
    return weights


def _as_shown(trials: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Trials for display: total rounds, no speed for a single bandwidth, no zero penalty."""
    penalty = trials.get("penalty", np.zeros(1))
    if not np.any(penalty > 0):
        return {name: column for name, column in trials.items() if name != "penalty"}
    return {
        **trials,
        "n_rounds": trials["n_rounds"] + trials["log_rounds"],
        "min_speed": np.where(trials["width"] > 0, np.nan, trials["min_speed"]),
        "penalty": np.where(penalty > 0, penalty, np.nan),
    }
