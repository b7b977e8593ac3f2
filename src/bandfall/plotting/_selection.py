"""The trials of a self-tuning regressor, and the members that it chose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self, TypeAlias

import numpy as np

from bandfall._models.member import Member
from bandfall._typing import Estimator, State
from bandfall.plotting._style import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    Axes,
    AxesLike,
    drawn_model,
    panels,
)

Trials: TypeAlias = dict[str, np.ndarray]  # a column each of what was tried

_COLOURS = {"standard": BLUE, "steps": ORANGE, "quantile": GREEN}
_LINES = {"gaussian": "-", "matern12": "--", "matern32": "-.", "matern52": ":"}
_CANDIDATE = ("encoding", "n_rounds", "kernel", "min_speed")
_MEMBERS = "members, by weight"


@dataclass(kw_only=True, eq=False, repr=False)
class SelectionDisplay:
    """R² on held-out rows against rounds of the learned metric, and against speed.

    Left: the best trial of every encoding after each round. Right: the speeds of every encoding
    (colours) and kernel (lines) at its best number of rounds. Circles are the members of
    the average; their areas are the weights. A configuration that was tried twice is shown with
    the score on more rows. Build it with `from_estimator`.

    Parameters
    ----------
    selection : dict of str to ndarray
        ``selection_`` of a `BandfallRegressor`.
    members : sequence of Member
        Its ``members_``.

    Attributes
    ----------
    figure_ : matplotlib Figure
    axes_ : array of two matplotlib Axes

    Examples
    --------
    >>> import matplotlib; matplotlib.use("agg")
    >>> from sklearn.datasets import make_friedman1
    >>> from bandfall import BandfallRegressor
    >>> from bandfall.plotting import SelectionDisplay
    >>> X, y = make_friedman1(60, random_state=0)
    >>> model = BandfallRegressor(kernels=("gaussian",), max_rounds=1).fit(X, y)
    >>> SelectionDisplay.from_estimator(model).axes_[0].get_ylabel()
    'R² on held-out rows'
    """

    selection: Trials
    members: Sequence[Member] = ()

    @classmethod
    def from_estimator(cls, estimator: Estimator, *, axes: AxesLike | None = None) -> Self:
        """Display a fitted `BandfallRegressor`, or a pipeline ending in one."""
        model, _ = drawn_model(estimator)
        return cls(selection=model.selection_, members=model.members_).plot(axes=axes)

    def plot(self, *, axes: AxesLike | None = None) -> Self:
        """Draw on the two given axes, or on new ones."""
        self.figure_, self.axes_ = panels(axes, 1, 2, (8.0, 3.4), sharey=True)
        table = _latest(self.selection)
        if len(table["score"]):
            _draw_rounds(self.axes_[0], table)
            self._draw_speeds(self.axes_[1], table)
            self._mark_members(table)
            scores = np.sort(table["score"])
            floor = scores[len(scores) // 20]
            self.axes_[0].set_ylim(bottom=floor - 0.05 * (scores[-1] - floor + 1e-9))
            place: State = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5)}
            self.axes_[1].legend(fontsize=8, frameon=False, **place)
        self.axes_[0].set(xlabel="rounds of the learned metric", ylabel="R² on held-out rows")
        self.axes_[1].set(xlabel="slowest accepted R² speed")
        for ax in self.axes_:
            ax.spines[["top", "right"]].set_visible(False)
        return self

    def _draw_speeds(self, ax: Axes, table: Trials) -> None:
        taken = {
            (member.candidate.encoding, str(member.candidate.kernel)): member.candidate.n_rounds
            for member in reversed(self.members)
        }
        for pair in dict.fromkeys(zip(table["encoding"], table["kernel"], strict=True)):
            encoding, kernel = pair
            ours = (table["encoding"] == encoding) & (table["kernel"] == kernel)
            best = table["n_rounds"][ours][np.argmin(table["loss"][ours])]
            ours &= table["n_rounds"] == taken.get(pair, best)
            order = np.flatnonzero(ours)[np.argsort(table["min_speed"][ours])]
            line, colour = _LINES.get(kernel, "-"), _COLOURS.get(encoding, GREY)
            how: State = {"linestyle": line, "color": colour, "label": f"{encoding}, {kernel}"}
            speeds, scores = table["min_speed"][order], table["score"][order]
            ax.plot(speeds, scores, marker="o", markersize=4, **how)
        ax.set_xscale("log")

    def _mark_members(self, table: Trials) -> None:
        keys = list(zip(*(table[name].tolist() for name in _CANDIDATE), strict=True))
        scores = dict(zip(keys, table["score"], strict=True))
        marks = []
        for member in self.members:
            summary = member.candidate.summary()
            key = tuple(summary[name] for name in _CANDIDATE)
            if key in scores:
                marks.append((member.candidate, scores[key], member.weight))
        for ax, name in zip(self.axes_, ("n_rounds", "min_speed"), strict=True):
            at = [getattr(candidate, name) for candidate, _, _ in marks]
            sizes = [250.0 * weight for _, _, weight in marks]
            how: State = {"facecolors": "none", "edgecolors": "black", "linewidths": 1.4}
            heights = [score for _, score, _ in marks]
            ax.scatter(at, heights, s=sizes, label=_MEMBERS, zorder=5, **how)


def _latest(table: Trials) -> Trials:
    """The last trial of every candidate, which is the one on the most rows."""
    keys = zip(*(table[name].tolist() for name in _CANDIDATE), strict=True)
    rows = sorted({key: row for row, key in enumerate(keys)}.values())
    return {name: column[rows] for name, column in table.items()}


def _draw_rounds(ax: Axes, table: Trials) -> None:
    for encoding in dict.fromkeys(table["encoding"]):
        ours = table["encoding"] == encoding
        rounds = np.unique(table["n_rounds"][ours])
        best = [table["score"][ours & (table["n_rounds"] == r)].max() for r in rounds]
        colour = _COLOURS.get(encoding, GREY)
        ax.plot(rounds, best, "o-", color=colour, markersize=4, label=encoding)
    ax.locator_params(axis="x", integer=True)
