"""Helpers of the displays: matplotlib on demand, axes, colours, pipelines."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from sklearn.utils.validation import check_is_fitted

from bandfall._estimators.view import last_step, steps_before
from bandfall._typing import Estimator, State, TableLike

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase
else:
    Axes = object  # displays annotate with it, before matplotlib is imported

AxesLike: TypeAlias = "Axes | Sequence[Axes] | np.ndarray | None"  # None for new axes

# Readable in print and for colour-blind eyes (Okabe and Ito).
BLUE, ORANGE, GREEN, VERMILION, PURPLE = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7"
GREY = "#666666"
SMALL: State = {"frameon": False, "fontsize": "small"}  # of legends


def pyplot() -> ModuleType:
    """matplotlib.pyplot, imported only when a display is drawn."""
    try:
        from matplotlib import pyplot as plt
    except ImportError as error:
        raise ImportError("displays need matplotlib: pip install matplotlib") from error
    return plt


def panels(
    axes: AxesLike, n_rows: int, n_columns: int, figsize: tuple[float, float], **share: bool
) -> tuple[FigureBase, np.ndarray]:
    """(figure, array of axes): the given ones, one for each panel, or new ones."""
    if axes is None:
        how: State = {"figsize": figsize, "layout": "constrained", "squeeze": False}
        _, axes = pyplot().subplots(n_rows, n_columns, **how, **share)
    given = np.asarray(axes, dtype=object).ravel()
    if len(given) != n_rows * n_columns:
        raise ValueError(f"give {n_rows * n_columns} axes, one for each panel; got {len(given)}")
    return given[0].figure, given


def single_axes(ax: Axes | None) -> tuple[FigureBase, Axes]:
    """(figure, axes) to draw on: the given ones, or new ones."""
    figure, (ax,) = panels(ax, 1, 1, (6.0, 3.8))
    return figure, ax


def drawn_model(estimator: Estimator, X: TableLike = None) -> tuple[Estimator, TableLike]:
    """A pipeline's last step and its input for X; any other estimator, and X, unchanged."""
    before = steps_before(estimator)
    if before is not None:
        check_is_fitted(estimator)
        X = None if X is None else before.transform(X)
    return last_step(estimator), X


def finish(ax: Axes) -> None:
    """Remove two spines and add a light grid."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(True, color="#dddddd", linewidth=0.6)
    ax.set_axisbelow(True)
