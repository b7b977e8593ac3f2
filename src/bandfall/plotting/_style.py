"""Helpers of the displays: matplotlib on demand, axes, colours, pipelines."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from sklearn.utils.validation import check_is_fitted

from bandfall._estimators.view import last_step, steps_before
from bandfall._typing import Estimator, TableLike

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase
else:
    Axes = object  # displays annotate with it, before matplotlib is imported

AxesLike: TypeAlias = "Axes | Sequence[Axes] | np.ndarray"

# Readable in print and for colour-blind eyes (Okabe and Ito).
BLUE, ORANGE, GREEN, VERMILION, PURPLE = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7"
GREY = "#666666"


def pyplot() -> ModuleType:
    """matplotlib.pyplot, imported only when a display is drawn."""
    try:
        from matplotlib import pyplot as plt
    except ImportError as error:
        raise ImportError("displays need matplotlib: pip install matplotlib") from error
    return plt


def single_axes(ax: Axes | None) -> tuple[FigureBase, Axes]:
    """(figure, axes) to draw on: the given ones, or new ones."""
    if ax is not None:
        return ax.figure, ax
    figure, ax = pyplot().subplots(figsize=(6.0, 3.8), layout="constrained")
    return figure, ax


def axes_in_a_row(
    axes: AxesLike | None, n_axes: int, figsize: tuple[float, float], *, sharey: bool = False
) -> tuple[FigureBase, np.ndarray]:
    """(figure, array of axes in a row): the given ones, or new ones."""
    if axes is None:
        _, axes = pyplot().subplots(
            1, n_axes, figsize=figsize, layout="constrained", sharey=sharey, squeeze=False
        )
    given = np.asarray(axes, dtype=object).ravel()
    if len(given) != n_axes:
        raise ValueError(f"give {n_axes} axes, one for each panel; got {len(given)}")
    return given[0].figure, given


def stacked_axes(
    ax: AxesLike | None, n_axes: int, figsize: tuple[float, float]
) -> tuple[FigureBase, np.ndarray]:
    """(figure, array of stacked axes): the given ones, one divided into several, or new ones."""
    if ax is None:
        return pyplot().subplots(
            n_axes, 1, sharex=True, figsize=figsize, layout="constrained", squeeze=True
        )
    given = np.atleast_1d(np.asarray(ax, dtype=object)).ravel()
    if len(given) == n_axes:
        return given[0].figure, given
    if len(given) != 1:
        raise ValueError(f"ax must be one axes or {n_axes} of them; got {len(given)}")
    figure, place = given[0].figure, given[0].get_subplotspec()
    if place is None:
        raise ValueError("ax must come from a subplot grid to be divided; pass three axes instead")
    given[0].remove()
    grid = place.subgridspec(n_axes, 1)
    first = figure.add_subplot(grid[0])
    return figure, np.array(
        [first, *(figure.add_subplot(grid[i], sharex=first) for i in range(1, n_axes))]
    )


def drawn_model(estimator: Estimator, X: TableLike = None) -> tuple[Estimator, TableLike]:
    """A pipeline's last step and its input for X; any other estimator, and X, unchanged."""
    before = steps_before(estimator)
    if before is not None:
        check_is_fitted(estimator)
        X = None if X is None else before.transform(X)
    return last_step(estimator), X


def check_time_scale(time_scale: str) -> None:
    """Raise ValueError unless this is a scale of the time axis."""
    if time_scale not in ("linear", "log"):
        raise ValueError(f"time_scale={time_scale!r} is unknown; allowed: 'linear', 'log'")


def finish(ax: Axes) -> None:
    """Remove two spines and add a light grid."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(True, color="#dddddd", linewidth=0.6)
    ax.set_axisbelow(True)
