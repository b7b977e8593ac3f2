"""Error against complexity: the smallest allowed bandwidth, or degrees of freedom."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self

import numpy as np
from sklearn.base import clone

from bandfall._estimators.view import last_step, last_step_prefix
from bandfall._typing import ArrayLike, Estimator
from bandfall.descent._sweep import floor_sweep
from bandfall.plotting._style import BLUE, GREY, ORANGE, Axes, finish, single_axes
from bandfall.theory import degrees_of_freedom


@dataclass(kw_only=True, eq=False, repr=False)
class DoubleDescentDisplay:
    """Training and test error, as 1 − R², against model complexity.

    Build it with `from_estimator` or `from_data`.

    Parameters
    ----------
    bandwidths : ndarray of shape (B,)
        Floors σ_m of a descent, or bandwidths of a constant-bandwidth model.
    train_error, test_error : ndarray of shape (B,)
        1 − R².
    degrees_of_freedom : ndarray of shape (B,), optional

    Attributes
    ----------
    figure_ : matplotlib Figure
    ax_ : matplotlib Axes
    lines_ : list of matplotlib Lines

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

    constant_: DoubleDescentDisplay = field(init=False)

    bandwidths: np.ndarray
    train_error: np.ndarray
    test_error: np.ndarray
    degrees_of_freedom: np.ndarray | None = None

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
        color: str = BLUE,
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

        Returns
        -------
        DoubleDescentDisplay
        """
        model = last_step(estimator)
        names = [n for n in ("min_bandwidth", "bandwidth") if n in model.get_params()]
        if not names:
            raise ValueError(f"{type(model).__name__} has neither min_bandwidth nor bandwidth")
        prefix = last_step_prefix(estimator)
        if bandwidths is None:
            bandwidths = _default_bandwidths(X)
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

    @classmethod
    def from_data(
        cls,
        X: ArrayLike,
        y: ArrayLike,
        X_test: ArrayLike,
        y_test: ArrayLike,
        *,
        bandwidths: ArrayLike | None = None,
        ax: Axes | None = None,
        **settings: Any,
    ) -> Self:
        """Sweep the floor and draw KGD-D and ridge regression at the same bandwidths.

        All floors share one trajectory (`bandfall.floor_sweep`), at about the
        price of one fit. For degrees of freedom use `from_estimator`.

        Parameters
        ----------
        X, y, X_test, y_test : array-like
            One target.
        bandwidths : array-like, optional
            As for `from_estimator`.
        ax : matplotlib Axes, optional
        **settings
            For `bandfall.floor_sweep`; by default ``max_time=1000, max_r2=1.0``.

        Returns
        -------
        DoubleDescentDisplay
            For KGD-D; its attribute ``constant_`` is the display of ridge regression.
        """
        y, y_test = np.asarray(y, dtype=float), np.asarray(y_test, dtype=float)
        if y.ndim != 1 or y_test.ndim != 1:
            raise ValueError("y and y_test must be one target each, of shape (n,) and (m,)")
        if bandwidths is None:
            bandwidths = _default_bandwidths(X)
        bandwidths = np.sort(np.asarray(bandwidths, dtype=float))[::-1]
        settings = {"max_time": 1000.0, "max_r2": 1.0} | settings
        sweep = floor_sweep(X, y, X_test, bandwidths, **settings)
        errors = [
            (np.mean((train - y) ** 2, axis=1) / y.var(), np.mean((new - y_test) ** 2, axis=1))
            for train, new in ((sweep.train, sweep.new), (sweep.ridge_train, sweep.ridge_new))
        ]
        falling, constant = (
            cls(bandwidths=bandwidths, train_error=train, test_error=new / y_test.var())
            for train, new in errors
        )
        falling.plot(ax=ax, label="falling to σ")
        falling.constant_ = constant.plot(ax=falling.ax_, label="constant σ", color=ORANGE)
        return falling

    def plot(
        self,
        *,
        ax: Axes | None = None,
        x: str = "bandwidth",
        label: str | None = "",
        color: str = BLUE,
        ceiling: float | None = None,
    ) -> Self:
        """Draw; parameters as for `from_estimator`, both axes run from simple to complex.

        `ceiling` is the upper end of the error axis; by default the largest error, at most 2.
        """
        if x not in ("bandwidth", "degrees_of_freedom"):
            raise ValueError(f"x={x!r} is unknown; allowed: 'bandwidth', 'degrees_of_freedom'")
        at = self.bandwidths if x == "bandwidth" else self.degrees_of_freedom
        if at is None:
            raise ValueError("this display was made without degrees_of_freedom")
        self.figure_, self.ax_ = single_axes(ax)
        before = self.ax_.get_ylim()[1] if self.ax_.has_data() else 0.0
        prefix = f"{label}, " if label else ""
        order = np.argsort(at)
        draw, x_values = partial(self.ax_.plot, color=color), at[order]
        test, train = self.test_error[order], self.train_error[order]
        self.lines_ = [
            *draw(x_values, test, lw=1.9, label=f"{prefix}test"),
            *draw(x_values, train, lw=1.3, ls="--", label=f"{prefix}training"),
        ]
        if ceiling is None:
            highest = max(1.0, float(self.test_error.max()), float(self.train_error.max()))
            ceiling = max(before, min(2.0, 1.15 * highest))
        self.ax_.set(ylim=(0.0, ceiling), ylabel="error, $1 - R^2$")
        self.ax_.axhline(1.0, color=GREY, linewidth=0.8, linestyle=":")
        if x == "bandwidth":
            self.ax_.set(xscale="log", xlabel="smallest bandwidth σ  (complexity →)")
            if not self.ax_.xaxis_inverted():
                self.ax_.invert_xaxis()
        else:
            self.ax_.set(xlabel="degrees of freedom")
        finish(self.ax_)
        self.ax_.legend(frameon=False, fontsize="small")
        return self


def _default_bandwidths(X: ArrayLike) -> np.ndarray:
    spread = float(np.linalg.norm(np.ptp(np.asarray(X, dtype=float), axis=0)))
    return np.geomspace(spread, 1e-3 * spread, 30)
