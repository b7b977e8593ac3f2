"""The course of training: bandwidth, R² and speed over time, or the log of a controlled network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from bandfall._typing import Estimator, State
from bandfall.descent import Path
from bandfall.plotting import _style as style
from bandfall.plotting._style import AxesLike, drawn_model, finish
from bandfall.theory import fine_log
from bandfall.theory._inputs import as_path

if TYPE_CHECKING:
    from bandfall.neural import TangentLog

_SIZE = (6.0, 5.4)
_R2 = ("training $R^2$", style.GREEN, (-0.03, 1.05))
_TANGENT = {
    "r2": _R2,
    "blend": ("blend α", style.BLUE, (-0.03, 1.05)),
    "kernel_drift": ("kernel drift", style.VERMILION, None),
}


@dataclass(kw_only=True, eq=False, repr=False)
class PathDisplay:
    """Bandwidth, training R² and R² speed over training time; see `from_estimator`.

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
    lines_ : list of matplotlib artists
    """

    time: np.ndarray
    bandwidth: np.ndarray
    r2: np.ndarray
    speed: np.ndarray
    min_speed: float | None = None

    @classmethod
    def from_estimator(cls, estimator: Estimator | Path, *, axes: AxesLike = None) -> Self:
        """Draw the path of a fitted `KernelDescentRegressor` or of a pipeline ending in one."""
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
        return display.plot(axes=axes)

    def plot(self, *, axes: AxesLike = None) -> Self:
        """Draw on three given axes, or on new ones."""
        self.figure_, self.axes_ = style.panels(axes, 3, 1, _SIZE, sharex=True)
        top, middle, bottom = self.axes_
        shown = np.where(self.bandwidth > 0, self.bandwidth, np.nan)
        self.lines_ = top.step(self.time, shown, where="post", color=style.BLUE, linewidth=1.8)
        top.set(yscale="log", ylabel="bandwidth σ")
        if not (self.bandwidth > 0).all():
            self._mark_zero_bandwidth()
        label, colour, limits = _R2
        self.lines_ += middle.plot(self.time, self.r2, color=colour, linewidth=1.8)
        middle.set(ylabel=label, ylim=limits)
        self.lines_ += bottom.plot(self.time, self.speed, color=style.VERMILION, linewidth=1.3)
        bottom.set(yscale="log", ylabel="$R^2$ speed")
        if self.min_speed is not None:
            line = bottom.axhline(self.min_speed, color=style.GREY, linestyle="--", linewidth=1.1)
            self.lines_.append(line)
            text, place = f"threshold v = {self.min_speed:g} ", bottom.get_yaxis_transform()
            small: State = {"ha": "right", "va": "bottom", "color": style.GREY, "fontsize": "small"}
            bottom.text(1.0, self.min_speed, text, transform=place, **small)
        _share_time(self.axes_, "training time t")
        return self

    def _mark_zero_bandwidth(self) -> None:
        """Shade the time at bandwidth zero, which a logarithmic axis cannot show."""
        start, end = float(self.time[np.argmax(self.bandwidth == 0)]), float(self.time[-1])
        for axes in self.axes_:
            axes.axvspan(start, end, color=style.GREY, alpha=0.12, linewidth=0)
        top, grey = self.axes_[0], style.GREY
        place = {"transform": top.get_xaxis_transform(), "ha": "center", "va": "center"}
        top.text(0.5 * (start + end), 0.5, "σ = 0", color=grey, **place)


@dataclass(kw_only=True, eq=False, repr=False)
class TangentLogDisplay:
    """R² on training data, blend α and drift of the tangent kernel over epochs.

    Build it with `from_estimator` or from a `bandfall.neural.TangentLog`, ``(log=...).plot()``.

    Attributes
    ----------
    figure_ : matplotlib Figure
    axes_ : ndarray of three matplotlib Axes
    """

    log: TangentLog

    @classmethod
    def from_estimator(cls, estimator: Estimator, *, axes: AxesLike = None) -> Self:
        """Draw the log of a fitted `NeuralDescentRegressor` or of a pipeline ending in one."""
        return cls(log=drawn_model(estimator)[0].log_).plot(axes=axes)

    def plot(self, *, axes: AxesLike = None) -> Self:
        """Draw on three given axes, or on new ones."""
        if len(self.log) == 0:
            raise ValueError("log is empty: train before drawing it")
        self.figure_, self.axes_ = style.panels(axes, 3, 1, _SIZE, sharex=True)
        for ax, (column, (label, colour, limits)) in zip(self.axes_, _TANGENT.items(), strict=True):
            values = getattr(self.log, column)
            ax.plot(self.log.epoch, values, color=colour, linewidth=1.8)
            ax.set(ylabel=label, ylim=limits)
        _share_time(self.axes_, "epoch")
        return self


def _share_time(axes: np.ndarray, label: str) -> None:
    """Finish panels above each other, of which only the last has labels of time."""
    for ax in axes:
        finish(ax)
    for ax in axes[:-1]:
        ax.tick_params(labelbottom=False)
    axes[-1].set_xlabel(label)
