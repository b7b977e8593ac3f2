"""The Path: a fitted model as a sum over bandwidths, with a log of its training."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bandfall._products import HOST, Backend
from bandfall._typing import Weights
from bandfall.descent._partition import AnySum, PartitionedSum
from bandfall.descent._stopping import Status
from bandfall.descent._sum import KernelSum
from bandfall.kernels._kernel import Kernel

if TYPE_CHECKING:
    from bandfall.descent._fit import Solver


class Stage(NamedTuple):
    """A span of training at one bandwidth; adds k_bandwidth(·, X) @ coefficients to f̂.

    Attributes
    ----------
    bandwidth : float
    coefficients : ndarray of shape (n, k)
        c = ∫ r dt over the span (for Euler, Σ Δt r).
    time, duration : float
        Start and length of the span.
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
    """The state at the start of every step, and the step's duration; arrays of equal length.

    `speed` is ∂R²/∂t at the bandwidth of the step.
    """

    time: np.ndarray
    bandwidth: np.ndarray
    r2: np.ndarray
    speed: np.ndarray
    duration: np.ndarray

    def __len__(self) -> int:
        return len(self.time)

    def __add__(self, other: Log) -> Log:
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return Log(*map(np.concatenate, pairs))

    def before(self, time: float) -> Log:
        """The steps that start before `time`, the last one shortened to end there."""
        keep = self.time < time
        log = Log(*(column[keep] for column in vars(self).values()))
        if len(log):
            log.duration[-1] = min(log.duration[-1], time - log.time[-1])
        return log


