"""The terms of the generalization bound over training time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from bandfall._typing import ArrayLike, Estimator, TableLike
from bandfall.plotting._style import (
    BLUE,
    GREEN,
    VERMILION,
    Axes,
    check_time_scale,
    drawn_model,
    finish,
    single_axes,
)
from bandfall.theory import GeneralizationBound, generalization_bound
from bandfall.theory._inputs import as_path, path_rows

# Labels of the two terms of the bound, by kind of residual.
_LABELS = {
    "bound": ("training: $e^{-t\\bar s}$", "shift: $\\overline{Δk_2}\\int e^{-τ\\bar s}dτ$"),
    "measured": ("training: $\\|r\\|$", "shift: $\\overline{Δk_2}\\int \\|r\\|dτ$"),
}


@dataclass(kw_only=True, eq=False, repr=False)
class BoundDisplay:
    """Both kernel-dependent terms of Equation 5 over training time.

    Build it with `from_estimator`.

    Parameters
    ----------
    bound : GeneralizationBound
    error_time : ndarray of shape (S,), optional
    error : ndarray of shape (S, m), optional
        Measured errors, to draw with the bound.
    residual : {"bound", "measured"}
        The setting that `bound` was computed with.

    Attributes
    ----------
    figure_ : matplotlib Figure
    ax_ : matplotlib Axes

    Examples
    --------
    >>> import matplotlib; matplotlib.use("agg")
    >>> import numpy as np
    >>> from bandfall import KernelDescentRegressor
    >>> from bandfall.plotting import BoundDisplay
    >>> X = np.linspace(-1, 1, 20)[:, None]
    >>> model = KernelDescentRegressor().fit(X, np.sin(3 * X[:, 0]))
    >>> display = BoundDisplay.from_estimator(model, X[:-1] + 0.05)
    >>> display.ax_.get_xlabel()
    'training time t'
    """

    bound: GeneralizationBound
    error_time: np.ndarray | None = None
    error: np.ndarray | None = None
    residual: str = "bound"

    @classmethod
    def from_estimator(
        cls,
        estimator: Estimator,
        X_new: TableLike,
        y_new: ArrayLike | None = None,
        *,
        ax: Axes | None = None,
        time_scale: str = "linear",
        **settings: Any,
    ) -> Self:
        """Draw the bound of a fitted `KernelDescentRegressor`, or a pipeline ending in one.

        Parameters
        ----------
        estimator : fitted estimator, or Path
        X_new : array-like of shape (m, d)
        y_new : array-like of shape (m,), optional
            The true values; if given, the errors over time are drawn too.
        ax : matplotlib Axes, optional
        time_scale : {"linear", "log"}
        **settings
            For `bandfall.theory.generalization_bound`: `derivative_bound` and `noise`, which
            make C known, and `residual`.

        Returns
        -------
        BoundDisplay
        """
        model, X_new = drawn_model(estimator, X_new)
        path, X_new = as_path(model), path_rows(model, X_new)
        bound = generalization_bound(path, X_new, **settings)
        residual = settings.get("residual", "bound")
        if y_new is None:
            return cls(bound=bound, residual=residual).plot(ax=ax, time_scale=time_scale)
        y_new = np.asarray(y_new, dtype=float)
        if len(path.scale) > 1 or y_new.shape != bound.constant.shape:
            raise ValueError(
                f"y_new must be one target of shape {bound.constant.shape}; got {y_new.shape}"
            )
        # A stage of the flow may be long, so errors are also computed inside it.
        shown = np.linspace(0, len(bound.time) - 1, 60).astype(int)
        times = np.unique(bound.time[shown])
        X_new = np.asarray(X_new, dtype=path.X.dtype)
        error = [np.abs(path.truncate(time=t).evaluate(X_new)[:, 0] - y_new) for t in times]
        display = cls(bound=bound, error_time=times, error=np.array(error), residual=residual)
        return display.plot(ax=ax, time_scale=time_scale)

    def plot(self, *, ax: Axes | None = None, time_scale: str = "linear") -> Self:
        """Draw; parameters as for `from_estimator`."""
        check_time_scale(time_scale)
        self.figure_, self.ax_ = single_axes(ax)
        bound = self.bound
        first, second = _LABELS[self.residual]
        self.ax_.plot(bound.time, bound.training, color=BLUE, linewidth=1.8, label=first)
        self._band(bound.time, bound.shift, VERMILION, second)
        if not np.isnan(bound.constant).any():
            total = np.median(bound.total, axis=1)
            label = "total with C"
            self.ax_.plot(bound.time, total, color="black", lw=1.0, ls="--", label=label)
        if self.error is not None and self.error_time is not None:
            self._band(self.error_time, self.error, GREEN, "error $|\\hat f - f|$")
        self.ax_.set(xlabel="training time t", ylabel="terms of the bound", yscale="log")
        self._limit()
        if time_scale == "log" and len(bound.time) > 1:
            self.ax_.set(xscale="log", xlim=(bound.time[1], bound.time[-1]))
        finish(self.ax_)
        self.ax_.legend(frameon=False, fontsize="small")
        return self

    def _band(self, time: np.ndarray, values: np.ndarray, colour: str, label: str) -> None:
        """Draw the median over points and a band with 90 % of them."""
        low, median, high = np.quantile(values, [0.05, 0.5, 0.95], axis=1)
        self.ax_.plot(time, median, color=colour, linewidth=1.8, label=label)
        if values.shape[1] > 1:
            self.ax_.fill_between(time, low, high, color=colour, alpha=0.15, linewidth=0)

    def _limit(self) -> None:
        """Set limits without the initial rise of the second term from zero."""
        top = np.nanmax([self.bound.training.max(), self.bound.shift.max(), self.bound.scale])
        self.ax_.set_ylim(1e-3 * max(self.bound.scale, np.finfo(float).tiny), 3.0 * top)
