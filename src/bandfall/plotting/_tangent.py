"""The course of controlled training of a network: R², blend and kernel drift over epochs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from bandfall._typing import Estimator
from bandfall.plotting._style import (
    BLUE,
    GREEN,
    VERMILION,
    AxesLike,
    drawn_model,
    finish,
    stacked_axes,
)

if TYPE_CHECKING:
    from bandfall.neural import TangentLog

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
    def from_estimator(cls, estimator: Estimator, *, ax: AxesLike | None = None) -> Self:
        """Draw the log of a fitted `NeuralDescentRegressor` or of a pipeline ending in one."""
        return cls.from_log(drawn_model(estimator)[0].log_, ax=ax)

    @classmethod
    def from_log(cls, log: TangentLog, *, ax: AxesLike | None = None) -> Self:
        """Draw the log of a `TangentDescent`."""
        return cls(log=log).plot(ax=ax)

    def plot(self, *, ax: AxesLike | None = None) -> Self:
        """Draw on three given axes, on one that is divided into three, or on new ones."""
        if len(self.log) == 0:
            raise ValueError("log is empty: train before drawing it")
        self.figure_, self.axes_ = stacked_axes(ax, 3, figsize=(6.0, 5.4))
        self.lines_ = []
        for axes, (column, label, color, limits) in zip(self.axes_, _PANELS, strict=True):
            values = getattr(self.log, column)
            self.lines_ += axes.plot(self.log.epoch, values, color=color, linewidth=1.8)
            axes.set(ylabel=label, ylim=limits)
            finish(axes)
        for axes in self.axes_[:-1]:
            axes.tick_params(labelbottom=False)
        self.axes_[-1].set_xlabel("epoch")
        return self
