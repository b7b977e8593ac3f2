"""What a self-tuning regressor tried, and what it took."""

from __future__ import annotations

import numpy as np

from bandfall.plotting._style import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    VERMILION,
    last_step,
    pyplot,
)

_COLOURS = dict(
    zip(
        ("gaussian", "matern52", "matern32", "matern12", "cauchy"),
        (BLUE, GREEN, ORANGE, VERMILION, PURPLE),
        strict=True,
    )
)


class SelectionDisplay:
    """R² on held-out rows against rounds of the learned metric, and against speed.

    Left: the best speed of each kernel after every round. Right: the speeds at the best number
    of rounds; dashed where more rows were used, hollow for the other feature transform. Build it
    with `from_estimator`.

    Parameters
    ----------
    selection : dict of str to ndarray
        ``selection_`` of a `BandfallRegressor`.

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

    def __init__(self, *, selection):
        self.selection = selection

    @classmethod
    def from_estimator(cls, estimator, *, axes=None):
        """From a fitted `BandfallRegressor`, or a pipeline that ends with one."""
        model, _ = last_step(estimator)
        return cls(selection=model.selection_).plot(axes=axes)

    def plot(self, *, axes=None):
        """Draw, on two axes of the caller's or on new ones."""
        if axes is None:
            _, axes = pyplot().subplots(1, 2, figsize=(8.0, 3.4), sharey=True, layout="constrained")
        self.axes_ = np.asarray(axes, dtype=object).ravel()
        if len(self.axes_) != 2:
            raise ValueError(f"axes must be two; got {len(self.axes_)}")
        self.figure_ = self.axes_[0].figure
        table = self.selection
        if len(table["loss"]):
            self._draw_rounds(self.axes_[0])
            self._draw_speeds(self.axes_[1])
            scores = np.sort(table["score"])
            floor = scores[len(scores) // 20]
            self.axes_[0].set_ylim(bottom=floor - 0.05 * (scores[-1] - floor + 1e-9))
        self.axes_[0].set(xlabel="rounds of the learned metric", ylabel="R² on held-out rows")
        self.axes_[1].set(xlabel="slowest accepted R² speed")
        for ax in self.axes_:
            ax.spines[["top", "right"]].set_visible(False)
        return self

    def _draw_rounds(self, ax):
        table = self.selection
        first = (table["n_rows"] == table["n_rows"][0]) & (table["transform"] == "standard")
        for kernel in dict.fromkeys(table["kernel"][first]):
            ours = first & (table["kernel"] == kernel)
            rounds = np.unique(table["n_rounds"][ours])
            best = [table["score"][ours & (table["n_rounds"] == r)].max() for r in rounds]
            if len(rounds) > 1:
                ax.plot(rounds, best, "o-", color=_COLOURS.get(kernel, GREY), markersize=4)
        ax.xaxis.get_major_locator().set_params(integer=True)

    def _draw_speeds(self, ax):
        table = self.selection
        largest = table["n_rows"] == table["n_rows"].max()
        best = int(np.argmin(np.where(largest, table["loss"], np.inf)))
        shown = table["n_rounds"] == table["n_rounds"][best]
        groups = zip(table["kernel"], table["n_rows"], table["transform"], strict=True)
        labelled = set()
        for kernel, n_rows, transform in dict.fromkeys(groups):
            ours = shown & (table["kernel"] == kernel)
            ours &= (table["n_rows"] == n_rows) & (table["transform"] == transform)
            order = np.flatnonzero(ours)[np.argsort(table["min_speed"][ours])]
            if not len(order):
                continue
            ax.plot(
                table["min_speed"][order],
                table["score"][order],
                linestyle="-" if n_rows == table["n_rows"][0] else "--",
                marker="o",
                markersize=4,
                markerfacecolor=None if transform == "standard" else "none",
                color=_COLOURS.get(kernel, GREY),
                label=None if kernel in labelled else kernel,
            )
            labelled.add(kernel)
        ax.scatter(
            table["min_speed"][best],
            table["score"][best],
            s=150,
            facecolors="none",
            edgecolors="black",
            linewidths=1.4,
            zorder=5,
            label="best on held-out rows",
        )
        ax.set_xscale("log")
        ax.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
