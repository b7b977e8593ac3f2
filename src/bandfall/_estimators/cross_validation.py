"""Constant bandwidth, selected by cross-validation: KRR-CV and KGF-CV (Section 5, Appendix B)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar, Self

import numpy as np
from scipy.stats import rankdata
from sklearn.model_selection import LeaveOneOut, check_cv
from sklearn.utils._param_validation import StrOptions

from bandfall._estimators.base import JOBS, validated
from bandfall._estimators.constant import (
    BANDWIDTH_RANGE,
    PENALTY_RANGE,
    KernelFlowRegressor,
    KernelRidgeRegressor,
    SelectedRegressor,
)
from bandfall._products import check_dense_budget
from bandfall._typing import Array, ArrayLike
from bandfall.descent._centring import column_means
from bandfall.kernels._kernel import KernelLike, get_kernel
from bandfall.rivals import best_cell, flow_cv_mse, ridge_cv_mse

Fold = tuple[np.ndarray, np.ndarray]  # training rows, held-out rows
Folds = Sequence[Fold]
_GRID_SIZE = 30  # per parameter (Appendix B)


class _CrossValidatedRegressor(SelectedRegressor):
    """Grid search over bandwidth × one more parameter; subclasses name the parameter."""

    _parameter_constraints: ClassVar[dict[str, list]] = {
        **SelectedRegressor._parameter_constraints,
        "bandwidths": ["array-like", None],
        "cv": ["cv_object", StrOptions({"loo"})],
        "n_jobs": JOBS,
    }

    @validated
    def fit(self, X: ArrayLike, y: ArrayLike, groups: ArrayLike | None = None) -> Self:
        """Choose bandwidth and penalty (or time) by cross-validation, then fit all rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        groups : array-like of shape (n_samples,), optional
            For splitters that need groups.

        Returns
        -------
        self
        """
        X, y, _ = self._training_data(X, y)
        check_dense_budget(len(X), np.dtype(np.float64), self.memory_budget)
        bandwidths = _grid("bandwidths", self.bandwidths, BANDWIDTH_RANGE)
        values = self._values()
        mse = self._mse(
            X,
            # Every fold is centred again; centring here first keeps the digits.
            y - column_means(y) if self.fit_intercept else y,
            get_kernel(self.kernel),
            bandwidths,
            values,
            self._splits(X, y, groups),
            fit_intercept=self.fit_intercept,
            n_jobs=self.n_jobs,
        )
        i, j = best_cell(mse)
        self.bandwidth_ = float(bandwidths[i])
        setattr(self, f"{self._parameter}_", float(values[j]))
        self.cv_results_ = _results(mse, bandwidths, self._parameter, values)
        self.best_index_ = i * len(values) + j
        self.best_score_ = float(self.cv_results_["mean_test_score"][self.best_index_])
        self.best_params_ = self.cv_results_["params"][self.best_index_]
        regressor = self._regressor(
            self.kernel,
            fit_intercept=self.fit_intercept,
            memory_budget=self.memory_budget,
            **self.best_params_,
        )
        return self._refit(regressor, X, y)

    def _splits(self, X: np.ndarray, y: np.ndarray, groups: ArrayLike | None) -> Folds:
        rows, leave_one_out = np.arange(len(X)), isinstance(self.cv, str)
        if leave_one_out and len(X) < 2:
            raise ValueError("cv='loo' needs at least 2 rows; got n_samples=1")
        cv = LeaveOneOut() if leave_one_out else check_cv(self.cv)
        splits = [(rows[a], rows[b]) for a, b in cv.split(X, y, groups)]
        if not splits or any(len(a) == 0 or len(b) == 0 for a, b in splits):
            raise ValueError("cv must give at least one split, each with rows on both sides")
        return splits


class KernelRidgeCV(_CrossValidatedRegressor):
    """Kernel ridge regression, bandwidth and penalty chosen by cross-validation (KRR-CV).

    One eigendecomposition per bandwidth serves all penalties and all folds: the residuals
    of held-out rows follow in closed form from the kernel matrix of all rows.

    Parameters
    ----------
    kernel : str, Kernel or callable, default="gaussian"
        See `bandfall.kernels.get_kernel`.
    bandwidths : array-like of shape (n_bandwidths,), optional
        Candidates in [0, inf]; by default the paper's 30, log-spaced from 0.01 to 10, made
        for standardised features.
    penalties : array-like of shape (n_penalties,), optional
        Candidates >= 0; by default the paper's 30, log-spaced from 1e-6 to 1.
    cv : int, "loo", splitter or iterable, default=10
        Number of consecutive folds, leave-one-out, a scikit-learn splitter, or pairs of
        (training rows, held-out rows), such as those of `bandfall.rivals.permutation_folds`,
        which the paper uses.
    fit_intercept : bool, default=True
        Subtract the mean of the training targets before training (in every fold) and
        add it after. The paper's experiments use False.
    n_jobs : int, optional
        joblib workers over bandwidths (and folds, if each needs its own decomposition);
        threads unless `joblib.parallel_config` says otherwise.
    memory_budget : int, default=2**30
        Bytes per worker; a kernel matrix that does not fit is refused before allocation.

    Attributes
    ----------
    bandwidth_, penalty_ : float
        The pair with the smallest mean squared error, averaged over folds; if several are equal,
        the first bandwidth, then the first penalty.
    best_score_ : float
        Minus that mean squared error.
    cv_results_ : dict of arrays
        As in `GridSearchCV`: "param_bandwidth", "param_penalty", "params",
        "split<i>_test_score", "mean_test_score", "std_test_score", "rank_test_score".
    best_index_ : int
    best_params_ : dict
    best_estimator_ : KernelRidgeRegressor
        Fitted to all rows.
    n_features_in_, feature_names_in_

    Examples
    --------
    >>> import numpy as np
    >>> from bandfall import KernelRidgeCV
    >>> X = np.linspace(-1, 1, 40)[:, None]
    >>> y = np.sin(3 * X[:, 0])
    >>> model = KernelRidgeCV(bandwidths=[0.01, 0.5], penalties=[1e-3, 1.0]).fit(X, y)
    >>> model.bandwidth_, model.penalty_
    (0.5, 0.001)
    """

    _parameter = "penalty"
    _mse = staticmethod(ridge_cv_mse)
    _regressor = KernelRidgeRegressor

    _parameter_constraints: ClassVar[dict[str, list]] = {
        **_CrossValidatedRegressor._parameter_constraints,
        "penalties": ["array-like", None],
    }

    def __init__(
        self,
        kernel: KernelLike = "gaussian",
        *,
        bandwidths: ArrayLike | None = None,
        penalties: ArrayLike | None = None,
        cv: int | str | Iterable[Fold] = 10,
        fit_intercept: bool = True,
        n_jobs: int | None = None,
        memory_budget: int = 2**30,
    ) -> None:
        self.kernel = kernel
        self.bandwidths = bandwidths
        self.penalties = penalties
        self.cv = cv
        self.fit_intercept = fit_intercept
        self.n_jobs = n_jobs
        self.memory_budget = memory_budget

    def _values(self) -> np.ndarray:
        return _grid("penalties", self.penalties, PENALTY_RANGE)


class KernelFlowCV(_CrossValidatedRegressor):
    """Kernel gradient flow, bandwidth and training time chosen by cross-validation (KGF-CV).

    One eigendecomposition per bandwidth and fold serves all times.

    Parameters
    ----------
    kernel, bandwidths, fit_intercept, memory_budget
        As in `KernelRidgeCV`.
    times : array-like of shape (n_times,), optional
        Candidates in [0, inf]; by default one over the paper's 30 penalties: 1e6 to 1.
    cv : int, "loo", splitter or iterable, default=10
        As in `KernelRidgeCV`; "loo" has no closed form here and needs one decomposition per row.
    n_jobs : int, optional
        joblib workers over bandwidths and folds; threads unless `joblib.parallel_config`
        says otherwise.

    Attributes
    ----------
    bandwidth_, time_, best_score_, best_index_, best_params_, n_features_in_, feature_names_in_
        As in `KernelRidgeCV`, with a time for the penalty.
    cv_results_ : dict of arrays
        As in `KernelRidgeCV`, with "param_time".
    best_estimator_ : KernelFlowRegressor
        Fitted to all rows.

    Examples
    --------
    >>> import numpy as np
    >>> from bandfall import KernelFlowCV
    >>> X = np.linspace(-1, 1, 40)[:, None]
    >>> y = np.sin(3 * X[:, 0])
    >>> model = KernelFlowCV(bandwidths=[0.01, 0.5], times=[1e3, 1.0]).fit(X, y)
    >>> model.bandwidth_, model.time_
    (0.5, 1000.0)
    """

    _parameter = "time"
    _mse = staticmethod(flow_cv_mse)
    _regressor = KernelFlowRegressor

    _parameter_constraints: ClassVar[dict[str, list]] = {
        **_CrossValidatedRegressor._parameter_constraints,
        "times": ["array-like", None],
    }

    def __init__(
        self,
        kernel: KernelLike = "gaussian",
        *,
        bandwidths: ArrayLike | None = None,
        times: ArrayLike | None = None,
        cv: int | str | Iterable[Fold] = 10,
        fit_intercept: bool = True,
        n_jobs: int | None = None,
        memory_budget: int = 2**30,
    ) -> None:
        self.kernel = kernel
        self.bandwidths = bandwidths
        self.times = times
        self.cv = cv
        self.fit_intercept = fit_intercept
        self.n_jobs = n_jobs
        self.memory_budget = memory_budget

    def _values(self) -> np.ndarray:
        if self.times is None:
            return 1.0 / _grid("penalties", None, PENALTY_RANGE)
        return _grid("times", self.times, PENALTY_RANGE)


def _grid(name: str, values: ArrayLike | None, ends: tuple[float, float]) -> np.ndarray:
    """A checked grid of values, by default the paper's between `ends`."""
    if values is None:
        return np.geomspace(ends[0], ends[1], _GRID_SIZE)
    try:
        grid = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        grid = np.array(np.nan)
    if grid.ndim != 1 or len(grid) == 0 or np.isnan(grid).any() or grid.min() < 0:
        raise ValueError(f"{name}={values!r} must be a non-empty list of numbers >= 0")
    if name == "penalties" and np.isinf(grid).any():
        raise ValueError(f"{name}={values!r} must be finite")
    return grid


def _results(
    mse: np.ndarray, bandwidths: np.ndarray, parameter: str, values: np.ndarray
) -> dict[str, Array]:
    """The table of `GridSearchCV`, ordered by bandwidth, then by penalty or time."""
    scores = -mse.reshape(len(mse), -1)
    grid = [a.ravel() for a in np.meshgrid(bandwidths, values, indexing="ij")]
    mean = scores.mean(axis=0)
    largest = np.abs(scores).max() or 1.0  # fourth powers of targets may overflow
    return {
        "param_bandwidth": grid[0],
        f"param_{parameter}": grid[1],
        "params": [
            {"bandwidth": float(b), parameter: float(v)} for b, v in zip(*grid, strict=True)
        ],
        **{f"split{i}_test_score": row for i, row in enumerate(scores)},
        "mean_test_score": mean,
        "std_test_score": largest * (scores / largest).std(axis=0),
        "rank_test_score": rankdata(-mean, method="min").astype(np.int32),
    }
