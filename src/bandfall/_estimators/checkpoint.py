"""Continuing the path of an earlier fit or of a checkpoint file."""

from __future__ import annotations

import os

import numpy as np

from bandfall._estimators.base import TrainingData
from bandfall._files.atomic import check_writable
from bandfall._files.checkpoint import check_named, load_path, save_path, warn_of
from bandfall.descent import Path
from bandfall.descent._fit import Solver
from bandfall.descent._recorder import Snapshot, Watcher
from bandfall.descent._schedules import Schedule
from bandfall.kernels._kernel import Kernel


def differences(
    path: Path, data: TrainingData, kernel: Kernel, solver: Solver, bandwidth: float | None
) -> list[str]:
    """Names of the data and settings in which a path differs from those of a fit."""
    same = {
        "X": np.array_equal(path.X, data.X),
        "dtype of X": path.X.dtype == data.X.dtype,
        "kernel": path.kernel == kernel,
        "solver": type(path.solver) is type(solver),
        "bandwidth": path.start_bandwidth == bandwidth,
        "sample_weight": _same_weights(path.weights, data.weights),
        "y": path.y is not None and np.array_equal(path.y, data.y),
    }
    return [name for name in same if not same[name]]


def check_same(
    path: Path, data: TrainingData, kernel: Kernel, solver: Solver, bandwidth: float | None
) -> None:
    """Raise ValueError if a path was trained on other data or with other settings."""
    if changed := differences(path, data, kernel, solver, bandwidth):
        raise ValueError(
            "warm_start=True continues the fitted path, which needs the same X, y, "
            "sample_weight, kernel, solver and start bandwidth as before (changed: "
            f"{', '.join(changed)}); use warm_start=False to start again"
        )


class Checkpoint:
    """The file that holds the path of a running fit."""

    def __init__(self, file: str | os.PathLike[str]):
        check_named(file)
        check_writable(file)  # now, not after the first stage
        self.file = file

    def load(
        self,
        data: TrainingData,
        kernel: Kernel,
        solver: Solver,
        bandwidth: float | None,
        schedule: Schedule,
    ) -> Path | None:
        """The path so far, None if there is no file; raises if it belongs to another fit."""
        if not os.path.exists(self.file):
            return None
        path = load_path(self.file)
        changed = differences(path, data, kernel, solver, bandwidth)
        if not changed and path.solver != solver:
            changed = ["settings of the solver"]
        if not changed and path.schedule != schedule:
            changed = ["min_speed, min_bandwidth or schedule"]
        if changed:
            raise ValueError(
                f"checkpoint {os.fspath(self.file)!r} is of another fit (different: "
                f"{', '.join(changed)}); remove it, or name another file"
            )
        return path

    def save(self, path: Path) -> None:
        """Replace the file; warn if that fails, because a full disk must not end the training."""
        try:
            save_path(path, self.file)
        except OSError as error:
            warn_of(error, self.file, "it holds an earlier stage, and training goes on")

    def before(self, watcher: Watcher) -> Watcher:
        """A watcher that saves the path before it calls another watcher."""

        def watch(progress: Snapshot) -> bool:
            self.save(progress.path())
            return watcher(progress)

        return watch


def _same_weights(before: np.ndarray | None, now: np.ndarray | None) -> bool:
    if before is None or now is None:
        return before is now
    return np.array_equal(before.astype(np.float64), now)
