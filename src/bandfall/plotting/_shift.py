"""The kernel shift over bandwidths, its three regions, and where training took place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from bandfall._typing import ArrayLike, Estimator, State, TableLike, Weights
from bandfall.kernels._kernel import Kernel, KernelLike, get_kernel
from bandfall.plotting._style import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    VERMILION,
    Axes,
    drawn_model,
    finish,
    single_axes,
)
from bandfall.theory import expected_kernel_shift, kernel_shift, shift_regions
from bandfall.theory._inputs import as_path, path_rows, rows
from bandfall.theory._trajectory import Trajectory


@dataclass(kw_only=True, eq=False, repr=False)
class KernelShiftDisplay:
    """Δk₂ as a function of the bandwidth, with its one-, peak- and zero-region shaded.

    Build it with `from_estimator`, which also shows where training took place, or `from_data`.

    Parameters
    ----------
    bandwidths : ndarray of shape (B,)
        Rising and positive.
    shift : ndarray of shape (B, m)
        Δk₂ for m points.
    expected : ndarray of shape (B,), optional
        √E(Δk₂²) of Proposition 1.
    path_bandwidths, path_weights : ndarray of shape (S,), optional
        Bandwidths of a path, and the share of each in ∫‖y − f̂‖dt.

    Attributes
    ----------
    regions_ : ShiftRegions
        End of the one-region and start of the zero-region of the median curve.
    figure_ : matplotlib Figure
    ax_ : matplotlib Axes

    Examples
    --------
    >>> import matplotlib; matplotlib.use("agg")
    >>> import numpy as np
    >>> from bandfall.plotting import KernelShiftDisplay
    >>> X = np.random.default_rng(0).normal(size=(30, 2))
    >>> display = KernelShiftDisplay.from_data(X[:25], X[25:])
    >>> bool(display.regions_.one_below < display.regions_.zero_above)
    True
    """

    bandwidths: np.ndarray
    shift: np.ndarray
    expected: np.ndarray | None = None
    path_bandwidths: np.ndarray | None = None
    path_weights: np.ndarray | None = None

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

        Every stage of the path is a dot on the median curve; its area is the stage's share
        of ∫‖y − f̂‖dt, the weight of Δk̄₂ in Theorem 1.

        Parameters
        ----------
        estimator : fitted estimator with a ``path_``, or a pipeline ending in one
        X_new : array-like of shape (m, d)
            Rows of features.
        bandwidths : array-like, optional
            By default more than a decade beyond the range of the data and the path.
        ax : matplotlib Axes, optional

        Returns
        -------
        KernelShiftDisplay
        """
        model, new = drawn_model(estimator, X_new)
        path, new = as_path(model), path_rows(model, new)
        trajectory = Trajectory.from_path(path)
        weights = np.zeros(len(trajectory.bandwidths))
        np.add.at(weights, trajectory.bandwidth_index, trajectory.residual_integral)
        display = cls._from_rows(rows(path.X, "X"), new, path.kernel, bandwidths, path.weights)
        display.path_bandwidths = trajectory.bandwidths
        display.path_weights = weights / max(weights.sum(), np.finfo(float).tiny)
        return display.plot(ax=ax)

    @classmethod
    def from_data(
        cls,
        X: ArrayLike,
        X_new: ArrayLike,
        *,
        kernel: KernelLike = "gaussian",
        bandwidths: ArrayLike | None = None,
        ax: Axes | None = None,
    ) -> Self:
        """Draw Δk₂ between rows X (n, d) and new points (m, d); otherwise as `from_estimator`."""
        given, new = rows(X, "X"), rows(X_new, "X_new")
        return cls._from_rows(given, new, get_kernel(kernel), bandwidths, None).plot(ax=ax)

    @classmethod
    def _from_rows(
        cls,
        X: np.ndarray,
        X_new: np.ndarray,
        kernel: Kernel,
        bandwidths: ArrayLike | None,
        weights: Weights,
    ) -> Self:
        if bandwidths is None:  # from well below the typical gap between rows to their spread
            spread = float(np.linalg.norm(X.std(axis=0))) or 1.0
            bandwidths = np.geomspace(1e-4 * spread, 1e2 * spread, 120)
        bandwidths = np.sort(np.asarray(bandwidths, dtype=float))
        expected = None
        if weights is None and len(X) >= 3:
            expected = np.sqrt(expected_kernel_shift(X, kernel, bandwidths))
        shift = kernel_shift(X, X_new, kernel, bandwidths, weights=weights)
        return cls(bandwidths=bandwidths, shift=shift, expected=expected)

    def plot(self, *, ax: Axes | None = None) -> Self:
        """Draw on the given axes, or on new ones."""
        self.figure_, self.ax_ = single_axes(ax)
        low, median, high = np.quantile(self.shift, [0.25, 0.5, 0.75], axis=1)
        self.regions_ = shift_regions(self.bandwidths, median)
        self._shade()
        if self.shift.shape[1] > 1:
            self.ax_.fill_between(
                self.bandwidths, low, high, color=BLUE, alpha=0.2, linewidth=0, label="quartiles"
            )
        label = "median Δk₂" if self.shift.shape[1] > 1 else "Δk₂"
        self.ax_.plot(self.bandwidths, median, color=BLUE, linewidth=1.8, label=label)
        if self.expected is not None:
            label = "√E(Δk₂²), Proposition 1"
            self.ax_.plot(self.bandwidths, self.expected, color=GREY, ls="--", lw=1.2, label=label)
        if self.path_bandwidths is not None and self.path_weights is not None:
            at = np.clip(self.path_bandwidths, self.bandwidths[0], self.bandwidths[-1])
            on_curve = np.interp(np.log(at), np.log(self.bandwidths), median)
            area = 1500.0 * self.path_weights
            self.ax_.scatter(
                at, on_curve, s=area, color=VERMILION, alpha=0.55, lw=0, zorder=3, clip_on=False
            )
            label = "training, area = ∫‖y − f̂‖dt"
            self.ax_.plot([], [], "o", color=VERMILION, alpha=0.55, mew=0, label=label)
        limits = (self.bandwidths[0], self.bandwidths[-1])
        self.ax_.set(xscale="log", xlim=limits, xlabel="bandwidth σ", ylabel="kernel shift Δk₂")
        self.ax_.set_ylim(bottom=0.0)
        finish(self.ax_)
        self.ax_.legend(frameon=False, fontsize="small", loc="upper left")
        return self

    def _shade(self) -> None:
        one_below, zero_above = self.regions_
        left, right = self.bandwidths[0], self.bandwidths[-1]
        ends = np.clip([left, one_below, zero_above, right], left, right)
        for i, (name, colour) in enumerate((("one", GREEN), ("peak", ORANGE), ("zero", BLUE))):
            start, end = ends[i], ends[i + 1]
            if not start < end:
                continue
            self.ax_.axvspan(start, end, color=colour, alpha=0.09, linewidth=0)
            middle, place = np.sqrt(start * end), self.ax_.get_xaxis_transform()
            bold: State = {"ha": "center", "color": colour, "weight": "bold", "fontsize": "small"}
            self.ax_.text(middle, 1.01, name, transform=place, **bold)
