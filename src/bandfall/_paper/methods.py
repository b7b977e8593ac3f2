"""The methods of the paper's tables on one split, by the paper's protocol (Appendices B and E).

Targets are centred over the whole split, so the constant-bandwidth methods fit no intercept, as in
the published experiments.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from sklearn.metrics import r2_score

from bandfall._estimators import KernelFlowCV, KernelRidgeCV, KernelRidgeMML, PaperMLPRegressor
from bandfall._paper.experiment import Entry
from bandfall._products import DenseOperator
from bandfall.datasets import Split
from bandfall.descent import Euler, Stopping, fit_path
from bandfall.descent._path import Path
from bandfall.descent._schedules import MinimumSpeed
from bandfall.kernels._kernel import get_kernel
from bandfall.rivals import permutation_folds

SPEEDS = (0.02, 0.05, 0.1, 0.2, 0.5)
STEP_SIZE = 0.01
MAX_R2 = 0.999
MAX_TIME = 1000.0


def method_key(method: str, min_speed: float | None = None) -> str:
    """Name of a method in results: ``"KGD-D 0.1"``, ``"KRR-CV"``."""
    return method if min_speed is None else f"{method} {min_speed:g}"


def descend(
    X: np.ndarray,
    y: np.ndarray,
    kernel: str,
    *,
    min_speed: float = 0.1,
    min_bandwidth: float = 0.0,
    operator: DenseOperator | None = None,
) -> Path:
    """Algorithm 1 with the paper's settings: step 0.01, R² limit 0.999, time limit 1000.

    An `operator` for these rows and this kernel lets several fits share their distances.
    """
    return fit_path(
        X,
        y[:, None],
        get_kernel(kernel),
        solver=Euler(STEP_SIZE),
        schedule=MinimumSpeed(min_speed, STEP_SIZE, min_bandwidth),
        stopping=Stopping(MAX_R2, MAX_TIME),
        operator=operator,
    )


def score_split(split: Split, seed: int, kernel: str, methods: Sequence[str]) -> Entry:
    """``test_r2`` and chosen parameters of several methods on one split, by `method_key`.

    The seed, which is the number of the split, draws the folds and the start points.
    """
    X, y = split.X_train, split.y_train
    scores: Entry = {}

    def score(key: str, prediction: np.ndarray, **chosen: object) -> None:
        scores[key] = {"test_r2": float(r2_score(split.y_test, prediction)), **chosen}

    for method in methods:
        match method:
            case "KGD-D":
                operator = DenseOperator(X, get_kernel(kernel))
                for speed in SPEEDS:
                    path = descend(X, y, kernel, min_speed=speed, operator=operator)
                    prediction = path.evaluate(split.X_test)[:, 0]
                    end = {"time": path.time, "status": path.status.value}
                    score(method_key(method, speed), prediction, **end)
            case "KRR-CV" | "KGF-CV":
                search = KernelRidgeCV if method == "KRR-CV" else KernelFlowCV
                folds = permutation_folds(len(y), seed)
                cv = search(kernel, cv=folds, fit_intercept=False).fit(X, y)
                score(method, cv.predict(split.X_test), **cv.best_params_)
            case "KRR-MML":
                mml = KernelRidgeMML(kernel, fit_intercept=False, random_state=seed).fit(X, y)
                chosen = {"bandwidth": mml.bandwidth_, "penalty": mml.penalty_}
                score(method, mml.predict(split.X_test), **chosen)
            case "MLP":
                mlp = PaperMLPRegressor(random_state=seed).fit(X, y)
                score(method, mlp.predict(split.X_test), epochs=mlp.n_iter_)
    return scores