@dataclass(frozen=True)
class Path:
    """f̂(x) = offset + Σ_s k_{σ_s}(x, X) c_s with a log of its training.

    Summing Equation 1 over the steps of a stage gives one coefficient block per bandwidth, so the
    paper's updates at new points can be evaluated anywhere after training.

    Attributes
    ----------
    model : KernelSum or PartitionedSum
        The function, with one bandwidth per stage. A path of several leaves has no stages of its
        own.
    starts, durations : ndarray of shape (S,)
        Start and length of each stage in training time; NaN for a compressed path, whose stages
        are no longer spans of training, and for several leaves, which are trained separately.
    step_sizes : ndarray of shape (S,)
        The Euler step of each stage, 0 for exact flow.
    y : ndarray of shape (n, k)
        The targets.
    scale : ndarray of shape (k,)
        Norm of each centred (weighted) target column.
    residual : ndarray of shape (n, k)
        y − f̂(X) at the end.
    log : Log
    time, r2 : float
        At the end.
    status : Status
    bandwidth : float
        Bandwidth at the end.
    weights : ndarray of shape (n,) or None
    solver : object
        Produced the stages; None for a compressed path and for several leaves.
    compression_error : float
        Bound on the relative error of `compress`, 0 before.
    n_products : int
        Number of products with kernel matrices in training.
    """

    model: AnySum
    starts: np.ndarray
    durations: np.ndarray
    step_sizes: np.ndarray
    y: np.ndarray
    scale: np.ndarray
    residual: np.ndarray
    log: Log
    time: float
    r2: float
    status: Status
    bandwidth: float
    weights: Weights = None
    solver: Solver | None = field(default=None, repr=False)
    compression_error: float = 0.0
    n_products: int = 0

    def __len__(self) -> int:
        return len(self.model)

    def __iter__(self) -> Iterator[Stage]:
        return iter(self.stages)

    def __repr__(self) -> str:
        leaves = f" in {self.n_leaves} leaves" if self.n_leaves > 1 else ""
        return (
            f"<Path: {len(self)} stages over {len(self.X)} rows{leaves}, kernel "
            f"{self.kernel.name!r}, time {self.time:.6g}, R² {self.r2:.6f}, {self.status.value}>"
        )

    @property
    def n_leaves(self) -> int:
        """Number of leaves."""
        return len(self.model.leaves) if isinstance(self.model, PartitionedSum) else 1

    @property
    def X(self) -> np.ndarray:
        """Training rows, shape (n, d)."""
        return self.model.X

    @property
    def kernel(self) -> Kernel:
        """The kernel."""
        return self.model.kernel

    @property
    def offset(self) -> np.ndarray:
        """Mean of the target, shape (k,), in float64."""
        return self.undivided.offset

    @property
    def bandwidths(self) -> np.ndarray:
        """Bandwidth of each stage, shape (S,)."""
        return self.model.bandwidths

    @property
    def coefficients(self) -> np.ndarray:
        """Coefficients of each stage, shape (S, n, k)."""
        return self.undivided.coefficients

    @property
    def undivided(self) -> KernelSum:
        """The model of a path with one leaf; raises ValueError if it has several."""
        if isinstance(self.model, PartitionedSum):
            raise ValueError(
                f"this path has {self.n_leaves} leaves with separate coefficients: "
                "path.model.leaves"
            )
        return self.model

    @cached_property
    def stages(self) -> tuple[Stage, ...]:
        """The stages one by one."""
        spans = np.column_stack([self.bandwidths, self.starts, self.durations, self.step_sizes])
        return tuple(
            Stage(bandwidth, block, start, duration, step or None)
            for block, (bandwidth, start, duration, step) in zip(
                self.coefficients, spans.tolist(), strict=True
            )
        )

    @property
    def path_(self) -> Path:
        """The path itself, so that theory and displays accept estimators and paths."""
        return self

    def _model_rows(self, X: np.ndarray) -> np.ndarray:
        """Rows in the columns of the path, unchanged."""
        return X

    @property
    def ends(self) -> np.ndarray:
        """Training time after each stage, shape (S,)."""
        return self.starts + self.durations

    @property
    def stage_r2(self) -> np.ndarray:
        """R² on training data after each stage, shape (S,); NaN for a compressed path."""
        if not len(self):
            return np.zeros(0)
        if np.isnan(self.starts[0]):
            return np.full(len(self), np.nan)
        first_steps = np.searchsorted(self.log.time, self.starts[1:], side="left")
        return np.append(self.log.r2[first_steps], self.r2)

    def r2_of(self, residual: np.ndarray) -> float:
        """R² for a residual of shape (n, k), as defined in training."""
        weights = 1.0 if self.weights is None else self.weights[:, None]
        varying = self.scale > 0
        if not varying.any():
            return 1.0
        relative = residual[:, varying].astype(np.float64) / self.scale[varying]
        return 1.0 - float((weights * relative**2).sum()) / np.count_nonzero(varying)

    def evaluate(self, X: np.ndarray, *, backend: Backend = HOST) -> np.ndarray:
        """f̂ at the rows of X, shape (m, k)."""
        return self.model.evaluate(X, backend=backend)

    def evaluate_staged(self, X: np.ndarray, *, backend: Backend = HOST) -> np.ndarray:
        """f̂ after each stage, shape (S, m, k)."""
        return self.model.evaluate_staged(X, backend=backend)

    def gradient(self, X: np.ndarray, *, backend: Backend = HOST) -> np.ndarray:
        """∂f̂/∂x at the rows of X, shape (m, d, k)."""
        return self.model.gradient(X, backend=backend)

    def truncate(
        self, *, time: float | None = None, r2: float | None = None, backend: Backend = HOST
    ) -> Path:
        """The path as it was at a training time, or when training R² first reached `r2`.

        Equal to a fit stopped there. A stage that is cut is integrated again from its start.
        """
        from bandfall.descent._fit import truncate_path

        return truncate_path(self, time=time, r2=r2, backend=backend)

    def compress(self, tolerance: float = 1e-3, *, backend: Backend = HOST) -> Path:
        """The same function with fewer bandwidths, and so with cheaper predictions.

        `tolerance` is the largest root-mean-square change at training rows, relative to the root
        mean square of f̂ − offset. ``compression_error`` is the change; a second compression adds to
        it. Residual and R² are those of the compressed path.
        """
        before = self.compression_error
        allowed = (tolerance - before) / (1.0 + before)
        if tolerance > 0 >= allowed:
            return self
        model, change = self.model.compress(allowed, backend=backend)
        if model is self.model:
            return self
        residual = self.y - model.evaluate(self.X, backend=backend)
        residual = (residual * (self.scale > 0)).astype(self.residual.dtype)
        spans = np.full(len(model), np.nan)
        return self.replace(
            model=model,
            starts=spans,
            durations=spans,
            step_sizes=np.zeros(len(model)),
            residual=residual,
            r2=self.r2_of(residual),
            solver=None,
            compression_error=before + (1.0 + before) * change,
        )

    def replace(self, **changes: Any) -> Path:
        """A copy with some attributes changed, including those of its model."""
        own = {f.name for f in fields(self)}
        of_model = {name: changes.pop(name) for name in changes.keys() - own}
        if of_model:
            changes["model"] = replace(changes.get("model", self.model), **of_model)
        return replace(self, **changes)


def column_means(y: np.ndarray, weights: Weights = None) -> np.ndarray:
    """(Weighted) mean of each column of y (n, k): of deviations, for large offsets."""
    first = y[0].astype(np.float64)
    return first + np.average(y - first, axis=0, weights=weights)


def column_norms(y: np.ndarray, means: np.ndarray, weights: Weights = None) -> np.ndarray:
    """√Σ wᵢ(yᵢ − mean)² of each column, exactly zero where centring leaves only rounding."""
    centred = y - means
    weighted = centred if weights is None else np.sqrt(weights)[:, None] * centred
    peak = np.abs(weighted).max(axis=0)
    safe = np.where(peak > 0, peak, 1.0)
    norms = peak * np.linalg.norm(weighted / safe, axis=0)
    rounding = 4.0 * np.finfo(y.dtype).eps * np.abs(y).max(axis=0)
    return np.where(np.abs(centred).max(axis=0) <= rounding, 0.0, norms)


def column_units(scale: np.ndarray) -> np.ndarray:
    """Divisors of target columns of norms `scale`, so that ‖y‖² = 1 and they share R² equally."""
    return np.where(scale > 0, scale, 1.0) * math.sqrt(np.count_nonzero(scale))
