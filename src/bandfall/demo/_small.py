"""The paper in small: Figure 1, and the first ten of the 200 splits of two tables of Table 2.

Superconductivity: K. Hamidieh (2018), UCI Machine Learning Repository,
https://doi.org/10.24432/C53P47. Power consumption of Tetouan City: A. Salam and A. El Hibaoui
(2018), UCI Machine Learning Repository, https://doi.org/10.24432/C5B034. Both are CC BY 4.0. Each
file holds 1,000 rows, the first after the paper's shuffle, target first, rounded.
"""

from __future__ import annotations

import time
from importlib.resources import files
from typing import NamedTuple

import numpy as np
from sklearn.metrics import r2_score

from bandfall._estimators import KernelDescentRegressor, KernelRidgeRegressor
from bandfall._paper.double_descent import sweep_scores
from bandfall._paper.methods import descend, score_split
from bandfall._paper.tables import quartiles, superiority_p_value
from bandfall.datasets import Split, make_sine
from bandfall.datasets._splits import standardised

FLOORS = (1.0, 0.5, 0.1, 0.01)
VERDICTS = ("too simple", "good", "overfits", "interpolates")
PENALTY, MAX_TIME = 1e-3, 1000.0  # penalty = 1/time (Appendix B, Figure 1)
SEED = 8  # of the paper's figure
DRAWS = [(seed,) for seed in range(10)]


def sine(seed: int = SEED) -> tuple:
    """(X, X_test, y, y_test): 20 noisy points, and the true curve on a grid."""
    X, y, X_test, y_test = make_sine(random_state=seed, test_points="grid", n_test=300)
    return X, X_test, y, y_test


def sweep(seed: int) -> dict[str, list[float]]:
    """R² of KGD-D and ridge regression at the four floors, on one draw of the points."""
    return sweep_scores(Split(*make_sine(random_state=seed)), "gaussian", np.array(FLOORS))


def sweep_table(results: list[dict[str, list[float]]]) -> str:
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


SETS = {"superconductors": "Superconductors", "power": "Power consumption"}
SPLITS = [(name, number) for name in SETS for number in range(10)]
METHODS = {
    "KGD-D": "KGD-D: one fit, nothing chosen",
    "KRR-CV": "ridge, cross-validated (KRR-CV)",
    "KGF-CV": "gradient flow, cross-validated (KGF-CV)",
    "KRR-MML": "ridge, marginal likelihood (KRR-MML)",
}


def split(name: str, number: int) -> Split:
    """100 rows, 80 of them for training; the split `number` of the paper."""
    text = files("bandfall.demo").joinpath(f"{name}.csv").read_text(encoding="utf-8")
    lines = text.splitlines()[1 + 100 * number : 101 + 100 * number]
    rows = np.array([line.split(",") for line in lines], dtype=np.float64)
    return standardised(rows, 80)


def scores(name: str, number: int) -> dict[str, tuple[float, float]]:
    """Test R² and seconds of every method on one split."""
    part = split(name, number)
    results = {}
    for method in METHODS:
        start = time.perf_counter()
        if method == "KGD-D":  # with speed 0.1, the paper's choice
            path = descend(part.X_train, part.y_train, "gaussian")
            r2 = float(r2_score(part.y_test, path.evaluate(part.X_test)[:, 0]))
        else:
            r2 = score_split(part, number, "gaussian", [method])[method]["test_r2"]
        results[method] = (r2, time.perf_counter() - start)
    return results


def score_table(results: list[dict[str, tuple[float, float]]]) -> str:
    """Medians, quartiles, p-values and seconds as text."""
    lines = [
        "",
        "2. Table 2 of the paper in small: 80 rows to train, 20 to test, ten splits of two tables",
        "",
        f"{'':<44}{'test R²: median (quartiles)':<29}{'p-value':>7}{'seconds':>9}",
    ]
    for place, title in enumerate(SETS.values()):
        part = results[10 * place : 10 * place + 10]
        r2 = {method: [result[method][0] for result in part] for method in METHODS}
        p_value = superiority_p_value(r2["KGD-D"], r2["KRR-CV"], r2["KRR-MML"])
        lines.append(title)
        for method, label in METHODS.items():
            cell = quartiles(r2[method])
            numbers = f"{cell.median:.2f} ({cell.lower:.2f}, {cell.upper:.2f})"
            p = f"{p_value:.2f}" if method == "KGD-D" else ""
            seconds = np.mean([result[method][1] for result in part])
            lines.append(f"  {label:<42}{numbers:<29}{p:>7}{seconds:>9.2f}")
    lines.append("""
p-value: of KGD-D against both ridges, as in the paper (Wilcoxon, the larger of two). Ten splits are
few; on all 200 the paper has 7.4e-6 and 5.5e-10 (`bandfall paper run table2`). Data: Hamidieh, UCI,
doi 10.24432/C53P47; Salam and El Hibaoui, UCI, doi 10.24432/C5B034; both CC BY 4.0.""")
    return "\n".join(lines)
