"""Whether a fitted path may be continued: it must have been trained on the same."""

from __future__ import annotations

import numpy as np

from bandfall.backends import Backend
from bandfall.descent import Path
from bandfall.descent.fit import Solver
from bandfall.estimators._base import TrainingData
from bandfall.kernels import Kernel


def check_same(
    path: Path,
    data: TrainingData,
    kernel: Kernel,
    solver: Solver,
    bandwidth: float | None,
    backend: Backend,
) -> None:
    """Refuse to continue a path with other rows, targets or weights, or by other means."""
    changed = differences(path, data, kernel, solver, bandwidth, backend)
    if changed:
        raise ValueError(
            "warm_start=True continues the fitted path, which needs the same X, y, "
            "sample_weight, kernel, solver and start bandwidth as before (changed: "
            f"{', '.join(changed)}); use warm_start=False to start anew"
        )


def differences(
    path: Path,
    data: TrainingData,
    kernel: Kernel,
    solver: Solver,
    bandwidth: float | None,
    backend: Backend,
) -> list[str]:
    """Names of what a path was not trained on or with."""
    same = {
        "X": np.array_equal(path.X, data.X),
        "dtype of X": path.X.dtype == data.X.dtype,
        "kernel": path.kernel == kernel,
        "solver": type(path.solver) is type(solver),
        "bandwidth": path.start_bandwidth == bandwidth,
        "sample_weight": _same_weights(path.weights, data.weights),
    }
    same["y"] = all(same.values()) and _same_targets(path, data.y, backend)
    return [name for name in same if not same[name]]


def _same_weights(before: np.ndarray | None, now: np.ndarray | None) -> bool:
    if before is None or now is None:
        return before is now
    return np.array_equal(before.astype(np.float64), now)


def _same_targets(path: Path, y: np.ndarray, backend: Backend) -> bool:
    if path.y is not None:
        return np.array_equal(path.y, y)
    targets = path.targets(backend=backend)  # of a file of old: known to rounding
    tolerance = 1e-3 if path.X.dtype == np.float32 else 1e-6
    return targets.shape == y.shape and np.allclose(
        targets, y, rtol=tolerance, atol=tolerance * path.scale.max()
    )
