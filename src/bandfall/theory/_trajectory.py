"""A path over training time, fine enough for the integrals of Theorem 1."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np

from bandfall._products import KernelOperator
from bandfall._typing import Array, ArrayLike
from bandfall.descent import Path
from bandfall.descent._fit import front_at_end
from bandfall.descent._front import TrainingFront
from bandfall.descent._krylov import KrylovSpace
from bandfall.descent._path import Log
from bandfall.theory._inputs import PathSource, as_path, non_negative, operator_for, trained_path

KRYLOV_TOLERANCE = 1e-8
KRYLOV_DIMENSION = 128
MAX_TIMES = 1000


@dataclass(frozen=True)
class Trajectory:
    """The M steps of a path over training time."""

    time: np.ndarray  # (M + 1,): start of every step, and the end
    duration: np.ndarray  # (M,)
    residual: np.ndarray  # (M + 1,): ‖r(t)‖ / ‖y‖ = √(1 − R²) at those times
    # (M,): ∫ ‖r‖ dτ / ‖y‖ over each step: the Euler sum or, for exact flow, the logarithmic mean
    # of both ends, slightly above the integral because ‖r‖ is log-convex.
    residual_integral: np.ndarray
    bandwidths: np.ndarray  # (B,): the distinct bandwidths, rising
    bandwidth_index: np.ndarray  # (M,): which of them each step used

    @classmethod
    def from_path(cls, path: Path) -> Trajectory:
        """The steps of `fine_log`."""
        log = fine_log(path)
        bandwidths, index = np.unique(log.bandwidth, return_inverse=True)
        residual = np.sqrt(np.maximum(1.0 - np.append(log.r2, path.r2), 0.0))
        euler = path.step_sizes[_stage_index(path, log)] > 0
        mean = np.where(euler, residual[:-1], logarithmic_mean(residual[:-1], residual[1:]))
        return cls(
            time=np.append(log.time, path.time),
            duration=log.duration,
            residual=residual,
            residual_integral=log.duration * mean,
            bandwidths=bandwidths,
            bandwidth_index=index.reshape(-1),
        )

    def thinned(self) -> np.ndarray:
        """At most `MAX_TIMES` indices into `time`, including the first and the last."""
        size = min(MAX_TIMES, len(self.time))
        return np.linspace(0, len(self.time) - 1, size).round().astype(int)

    def integral_by_bandwidth(self, values: np.ndarray, at: np.ndarray) -> np.ndarray:
        """Σ of one value per step up to each time in `at`, by bandwidth, shape (len(at), B)."""
        table = np.zeros((len(at), len(self.bandwidths)))
        # A step counts from the first reported time at or after its end.
        first = np.searchsorted(at, np.arange(1, len(self.time)))
        np.add.at(table, (first, self.bandwidth_index), values)
        return np.cumsum(table, axis=0)


def fine_log(path: PathSource) -> Log:
    """A path's log with the inside of long flow steps filled in.

    The flow solver takes one step per bandwidth, however long. Inside it, R² and speed are sums of
    exponentials, which one Krylov space gives at any time. A step over which the residual falls by
    more than 2 % becomes 64 steps, geometrically spaced. Euler steps are kept.
    """
    path = trained_path(path)
    stage_of = _stage_index(path, path.log)
    norm = np.sqrt(np.maximum(1.0 - np.append(path.log.r2, path.r2), 1e-300))
    coarse = (np.log(norm[:-1] / norm[1:]) > 0.02) & (path.step_sizes[stage_of] == 0)
    if not coarse.any():
        return path.log
    table = np.stack([getattr(path.log, field.name) for field in fields(Log)])
    parts = []
    with operator_for(path.X, path.kernel, path.weights) as operator:
        # r = y before the first stage, and each stage subtracts K c.
        target = (path.y - path.offset) * (path.scale > 0)
        start, units = front_at_end(path.replace(residual=target), operator)
        residual = start.residual
        root = 1.0 if path.weights is None else np.sqrt(path.weights)[:, None]
        for index, stage in enumerate(path.stages):
            columns = table[:, stage_of == index]
            if coarse[stage_of == index].any():
                columns = _resolved(operator, residual, columns)
            parts.append(columns)
            coefficients = operator.array(stage.coefficients / (root * units))
            residual = residual - operator.product(stage.bandwidth, coefficients)
    return Log(*np.concatenate(parts, axis=1))


def logarithmic_mean(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """(a − b)/(log a − log b): the mean of an exponential between a ≥ b ≥ 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = (a - b) / a
        mean = (a - b) / -np.log1p(-relative)
    # If a and b are nearly equal, the logarithm has no digits left.
    return np.where(relative > 1e-9, mean, 0.5 * (a + b))


