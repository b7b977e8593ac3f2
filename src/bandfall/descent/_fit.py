"""The driver: trains a Path on rows and targets, and cuts it back."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Protocol

import numpy as np

from bandfall._products import HOST, Backend, KernelOperator, WeightedOperator, operator_over
from bandfall._typing import Weights
from bandfall.descent._euler import Euler
from bandfall.descent._flow import Flow
from bandfall.descent._front import TrainingFront, Watcher
from bandfall.descent._path import Log, Path, column_means, column_norms, column_units
from bandfall.descent._schedules import MIN_SHRINK, Constant, Schedule
from bandfall.descent._stopping import Rest, Status, Stopping
from bandfall.descent._sum import KernelSum
from bandfall.kernels._kernel import Kernel


class Solver(Protocol):
    """Trains along a schedule until a limit is reached."""

    @property
    def shrink(self) -> float:
        """The relative size of one bandwidth shrink."""

    @property
    def max_iter(self) -> int:
        """Bound on iterations."""

    def run(self, front: TrainingFront, schedule: Schedule, stopping: Stopping) -> Status:
        """Move the front along the schedule and return why training ended."""

    @property
    def hold(self) -> Callable[..., Rest]:
        """The rest of a run at one bandwidth, from the eigenvalues; see `Euler.hold`."""


def fit_path(
    X: np.ndarray,
    y: np.ndarray,
    kernel: Kernel,
    *,
    solver: Solver,
    schedule: Schedule,
    stopping: Stopping,
    bandwidth: float | None = None,
    weights: Weights = None,
    backend: Backend = HOST,
    operator: KernelOperator | None = None,
    watcher: Watcher | None = None,
) -> Path:
    """Train kernel gradient descent with a changing bandwidth (Equation 2, Algorithm 1).

    Parameters
    ----------
    X : ndarray of shape (n, d), float32 or float64
    y : ndarray of shape (n, k), float32 or float64
        Centred in float64 before it is rounded to the dtype of X.
    kernel : Kernel
    solver, schedule, stopping
        How to take steps, choose bandwidths, and end.
    bandwidth : float, optional
        Start bandwidth; by default the largest distance between two rows, or the schedule's
        floor if that is larger.
    weights : ndarray of shape (n,), optional
        A row of weight w counts as w equal rows.
    backend : Backend
        Where to compute, and in how much memory.
    operator : KernelOperator, optional
        An existing operator for the rows of X.
    watcher : callable (TrainingFront) -> bool, optional
        Called after every stage; True ends training.
    """
    offset = column_means(y, weights)
    scale = column_norms(y, offset, weights)
    none = np.zeros(0)
    opened = (
        operator_over(backend, X, kernel, n_columns=y.shape[1])
        if operator is None
        else nullcontext(operator)
    )
    with opened as operator:
        if bandwidth is None:
            floor = schedule.floor if math.isfinite(schedule.floor) else 0.0
            bandwidth = max(operator.max_distance(), floor)
        start = Path(
            model=KernelSum(X, kernel, none, np.zeros((0, *y.shape), X.dtype), offset),
            starts=none,
            durations=none,
            step_sizes=none,
            scale=scale,
            # Rounding in constant columns must not be trained on.
            residual=((y - offset) * (scale > 0)).astype(X.dtype),
            log=Log(*np.zeros((5, 0))),
            time=0.0,
            r2=0.0,
            status=Status.CONSTANT_TARGET,
            bandwidth=bandwidth,
            weights=weights,
            solver=solver,
            y=y,
        )
        if not np.any(scale > 0):
            return start.replace(r2=1.0)
        path = _trained(start, solver, schedule, stopping, backend, operator, watcher)
    if not backend.trusted:
        _check_sums(path, backend)
    return path


def _trained(
    path: Path,
    solver: Solver,
    schedule: Schedule,
    stopping: Stopping,
    backend: Backend,
    operator: KernelOperator,
    watcher: Watcher | None = None,
) -> Path:
    """Train a path on from its end."""
    if path.weights is not None:
        operator = WeightedOperator(operator, path.weights)
    front, units = front_at_end(path, operator)
    root, dtype = _root_weights(path.weights), path.residual.dtype
    to_units = (root * units).astype(dtype)

    def assemble(front: TrainingFront, status: Status) -> Path:
        stages, log = front.record()
        blocks = [stage.coefficients[None] * to_units for stage in stages]
        return path.replace(
            bandwidths=np.append(path.bandwidths, [stage.bandwidth for stage in stages]),
            coefficients=np.concatenate([path.coefficients, *blocks]),
            starts=np.append(path.starts, [stage.time for stage in stages]),
            durations=np.append(path.durations, [stage.duration for stage in stages]),
            step_sizes=np.append(path.step_sizes, [stage.step_size or 0.0 for stage in stages]),
            log=path.log + log,
            residual=operator.numpy(front.residual) * (units / root).astype(dtype),
            time=front.time,
            r2=front.r2,
            status=status,
            bandwidth=front.bandwidth,
            n_products=path.n_products + front.n_products,
        )

    front.watcher, front.assemble = watcher, assemble
    # OpenBLAS may raise flags for unused lanes although the sums are right.
    with backend.threads(len(path.X)), np.errstate(invalid="ignore"):
        return assemble(front, solver.run(front, schedule, stopping))


def front_at_end(path: Path, operator: KernelOperator) -> tuple[TrainingFront, np.ndarray]:
    """The final state of a path, and the units by which its targets were divided."""
    units = column_units(path.scale)
    residual = operator.array(_root_weights(path.weights) * path.residual / units)
    return TrainingFront(operator, residual, path.time, path.bandwidth), units


def _root_weights(weights: Weights) -> np.ndarray | float:
    return 1.0 if weights is None else np.sqrt(weights)[:, None]


def truncate_path(
    path: Path, *, time: float | None = None, r2: float | None = None, backend: Backend = HOST
) -> Path:
    """See `Path.truncate`."""
    if (time is None) == (r2 is None):
        raise ValueError("give exactly one of time and r2")
    if not (r2 is None or 0 <= r2 <= 1) or not (time is None or time >= 0):
        raise ValueError(f"time={time!r} must be at least 0, and r2={r2!r} in [0, 1]")
    max_r2, max_time = math.inf if r2 is None else r2, math.inf if time is None else time
    beyond = max_time >= path.time if r2 is None else max_r2 > path.r2
    if beyond or not len(path):
        return path
    solver = path.solver
    if solver is None:
        raise ValueError("a path that is compressed or has several leaves cannot be truncated")
    if r2 is None:
        starts, limit = path.starts, max_time
    else:
        starts, limit = np.append(0.0, path.stage_r2[:-1]), max_r2
    cut = max(0, int(np.searchsorted(starts, limit)) - 1)  # the last stage that starts before
    stage = path.stages[cut]
    if stage.step_size is not None:
        solver = replace(solver, step_size=stage.step_size)  # type: ignore[type-var]
    before = rewind_path(path, cut, backend).replace(bandwidth=stage.bandwidth)
    stopping, n_columns = Stopping(max_r2, max_time), path.residual.shape[1]
    with operator_over(backend, path.X, path.kernel, n_columns=n_columns) as operator:
        return _trained(before, solver, Constant(), stopping, backend, operator)


def rewind_path(path: Path, n_stages: int, backend: Backend = HOST) -> Path:
    """The path as it was after its first `n_stages` stages."""
    if n_stages >= len(path):
        return path
    kept, gone = slice(0, n_stages), slice(n_stages, None)
    start = float(path.starts[n_stages])
    added = path.undivided.part(gone).evaluate(path.X, backend=backend)
    return path.replace(
        bandwidths=path.bandwidths[kept],
        coefficients=path.coefficients[kept],
        starts=path.starts[kept],
        durations=path.durations[kept],
        step_sizes=path.step_sizes[kept],
        status=Status.CUT_BACK,
        residual=(path.residual + added).astype(path.residual.dtype),
        log=path.log.before(start),
        time=start,
        r2=float(path.stage_r2[n_stages - 1]) if n_stages else 0.0,
        bandwidth=float(path.bandwidths[max(0, n_stages - 1)]),
    )


def _check_sums(path: Path, backend: Backend) -> None:
    """Raise an error if the predictions of a path do not explain its residual.

    Products and predictions are computed differently, so comparing them detects a faulty device.
    Differences that rounding explains are allowed: slow paths add and subtract large numbers.
    """
    gaps, rounding = _gaps(path, backend), 10.0 * _rounding_units(path)
    if not np.all(gaps <= np.maximum(0.05, rounding)):  # standard deviations of the target
        raise RuntimeError(
            f"{backend!r} returned sums that do not agree with each other (they differ by "
            f"{gaps.max():.2g} standard deviations of the target); fit again, or compute with NumPy"
        )


def rounding_gap(path: Path, backend: Backend = HOST) -> float:
    """Root mean square difference between the residual of a path and that of its predictions.

    In standard deviations of the target; 0 if the coefficients are too small for one.
    """
    if not len(path) or _rounding_units(path).max() < 0.02:  # not worth measuring
        return 0.0
    return float(_gaps(path, backend).max())


def _gaps(path: Path, backend: Backend) -> np.ndarray:
    """`rounding_gap` of each column, at a few rows."""
    rows = np.linspace(0, len(path.X) - 1, min(len(path.X), 256)).astype(int)
    found = path.evaluate(path.X[rows], backend=backend) + path.residual[rows]
    return np.sqrt((((found - path.y[rows]) / _deviations(path)) ** 2).mean(axis=0))


def _rounding_units(path: Path) -> np.ndarray:
    """Rounding unit of the coefficients of all stages, for each column."""
    coefficients = path.coefficients / _deviations(path)
    return np.finfo(path.X.dtype).eps * np.sqrt((coefficients**2).sum(axis=(0, 1)))


def _deviations(path: Path) -> np.ndarray:
    """Standard deviation of each column of the target; ∞ if it is constant."""
    total_weight = float(len(path.X) if path.weights is None else path.weights.sum())
    return np.where(path.scale > 0, path.scale, np.inf) / math.sqrt(total_weight)


def get_solver(solver: str | Solver) -> Solver:
    """A default `Flow` for "flow" or `Euler` for "euler"; a solver is returned unchanged."""
    if isinstance(solver, str) and solver in ("flow", "euler"):
        return Flow() if solver == "flow" else Euler()
    if isinstance(solver, str) or not hasattr(solver, "run") or not solver.shrink >= MIN_SHRINK:
        raise ValueError(
            f"solver={solver!r} must be 'flow', 'euler', Flow(...), Euler(...), or a solver with a "
            f"method run and a shrink of at least {MIN_SHRINK:g}"
        )
    return solver
