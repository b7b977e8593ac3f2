"""Coverage of intervals, and their widths against errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from bandfall._typing import ArrayLike, Estimator, TableLike
from bandfall.plotting._style import (
    BLUE,
    GREY,
    VERMILION,
    Axes,
    AxesLike,
    drawn_model,
    finish,
    panels,
)

_COVERAGES = np.arange(0.1, 0.96, 0.05)


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

    Examples
    --------
    >>> import matplotlib; matplotlib.use("agg")
    >>> from sklearn.datasets import make_friedman1
    >>> from bandfall import BandfallRegressor
    >>> from bandfall.plotting import IntervalDisplay
    >>> X, y = make_friedman1(120, noise=1.0, random_state=0)
    >>> model = BandfallRegressor(kernels=("gaussian",), max_rounds=0).fit(X[:60], y[:60])
    >>> IntervalDisplay.from_estimator(model, X[60:], y[60:]).axes_[0].get_xlabel()
    'promised coverage'
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
        axes: AxesLike | None = None,
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

    def plot(self, *, axes: AxesLike | None = None) -> Self:
        """Draw on the two given axes, or on new ones."""
        self.figure_, self.axes_ = panels(axes, 1, 2, (8.0, 3.6))
        self._draw_coverage(self.axes_[0])
        self._draw_widths(self.axes_[1])
        for ax in self.axes_:
            finish(ax)
        return self

    def _draw_coverage(self, ax: Axes) -> None:
        promised = self.coverages
        chance = 1.0 / len(self.errors) + 1.0 / max(1, self.n_held_out)
        slack = 2.0 * np.sqrt(promised * (1.0 - promised) * chance)
        ax.fill_between(promised, promised - slack, promised + slack, color=GREY, alpha=0.2, lw=0)
        ax.plot([0, 1], [0, 1], color=GREY, linewidth=0.8)
        ax.plot(promised, self.shares, "o-", color=BLUE, markersize=4)
        ax.set(xlabel="promised coverage", ylabel="share of rows inside", xlim=(0, 1), ylim=(0, 1))

    def _draw_widths(self, ax: Axes) -> None:
        known = np.isfinite(self.half_widths)
        half, errors = self.half_widths[known], self.errors[known]
        step = max(1, -(-len(half) // 2000))
        ax.scatter(half[::step], errors[::step], s=6, color=BLUE, alpha=0.35, linewidths=0)
        groups = np.array_split(np.argsort(half, kind="stable"), 10)
        groups = [group for group in groups if len(group)]
        ax.plot(
            [half[group].mean() for group in groups],
            [np.quantile(errors[group], self.coverage) for group in groups],
            "o-",
            color=VERMILION,
            markersize=4,
            label=f"{self.coverage:.0%} of errors are below",
        )
        if len(half):
            ends = np.array([half.min(), half.max()])
            ax.plot(ends, ends, color=GREY, linewidth=0.8, label="end of the interval")
            ax.legend(fontsize=8, frameon=False, loc="upper left")
        ax.set(xlabel="half the width", ylabel="distance from the middle")
