"""KGD-D, kernel gradient descent with a decreasing bandwidth, as a regressor."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from dataclasses import field, replace
from typing import Annotated, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import HasMethods, StrOptions

from bandfall._checks import warn_caller
from bandfall._estimators.base import (
    R2,
    Device,
    KernelRegressor,
    NotNegative,
    Positive,
    Seed,
    TrainingData,
    estimator,
    number,
    validated,
)
from bandfall._estimators.view import Story
from bandfall._products import check_device
from bandfall._progress import PathProgress
from bandfall._typing import ArrayLike
from bandfall.descent import Path, Status, Stopping, fit_path, get_solver, rewind_path
from bandfall.descent._fit import Solver, rounding_gap
from bandfall.descent._front import TrainingFront, Watcher
from bandfall.descent._schedules import MinimumSpeed, Schedule
from bandfall.descent._sum import KernelSum
from bandfall.kernels._kernel import get_kernel

_MIN_MEAN_WEIGHT = 0.1
_FLOAT32_WEIGHTS = 1e6  # largest ratio of weights that float32 resolves
_MAX_GAP = 0.05  # standard deviations of the target


class WeightWarning(UserWarning):
    """Weights are so small that training ends early."""


@estimator
class KernelDescentRegressor(KernelRegressor):
    """Kernel regression whose bandwidth falls to zero while it trains (KGD-D).

    Training starts with a bandwidth as wide as the data and follows the gradient of the squared
    error. Whenever R² on the training data rises more slowly than `min_speed`, the bandwidth
    shrinks until R² rises fast enough. Simple structure is learned first, fine structure later.
    At the end the model interpolates its training data and usually still generalises.

    Features should be on comparable scales (``StandardScaler``). With several targets, every
    column is centred and scaled to unit norm internally, so the R² that steers training is
    the mean of the columns' R².

    Parameters
    ----------
    kernel : str, Kernel or callable, default="gaussian"
        See `bandfall.kernels.get_kernel`.
    min_speed : float > 0, default=0.1
        v, the slowest rise of training R² per unit of training time that is accepted before
        the bandwidth shrinks. Smaller values keep the bandwidth wide for longer.
    bandwidth : float >= 0, optional
        Start bandwidth σ₀; by default the largest distance between two training rows, or
        `min_bandwidth` if that is larger.
    min_bandwidth : float >= 0, default=0.0
        Floor σ_m: the bandwidth falls no further.
    max_r2 : float in (0, 1], default=0.999
        Training ends when R² on training data reaches this.
    max_time : float > 0, optional
        Training ends after this much training time; no limit by default.
    schedule : Schedule, optional
        How the bandwidth falls, in place of the paper's rule: an object of
        `bandfall.descent` or of your own. `min_speed` and `min_bandwidth` then do nothing.
    solver : {"flow", "euler"} or a solver, default="flow"
        "flow" integrates the gradient flow exactly between bandwidth changes; "euler" is
        Algorithm 1 to the letter. `bandfall.descent.Flow` and `bandfall.descent.Euler` have
        settings, as in ``Euler(step_size=0.001)``.
    validation_fraction : float in (0, 1), optional
        Share of rows held out; the path is cut after the stage that predicts them best.
    random_state : int, RandomState or None, default=None
        Seed for choosing the held-out rows.
    memory_budget : int, default=2**30
        Bytes for kernel matrices; beyond, products are computed block by block.
    device : {None, "auto", "cpu", "cuda", "cuda:N", "dask"} or address, default=None
        As in `BandfallRegressor`.

    Attributes
    ----------
    path_ : Path
        The fitted model: stages, log, status; can be evaluated, truncated, drawn.
    n_iter_ : int
        Solver steps taken.
    validation_errors_ : ndarray of shape (n_stages,)
        Mean squared error on the held-out rows after each stage, in units of the variance of
        the training rows' target; only with `validation_fraction`.
    n_features_in_, feature_names_in_

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.model_selection import train_test_split
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from bandfall import KernelDescentRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> X, X_test, y, y_test = train_test_split(X[:120], y[:120], random_state=0)
    >>> model = make_pipeline(StandardScaler(), KernelDescentRegressor()).fit(X, y)
    >>> model[-1].path_.status.value
    'r2_reached'
    >>> model.predict(X_test).shape
    (30,)
    """

    min_speed: Positive = 0.1
    bandwidth: Annotated[float | None, number(0), None] = None
    min_bandwidth: NotNegative = 0.0
    max_r2: R2 = 0.999
    max_time: Annotated[float | None, number(0, closed="right"), None] = None
    schedule: Annotated[Schedule | None, HasMethods(["next_bandwidth", "threshold"]), None] = None
    solver: Annotated[str | Solver, StrOptions({"flow", "euler"}), HasMethods("run")] = "flow"
    validation_fraction: Annotated[float | None, number(0, 1, closed="neither"), None] = None
    random_state: Seed = None
    device: Device = None

    path_: Path = field(init=False)
    n_iter_: int = field(init=False)
    validation_errors_: np.ndarray = field(init=False)

    @validated
    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Train until `max_r2` or `max_time` is reached or R² stalls; see ``path_.status``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        sample_weight : array-like of shape (n_samples,), optional
            A row of weight w counts as w equal rows; training time scales with the weights.
            Weights that sum to far less than the number of rows cause a warning.

        Returns
        -------
        self
        """
        data = _wide_enough(self._training_data(X, y, sample_weight))
        self.__dict__.pop("validation_errors_", None)
        held_out, latest, pressed = None, None, False
        progress = PathProgress(float(self.max_r2))
        if self.validation_fraction is not None:
            data, held_out = self._hold_out(data, self.validation_fraction)

        def ended(front: TrainingFront) -> bool:
            nonlocal latest
            latest = front
            progress.reach(front.r2)
            return False

        try:
            path = self._train(data, ended)
        except KeyboardInterrupt:
            if latest is None:
                raise
            path, pressed = latest.path(), True
        latest = None  # which holds the kernel matrices of the training
        if held_out is not None:
            path, self.validation_errors_ = self._best_stage(path, held_out)
        self.path_, self.n_iter_ = path, max(1, len(path.log))
        if pressed:
            raise KeyboardInterrupt
        self._warn_of_end(path)
        return self

    def _warn_of_end(self, path: Path) -> None:
        """Warn if training ended early, or if rounding matters."""
        stopped = f"training stopped at R² = {path.r2:.4f}"
        if path.status is Status.ITERATION_LIMIT:
            solver = get_solver(self.solver)
            message = (
                f"{stopped} after max_iter={solver.max_iter} iterations; raise "
                f"solver={type(solver).__name__}(max_iter=...) or lower max_r2"
            )
        elif path.status is Status.ROUNDING:
            message = f"{stopped} because {path.status.explanation}"
        elif (gap := rounding_gap(path, self._backend(len(path.X)))) > _MAX_GAP:
            message = (
                f"{path.X.dtype} is too coarse for min_speed={self.min_speed:g}: rounding changes "
                f"predictions by {gap:.2g} standard deviations of the target; give float64 "
                "features or raise min_speed"
            )
        else:
            return
        warn_caller(message, ConvergenceWarning)

    def _train(self, data: TrainingData, watcher: Watcher) -> Path:
        solver, backend = get_solver(self.solver), self._backend(len(data.X))
        schedule = self.schedule or MinimumSpeed(
            float(self.min_speed), float(solver.shrink), float(self.min_bandwidth)
        )
        max_time = math.inf if self.max_time is None else float(self.max_time)
        return fit_path(
            data.X,
            data.y,
            get_kernel(self.kernel),
            solver=solver,
            schedule=schedule,
            stopping=Stopping(float(self.max_r2), max_time),
            bandwidth=None if self.bandwidth is None else float(self.bandwidth),
            weights=data.weights,
            backend=backend,
            watcher=watcher,
        )

    def _hold_out(self, data: TrainingData, fraction: float) -> tuple[TrainingData, TrainingData]:
        """Split rows into training rows and held-out rows."""
        n = len(data.X)
        n_held_out = int(np.ceil(fraction * n))
        if not 0 < n_held_out < n:
            raise ValueError(
                f"validation_fraction={fraction!r} of {n} rows leaves no rows to train on"
            )
        order = check_random_state(self.random_state).permutation(n)
        held_out, train = np.sort(order[:n_held_out]), np.sort(order[n_held_out:])
        return data.take(train), data.take(held_out)

    def _best_stage(self, path: Path, held_out: TrainingData) -> tuple[Path, np.ndarray]:
        """The path up to the stage that predicts held-out rows best, and the errors of stages."""
        if not len(path):
            return path, np.zeros(0)
        varying = path.scale > 0
        total = len(path.X) if path.weights is None else path.weights.sum()
        variance = path.scale[varying] ** 2 / total
        backend = self._backend(len(path.X))
        staged = path.evaluate_staged(held_out.X, backend=backend)
        squares = (staged[..., varying] - held_out.y[:, varying]) ** 2 / variance
        errors = np.average(squares.mean(axis=2), axis=1, weights=held_out.weights)
        return rewind_path(path, int(np.argmin(errors)) + 1, backend), errors

    @property
    def kernel_sum_(self) -> KernelSum:
        """The fitted model, the `KernelSum` of ``path_``."""
        return self.path_.undivided

    def staged_predict(self, X: ArrayLike) -> Iterator[np.ndarray]:
        """Predictions after each stage of training, from simple to interpolating."""
        rows = self._new_rows(X)
        backend = self._backend(len(self.path_.X))
        if not len(self.path_):  # nothing was left to train
            yield self._target.shaped(self._outputs(rows))
        for predictions in self.path_.evaluate_staged(rows, backend=backend):
            yield self._target.shaped(predictions)

    def _story(self) -> Story:
        return replace(super()._story(), path=self.path_)

    def _compressed(self, tolerance: float) -> Self:
        """A copy with as few bandwidths as `tolerance` allows."""
        light = copy.copy(self)
        light.path_ = self.path_.compress(tolerance)
        return light

    def _model_rows(self, X: ArrayLike) -> np.ndarray:
        """New rows in the coordinates of the path, for theory and displays."""
        return self._new_rows(X)

    def _validate_params(self) -> None:
        super()._validate_params()
        get_solver(self.solver)
        check_device(self.device)
        if self.bandwidth is not None and self.min_bandwidth > self.bandwidth:
            raise ValueError(
                f"min_bandwidth={self.min_bandwidth!r} must not be above "
                f"bandwidth={self.bandwidth!r}"
            )


def _wide_enough(data: TrainingData) -> TrainingData:
    """Convert X to float64 if float32 does not resolve the weights; warn if weights are small."""
    weights = data.weights
    if weights is None:
        return data
    n, total = len(weights), float(weights.sum())
    if total < _MIN_MEAN_WEIGHT * n:
        warn_caller(
            f"sample_weight sums to {total:.3g} over {n} rows. A row of weight w counts as w rows, "
            f"so this trains as on {total:.3g} rows. If only the ratios of weights matter, pass "
            "sample_weight * len(sample_weight) / sample_weight.sum()",
            WeightWarning,
        )
    if weights.max() > _FLOAT32_WEIGHTS * weights.min():
        return data._replace(X=data.X.astype(np.float64, copy=False))
    return data
