"""Displays of the theory: the bound over time, the kernel shift, double descent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import clone

from bandfall._checks import check_choice
from bandfall._estimators.view import last_step, last_step_prefix
from bandfall._typing import ArrayLike, Estimator, State, TableLike
from bandfall.plotting import _style as style
from bandfall.plotting._style import Axes, drawn_model, finish
from bandfall.theory import (
    GeneralizationBound,
    degrees_of_freedom,
    expected_kernel_shift,
    generalization_bound,
    kernel_shift,
    shift_regions,
)
from bandfall.theory._inputs import as_path, path_rows, rows
from bandfall.theory._trajectory import Trajectory

# Labels of the two terms of the bound, by kind of residual.
_LABELS = {
    "bound": ("training: $e^{-t\\bar s}$", "shift: $\\overline{Δk_2}\\int e^{-τ\\bar s}dτ$"),
    "measured": ("training: $\\|r\\|$", "shift: $\\overline{Δk_2}\\int \\|r\\|dτ$"),
}
_REGIONS = (("one", style.GREEN), ("peak", style.ORANGE), ("zero", style.BLUE))


@dataclass(kw_only=True, eq=False, repr=False)
class BoundDisplay:
    """Both kernel-dependent terms of Equation 5 over training time; see `from_estimator`.

    Parameters
    ----------
    bound : GeneralizationBound
    error_time, error : ndarray of shape (S,) and (S, m), optional
        Measured errors, to draw with the bound.
    residual : {"bound", "measured"}
        The setting that `bound` was computed with.

    Attributes
    ----------
    figure_, ax_ : matplotlib Figure and Axes
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
        **settings: Any,
    ) -> Self:
        """Draw the bound of a fitted `KernelDescentRegressor`, or a pipeline ending in one.

        With the true values `y_new` of shape (m,), the errors over time are drawn too. The settings
        are those of `bandfall.theory.generalization_bound`.
        """
        model, X_new = drawn_model(estimator, X_new)
        path, X_new = as_path(model), path_rows(model, X_new)
        bound = generalization_bound(path, X_new, **settings)
        residual = settings.get("residual", "bound")
        if y_new is None:
            return cls(bound=bound, residual=residual).plot(ax=ax)
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
        return display.plot(ax=ax)

    def plot(self, *, ax: Axes | None = None) -> Self:
        """Draw on the given axes, or on new ones."""
        self.figure_, self.ax_ = style.single_axes(ax)
        bound = self.bound
        first, second = _LABELS[self.residual]
        self.ax_.plot(bound.time, bound.training, color=style.BLUE, linewidth=1.8, label=first)
        self._band(bound.time, bound.shift, style.VERMILION, second)
        if not np.isnan(bound.constant).any():
            dashed: State = {"color": "black", "linewidth": 1.0, "linestyle": "--"}
            self.ax_.plot(
                bound.time, np.median(bound.total, axis=1), label="total with C", **dashed
            )
        if self.error is not None and self.error_time is not None:
            self._band(self.error_time, self.error, style.GREEN, "error $|\\hat f - f|$")
        self.ax_.set(xlabel="training time t", ylabel="terms of the bound", yscale="log")
        # The second term rises from zero, which a logarithmic axis cannot show.
        top = np.nanmax([bound.training.max(), bound.shift.max(), bound.scale])
        self.ax_.set_ylim(1e-3 * max(bound.scale, np.finfo(float).tiny), 3.0 * top)
        finish(self.ax_)
        self.ax_.legend(**style.SMALL)
        return self

    def _band(self, time: np.ndarray, values: np.ndarray, colour: str, label: str) -> None:
        """Draw the median over points and a band with 90 % of them."""
        low, median, high = np.quantile(values, [0.05, 0.5, 0.95], axis=1)
        self.ax_.plot(time, median, color=colour, linewidth=1.8, label=label)
        if values.shape[1] > 1:
            self.ax_.fill_between(time, low, high, color=colour, alpha=0.15, linewidth=0)


