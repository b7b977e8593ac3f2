"""The state of training, and the record of its steps."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bandfall._products import KernelOperator
from bandfall._typing import Array
from bandfall.descent._path import Log, Path, Stage
from bandfall.descent._stopping import Status, Stopping


class TrainingFront:
    """State r(t) = y − f̂(t) under r′ = −K(σ) r, scaled so that ‖y‖² = 1, hence R² = 1 − ‖r‖².

    Keeps the speed and the product K(σ) r of the last requested bandwidth, so that the step after a
    search costs no further product. Consecutive steps of equal bandwidth and step size form one
    stage. `watcher` is called after every stage; True ends training. `assemble` makes a Path.
    """

    watcher: Watcher | None = None
    assemble: Callable[[TrainingFront, Status], Path]

    def __init__(self, operator: KernelOperator, residual: Array, time: float, bandwidth: float):
        self.operator = operator
        self.bandwidth = bandwidth
        self.n_products = 0
        self._tolerance = -100.0 * operator.n_rows * float(np.finfo(operator.dtype).eps)
        self._log: list[tuple[float, ...]] = []
        self._stages: list[Stage] = []  # before the current one
        self._key: tuple[float, float | None] | None = None  # bandwidth, step size
        self._n_watched = 0
        self._move_to(residual, time)

    @property
    def r2(self) -> float:
        """R² on training data (Algorithm 1, line 4)."""
        return 1.0 - self.squared_norm

    def _move_to(self, residual: Array, time: float) -> None:
        self.residual = residual
        self.time = time
        self.squared_norm = float((residual * residual).sum())
        self._speeds: dict[float, float] = {}
        self._velocity_bandwidth: float | None = None
        self._limit_speed: float | None = None

    def velocity(self, bandwidth: float) -> Array:
        """K(bandwidth) r = −r′; kept until the residual or the bandwidth changes."""
        if bandwidth != self._velocity_bandwidth:
            self._velocity = self.operator.product(bandwidth, self.residual)
            self._velocity_bandwidth = bandwidth
            self.n_products += 1
        return self._velocity

    def speed(self, bandwidth: float) -> float:
        """2 rᵀK(bandwidth)r / yᵀy (Equation 7)."""
        if bandwidth in self._speeds:
            return self._speeds[bandwidth]
        if not bandwidth >= 0.0:
            raise ValueError(f"the schedule gives the bandwidth {bandwidth!r}, not one in [0, inf]")
        speed = 2.0 * float((self.residual * self.velocity(bandwidth)).sum())
        if not speed >= self._tolerance * self.squared_norm:  # NaN neither
            raise ValueError(
                f"kernel {self.operator.kernel.name!r} is not positive semi-definite on these "
                f"rows: rᵀKr = {speed / 2:.3g} < 0 at bandwidth {bandwidth:.6g}"
            )
        self._speeds[bandwidth] = speed
        return speed

    def know_speed(self, bandwidth: float, speed: float) -> None:
        """Set a speed that is already known, to save a product."""
        self._speeds[bandwidth] = speed

    def limit_speed(self) -> float:
        """2 rᵀK(0)r / yᵀy: the speed in the limit of bandwidth zero."""
        if self._limit_speed is None:
            limit = self.operator.product(0.0, self.residual)
            self._limit_speed = 2.0 * float((self.residual * limit).sum())
        return self._limit_speed

    def speed_ceiling(self, bandwidth: float) -> float:
        """A bound on speed(σ) for every σ ≤ bandwidth."""
        self.n_products += 1
        return float(speed_ceilings(self.operator, bandwidth, self.residual).sum())

    def step(
        self,
        coefficients: Array,
        residual: Array,
        time: float,
        duration: float,
        step_size: float | None = None,
    ) -> None:
        """Add k_σ(·, X) @ coefficients, σ the bandwidth, and move on; step_size=None: exact flow.

        `coefficients` are kept.
        """
        speed = self.speed(self.bandwidth)
        self._log.append((self.time, self.bandwidth, self.r2, speed, duration))
        if (self.bandwidth, step_size) != self._key:
            self._stages = self._all_stages()
            self._key, self._start, self._duration = (self.bandwidth, step_size), self.time, 0.0
            self._coefficients = coefficients
        else:
            self._coefficients = self._coefficients + coefficients  # copies keep the old ones
        self._duration += duration
        self._move_to(residual, time)

    def ended(self, stopping: Stopping) -> Status | None:
        """The limit that is reached now, if any; INTERRUPTED if the watcher ends training."""
        status = stopping.check(r2=self.r2, time=self.time)
        n_stages = len(self._stages) + (self._key is not None)
        if status is not None or self.watcher is None or self._n_watched == n_stages:
            return status
        self._n_watched = n_stages
        state = object.__new__(TrainingFront)  # unchanged by later steps, which may be interrupted
        vars(state).update(vars(self), _log=list(self._log))
        return Status.INTERRUPTED if self.watcher(state) else None

    def path(self) -> Path:
        """The model so far."""
        return self.assemble(self, Status.INTERRUPTED)

    def record(self) -> tuple[list[Stage], Log]:
        """All stages so far, including the current one, and the log."""
        return self._all_stages(), Log(*np.array(self._log, dtype=float).reshape(-1, 5).T)

    def _all_stages(self) -> list[Stage]:
        if self._key is None:
            return self._stages
        bandwidth, step_size = self._key
        coefficients = self.operator.numpy(self._coefficients).copy()
        current = Stage(bandwidth, coefficients, self._start, self._duration, step_size)
        return [*self._stages, current]


# Called after every stage with a copy of the front; True ends training.
Watcher = Callable[[TrainingFront], bool]


def speed_ceilings(operator: KernelOperator, bandwidth: float, residual: Array) -> Array:
    """A bound on what each column adds to speed(σ) for every σ ≤ bandwidth.

    With E(σ) = K(σ) − K(0) ≥ 0 and falling with σ, rᵀE(σ)r ≤ |r|ᵀE(bandwidth)|r|.
    """
    magnitude = abs(residual)
    excess = operator.product(bandwidth, magnitude) - operator.product(0.0, magnitude)
    return 2.0 * (residual * operator.product(0.0, residual) + magnitude * excess).sum(0)
