"""What the figures share: colours, panels of fits, one legend."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from bandfall._paper.experiment import Entry
from bandfall._typing import ArrayLike

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's palette, suitable for colour-blind readers, as on all pages.
DESCENT_COLOUR, RIDGE_COLOUR, TRUTH_COLOUR, DATA_COLOUR = "#0072B2", "#D55E00", "#8C8C8C", "#222222"


def new_figure(width: float, height: float) -> Figure:
    """An empty figure without a window; `width` in widths of a page, `height` in inches."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with matplotlib.rc_context({"font.size": 8}):
        figure = Figure(figsize=(7.0 * width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


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
        columnspacing=0.8,
        handlelength=1.6,
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
