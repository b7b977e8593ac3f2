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
    single_axes,
)

_COLOURS = dict(
    zip(
        ("gaussian", "matern52", "matern32", "matern12", "cauchy"),
        (BLUE, GREEN, ORANGE, VERMILION, PURPLE),
        strict=True,
    )
)
_MARKERS = "os^Dv"


class SelectionDisplay:
    """R² on held-out rows against speed, by kernel and rounds of the learned metric.

    Build it with `from_estimator`.

    Parameters
    ----------
    selection : dict of str to ndarray
        ``selection_`` of a `BandfallRegressor`.
    chosen : dict
        ``best_params_``.

    Attributes
    ----------
    figure_, ax_ : matplotlib Figure and Axes

    Examples
    --------
    >>> import matplotlib; matplotlib.use("agg")
    >>> from sklearn.datasets import make_friedman1
    >>> from bandfall import BandfallRegressor
    >>> from bandfall.plotting import SelectionDisplay
    >>> X, y = make_friedman1(60, random_state=0)
    >>> model = BandfallRegressor(kernels=("gaussian",), max_rounds=1).fit(X, y)
    >>> SelectionDisplay.from_estimator(model).ax_.get_ylabel()
    'R² on held-out rows'
    """

    def __init__(self, *, selection, chosen):
        self.selection = selection
        self.chosen = chosen

    @classmethod
    def from_estimator(cls, estimator, *, ax=None):
        """From a fitted `BandfallRegressor`, or a pipeline that ends with one."""
        model, _ = last_step(estimator)
        return cls(selection=model.selection_, chosen=model.best_params_).plot(ax=ax)

    def plot(self, *, ax=None):
        """Draw."""
        self.figure_, self.ax_ = single_axes(ax, figsize=(7.0, 4.0))
        table = self.selection
        largest = table["n_rows"] == table["n_rows"].max()
        for kernel, n_rounds, transform in dict.fromkeys(
            zip(table["kernel"], table["n_rounds"], table["transform"], strict=True)
        ):
            rows = (
                (table["kernel"] == kernel)
                & (table["n_rounds"] == n_rounds)
                & (table["transform"] == transform)
            )
            order = np.argsort(table["min_speed"][rows])
            label = f"{kernel}, {n_rounds} round{'' if n_rounds == 1 else 's'}"
            label += "" if transform == "standard" else f", {transform}"
            self.ax_.plot(
                table["min_speed"][rows][order],
                table["score"][rows][order],
                marker=_MARKERS[min(n_rounds, len(_MARKERS) - 1)],
                color=_COLOURS.get(kernel, GREY),
                linestyle="-" if transform == "standard" else ":",
                alpha=0.4 + 0.15 * min(n_rounds, 4),
                markersize=5,
                linewidth=1.2,
                label=label,
            )
        best = int(np.argmin(np.where(largest, table["loss"], np.inf)))
        self.ax_.scatter(
            table["min_speed"][best],
            table["score"][best],
            s=150,
            facecolors="none",
            edgecolors="black",
            linewidths=1.4,
            zorder=5,
            label="best on held-out rows",
        )
        self.ax_.set_xscale("log")
        self.ax_.set(xlabel="slowest accepted R² speed", ylabel="R² on held-out rows")
        floor = np.quantile(table["score"], 0.05)
        self.ax_.set_ylim(bottom=floor - 0.05 * (table["score"].max() - floor + 1e-9))
        self.ax_.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
        self.ax_.spines[["top", "right"]].set_visible(False)
        return self
