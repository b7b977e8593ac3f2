"""The course of training: bandwidth, R² and speed over time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from bandfall._typing import Estimator
from bandfall.descent import Path
from bandfall.plotting._style import (
    BLUE,
    GREEN,
    GREY,
    VERMILION,
    AxesLike,
    check_time_scale,
    drawn_model,
    finish,
    stacked_axes,
)
from bandfall.theory import fine_log
from bandfall.theory._inputs import as_path


@dataclass(kw_only=True, eq=False, repr=False)
class PathDisplay:
    """Bandwidth, training R² and R² speed over training time.

    Build it with `from_estimator` or `from_path`.

    Parameters
    ----------
    time, bandwidth, r2, speed : ndarray of shape (M,)
        As in a path's log, with the end added.
    min_speed : float, optional
        The threshold v below which the bandwidth shrinks.

    Attributes
    ----------
    figure_ : matplotlib Figure
    axes_ : ndarray of three matplotlib Axes
        Bandwidth, R², speed, from top to bottom.
    lines_ : list of matplotlib artists

    Examples
    --------
    >>> import matplotlib; matplotlib.use("agg")
    >>> import numpy as np
    >>> from bandfall import KernelDescentRegressor
    >>> from bandfall.plotting import PathDisplay
    >>> X = np.linspace(-1, 1, 20)[:, None]
    >>> display = PathDisplay.from_estimator(KernelDescentRegressor().fit(X, np.sin(3 * X[:, 0])))
    >>> [ax.get_ylabel() for ax in display.axes_]
    ['bandwidth σ', 'training $R^2$', '$R^2$ speed']
    """

    time: np.ndarray
    bandwidth: np.ndarray
    r2: np.ndarray
    speed: np.ndarray
    min_speed: float | None = None

    @classmethod
    def from_estimator(
        cls, estimator: Estimator, *, ax: AxesLike | None = None, time_scale: str = "linear"
    ) -> Self:
        """Draw the path of a fitted `KernelDescentRegressor` or of a pipeline ending in one.

        Parameters
        ----------
        estimator : fitted estimator
        ax : matplotlib Axes, or three of them, optional
            One axes is divided into three.
        time_scale : {"linear", "log"}

        Returns
        -------
        PathDisplay
        """
        model, _ = drawn_model(estimator)
        min_speed = getattr(model, "min_speed", None)
        return cls.from_path(as_path(model), min_speed=min_speed, ax=ax, time_scale=time_scale)

    @classmethod
    def from_path(
        cls,
        path: Path,
        *,
        min_speed: float | None = None,
        ax: AxesLike | None = None,
        time_scale: str = "linear",
    ) -> Self:
        """Draw a `Path`, with `min_speed` as the threshold; the rest is as for `from_estimator`."""
        log = fine_log(path)
        if len(log) == 0:
            raise ValueError(f"the path took no step: {path.status.explanation}")
        display = cls(
            time=np.append(log.time, path.time),
            bandwidth=np.append(log.bandwidth, log.bandwidth[-1]),
            r2=np.append(log.r2, path.r2),
            speed=np.append(log.speed, np.nan),  # no step, no speed
            min_speed=min_speed,
        )
        return display.plot(ax=ax, time_scale=time_scale)

    def plot(self, *, ax: AxesLike | None = None, time_scale: str = "linear") -> Self:
        """Draw; parameters as for `from_estimator`."""
        check_time_scale(time_scale)
        self.figure_, self.axes_ = stacked_axes(ax, 3, figsize=(6.0, 5.4))
        top, middle, bottom = self.axes_
        positive = self.bandwidth > 0
        shown = np.where(positive, self.bandwidth, np.nan)
        self.lines_ = top.step(self.time, shown, where="post", color=BLUE, linewidth=1.8)
        top.set(yscale="log", ylabel="bandwidth σ")
        if not positive.all():
            self._mark_zero_bandwidth()
        self.lines_ += middle.plot(self.time, self.r2, color=GREEN, linewidth=1.8)
        middle.set(ylabel="training $R^2$", ylim=(-0.03, 1.05))
        self.lines_ += bottom.plot(self.time, self.speed, color=VERMILION, linewidth=1.3)
        bottom.set(yscale="log", ylabel="$R^2$ speed", xlabel="training time t")
        if self.min_speed is not None:
            self.lines_.append(
                bottom.axhline(self.min_speed, color=GREY, linestyle="--", linewidth=1.1)
            )
            bottom.annotate(
                f"threshold v = {self.min_speed:g}",
                (1.0, self.min_speed),
                xycoords=("axes fraction", "data"),
                xytext=(-2, 4),
                textcoords="offset points",
                ha="right",
                color=GREY,
                fontsize="small",
            )
        for axes in self.axes_:
            finish(axes)
        top.tick_params(labelbottom=False)
        middle.tick_params(labelbottom=False)
        if time_scale == "log":
            bottom.set_xscale("log")
            bottom.set_xlim(left=float(self.time[1]))
        return self

    def _mark_zero_bandwidth(self) -> None:
        """Shade the time at bandwidth zero, which a logarithmic axis cannot show."""
        start = float(self.time[np.argmax(self.bandwidth == 0)])
        for axes in self.axes_:
            axes.axvspan(start, float(self.time[-1]), color=GREY, alpha=0.12, linewidth=0)
        self.axes_[0].annotate(
            "σ = 0",
            (0.5 * (start + float(self.time[-1])), 0.5),
            xycoords=("data", "axes fraction"),
            ha="center",
            va="center",
            color=GREY,
        )
