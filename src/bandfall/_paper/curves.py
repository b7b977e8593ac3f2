"""Curves of the error against the bandwidth floor σ_m, for Figures 1, 4, 6 and 7."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from sklearn.metrics import r2_score

from bandfall._paper.experiment import Claim, Result
from bandfall._paper.methods import MAX_R2, MAX_TIME, STEP_SIZE
from bandfall._paper.summaries import ErrorCurve, error_curve
from bandfall.descent import Euler, floor_sweep
from bandfall.descent._sweep import FloorSweep

PENALTY = 1e-3  # λ = 1/t of Figures 1, 4, 6 and 7
MIN_SPEED = 0.1
CURVES = ("descent_train", "descent_test", "ridge_train", "ridge_test")

# Smallest rise and fall of the error, as a share of the target's variance, that counts.
_VISIBLE = 0.03
# Bound on |R²| of KRR at the smallest floor, which is not quite 0.
_NEAR_ZERO = 0.2


def sweep_scores(
    X: np.ndarray,
    y: np.ndarray,
    X_test: np.ndarray,
    y_test: np.ndarray,
    kernel: str,
    floors: np.ndarray,
) -> Result:
    """R² of KGD-D and KRR on training and test data, per floor, for each of `CURVES`."""
    sweep = paper_sweep(X, y, X_test, kernel, floors)
    return {
        "descent_train": _r2(y, sweep.train),
        "descent_test": _r2(y_test, sweep.new),
        "ridge_train": _r2(y, sweep.ridge_train),
        "ridge_test": _r2(y_test, sweep.ridge_new),
    }


def paper_sweep(
    X: np.ndarray, y: np.ndarray, X_new: np.ndarray, kernel: str, floors: np.ndarray
) -> FloorSweep:
    """`bandfall.floor_sweep` with the paper's settings."""
    return floor_sweep(
        X,
        y,
        X_new,
        floors,
        kernel=kernel,
        min_speed=MIN_SPEED,
        penalty=PENALTY,
        max_r2=MAX_R2,
        max_time=MAX_TIME,
        solver=Euler(STEP_SIZE),
    )


def collect_curves(results: Iterable[Result]) -> dict[str, ErrorCurve]:
    """Mean and 90 % interval of 1 − R² over the runs, for each of `CURVES`."""
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

    def __str__(self) -> str:
        return f"{self.valley:.2f} → {self.peak:.2f} → {self.end:.2f}"


def second_descent(error: np.ndarray) -> SecondDescent:
    """Valley, peak and second descent of an error curve, from simple to complex models.

    The peak with the largest `height` is taken.

    Examples
    --------
    >>> second_descent(np.array([1.0, 0.2, 0.9, 0.3]))
    SecondDescent(valley=0.2, peak=0.9, end=0.3)
    >>> second_descent(np.array([1.0, 0.5, 0.3])).height
    0.0
    """
    before = np.minimum.accumulate(error)
    after = np.minimum.accumulate(error[::-1])[::-1]
    at = int(np.argmax(np.minimum(error - before, error - after)))
    return SecondDescent(float(before[at]), float(error[at]), float(after[at]))


def curve_claims(
    title: str, kernel: str, curves: dict[str, ErrorCurve], *, judge: bool
) -> list[Claim]:
    """The paper's claims about the curves of a kernel."""
    return [
        double_descent_claim(
            title, curves["descent_test"], expected=kernel != "matern12", judge=judge
        ),
        ridge_limit_claim(title, curves["ridge_test"], judge=judge),
        benign_claim(title, curves, judge=judge),
    ]


def double_descent_claim(name: str, curve: ErrorCurve, *, expected: bool, judge: bool) -> Claim:
    """Does the mean test error of KGD-D fall, rise and fall again?"""
    found = second_descent(curve.mean)
    start = float(curve.mean[0])
    present = found.height > _VISIBLE
    text = "shows double descent" if expected else "shows no double descent"
    return Claim(
        f"{name}: KGD-D {text}",
        f"test error {start:.2f} → {found}: second descent {found.height:.3f}, counted from "
        f"{_VISIBLE:g} on",
        present == expected if judge else None,
    )


def ridge_limit_claim(name: str, curve: ErrorCurve, *, judge: bool) -> Claim:
    """Does the test R² of KRR go to zero with the bandwidth?"""
    r2 = 1.0 - float(curve.mean[-1])
    return Claim(
        f"{name}: KRR's R² on test data goes to 0 as σ_m goes to 0",
        f"mean R² {r2:.3f} at the smallest σ_m",
        abs(r2) < _NEAR_ZERO if judge else None,
    )


def benign_claim(name: str, curves: dict[str, ErrorCurve], *, judge: bool) -> Claim:
    """At the smallest floor: training error near zero, test error below KRR's."""
    train, test, ridge = (
        float(curves[key].mean[-1]) for key in ("descent_train", "descent_test", "ridge_test")
    )
    return Claim(
        f"{name}: at the smallest σ_m KGD-D fits its training data and still generalises",
        f"training error {train:.4f}, test error {test:.2f} against {ridge:.2f} of KRR",
        (train < 0.01 and test < ridge - 0.1) if judge else None,
    )


def _r2(y: np.ndarray, predictions: np.ndarray) -> list[float]:
    scores = [float(r2_score(y, prediction)) for prediction in predictions]
    if not np.isfinite(scores).all():
        raise ValueError("a prediction is not finite")
    return scores
