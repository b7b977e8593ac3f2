"""The intervals of self-tuning regressors: are they as wide as they should be?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from bandfall._typing import ArrayLike, Estimator, State, TableLike
from bandfall.plotting import _style as style
from bandfall.plotting._style import AxesLike, drawn_model, finish

_COVERAGES = np.arange(0.1, 0.96, 0.05)
MAX_DOTS = 2000


@dataclass(kw_only=True, eq=False, repr=False)
class IntervalDisplay:
    """Observed against promised coverage, and errors against the widths of intervals.

    Left: the share of rows inside, on the diagonal if the promise holds; the band shows what
    chance allows with these numbers of held-out and new rows. Right: distances from the middle of
    the interval against half its width and, for tenths of the rows, the distance that contains the
    promised share, on the diagonal if all widths are right. Build it with `from_estimator`.

    Parameters
    ----------
    coverages, shares : ndarray of shape (c,)
        Promised and observed coverages.
    half_widths, errors : ndarray of shape (n,)
        For one coverage: half the width, and the distance of the target from the middle.
    coverage : float
        This coverage.
    n_held_out : int
        Rows that the intervals were learned from.

    Attributes
    ----------
    figure_ : matplotlib Figure
    axes_ : array of two matplotlib Axes
    """

    coverages: np.ndarray
    shares: np.ndarray
    half_widths: np.ndarray
    errors: np.ndarray
    coverage: float
    n_held_out: int

    @classmethod
    def from_estimator(
        cls,
        estimator: Estimator,
        X: TableLike,
        y: ArrayLike,
        *,
        coverage: float = 0.9,
        axes: AxesLike = None,
    ) -> Self:
        """Display a fitted `BandfallRegressor`, or a pipeline ending in one, on unseen rows.

        Each target of a row counts separately.
        """
        model, X = drawn_model(estimator, X)
        y = np.asarray(y, dtype=float)
        ends = model.predict_interval(X, [*_COVERAGES, coverage])
        lower, upper = ends[..., 0, :].reshape(y.size, -1), ends[..., 1, :].reshape(y.size, -1)
        target = y.reshape(-1, 1)
        inside = (lower <= target) & (target <= upper)
        middle, half = 0.5 * (lower + upper)[:, -1], 0.5 * (upper - lower)[:, -1]
        display = cls(
            coverages=_COVERAGES,
            shares=inside[:, :-1].mean(axis=0),
            half_widths=half,
            errors=np.abs(target[:, 0] - middle),
            coverage=coverage,
            n_held_out=model.interval_["n_rows"],
        )
        return display.plot(axes=axes)

    def plot(self, *, axes: AxesLike = None) -> Self:
        """Draw on the two given axes, or on new ones."""
        self.figure_, self.axes_ = style.panels(axes, 1, 2, (8.0, 3.6))
        left, right = self.axes_
        promised = self.coverages
        grey: State = {"color": style.GREY, "linewidth": 0.8}
        chance = 1.0 / len(self.errors) + 1.0 / max(1, self.n_held_out)
        slack = 2.0 * np.sqrt(promised * (1.0 - promised) * chance)
        band: State = {"color": style.GREY, "alpha": 0.2, "linewidth": 0}
        left.fill_between(promised, promised - slack, promised + slack, **band)
        left.plot([0, 1], [0, 1], **grey)
        left.plot(promised, self.shares, "o-", color=style.BLUE, markersize=4)
        left.set(
            xlabel="promised coverage", ylabel="share of rows inside", xlim=(0, 1), ylim=(0, 1)
        )
        known = np.isfinite(self.half_widths)
        half, errors = self.half_widths[known], self.errors[known]
        some = slice(None, None, max(1, -(-len(half) // MAX_DOTS)))
        right.scatter(half[some], errors[some], s=6, color=style.BLUE, alpha=0.35, linewidths=0)
        if len(half):
            tenths = np.array_split(np.argsort(half, kind="stable"), min(10, len(half)))
            widths = [half[rows].mean() for rows in tenths]
            inside = [np.quantile(errors[rows], self.coverage) for rows in tenths]
            label = f"{self.coverage:.0%} of errors are below"
            right.plot(widths, inside, "o-", color=style.VERMILION, markersize=4, label=label)
            ends = [half.min(), half.max()]
            right.plot(ends, ends, label="end of the interval", **grey)
            right.legend(fontsize=8, frameon=False, loc="upper left")
        right.set(xlabel="half the width", ylabel="distance from the middle")
        for ax in self.axes_:
            finish(ax)
        return self
