"""Curves of the error against the bandwidth floor σ_m, for Figures 1, 4, 6 and 7."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics import r2_score

from bandfall._paper.experiment import Claim, Entry
from bandfall._paper.methods import MAX_R2, MAX_TIME, STEP_SIZE
from bandfall.datasets import Split
from bandfall.descent import Euler, floor_sweep
from bandfall.descent._sweep import FloorSweep

CURVES = ("descent_train", "descent_test", "ridge_train", "ridge_test")


def complexity(bandwidth: ArrayLike) -> np.ndarray:
    """The figures' horizontal axis, (σ + 0.01)^(−1/5): finite at 0, and falling with σ."""
    return (np.asarray(bandwidth, dtype=float) + 0.01) ** -0.2


def floor_grid(lowest: float, highest: float, n_floors: int = 100) -> np.ndarray:
    """Floors from `highest` down to `lowest`, evenly spaced in `complexity`.

    >>> floor_grid(1e-4, 1.1, n_floors=4).round(4)
    array([1.100e+00, 1.268e-01, 2.140e-02, 1.000e-04])
    """
    simplest, most_complex = complexity([highest, lowest])
    floors = np.linspace(simplest, most_complex, n_floors) ** -5.0 - 0.01
    # The fifth root rounds the ends; return them as given.
    floors[[0, -1]] = highest, lowest
    return floors


def paper_sweep(
    X: np.ndarray, y: np.ndarray, X_new: np.ndarray, kernel: str, floors: np.ndarray
) -> FloorSweep:
    """`bandfall.floor_sweep` with the paper's settings: v = 0.1, λ = 1/t = 0.001."""
    return floor_sweep(
        X,
        y,
        X_new,
        floors,
        kernel=kernel,
        min_speed=0.1,
        penalty=1e-3,
        max_r2=MAX_R2,
        max_time=MAX_TIME,
        solver=Euler(STEP_SIZE),
    )


def sweep_scores(split: Split, kernel: str, floors: np.ndarray) -> Entry:
    """R² of KGD-D and KRR on training and test data, per floor, for each of `CURVES`."""
    sweep = paper_sweep(split.X_train, split.y_train, split.X_test, kernel, floors)
    truths = 2 * (split.y_train, split.y_test)
    fits = (sweep.train, sweep.new, sweep.ridge_train, sweep.ridge_new)
    return {
        name: [float(r2_score(truth, prediction)) for prediction in predictions]
        for name, truth, predictions in zip(CURVES, truths, fits, strict=True)
    }


class ErrorCurve(NamedTuple):
    """Mean and ends of the prediction interval of 1 − R², per floor."""

    mean: np.ndarray
    lower: np.ndarray
    upper: np.ndarray


def error_curve(r2: ArrayLike) -> ErrorCurve:
    """Trimmed mean and 90 % interval of 1 − R² per floor, of R² of shape (n_runs, n_floors).

    At each floor the smallest and the largest 5 % of the R² are dropped; of the rest, the mean and
    the 5 % and 95 % quantiles are kept.

    >>> error_curve([[0.0], [0.5], [1.0]])
    ErrorCurve(mean=array([0.5]), lower=array([0.05]), upper=array([0.95]))
    """
    ordered = np.sort(np.asarray(r2, dtype=float), axis=0)
    dropped = len(ordered) // 20
    errors = 1.0 - ordered[dropped : len(ordered) - dropped]
    lower, upper = np.quantile(errors, [0.05, 0.95], axis=0)
    return ErrorCurve(errors.mean(axis=0), lower, upper)


def collect_curves(results: Iterable[Entry]) -> dict[str, ErrorCurve]:
    """`error_curve` over the runs, for each of `CURVES`."""
    runs = list(results)
    return {name: error_curve([run[name] for run in runs]) for name in CURVES}


class SecondDescent(NamedTuple):
    """The highest rise and fall of an error curve, from simple to complex models."""

    valley: float  # error of the best model before the peak
    peak: float
    end: float  # error of the best model after the peak

    @property
    def height(self) -> float:
        """The smaller of rise and fall: zero for a curve without a second descent."""
        return min(self.peak - self.valley, self.peak - self.end)


def second_descent(error: np.ndarray) -> SecondDescent:
    """Valley, peak and second descent of an error curve; of all peaks, the highest.

    >>> second_descent(np.array([1.0, 0.2, 0.9, 0.3]))
    SecondDescent(valley=0.2, peak=0.9, end=0.3)
    """
    before = np.minimum.accumulate(error)
    after = np.minimum.accumulate(error[::-1])[::-1]
    at = int(np.argmax(np.minimum(error - before, error - after)))
    return SecondDescent(float(before[at]), float(error[at]), float(after[at]))


def curve_claims(title: str, curves: dict[str, ErrorCurve], *, double: bool) -> list[Claim]:
    """The paper's claims about curves: whether the test error of KGD-D falls twice, and its end."""
    visible = 0.03  # of the target's variance: a smaller rise or fall does not count
    mean = curves["descent_test"].mean
    descent = second_descent(mean)
    ends = {name: float(curve.mean[-1]) for name, curve in curves.items()}
    test, ridge = ends["descent_test"], ends["ridge_test"]
    return [
        Claim(
            f"{title}: KGD-D shows {'double descent' if double else 'no double descent'}",
            f"test error {mean[0]:.2f} → {descent.valley:.2f} → {descent.peak:.2f} → "
            f"{descent.end:.2f}: second descent {descent.height:.3f}, counted from {visible:g} on",
            (descent.height > visible) == double,
        ),
        Claim(
            f"{title}: KRR's R² on test data goes to 0 as σ_m goes to 0",
            f"mean R² {1.0 - ridge:.3f} at the smallest σ_m",
            abs(1.0 - ridge) < 0.2,  # the smallest floor is not quite 0
        ),
        Claim(
            f"{title}: at the smallest σ_m KGD-D fits its training data and still generalises",
            f"training error {ends['descent_train']:.4f}, test error {test:.2f} against "
            f"{ridge:.2f} of KRR",
            ends["descent_train"] < 0.01 and test < ridge - 0.1,
        ),
    ]
