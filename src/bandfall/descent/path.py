"""The Path: a fitted model as a sum over bandwidths, with the story of how it got there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from bandfall.descent.front import Plan
from bandfall.descent.stopping import Status
from bandfall.kernels import Kernel
from bandfall.operators import cross_gradient, cross_product
from bandfall.operators.base import DEFAULT_MEMORY_BUDGET

if TYPE_CHECKING:
    from bandfall.descent.fit import Solver
    from bandfall.schedules import Schedule


@dataclass(frozen=True)
class Stage:
    """A span of training at one bandwidth: it adds k_bandwidth(·, X) @ coefficients to f̂.

    Attributes
    ----------
    bandwidth : float
    coefficients : ndarray of shape (n, k)
        c = ∫ r dt over the span (for Euler, Σ Δt r).
    time, duration : float
        When the span starts and how long it lasts.
    step_size : float or None
        The Euler step, None for exact flow.
    """

    bandwidth: float
    coefficients: np.ndarray
    time: float
    duration: float
    step_size: float | None = None


@dataclass(frozen=True)
class Log:
    """What was seen at the start of every step; arrays of equal length.

    Attributes
    ----------
    time, bandwidth, r2, speed, duration : ndarray of shape (n_steps,)
        Training time, bandwidth of the step, R² on training data, ∂R²/∂t at that bandwidth,
        and how long the step lasted.
    """

    time: np.ndarray
    bandwidth: np.ndarray
    r2: np.ndarray
    speed: np.ndarray
    duration: np.ndarray

    def __len__(self) -> int:
        return len(self.time)

    def __add__(self, other: Log) -> Log:
        return Log(
            *(np.concatenate(pair) for pair in zip(self._arrays, other._arrays, strict=True))
        )

    def before(self, time: float) -> Log:
        """The steps that start before `time`, the last one shortened to end there."""
        keep = self.time < time
        log = Log(*(a[keep] for a in self._arrays))
        if len(log):
            log.duration[-1] = min(log.duration[-1], time - log.time[-1])
        return log

    @property
    def _arrays(self) -> tuple[np.ndarray, ...]:
        return (self.time, self.bandwidth, self.r2, self.speed, self.duration)


@dataclass(frozen=True)
class Path:
    """f̂(x) = offset + Σ_s k_{σ_s}(x, X) c_s, inductive: no new point is needed to train.

    Summing Equation 1 over the steps of a stage gives one coefficient block per bandwidth,
    so that the transductive updates of the paper are evaluated anywhere afterwards.

    Attributes
    ----------
    X : ndarray of shape (n, d)
        Training rows.
    kernel : Kernel
    offset : ndarray of shape (k,)
        Mean of the target, in float64: with a large offset its digits matter.
    scale : ndarray of shape (k,)
        Norm of each centred (weighted) target column; R² pools columns of unit norm.
    residual : ndarray of shape (n, k)
        y − f̂(X) at the end.
    stages : tuple of Stage
    log : Log
    time, r2 : float
        At the end.
    status : Status
    bandwidth : float
        Current bandwidth at the end: where a resumed run goes on.
    weights : ndarray of shape (n,) or None
    plan : Plan or None
        Where in its stage the run ended.
    solver, schedule : object
        What produced the stages: `truncate` and `resume_path` go on with them. None for a
        compressed path, whose stages are no longer spans of training.
    compression_error : float
        Bound on the relative error of `compress`, 0 before.
    y : ndarray of shape (n, k) or None
        The targets as they were given; None in files of old, which `targets` makes up for.
    """

    X: np.ndarray
    kernel: Kernel
    offset: np.ndarray
    scale: np.ndarray
    residual: np.ndarray
    stages: tuple[Stage, ...]
    log: Log
    time: float
    r2: float
    status: Status
    bandwidth: float
    weights: np.ndarray | None = None
    plan: Plan | None = field(default=None, repr=False)
    solver: Solver | None = field(default=None, repr=False)
    schedule: Schedule | None = field(default=None, repr=False)
    compression_error: float = 0.0
    y: np.ndarray | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.stages)

    def __iter__(self) -> Iterator[Stage]:
        return iter(self.stages)

    def __repr__(self) -> str:
        return (
            f"<Path: {len(self.stages)} stages over {len(self.X)} rows, kernel "
            f"{self.kernel.name!r}, time {self.time:.6g}, R² {self.r2:.6f}, {self.status.value}>"
        )

    @property
    def bandwidths(self) -> np.ndarray:
        """Bandwidth of each stage, shape (S,)."""
        return np.array([stage.bandwidth for stage in self.stages], dtype=float)

    @property
    def coefficients(self) -> np.ndarray:
        """Coefficients of each stage, shape (S, n, k)."""
        if not self.stages:
            return np.zeros((0, *self.residual.shape), self.residual.dtype)
        return np.stack([stage.coefficients for stage in self.stages])

    def r2_of(self, residual: np.ndarray) -> float:
        """R² that a residual of shape (n, k) leaves, as training counts it."""
        weights = 1.0 if self.weights is None else self.weights[:, None]
        varying = self.scale > 0
        if not varying.any():
            return 1.0
        relative = residual[:, varying].astype(np.float64) / self.scale[varying]
        return 1.0 - float((weights * relative**2).sum()) / np.count_nonzero(varying)

    def targets(self, *, memory_budget: int = DEFAULT_MEMORY_BUDGET) -> np.ndarray:
        """y, shape (n, k); without the stored one at the price of predicting every row."""
        if self.y is not None:
            return self.y
        return self.residual + self.evaluate(self.X, memory_budget=memory_budget)

    def evaluate(
        self,
        X: np.ndarray,
        *,
        memory_budget: int = DEFAULT_MEMORY_BUDGET,
        device: str | None = None,
    ) -> np.ndarray:
        """f̂ at the rows of X, shape (m, k), in float64 because the offset is.

        With a `device`, computed there by torch.
        """
        total = self._over_stages(cross_product, X, memory_budget=memory_budget, device=device)
        return _plus(total, self.offset)

    def evaluate_staged(
        self,
        X: np.ndarray,
        *,
        memory_budget: int = DEFAULT_MEMORY_BUDGET,
        device: str | None = None,
    ) -> np.ndarray:
        """f̂ after each stage, shape (S, m, k)."""
        sums = self._over_stages(
            cross_product, X, memory_budget=memory_budget, device=device, cumulative=True
        )
        return _plus(sums, self.offset)

    def gradient(
        self,
        X: np.ndarray,
        *,
        memory_budget: int = DEFAULT_MEMORY_BUDGET,
        device: str | None = None,
    ) -> np.ndarray:
        """∂f̂/∂x at the rows of X, shape (m, d, k)."""
        return self._over_stages(cross_gradient, X, memory_budget=memory_budget, device=device)

    def _over_stages(
        self, function: Callable[..., np.ndarray], X: np.ndarray, **options: object
    ) -> np.ndarray:
        return function(X, self.X, self.kernel, self.bandwidths, self.coefficients, **options)

    def truncate(
        self,
        *,
        time: float | None = None,
        r2: float | None = None,
        memory_budget: int = DEFAULT_MEMORY_BUDGET,
        device: str | None = None,
    ) -> Path:
        """The path as it was at a training time, or when training R² first reached `r2`.

        Equal to a fit stopped there. A stage that is cut is integrated again from its start.

        Parameters
        ----------
        time : float, optional
        r2 : float, optional
            Exactly one of the two.
        memory_budget : int
            Bytes for kernel matrices.
        device : str, optional
            Where to compute; see `bandfall.operators.check_device`.
        """
        from bandfall.descent.fit import truncate_path

        return truncate_path(self, time=time, r2=r2, memory_budget=memory_budget, device=device)

    def compress(
        self, tolerance: float = 1e-3, *, memory_budget: int = DEFAULT_MEMORY_BUDGET
    ) -> Path:
        """Few bandwidths in place of many: the same function with cheaper predictions.

        Profiles of neighbouring bandwidths are nearly combinations of each other, so that every
        stage can be written in the same few bandwidths. The smallest number of them that keeps
        the error below `tolerance` is taken; the error is measured on training rows (at most
        1,000 of them) and kept as ``compression_error``, to which a second compression adds.
        Residual and R² are those of the compressed path.

        Parameters
        ----------
        tolerance : float
            Largest root-mean-square change at training rows, relative to that of f̂ − offset.
        """
        from bandfall.descent.compress import compress_path

        return compress_path(self, tolerance, memory_budget)

    def replace(self, **changes: object) -> Path:
        """A copy with some attributes changed."""
        return replace(self, **changes)  # type: ignore[arg-type]


def _plus(sums: np.ndarray, offset: np.ndarray) -> np.ndarray:
    """sums + offset, in place where the dtype of `sums` holds it."""
    wide = sums.astype(np.result_type(sums, offset), copy=False)
    wide += offset
    return wide