@dataclass(kw_only=True, eq=False, repr=False)
class KernelShiftDisplay:
    """Δk₂ as a function of the bandwidth, with its one-, peak- and zero-region shaded.

    Every stage of the path is a dot on the median curve; its area is the stage's share of
    ∫‖y − f̂‖dt, the weight of Δk̄₂ in Theorem 1. See `from_estimator`.

    Parameters
    ----------
    bandwidths : ndarray of shape (B,)
        Rising and positive.
    shift : ndarray of shape (B, m)
        Δk₂ for m points.
    expected : ndarray of shape (B,), optional
        √E(Δk₂²) of Proposition 1.
    path_bandwidths, path_weights : ndarray of shape (S,)
        Bandwidths of a path, and the share of each in ∫‖y − f̂‖dt.

    Attributes
    ----------
    regions_ : ShiftRegions
        Those of the median curve.
    figure_, ax_ : matplotlib Figure and Axes
    """

    bandwidths: np.ndarray
    shift: np.ndarray
    expected: np.ndarray | None
    path_bandwidths: np.ndarray
    path_weights: np.ndarray

    @classmethod
    def from_estimator(
        cls,
        estimator: Estimator,
        X_new: TableLike,
        *,
        bandwidths: ArrayLike | None = None,
        ax: Axes | None = None,
    ) -> Self:
        """Draw Δk₂ between the training rows of a fitted path and new points.

        The bandwidths are by default more than a decade beyond the range of the data and the path.
        """
        model, new = drawn_model(estimator, X_new)
        path, new = as_path(model), path_rows(model, new)
        X = rows(path.X, "X")
        if bandwidths is None:  # from well below the typical gap between rows to their spread
            spread = float(np.linalg.norm(X.std(axis=0))) or 1.0
            bandwidths = np.geomspace(1e-4 * spread, 1e2 * spread, 120)
        bandwidths = np.sort(np.asarray(bandwidths, dtype=float))
        expected = None
        if path.weights is None and len(X) >= 4:
            expected = np.sqrt(expected_kernel_shift(X, path.kernel, bandwidths))
        trajectory = Trajectory.from_path(path)
        weights = np.bincount(
            trajectory.bandwidth_index, trajectory.residual_integral, len(trajectory.bandwidths)
        )
        display = cls(
            bandwidths=bandwidths,
            shift=kernel_shift(X, new, path.kernel, bandwidths, weights=path.weights),
            expected=expected,
            path_bandwidths=trajectory.bandwidths,
            path_weights=weights / max(weights.sum(), np.finfo(float).tiny),
        )
        return display.plot(ax=ax)

    def plot(self, *, ax: Axes | None = None) -> Self:
        """Draw on the given axes, or on new ones."""
        self.figure_, self.ax_ = style.single_axes(ax)
        low, median, high = np.quantile(self.shift, [0.25, 0.5, 0.75], axis=1)
        self.regions_ = shift_regions(self.bandwidths, median)
        self._shade()
        several = self.shift.shape[1] > 1
        if several:
            band: State = {"color": style.BLUE, "alpha": 0.2, "linewidth": 0, "label": "quartiles"}
            self.ax_.fill_between(self.bandwidths, low, high, **band)
        label = "median Δk₂" if several else "Δk₂"
        self.ax_.plot(self.bandwidths, median, color=style.BLUE, linewidth=1.8, label=label)
        if self.expected is not None:
            dashed: State = {"color": style.GREY, "linestyle": "--", "linewidth": 1.2}
            label = "√E(Δk₂²), Proposition 1"
            self.ax_.plot(self.bandwidths, self.expected, label=label, **dashed)
        at = np.clip(self.path_bandwidths, self.bandwidths[0], self.bandwidths[-1])
        on_curve = np.interp(np.log(at), np.log(self.bandwidths), median)
        dots: State = {"color": style.VERMILION, "alpha": 0.55}
        area = 1500.0 * self.path_weights
        self.ax_.scatter(at, on_curve, s=area, linewidths=0, zorder=3, clip_on=False, **dots)
        label = "training, area = ∫‖y − f̂‖dt"
        self.ax_.plot([], [], "o", markeredgewidth=0, label=label, **dots)
        limits = (self.bandwidths[0], self.bandwidths[-1])
        self.ax_.set(xscale="log", xlim=limits, xlabel="bandwidth σ", ylabel="kernel shift Δk₂")
        self.ax_.set_ylim(bottom=0.0)
        finish(self.ax_)
        self.ax_.legend(loc="upper left", **style.SMALL)
        return self

    def _shade(self) -> None:
        left, right = self.bandwidths[0], self.bandwidths[-1]
        ends = np.clip([left, *self.regions_, right], left, right)
        place = self.ax_.get_xaxis_transform()
        for (name, colour), start, end in zip(_REGIONS, ends[:-1], ends[1:], strict=True):
            if start < end:
                self.ax_.axvspan(start, end, color=colour, alpha=0.09, linewidth=0)
                how: State = {"color": colour, "weight": "bold", "fontsize": "small"}
                middle = np.sqrt(start * end)
                self.ax_.text(middle, 1.01, name, ha="center", transform=place, **how)


