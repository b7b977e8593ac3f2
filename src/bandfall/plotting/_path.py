"""The course of training: bandwidth, R² and speed over time, or the log of a controlled network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from bandfall._typing import Estimator, State
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
    panels,
)
from bandfall.theory import fine_log
from bandfall.theory._inputs import as_path

if TYPE_CHECKING:
    from bandfall.neural import TangentLog


@dataclass(kw_only=True, eq=False, repr=False)
class PathDisplay:
    """Bandwidth, training R² and R² speed over training time.

    Build it with `from_estimator`.

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
        cls,
        estimator: Estimator | Path,
        *,
        axes: AxesLike | None = None,
        time_scale: str = "linear",
    ) -> Self:
        """Draw the path of a fitted `KernelDescentRegressor` or of a pipeline ending in one.

        Parameters
        ----------
        estimator : fitted estimator, or Path
        axes : three matplotlib Axes, optional
        time_scale : {"linear", "log"}

        Returns
        -------
        PathDisplay
        """
        model, _ = drawn_model(estimator)
        path = as_path(model)
        log = fine_log(path)
        if len(log) == 0:
            raise ValueError(f"the path took no step: {path.status.explanation}")
        display = cls(
            time=np.append(log.time, path.time),
            bandwidth=np.append(log.bandwidth, log.bandwidth[-1]),
            r2=np.append(log.r2, path.r2),
            speed=np.append(log.speed, np.nan),  # no step, no speed
            min_speed=getattr(model, "min_speed", None),
        )
        return display.plot(axes=axes, time_scale=time_scale)

    def plot(self, *, axes: AxesLike | None = None, time_scale: str = "linear") -> Self:
        """Draw; parameters as for `from_estimator`."""
        check_time_scale(time_scale)
        self.figure_, self.axes_ = panels(axes, 3, 1, (6.0, 5.4), sharex=True)
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
            text, place = f"threshold v = {self.min_speed:g} ", bottom.get_yaxis_transform()
            small: State = {"ha": "right", "va": "bottom", "color": GREY, "fontsize": "small"}
            bottom.text(1.0, self.min_speed, text, transform=place, **small)
        for one in self.axes_:
            finish(one)
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
        top, middle = self.axes_[0], 0.5 * (start + float(self.time[-1]))
        place = top.get_xaxis_transform()
        top.text(middle, 0.5, "σ = 0", transform=place, ha="center", va="center", color=GREY)


_PANELS = (
    ("r2", "training $R^2$", GREEN, (-0.03, 1.05)),
    ("blend", "blend α", BLUE, (-0.03, 1.05)),
    ("kernel_drift", "kernel drift", VERMILION, None),
)


@dataclass(kw_only=True, eq=False, repr=False)
class TangentLogDisplay:
    """R² on training data, blend α and drift of the tangent kernel over epochs.

    Build it with `from_estimator` or `from_log`.

    Parameters
    ----------
    log : bandfall.neural.TangentLog

    Attributes
    ----------
    figure_ : matplotlib Figure
    axes_ : ndarray of three matplotlib Axes
    lines_ : list of matplotlib artists
    """

    log: TangentLog

    @classmethod
    def from_estimator(cls, estimator: Estimator, *, axes: AxesLike | None = None) -> Self:
        """Draw the log of a fitted `NeuralDescentRegressor` or of a pipeline ending in one."""
        return cls.from_log(drawn_model(estimator)[0].log_, axes=axes)

    @classmethod
    def from_log(cls, log: TangentLog, *, axes: AxesLike | None = None) -> Self:
        """Draw the log of a `TangentDescent`."""
        return cls(log=log).plot(axes=axes)

    def plot(self, *, axes: AxesLike | None = None) -> Self:
        """Draw on three given axes, or on new ones."""
        if len(self.log) == 0:
            raise ValueError("log is empty: train before drawing it")
        self.figure_, self.axes_ = panels(axes, 3, 1, (6.0, 5.4), sharex=True)
        self.lines_ = []
        for ax, (column, label, color, limits) in zip(self.axes_, _PANELS, strict=True):
            values = getattr(self.log, column)
            self.lines_ += ax.plot(self.log.epoch, values, color=color, linewidth=1.8)
            ax.set(ylabel=label, ylim=limits)
            finish(ax)
        for ax in self.axes_[:-1]:
            ax.tick_params(labelbottom=False)
        self.axes_[-1].set_xlabel("epoch")
        return self
