"""The terms of the generalization bound over training time."""

from __future__ import annotations

import numpy as np

from bandfall.plotting._style import (
    BLUE,
    GREY,
    VERMILION,
    finish,
    last_step,
    single_axes,
)
from bandfall.theory import generalization_bound
from bandfall.theory.inputs import as_path


class BoundDisplay:
    """Both kernel-dependent terms of Equation 5 over training time.

    Build it with `from_estimator` or `from_path`.

    Parameters
    ----------
    bound : GeneralizationBound
    error_time : ndarray of shape (S,), optional
    error : ndarray of shape (S, m), optional
        Errors that were measured, to draw beside the bound.

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

    def __init__(self, *, bound, error_time=None, error=None):
        self.bound = bound
        self.error_time = error_time
        self.error = error

    @classmethod
    def from_estimator(cls, estimator, X_new, y_new=None, *, ax=None, **settings):
        """Draw the bound of a fitted `KernelDescentRegressor`, or a pipeline ending in one.

        Parameters
        ----------
        estimator : fitted estimator
        X_new : array-like of shape (m, d)
        y_new : array-like of shape (m,), optional
            The true values there: then the errors after each stage are drawn too.
        ax : matplotlib Axes, optional
        **settings
            For `bandfall.theory.generalization_bound`: `derivative_bound` and `noise`, which
            make C known, and `residual`.

        Returns
        -------
        BoundDisplay
        """
        model, X_new = last_step(estimator, X_new)
        return cls.from_path(as_path(model), X_new, y_new, ax=ax, **settings)

    @classmethod
    def from_path(cls, path, X_new, y_new=None, *, ax=None, **settings):
        """Draw the bound of a `Path`; parameters as for `from_estimator`."""
        bound = generalization_bound(path, X_new, **settings)
        if y_new is None:
            return cls(bound=bound).plot(ax=ax)
        y_new = np.asarray(y_new, dtype=float)
        if len(path.scale) > 1 or y_new.shape != bound.constant.shape:
            raise ValueError(
                f"y_new must be one target of shape {bound.constant.shape}; got {y_new.shape}"
            )
        staged = path.evaluate_staged(np.asarray(X_new, dtype=path.X.dtype))[:, :, 0]
        error = np.abs(np.concatenate([np.full((1, len(y_new)), path.offset[0]), staged]) - y_new)
        ends = [stage.time + stage.duration for stage in path.stages]
        return cls(bound=bound, error_time=np.array([0.0, *ends]), error=error).plot(ax=ax)

    def plot(self, *, ax=None):
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional

        Returns
        -------
        self
        """
        self.figure_, self.ax_ = single_axes(ax)
        bound = self.bound
        self.ax_.plot(
            bound.time, bound.training, color=BLUE, linewidth=1.8, label="training: $e^{-t\\bar s}$"
        )
        self._band(
            bound.time, bound.shift, VERMILION, "shift: $\\overline{Δk_2}\\int e^{-τ\\bar s}dτ$"
        )
        if not np.isnan(bound.constant).any():
            self._band(bound.time, bound.total, GREY, "total, with C", linestyle="--")
        if self.error is not None:
            self._band(self.error_time, self.error, "black", "error $|\\hat f - f|$", linestyle=":")
        self.ax_.set(xlabel="training time t", ylabel="terms of the bound")
        self.ax_.set_yscale("log")
        self._limit()
        finish(self.ax_)
        self.ax_.legend(frameon=False, fontsize="small")
        return self

    def _band(self, time, values, colour, label, linestyle="-"):
        low, median, high = np.quantile(values, [0.05, 0.5, 0.95], axis=1)
        self.ax_.plot(time, median, color=colour, linewidth=1.6, label=label, linestyle=linestyle)
        if values.shape[1] > 1:
            self.ax_.fill_between(time, low, high, color=colour, alpha=0.15, linewidth=0)

    def _limit(self):
        """Leave out the climb of the second term from zero."""
        top = np.nanmax([self.bound.training.max(), self.bound.shift.max(), self.bound.scale])
        self.ax_.set_ylim(1e-3 * max(self.bound.scale, np.finfo(float).tiny), 3.0 * top)
