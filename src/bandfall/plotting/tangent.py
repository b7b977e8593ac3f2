"""The log of a controlled training run as a figure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["TangentLogDisplay"]

_PANELS = (
    ("r2", "training R²", (0.0, 1.02)),
    ("blend", "blend α", (-0.02, 1.02)),
    ("kernel_drift", "kernel drift", None),
)


class TangentLogDisplay:
    """R², blend and kernel drift over epochs.

    Parameters
    ----------
    log : bandfall.neural.TangentLog
        ``TangentDescent.log`` or ``NeuralDescentRegressor.log_``.

    Attributes
    ----------
    axes_ : ndarray of matplotlib Axes of shape (3,)
    figure_ : matplotlib Figure

    Examples
    --------
    >>> from bandfall.plotting.tangent import TangentLogDisplay
    >>> display = TangentLogDisplay.from_log(model.log_)  # doctest: +SKIP
    """

    def __init__(self, log: Any) -> None:
        self.log = log

    @classmethod
    def from_log(cls, log: Any, *, axes: Any = None) -> TangentLogDisplay:
        """Make the display and draw it; `axes` are three Axes, new ones by default."""
        return cls(log).plot(axes=axes)

    def plot(self, *, axes: Any = None) -> TangentLogDisplay:
        """Draw on three Axes, on a new figure by default."""
        if len(self.log) == 0:
            raise ValueError("log is empty: train before drawing it")
        if axes is None:
            axes = _new_axes()
        for ax, (column, label, limits) in zip(axes, _PANELS, strict=True):
            ax.plot(self.log.epoch, getattr(self.log, column))
            ax.set_ylabel(label)
            if limits is not None:
                ax.set_ylim(*limits)
        axes[-1].set_xlabel("epoch")
        self.axes_ = axes
        self.figure_: Figure = axes[0].figure
        return self


def _new_axes() -> Any:
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError('drawing needs matplotlib: pip install "bandfall[plot]"') from error
    return pyplot.subplots(3, 1, sharex=True, figsize=(6, 6), layout="constrained")[1]
