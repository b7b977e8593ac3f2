"""All floors at once: KGD-D for many `min_bandwidth` at about the price of one fit.

Runs that differ only in their floor share one trajectory until its bandwidth would fall below the
floor. From there the bandwidth is constant, and the rest of the run is a filter on the
eigenvalues of K at the floor, which kernel ridge regression uses too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from bandfall._checks import check_number
from bandfall._closed_form import Spectrum, ridge_filter
from bandfall._products import HOST, Backend, DenseOperator, check_dense_budget
from bandfall._typing import ArrayLike
from bandfall.descent._centring import column_units
from bandfall.descent._fit import Solver, fit_path, get_solver
from bandfall.descent._path import Path
from bandfall.descent._schedules import Front, MinimumSpeed, Schedule
from bandfall.descent._stopping import Status, Stopping
from bandfall.descent._sum import KernelSum
from bandfall.kernels._kernel import KernelLike, get_kernel


@dataclass(frozen=True)
class FloorSweep:
    """Predictions of KGD-D and of kernel ridge regression, one row per floor.

    Attributes
    ----------
    min_bandwidths : ndarray of shape (F,)
        The floors, as given.
    train, new : ndarray of shape (F, n) and (F, m); with (n, k) targets (F, n, k), (F, m, k)
        KGD-D with each floor, on training rows and on new rows.
    ridge_train, ridge_new : ndarray of the same shapes
        Kernel ridge regression with the floor as constant bandwidth.
    r2, time : ndarray of shape (F,)
        Training R² of KGD-D and training time at the end.
    status : tuple of F Status
        Why each run ended.
    """

    min_bandwidths: np.ndarray
    train: np.ndarray
    new: np.ndarray
    ridge_train: np.ndarray
    ridge_new: np.ndarray
    r2: np.ndarray
    time: np.ndarray
    status: tuple[Status, ...]


def floor_sweep(
    X: ArrayLike,
    y: ArrayLike,
    X_new: ArrayLike,
    min_bandwidths: ArrayLike,
    *,
    kernel: KernelLike = "gaussian",
    min_speed: float = 0.1,
    penalty: float = 1e-3,
    bandwidth: float | None = None,
    max_r2: float = 0.999,
    max_time: float | None = None,
    solver: str | Solver = "flow",
    backend: Backend = HOST,
) -> FloorSweep:
    """Train KGD-D with every floor, and kernel ridge regression at the same bandwidths.

    Equal to one ``KernelDescentRegressor(min_bandwidth=floor)`` per floor: the curves of
    Figures 1, 4, 6 and 7. If a floor is above the start bandwidth, the latter is raised to it.

    Parameters
    ----------
    X : array-like of shape (n, d)
    y : array-like of shape (n,) or (n, k)
    X_new : array-like of shape (m, d)
    min_bandwidths : array-like of shape (F,)
        Floors >= 0, in any order.
    kernel, min_speed, bandwidth, max_r2, max_time, solver, backend
        As in `KernelDescentRegressor`.
    penalty : float >= 0
        λ of the ridge regressions.

    Returns
    -------
    FloorSweep

    Examples
    --------
    >>> import numpy as np
    >>> from bandfall import floor_sweep
    >>> X = np.linspace(-1, 1, 20)[:, None]
    >>> sweep = floor_sweep(X, np.sin(3 * X[:, 0]), X[:5] + 0.05, [1.0, 0.3, 0.0])
    >>> sweep.new.shape
    (3, 5)
    >>> bool(sweep.r2[2] >= 0.999)
    True
    """
    X, targets, X_new = _checked_rows(X, y, X_new)
    floors = _checked_floors(min_bandwidths)
    check_number("min_speed", min_speed, low=0, low_open=True)
    check_number("penalty", penalty, low=0)
    check_number("bandwidth", bandwidth, low=0, allow_none=True)
    check_number("max_r2", max_r2, low=0, high=1, low_open=True)
    check_number("max_time", max_time, low=0, low_open=True, allow_none=True)
    check_dense_budget(len(X), X.dtype, backend.budget)
    operator = DenseOperator(X, get_kernel(kernel), X.dtype)
    solver = get_solver(solver)
    stopping = Stopping(max_r2, math.inf if max_time is None else max_time)
    watch = _FloorWatch(MinimumSpeed(min_speed, solver.shrink, float(floors.min())), floors)
    path = fit_path(
        X,
        targets,
        operator.kernel,
        solver=solver,
        schedule=watch,
        stopping=stopping,
        bandwidth=None if bandwidth is None else max(bandwidth, watch.floor),
        operator=operator,
        watcher=lambda progress: watch.complete,
    )
    branches = _Branches(path, watch, operator, X_new, targets, stopping, backend)
    rows = [branches.row(floor, penalty) for floor in floors]
    predictions, r2, time, status = zip(*rows, strict=True)
    shape = slice(None) if np.ndim(y) == 2 else 0
    train, new, ridge_train, ridge_new = (
        np.stack(part)[..., shape] for part in zip(*predictions, strict=True)
    )
    return FloorSweep(
        floors, train, new, ridge_train, ridge_new, np.array(r2), np.array(time), status
    )


class _Seen(NamedTuple):
    """The state of training when a floor was first reached."""

    residual: np.ndarray
    time: float


@dataclass
class _FloorWatch:
    """A schedule that records the state of training when the bandwidth reaches each floor."""

    schedule: Schedule
    floors: np.ndarray
    seen: dict[float, _Seen] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._ahead = sorted(set(self.floors.tolist()))

    @property
    def floor(self) -> float:
        return self.schedule.floor

    @property
    def complete(self) -> bool:
        """Whether every floor has been reached, so that the shared trajectory may end."""
        return not self._ahead

    def next_bandwidth(self, front: Front) -> float:
        bandwidth = self.schedule.next_bandwidth(front)
        while self._ahead and bandwidth <= self._ahead[-1]:
            self.seen[self._ahead.pop()] = _Seen(front.residual, front.time)  # type: ignore
        return bandwidth

    def threshold(self, bandwidth: float) -> float:
        return self.schedule.threshold(bandwidth)

    def span(self, front: Front) -> float:
        return self.schedule.span(front)


@dataclass(frozen=True)
class _Branches:
    """The runs that leave the shared trajectory, one per floor."""

    path: Path
    watch: _FloorWatch
    operator: DenseOperator
    X_new: np.ndarray
    y: np.ndarray
    stopping: Stopping
    backend: Backend

    @cached_property
    def _staged(self) -> np.ndarray:
        """f̂ at the new rows after 0, 1, 2, … stages."""
        staged = self.path.evaluate_staged(self.X_new, backend=self.backend)
        return np.concatenate([np.broadcast_to(self.path.offset, (1, *staged.shape[1:])), staged])

    def row(
        self, floor: float, penalty: float
    ) -> tuple[tuple[np.ndarray, ...], float, float, Status]:
        """Train the branch of this floor, and ridge regression at it.

        Returns predictions, four arrays as in `FloorSweep`; R², time and status of the branch.
        """
        path, spectrum = self.path, Spectrum(self.operator.matrix(floor))
        centred = self.y - path.offset
        ridge = spectrum.coefficients(centred, ridge_filter(spectrum.eigenvalues, penalty))
        seen = self.watch.seen.get(floor)
        if seen is None:  # the shared run ended before it came down to this floor
            new, coefficients = self._staged[-1], np.zeros_like(ridge)
            residual, r2, time, status = path.residual, path.r2, path.time, path.status
        else:
            projected = spectrum.eigenvectors.T @ seen.residual
            weights = np.einsum("nk,nk->n", projected, projected)
            solver: Solver = path.solver  # type: ignore[assignment]
            hold = solver.hold(
                self.operator, floor, spectrum.eigenvalues, weights, seen.time, self.stopping
            )
            decay = 1.0 - spectrum.eigenvalues * hold.filters
            r2 = 1.0 - float(weights @ decay**2)
            time, status = seen.time + hold.duration, hold.status
            projected = projected * column_units(path.scale)
            residual = spectrum.eigenvectors @ (decay[:, None] * projected)
            coefficients = spectrum.eigenvectors @ (hold.filters[:, None] * projected)
            new = self._staged[np.searchsorted(path.starts, seen.time)]
        K_new = self._at_new_rows(floor, np.hstack([coefficients, ridge]))
        n_outputs = self.y.shape[1]
        predictions = (
            self.y - residual,
            new + K_new[:, :n_outputs],
            path.offset + self.operator.product(floor, ridge),
            path.offset + K_new[:, n_outputs:],
        )
        return predictions, r2, time, status

    def _at_new_rows(self, bandwidth: float, coefficients: np.ndarray) -> np.ndarray:
        extra = KernelSum(
            self.path.X,
            self.path.kernel,
            np.array([bandwidth]),
            coefficients[None],
            np.zeros(coefficients.shape[1]),
        )
        return extra.evaluate(self.X_new, backend=self.backend)


def _checked_rows(
    X: ArrayLike, y: ArrayLike, X_new: ArrayLike
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """float64 X (n, d), y (n, k), X_new (m, d)."""
    X, y, X_new = (np.asarray(given, dtype=np.float64) for given in (X, y, X_new))
    targets = y[:, None] if y.ndim == 1 else y
    for name, rows in (("X", X), ("y", targets), ("X_new", X_new)):
        if rows.ndim != 2 or rows.size == 0 or not np.all(np.isfinite(rows)):
            raise ValueError(
                f"{name} must be a non-empty table of finite numbers; got shape {rows.shape}"
            )
    if len(X) != len(targets) or X.shape[1] != X_new.shape[1]:
        raise ValueError(
            f"X {X.shape}, y {y.shape} and X_new {X_new.shape} must agree: as many rows in X "
            "as in y, as many columns in X as in X_new"
        )
    return X, targets, X_new


def _checked_floors(min_bandwidths: ArrayLike) -> np.ndarray:
    floors = np.asarray(min_bandwidths, dtype=np.float64)
    if floors.ndim != 1 or len(floors) == 0 or not np.all(floors >= 0):
        raise ValueError(
            f"min_bandwidths={min_bandwidths!r} must be a non-empty list of numbers >= 0"
        )
    return floors