@dataclass(kw_only=True, eq=False, repr=False)
class DoubleDescentDisplay:
    """Training and test error, as 1 − R², against model complexity; see `from_estimator`.

    Parameters
    ----------
    bandwidths : ndarray of shape (B,)
        Floors σ_m of a descent, or bandwidths of a constant-bandwidth model.
    train_error, test_error : ndarray of shape (B,)
        1 − R².
    degrees_of_freedom : ndarray of shape (B,)

    Attributes
    ----------
    figure_, ax_ : matplotlib Figure and Axes

    Examples
    --------
    >>> import matplotlib; matplotlib.use("agg")
    >>> from bandfall import KernelDescentRegressor
    >>> from bandfall.datasets import make_sine
    >>> from bandfall.plotting import DoubleDescentDisplay
    >>> X, y, X_test, y_test = make_sine(random_state=8)
    >>> display = DoubleDescentDisplay.from_estimator(
    ...     KernelDescentRegressor(max_time=100), X, y, X_test, y_test, bandwidths=[1.0, 0.3, 0.01]
    ... )
    >>> bool(display.train_error[-1] < display.train_error[0])
    True
    """

    bandwidths: np.ndarray
    train_error: np.ndarray
    test_error: np.ndarray
    degrees_of_freedom: np.ndarray

    @classmethod
    def from_estimator(
        cls,
        estimator: Estimator,
        X: ArrayLike,
        y: ArrayLike,
        X_test: ArrayLike,
        y_test: ArrayLike,
        *,
        bandwidths: ArrayLike | None = None,
        x: str = "bandwidth",
        ax: Axes | None = None,
        label: str | None = None,
        color: str = style.BLUE,
    ) -> Self:
        """Fit a clone at each bandwidth and draw both errors.

        Parameters
        ----------
        estimator : estimator or pipeline ending in one
            `min_bandwidth` is varied if the (last) estimator has it, else `bandwidth`.
            For double descent, train to a fixed time: ``max_time=1000, max_r2=1``.
        X, y, X_test, y_test : array-like
        bandwidths : array-like, optional
            By default 30 between a thousandth of the spread of X and the spread.
        x : {"bandwidth", "degrees_of_freedom"}
        ax : matplotlib Axes, optional
            Several estimators may share one.
        label : str, optional
            By default the estimator's name.
        color : matplotlib color
        """
        model = last_step(estimator)
        names = [n for n in ("min_bandwidth", "bandwidth") if n in model.get_params()]
        if not names:
            raise ValueError(f"{type(model).__name__} has neither min_bandwidth nor bandwidth")
        prefix = last_step_prefix(estimator)
        if bandwidths is None:
            spread = float(np.linalg.norm(np.ptp(np.asarray(X, dtype=float), axis=0)))
            bandwidths = np.geomspace(spread, 1e-3 * spread, 30)
        bandwidths = np.sort(np.asarray(bandwidths, dtype=float))[::-1]
        train, test, freedom = np.empty((3, len(bandwidths)))
        for i, bandwidth in enumerate(bandwidths):
            fitted = clone(estimator).set_params(**{prefix + names[0]: float(bandwidth)})
            fitted.fit(X, y)
            train[i] = 1.0 - fitted.score(X, y)
            test[i] = 1.0 - fitted.score(X_test, y_test)
            freedom[i] = degrees_of_freedom(last_step(fitted))
        display = cls(
            bandwidths=bandwidths, train_error=train, test_error=test, degrees_of_freedom=freedom
        )
        label = type(model).__name__ if label is None else label
        return display.plot(ax=ax, x=x, label=label, color=color)

    def plot(
        self,
        *,
        ax: Axes | None = None,
        x: str = "bandwidth",
        label: str | None = "",
        color: str = style.BLUE,
    ) -> Self:
        """Draw; parameters as for `from_estimator`, both axes run from simple to complex."""
        check_choice("x", x, "bandwidth", "degrees_of_freedom")
        at = self.bandwidths if x == "bandwidth" else self.degrees_of_freedom
        self.figure_, self.ax_ = style.single_axes(ax)
        before = self.ax_.get_ylim()[1] if self.ax_.has_data() else 0.0
        prefix, order = f"{label}, " if label else "", np.argsort(at)
        for errors, name, width, dash in (
            (self.test_error, "test", 1.9, "-"),
            (self.train_error, "training", 1.3, "--"),
        ):
            how: State = {"color": color, "linewidth": width, "linestyle": dash}
            self.ax_.plot(at[order], errors[order], label=f"{prefix}{name}", **how)
        highest = max(1.0, float(self.test_error.max()), float(self.train_error.max()))
        self.ax_.set(ylim=(0.0, max(before, min(2.0, 1.15 * highest))), ylabel="error, $1 - R^2$")
        self.ax_.axhline(1.0, color=style.GREY, linewidth=0.8, linestyle=":")
        if x == "bandwidth":
            self.ax_.set(xscale="log", xlabel="smallest bandwidth σ  (complexity →)")
            self.ax_.xaxis.set_inverted(True)
        else:
            self.ax_.set(xlabel="degrees of freedom")
        finish(self.ax_)
        self.ax_.legend(**style.SMALL)
        return self
