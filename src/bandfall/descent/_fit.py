"""The driver: trains a Path on rows and targets, continues it, and cuts it back."""

from __future__ import annotations

import math
import sys
from contextlib import nullcontext
from dataclasses import replace
from typing import Protocol

import numpy as np

from bandfall._products import HOST, Backend, KernelOperator, WeightedOperator, operator_over
from bandfall._typing import Weights
from bandfall.descent._euler import Euler
from bandfall.descent._flow import Flow
from bandfall.descent._front import TrainingFront, Watcher
from bandfall.descent._path import Log, Path, Plan, column_means, column_norms, column_units
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

    def hold(
        self,
        operator: KernelOperator,
        bandwidth: float,
        eigenvalues: np.ndarray,
        weights: np.ndarray,
        time: float,
        stopping: Stopping,
    ) -> Rest:
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

    Returns
    -------
    Path
    """
    opened = (
        operator_over(backend, X, kernel, n_columns=y.shape[1])
        if operator is None
        else nullcontext(operator)
    )
    offset = column_means(y, weights)
    scale = column_norms(y, offset, weights)
    none = np.zeros(0)
    with opened as operator:
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
            bandwidth=_start(bandwidth, schedule.floor, operator),
            weights=weights,
            solver=solver,
            schedule=schedule,
            y=y,
            start_bandwidth=bandwidth,
        )
        if not np.any(scale > 0):
            return start.replace(r2=1.0)
        return _trained(start, schedule, stopping, backend, operator, watcher)


def resume_path(
    path: Path,
    *,
    schedule: Schedule,
    stopping: Stopping,
    backend: Backend = HOST,
    watcher: Watcher | None = None,
) -> Path:
    """Train a path further: to a higher R², a lower floor or more time; equal to one run.

    With a lower floor, training goes back to the moment at which the old floor was reached.
    """
    _solver_of(path)  # raises if there is none, even for a target that does not vary
    if not np.any(path.scale > 0):
        return path
    n_columns = path.residual.shape[1]
    with operator_over(backend, path.X, path.kernel, n_columns=n_columns) as operator:
        return _trained(path, schedule, stopping, backend, operator, watcher)


def _trained(
    path: Path,
    schedule: Schedule,
    stopping: Stopping,
    backend: Backend,
    operator: KernelOperator,
    watcher: Watcher | None,
) -> Path:
    """Continue the training of a path whose target varies."""
    solver = _solver_of(path)
    if stopping.max_iter is None:
        stopping = replace(stopping, max_iter=solver.max_iter)
    if path.schedule is not None and schedule.floor < path.schedule.floor < math.inf:
        path = _before_floor(path, schedule.floor, operator, backend)
    if path.weights is not None:
        operator = WeightedOperator(operator, path.weights)
    front, units = front_at_end(path, operator)
    root, dtype = _root_weights(path.weights), path.residual.dtype
    to_units = (root * units).astype(dtype)
    n_evaluations = operator.n_evaluations

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
            plan=front.plan,
            schedule=schedule,
            n_products=path.n_products + front.n_products,
            n_evaluations=path.n_evaluations + operator.n_evaluations - n_evaluations,
        )

    front.watcher, front.assemble = watcher, assemble
    # OpenBLAS may raise flags for unused lanes although the sums are right.
    with backend.threads(len(path.X)), np.errstate(invalid="ignore"):
        status = solver.run(front, schedule, stopping)
    trained = assemble(front, status)
    if not backend.trusted:
        _check_sums(path, trained, backend)
    return trained


def _check_sums(before: Path, after: Path, backend: Backend) -> None:
    """Raise an error if the stages of a path do not explain the change of its residual.

    Products and predictions are computed differently, so comparing them detects a faulty device.
    Differences that rounding explains are allowed: slow paths add and subtract large numbers.
    """
    gaps = _gaps(after, len(before), before.residual, backend)
    rounding = 10.0 * _rounding_units(after, len(before))
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
    return float(_gaps(path, 0, path.y - path.offset, backend).max())


def _gaps(path: Path, n_before: int, residual: np.ndarray, backend: Backend) -> np.ndarray:
    """Gap between the sum of later stages and the fall of `residual`, at a few rows, by column."""
    n = len(path.X)
    rows = np.linspace(0, n - 1, min(n, 256)).astype(int)
    new = path.undivided.part(slice(n_before, None))
    explained = new.evaluate(path.X[rows], backend=backend)
    changed = residual[rows] - path.residual[rows]
    return np.sqrt((((explained - changed) / _deviations(path)) ** 2).mean(axis=0))


def _rounding_units(path: Path, n_before: int = 0) -> np.ndarray:
    """Rounding unit of the coefficients of all later stages, for each column."""
    coefficients = path.coefficients[n_before:] / _deviations(path)
    return np.finfo(path.X.dtype).eps * np.sqrt((coefficients**2).sum(axis=(0, 1)))


def _deviations(path: Path) -> np.ndarray:
    """Standard deviation of each column of the target; ∞ if it is constant."""
    total_weight = float(len(path.X) if path.weights is None else path.weights.sum())
    return np.where(path.scale > 0, path.scale, np.inf) / math.sqrt(total_weight)


def front_at_end(path: Path, operator: KernelOperator) -> tuple[TrainingFront, np.ndarray]:
    """The final state of a path, and the units by which its targets were divided."""
    units = column_units(path.scale)
    residual = operator.array(_root_weights(path.weights) * path.residual / units)
    return TrainingFront(operator, residual, path.time, path.bandwidth, path.plan), units


def truncate_path(
    path: Path, *, time: float | None = None, r2: float | None = None, backend: Backend = HOST
) -> Path:
    """See `Path.truncate`."""
    if (time is None) == (r2 is None):
        raise ValueError("give exactly one of time and r2")
    if time is not None and not time >= 0:
        raise ValueError(f"time={time!r} must be at least 0")
    if r2 is not None and not 0 <= r2 <= 1:
        raise ValueError(f"r2={r2!r} must be between 0 and 1")
    max_r2, max_time = math.inf if r2 is None else r2, math.inf if time is None else time
    beyond = max_time >= path.time if r2 is None else max_r2 > path.r2
    if beyond or not len(path):
        return path
    if r2 is None:
        starts, limit = path.starts, max_time
    else:
        starts, limit = np.append(0.0, path.stage_r2[:-1]), max_r2
    cut = max(0, int(np.searchsorted(starts, limit)) - 1)  # the last stage that starts before
    stage, solver = path.stages[cut], _solver_of(path)
    if stage.step_size is not None:
        solver = replace(solver, step_size=stage.step_size)  # type: ignore[type-var]
    before = rewind_path(path, cut, backend).replace(
        bandwidth=stage.bandwidth, plan=Plan(start=stage.time, end=math.inf), solver=solver
    )
    stopping = Stopping(max_r2, max_time, max_iter=sys.maxsize)  # it has been trained before
    cut_path = resume_path(before, schedule=Constant(), stopping=stopping, backend=backend)
    # If training is resumed, the stage ends where it ended before.
    plan = Plan(start=stage.time, end=stage.time + stage.duration)
    return cut_path.replace(plan=plan, schedule=path.schedule, solver=path.solver)


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
        plan=Plan(start=start),
    )


def _before_floor(path: Path, floor: float, operator: KernelOperator, backend: Backend) -> Path:
    """The path up to the moment at which the old floor was reached."""
    old_floor = path.schedule.floor  # type: ignore[union-attr]
    reached = np.flatnonzero(path.bandwidths <= old_floor)
    if not len(reached):
        return path
    rewound = rewind_path(path, int(reached[0]), backend)
    if len(rewound):
        return rewound
    return rewound.replace(bandwidth=_start(path.start_bandwidth, floor, operator))


def _start(bandwidth: float | None, floor: float, operator: KernelOperator) -> float:
    """The start bandwidth: the given one, or the largest distance, but at least the floor."""
    if bandwidth is not None:
        return bandwidth
    distance = operator.max_distance()
    return max(distance, floor) if math.isfinite(floor) else distance


def _solver_of(path: Path) -> Solver:
    if path.solver is None:
        raise ValueError(
            "a path that is compressed or has several leaves cannot be trained further or truncated"
        )
    return path.solver


def _root_weights(weights: Weights) -> np.ndarray | float:
    return 1.0 if weights is None else np.sqrt(weights)[:, None]


def get_solver(solver: str | Solver) -> Solver:
    """A default `Flow` for "flow" or `Euler` for "euler"; a solver is returned unchanged."""
    if solver in ("flow", "euler"):
        return Flow() if solver == "flow" else Euler()
    if isinstance(solver, str):
        raise ValueError(
            f"solver={solver!r} is unknown; allowed: 'flow', 'euler', Flow(...), Euler(...)"
        )
    if not hasattr(solver, "run"):
        raise TypeError(f"solver={solver!r} must be 'flow', 'euler', or a solver with a method run")
    if not solver.shrink >= MIN_SHRINK:
        raise ValueError(
            f"solver={solver!r} must shrink the bandwidth by at least {MIN_SHRINK:g} at a time"
        )
    return solver
