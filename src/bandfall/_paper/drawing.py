"""Drawing of the figures: colours, the axis of floors, curves with intervals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from bandfall._paper.curves import ErrorCurve, complexity
from bandfall._paper.experiment import Entry
from bandfall._typing import ArrayLike

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's palette, suitable for colour-blind readers, as on all pages.
DESCENT_COLOUR, RIDGE_COLOUR, TRUTH_COLOUR, DATA_COLOUR = "#0072B2", "#D55E00", "#8C8C8C", "#222222"

_STYLES = {
    "ridge_train": (RIDGE_COLOUR, "--", "constant bandwidth (KRR), training rows"),
    "descent_train": (DESCENT_COLOUR, "--", "falling bandwidth (KGD-D), training rows"),
    "ridge_test": (RIDGE_COLOUR, "-", "constant bandwidth (KRR), test rows"),
    "descent_test": (DESCENT_COLOUR, "-", "falling bandwidth (KGD-D), test rows"),
}
_TICKS = (1e5, 100, 10, 5, 2, 1, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.001, 0)


def new_figure(width: float, height: float) -> Figure:
    """An empty figure without a window; `width` in widths of a page, `height` in inches."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with matplotlib.rc_context({"font.size": 8}):
        figure = Figure(figsize=(7.0 * width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def draw_error_curves(ax: Axes, floors: np.ndarray, curves: Mapping[str, ErrorCurve]) -> None:
    """Mean and 90 % interval of 1 − R² against σ_m, simple models left."""
    x = complexity(floors)
    for name, (colour, line, label) in _STYLES.items():
        curve = curves[name]
        ax.fill_between(x, curve.lower, curve.upper, color=colour, alpha=0.15, linewidth=0)
        ax.plot(x, curve.mean, line, color=colour, linewidth=1.2, label=label)
    ax.set_xlim(x[0], x[-1])
    means = np.concatenate([curves[name].mean for name in ("ridge_test", "descent_test")])
    top = 1.15 * max(1.0, float(means.max()))
    ax.set_ylim(-0.02 * top, top)
    ax.spines[["top", "right"]].set_visible(False)
    floor_axis(ax, floors)


def floor_axis(ax: Axes, floors: np.ndarray) -> None:
    """Label the axis of complexities by bandwidths."""
    lowest, highest = float(np.min(floors)), float(np.max(floors))
    span = float(np.ptp(complexity(floors)))
    ticks: list[float] = []
    for tick in _TICKS:
        inside = 0.999 * lowest <= tick <= 1.001 * highest or (tick == 0 and lowest < 1e-3)
        if inside and (not ticks or complexity(tick) - complexity(ticks[-1]) > 0.09 * span):
            ticks.append(tick)
    ax.set_xticks(
        complexity(np.array(ticks)), ["$10^5$" if tick == 1e5 else f"{tick:g}" for tick in ticks]
    )
    ax.tick_params(labelsize=7)


def shared_legend(figure: Figure, *axes: Axes) -> None:
    """One legend below all panels, with the distinct labels of these axes."""
    entries: dict[str, Artist] = {}
    for ax in axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    figure.legend(
        entries.values(),
        entries.keys(),
        loc="outside lower center",
        ncol=len(entries) if sum(map(len, entries)) < 100 else (len(entries) + 1) // 2,
        frameon=False,
        fontsize=7.5,
        columnspacing=1.2,
    )


def draw_fit(
    ax: Axes, result: Entry, fits: Mapping[str, tuple[str, ArrayLike]], limits: tuple[float, float]
) -> None:
    """Training points, the true function, and fits by label: (colour, values)."""
    x_grid = result["x_grid"]
    ax.plot(x_grid, result["truth"], color=TRUTH_COLOUR, linewidth=1.0, label="true function")
    for label, (colour, values) in fits.items():
        ax.plot(x_grid, values, color=colour, linewidth=1.1, label=label)
    ax.plot(result["x"], result["y"], ".", color=DATA_COLOUR, markersize=3.5, label="training data")
    ax.set_ylim(*limits)
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(labelsize=7)
