"""All floors at once: KGD-D for many `min_bandwidth` at about the price of one fit.

Runs share one trajectory until its bandwidth would fall below their floor. The rest of a run is a
filter on the eigenvalues of K at the floor, which kernel ridge regression uses too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from bandfall._checks import check_number
from bandfall._closed_form import Spectrum, ridge_filter
from bandfall._products import HOST, Backend, DenseOperator, check_dense_budget
from bandfall._typing import ArrayLike
from bandfall.descent._fit import Solver, fit_path, get_solver
from bandfall.descent._front import TrainingFront
from bandfall.descent._path import Path, column_units
from bandfall.descent._schedules import MinimumSpeed
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
    X, targets, X_new, floors = _checked(X, y, X_new, min_bandwidths)
    check_number("min_speed", min_speed, low=0, low_open=True)
    check_number("penalty", penalty, low=0)
    check_number("bandwidth", bandwidth, low=0, allow_none=True)
    check_number("max_r2", max_r2, low=0, high=1, low_open=True)
    check_number("max_time", max_time, low=0, low_open=True, allow_none=True)
    check_dense_budget(len(X), X.dtype, backend.budget)
    operator = DenseOperator(X, get_kernel(kernel), X.dtype)
    solver = get_solver(solver)
    stopping = Stopping(max_r2, math.inf if max_time is None else max_time)
    watch = _FloorWatch(min_speed, solver.shrink, float(floors.min()), sorted(set(floors.tolist())))
    path = fit_path(
        X,
        targets,
        operator.kernel,
        solver=solver,
        schedule=watch,
        stopping=stopping,
        bandwidth=None if bandwidth is None else max(bandwidth, watch.floor),
        operator=operator,
        watcher=lambda front: not watch.ahead,
    )
    staged = path.evaluate_staged(X_new, backend=backend)
    staged = np.concatenate([np.broadcast_to(path.offset, (1, *staged.shape[1:])), staged])
    ends, train, new, ridge_train, ridge_new = [], [], [], [], []
    for floor in floors:
        K = Spectrum(operator.matrix(floor))
        end = watch.end_at(floor, K, path, operator, stopping)
        ridge = K.coefficients(targets - path.offset, ridge_filter(K.eigenvalues, penalty))
        blocks = np.hstack([end.coefficients, ridge])[None]
        at_floor = KernelSum(X, path.kernel, np.array([floor]), blocks, np.zeros(blocks.shape[2]))
        new_rest, new_ridge = np.hsplit(at_floor.evaluate(X_new, backend=backend), 2)
        ends.append(end)
        train.append(targets - end.residual)
        new.append(staged[end.n_stages] + new_rest)
        ridge_train.append(path.offset + operator.product(floor, ridge))
        ridge_new.append(path.offset + new_ridge)
    _, _, _, r2, time, status = zip(*ends, strict=True)
    shape = slice(None) if np.ndim(y) == 2 else 0
    return FloorSweep(
        floors,
        np.stack(train)[..., shape],
        np.stack(new)[..., shape],
        np.stack(ridge_train)[..., shape],
        np.stack(ridge_new)[..., shape],
        np.array(r2),
        np.array(time),
        status,
    )


class _End(NamedTuple):
    """The end of a run: the shared stages, and the rest of training at its floor."""

    n_stages: int
    coefficients: np.ndarray  # (n, k): of the rest
    residual: np.ndarray  # (n, k)
    r2: float
    time: float
    status: Status


def _checked(
    X: ArrayLike, y: ArrayLike, X_new: ArrayLike, min_bandwidths: ArrayLike
) -> tuple[np.ndarray, ...]:
    """float64 X (n, d), y (n, k), X_new (m, d) and floors (F,)."""
    X, X_new, targets, floors = (
        np.asarray(given, dtype=np.float64) for given in (X, X_new, y, min_bandwidths)
    )
    targets = targets[:, None] if targets.ndim == 1 else targets
    filled = all(rows.size and np.isfinite(rows).all() for rows in (X, X_new, targets))
    shapes = (X.shape[:1], X.shape[1:], targets.ndim)
    if shapes != (targets.shape[:1], X_new.shape[1:], 2) or X.ndim != 2 or not filled:
        raise ValueError(
            "X (n, d), y (n,) or (n, k) and X_new (m, d) must be finite numbers; got shapes "
            f"{X.shape}, {np.shape(y)} and {X_new.shape}"
        )
    if floors.ndim != 1 or not floors.size or not np.all(floors >= 0):
        raise ValueError(f"min_bandwidths={min_bandwidths!r} must be a list of numbers >= 0")
    return X, targets, X_new, floors


@dataclass(frozen=True)
class _FloorWatch(MinimumSpeed):
    """Remembers residual and time of the moment at which the bandwidth reaches each floor."""

    ahead: list[float] = field(default_factory=list)  # floors still to reach, rising
    seen: dict[float, tuple[np.ndarray, float]] = field(default_factory=dict)

    def next_bandwidth(self, front: TrainingFront) -> float:
        bandwidth = super().next_bandwidth(front)
        while self.ahead and bandwidth <= self.ahead[-1]:
            self.seen[self.ahead.pop()] = (front.residual, front.time)
        return bandwidth

    def end_at(
        self, floor: float, K: Spectrum, path: Path, operator: DenseOperator, stopping: Stopping
    ) -> _End:
        """The end of the run with a floor: of the shared run, or in closed form after it."""
        if floor not in self.seen:
            nothing = np.zeros_like(path.residual)
            return _End(len(path), nothing, path.residual, path.r2, path.time, path.status)
        residual, start = self.seen[floor]
        projected = K.eigenvectors.T @ residual
        weights = np.einsum("nk,nk->n", projected, projected)
        assert path.solver is not None
        rest = path.solver.hold(operator, floor, K.eigenvalues, weights, start, stopping)
        left, targets = 1.0 - K.eigenvalues * rest.filters, projected * column_units(path.scale)
        return _End(
            int(np.searchsorted(path.starts, start)),
            K.eigenvectors @ (rest.filters[:, None] * targets),
            K.eigenvectors @ (left[:, None] * targets),
            1.0 - float(weights @ left**2),
            start + rest.duration,
            rest.status,
        )
