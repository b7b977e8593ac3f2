"""A path's log as integrals over training time: what the averages of Theorem 1 need."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bandfall.descent import Path


@dataclass(frozen=True)
class Trajectory:
    """The M steps of a path over training time.

    Attributes
    ----------
    time : ndarray of shape (M + 1,)
        Start of every step, and the end.
    duration : ndarray of shape (M,)
    residual : ndarray of shape (M + 1,)
        ‖r(t)‖ / ‖y‖ = √(1 − R²) at those times.
    residual_integral : ndarray of shape (M,)
        ∫ ‖r‖ dτ / ‖y‖ over each step: as Euler sums it, or the logarithmic mean of both
        ends for exact flow, where ‖r‖ is log-convex and lies below it.
    bandwidths : ndarray of shape (B,)
        The distinct bandwidths, rising.
    bandwidth_index : ndarray of shape (M,)
        Which of them each step used.
    """

    time: np.ndarray
    duration: np.ndarray
    residual: np.ndarray
    residual_integral: np.ndarray
    bandwidths: np.ndarray
    bandwidth_index: np.ndarray

    @classmethod
    def from_path(cls, path: Path) -> Trajectory:
        log = path.log
        bandwidths, index = np.unique(log.bandwidth, return_inverse=True)
        residual = np.sqrt(np.maximum(1.0 - np.append(log.r2, path.r2), 0.0))
        euler = _is_euler(path)
        mean = np.where(euler, residual[:-1], logarithmic_mean(residual[:-1], residual[1:]))
        return cls(
            time=np.append(log.time, path.time),
            duration=log.duration,
            residual=residual,
            residual_integral=log.duration * mean,
            bandwidths=bandwidths,
            bandwidth_index=index.reshape(-1),
        )

    def cumulative(self, values: np.ndarray) -> np.ndarray:
        """Σ of one value per step up to each time, shape (M + 1,), starting with 0."""
        return np.concatenate([[0.0], np.cumsum(values)])

    def thinned(self, n_times: int) -> np.ndarray:
        """Indices into `time`, at most `n_times` of them, the first and last among them."""
        if n_times < 2:
            raise ValueError(f"n_times={n_times!r} must be at least 2")
        last = len(self.time) - 1
        if last < n_times:
            return np.arange(last + 1)
        return np.unique(np.linspace(0, last, n_times).round().astype(int))

    def integral_by_bandwidth(self, values: np.ndarray, at: np.ndarray) -> np.ndarray:
        """Σ of one value per step up to each time in `at`, kept apart by bandwidth.

        Returns
        -------
        ndarray of shape (len(at), B)
        """
        table = np.zeros((len(at), len(self.bandwidths)))
        # A step counts from the first reported time at or after its end.
        first = np.searchsorted(at, np.arange(1, len(self.time)))
        np.add.at(table, (first, self.bandwidth_index), values)
        return np.cumsum(table, axis=0)


def logarithmic_mean(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """(a − b)/(log a − log b): the mean of an exponential between a ≥ b ≥ 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = (a - b) / a
        mean = (a - b) / -np.log1p(-relative)
    # a = b, and where the logarithm has no digits left
    return np.where(relative > 1e-9, mean, 0.5 * (a + b))


def _is_euler(path: Path) -> np.ndarray:
    """Which steps of the log were Euler steps, shape (M,)."""
    if not path.stages:
        return np.zeros(0, dtype=bool)
    starts = np.array([stage.time for stage in path.stages])
    euler = np.array([stage.step_size is not None for stage in path.stages])
    stage = np.searchsorted(starts, path.log.time, side="right") - 1
    return euler[np.maximum(stage, 0)]
