"""Figure 1 of the paper in small: a falling and a constant bandwidth on twenty points of a sine."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bandfall._estimators import KernelDescentRegressor, KernelRidgeRegressor
from bandfall._paper.double_descent import sweep_scores
from bandfall.datasets import Split, make_sine

FLOORS = (1.0, 0.5, 0.1, 0.01)
VERDICTS = ("too simple", "good", "overfits", "interpolates")
PENALTY, MAX_TIME = 1e-3, 1000.0  # penalty = 1/time (Appendix B, Figure 1)
SEED = 8  # of the paper's figure
DRAWS = [(seed,) for seed in range(10)]


def sine(seed: int = SEED) -> tuple:
    """(X, X_test, y, y_test): 20 noisy points, and the true curve on a grid."""
    X, y, X_test, y_test = make_sine(random_state=seed, test_points="grid", n_test=300)
    return X, X_test, y, y_test


def scores(seed: int) -> dict[str, list[float]]:
    """R² of KGD-D and ridge regression at the four floors, on one draw of the points."""
    return sweep_scores(Split(*make_sine(random_state=seed)), "gaussian", np.array(FLOORS))


def table(results: list[dict[str, list[float]]]) -> str:
    """Medians over the draws as text."""
    lines = [
        "",
        "1. Double descent: 20 noisy points of a sine, ten draws (Figure 1 of the paper in small)",
        "",
        f"{'smallest bandwidth':<32}{'falling bandwidth (KGD-D)':<32}constant bandwidth (ridge)",
        f"{'':<32}" + 2 * f"{'training R²':<14}{'test R²':<18}",
    ]
    names = ("descent_train", "descent_test", "ridge_train", "ridge_test")
    medians = np.median([[result[name] for name in names] for result in results], axis=0)
    for floor, verdict, numbers in zip(FLOORS, VERDICTS, medians.T, strict=True):
        cells = [f"{number:.2f}".replace("-", "−") for number in numbers]
        row = "{:<14}{:<18}{:<14}{}".format(*cells)
        lines.append(f"{f'{floor:g}, {verdict}':<32}{row}")
    lines.append("""
Medians. Test R² rises, falls and rises again if the bandwidth falls from wide to the smallest one:
a second descent of the error. A constant bandwidth that small fits the points and nothing else.""")
    return "\n".join(lines)


class FloorFit(NamedTuple):
    """KGD-D with one floor, ridge regression at that bandwidth, and R² during training."""

    floor: float
    descent: KernelDescentRegressor
    ridge: KernelRidgeRegressor
    times: np.ndarray
    train_r2: np.ndarray
    test_r2: np.ndarray


def fit_floors(sine: tuple) -> list[FloorFit]:
    """The four panels of Figure 1, and training and test R² at times along each path."""
    X, X_test, y, y_test = sine
    fits = []
    for floor in FLOORS:
        descent = KernelDescentRegressor(min_bandwidth=floor, max_time=MAX_TIME).fit(X, y)
        ridge = KernelRidgeRegressor(bandwidth=floor, penalty=PENALTY).fit(X, y)
        path = descent.path_
        times = np.geomspace(0.02, path.time, 50)
        cuts = [path.truncate(time=t) for t in times[:-1]] + [path]
        error = np.array([np.sum((c.evaluate(X_test)[:, 0] - y_test) ** 2) for c in cuts])
        test_r2 = 1.0 - error / np.sum((y_test - y_test.mean()) ** 2)
        fits.append(FloorFit(floor, descent, ridge, times, np.array([c.r2 for c in cuts]), test_r2))
    return fits