def _resolved(operator: KernelOperator, residual: Array, columns: np.ndarray) -> np.ndarray:
    """The flow steps of one stage (columns of a log), resolved in Krylov spaces."""
    parts = []
    for column in columns.T:
        start, bandwidth, r2, speed, duration = column
        if duration == 0.0:
            parts.append(column[:, None])
            continue
        # Denser at the start of a step, where log ‖r‖ falls fastest.
        rate = 0.5 * speed / max(1.0 - r2, np.finfo(float).tiny)
        first = 0.5 * duration if rate * duration < 0.02 else 0.01 / rate
        times = np.append(0.0, np.geomspace(first, duration, 64)[:-1])
        squares, speeds, residual = inside_step(operator, bandwidth, residual, times, duration)
        durations = np.diff(np.append(times, duration))
        constant = np.full(len(times), bandwidth)
        parts.append(np.stack([start + times, constant, 1.0 - squares, speeds, durations]))
    return np.concatenate(parts, axis=1)


def inside_step(
    operator: KernelOperator, bandwidth: float, residual: Array, times: np.ndarray, duration: float
) -> tuple[np.ndarray, np.ndarray, Array]:
    """‖r‖² and speed at `times` of a step, and the residual at its end."""
    squares, speeds = np.empty_like(times), np.empty_like(times)
    begin = 0.0
    while begin < duration:
        velocity, rest = operator.product(bandwidth, residual), duration - begin
        space = KrylovSpace(operator, bandwidth, residual, velocity, KRYLOV_DIMENSION)
        for _ in space.grow(growth=0.1):
            if space.errors(rest) <= KRYLOV_TOLERANCE:
                break
        reach = float(space.longest_accurate(rest, KRYLOV_TOLERANCE))
        end = duration if reach >= rest else begin + reach
        inside = (times >= begin) & (times < end)
        squares[inside] = space.squared_norm.at(times[inside] - begin)
        speeds[inside] = space.speed.at(times[inside] - begin)
        _, residual = space.advance(reach)
        begin = end
    return squares, speeds, residual


def _stage_index(path: Path, log: Log) -> np.ndarray:
    """The stage of each step of a log, shape (M,)."""
    return np.maximum(np.searchsorted(path.starts, log.time, side="right") - 1, 0)


def r2_speed(path: PathSource, bandwidth: ArrayLike | None = None) -> np.ndarray:
    """∂R²/∂t = 2 ‖y − f̂‖²_K / ‖y‖² ≥ 0 at the end of a path (Proposition 2, Equation 7).

    The paper's rule searches this function of the bandwidth, which is not monotone. For an earlier
    time, pass ``path.truncate(time=...)``. The result has the shape of `bandwidth`, which is by
    default the last one of the path.

    Examples
    --------
    >>> import numpy as np
    >>> from bandfall import KernelDescentRegressor
    >>> from bandfall.theory import r2_speed
    >>> X = np.linspace(-1, 1, 20)[:, None]
    >>> model = KernelDescentRegressor(max_r2=0.9).fit(X, np.sin(3 * X[:, 0]))
    >>> round(float(r2_speed(model, 0.0)), 3)  # K = I: 2(1 − R²)
    0.2
    """
    return _at_bandwidths(TrainingFront.speed, path, bandwidth)


def r2_acceleration(path: PathSource, bandwidth: ArrayLike | None = None) -> np.ndarray:
    """∂²R²/∂t² = −4 ‖y − f̂‖²_{K²} / ‖y‖² ≤ 0 at constant bandwidth (Equation 8); see `r2_speed`."""
    return _at_bandwidths(lambda f, b: -4.0 * float((f.velocity(b) ** 2).sum()), path, bandwidth)


def _at_bandwidths(
    function: Callable[[TrainingFront, float], float],
    path: PathSource,
    bandwidth: ArrayLike | None,
) -> np.ndarray:
    """Evaluate a function of the final state at each bandwidth, by default the last one."""
    path = as_path(path)
    if not np.any(path.scale > 0):
        raise ValueError("the target of this path is constant, so R² has no speed")
    bandwidths = non_negative(path.bandwidth if bandwidth is None else bandwidth, "bandwidth")
    with operator_for(path.X, path.kernel, path.weights) as operator:
        front, _ = front_at_end(path, operator)
        values = [function(front, float(b)) for b in bandwidths.ravel()]
    return np.array(values).reshape(bandwidths.shape)
