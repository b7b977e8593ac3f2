"""Constant bandwidth: kernel ridge regression (Equation 4) and gradient flow (Equation 3).

Bandwidth and penalty (or time) are given, or chosen by cross-validation (KRR-CV, KGF-CV) or by
marginal likelihood (KRR-MML), as in Section 5 and Appendix B.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from typing import Annotated, ClassVar, Self, TypeAlias

import numpy as np
from scipy.stats import rankdata
from sklearn.model_selection import LeaveOneOut, check_cv
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from bandfall._checks import ShapeChecker
from bandfall._closed_form import (
    SpectralFilter,
    Spectrum,
    flow_filter,
    ridge_coefficients,
    ridge_filter,
)
from bandfall._estimators.base import (
    Count,
    Flag,
    Jobs,
    KernelRegressor,
    NotNegative,
    Seed,
    estimator,
    number,
    validated,
)
from bandfall._estimators.input import as_numpy
from bandfall._products import DenseOperator, check_dense_budget
from bandfall._typing import Array, ArrayLike, State, Weights
from bandfall.descent._path import column_means
from bandfall.descent._sum import KernelSum
from bandfall.kernels._kernel import get_kernel
from bandfall.rivals import Evidence, best_cell, flow_cv_mse, maximise_evidence, ridge_cv_mse

# Search ranges of the paper's experiments (Appendix B); flow uses time = 1/penalty.
_BANDWIDTHS = (0.01, 10.0)
_PENALTIES, _TIMES = (1e-6, 1.0), (1e6, 1.0)
_GRID_SIZE = 30  # per parameter (Appendix B)

Fold: TypeAlias = tuple[np.ndarray, np.ndarray]  # training rows, held-out rows
NotNegativeOrInf: TypeAlias = Annotated[float, number(0, closed="both")]
Candidates: TypeAlias = Annotated[ArrayLike | None, "array-like", None]
Bounds: TypeAlias = Annotated[Sequence[float], "array-like"]


@estimator
class _ConstantBandwidthRegressor(KernelRegressor):
    """f̂(x) = ȳ + k_σ(x, X) c, with c in closed form."""

    bandwidth: NotNegativeOrInf = 1.0
    fit_intercept: Flag = True

    kernel_sum_: KernelSum = field(init=False)
    weights_: Weights = field(init=False)

    @validated
    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit; y may have several columns, and a row of weight w counts as w equal rows."""
        X, y, weights = self._training_data(X, y, sample_weight)
        # Always in float64: small penalties, long times and weights are lost in float32.
        X = X.astype(np.float64, copy=False)
        kernel, bandwidth = get_kernel(self.kernel), float(self.bandwidth)
        check_dense_budget(len(X), X.dtype, self.memory_budget)
        offset = column_means(y, weights) if self.fit_intercept else np.zeros(y.shape[1])
        root = np.ones((1, 1)) if weights is None else np.sqrt(weights)[:, None]
        K = DenseOperator(X, kernel).matrix(bandwidth)
        K = K if weights is None else root * K * root.T
        coefficients = root * self._solve(K, root * (y - offset))
        self.kernel_sum_ = KernelSum(X, kernel, np.array([bandwidth]), coefficients[None], offset)
        self.weights_ = weights
        return self

    def _solve(self, K: np.ndarray, y: np.ndarray) -> np.ndarray:
        """The coefficients."""
        raise NotImplementedError

    def _filter(self, eigenvalues: np.ndarray) -> np.ndarray:
        """The spectral filter."""
        raise NotImplementedError

    def _smoother(self) -> tuple[KernelSum, np.ndarray | None, SpectralFilter]:
        """See `bandfall.theory.degrees_of_freedom`."""
        check_is_fitted(self)
        return self.kernel_sum_, self.weights_, self._filter

    def _check_loaded(self) -> None:
        super()._check_loaded()
        if len(self.kernel_sum_) != 1:
            raise ValueError("it has more than one bandwidth")
        if self.weights_ is not None:
            ShapeChecker(n=len(self.kernel_sum_.X))("weights_", self.weights_, "n")


@estimator
class KernelRidgeRegressor(_ConstantBandwidthRegressor):
    """Kernel ridge regression: f̂(x) = ȳ + k_σ(x, X)(K + λI)⁻¹(y − ȳ) (Equation 4).

    Parameters
    ----------
    kernel : str, Kernel or callable, default="gaussian"
        See `bandfall.kernels.get_kernel`.
    bandwidth : float in [0, inf], default=1.0
        σ. Zero and infinity are allowed and exact (Proposition 3).
    penalty : float >= 0, default=1e-3
        λ; zero gives the pseudo-inverse.
    fit_intercept : bool, default=True
        Subtract the mean ȳ of the target before training and add it after; False takes ȳ = 0.
    memory_budget : int, default=2**30
        Bytes; a kernel matrix that does not fit is refused before allocation.

    Attributes
    ----------
    kernel_sum_ : KernelSum
        The fitted model.
    weights_ : ndarray of shape (n_samples,) or None
    n_features_in_, feature_names_in_

    Examples
    --------
    >>> import numpy as np
    >>> from bandfall import KernelRidgeRegressor
    >>> X = np.linspace(-1, 1, 20)[:, None]
    >>> model = KernelRidgeRegressor(bandwidth=0.5, penalty=1e-3).fit(X, np.sin(3 * X[:, 0]))
    >>> round(model.score(X, np.sin(3 * X[:, 0])), 2)
    1.0
    """

    penalty: NotNegative = 1e-3

    def _solve(self, K: np.ndarray, y: np.ndarray) -> np.ndarray:
        return ridge_coefficients(K, y, float(self.penalty))

    def _filter(self, eigenvalues: np.ndarray) -> np.ndarray:
        return ridge_filter(eigenvalues, float(self.penalty))


@estimator
class KernelFlowRegressor(_ConstantBandwidthRegressor):
    """Kernel gradient flow: f̂(x) = ȳ + k_σ(x, X) K⁻¹(I − e^{−tK})(y − ȳ) (Equation 3).

    Computed as k_σ(x, X) · tφ₁(−tK)(y − ȳ), which needs no inverse of K.

    Parameters
    ----------
    kernel, bandwidth, fit_intercept, memory_budget
        As in `KernelRidgeRegressor`.
    time : float in [0, inf], default=1000.0
        Training time t; compare 1/penalty of ridge regression (Remark 1).

    Attributes
    ----------
    kernel_sum_, weights_, n_features_in_, feature_names_in_
        As in `KernelRidgeRegressor`.

    Examples
    --------
    >>> import numpy as np
    >>> from bandfall import KernelFlowRegressor
    >>> X = np.linspace(-1, 1, 20)[:, None]
    >>> model = KernelFlowRegressor(bandwidth=0.5, time=1e3).fit(X, np.sin(3 * X[:, 0]))
    >>> round(model.score(X, np.sin(3 * X[:, 0])), 2)
    1.0
    """

    time: NotNegativeOrInf = 1000.0

    def _solve(self, K: np.ndarray, y: np.ndarray) -> np.ndarray:
        spectrum = Spectrum(K)
        return spectrum.coefficients(y, self._filter(spectrum.eigenvalues))

    def _filter(self, eigenvalues: np.ndarray) -> np.ndarray:
        return flow_filter(eigenvalues, float(self.time))


@estimator
class _SelectedRegressor(KernelRegressor):
    """Chooses the parameters of a constant-bandwidth regressor and predicts with it."""

    fit_intercept: Flag = True

    best_estimator_: _ConstantBandwidthRegressor = field(init=False)
    bandwidth_: float = field(init=False)

    _regressor: ClassVar[type[_ConstantBandwidthRegressor]] = KernelRidgeRegressor

    def _centred(self, y: np.ndarray) -> np.ndarray:
        check_dense_budget(len(y), np.dtype(np.float64), self.memory_budget)
        return y - column_means(y) if self.fit_intercept else y

    def _refit(self, X: np.ndarray, y: np.ndarray, chosen: State) -> Self:
        """Fit the chosen regressor to all rows, and store what was chosen."""
        regressor = self._regressor(
            self.kernel,
            fit_intercept=self.fit_intercept,
            memory_budget=self.memory_budget,
            **chosen,
        )
        self.best_estimator_ = regressor.fit(X.astype(np.float64), y)
        for name, value in chosen.items():
            setattr(self, f"{name}_", value)
        return self

    @property
    def kernel_sum_(self) -> KernelSum:
        """The fitted model, a `KernelSum`."""
        return self.best_estimator_.kernel_sum_


@estimator
class _CrossValidatedRegressor(_SelectedRegressor):
    """Grid search over bandwidth × one more parameter, which subclasses name."""

    bandwidths: Candidates = None
    cv: Annotated[int | str | Iterable[Fold], "cv_object", StrOptions({"loo"})] = 10
    n_jobs: Jobs = None

    cv_results_: dict[str, Array] = field(init=False)
    best_score_: float = field(init=False)
    best_params_: dict[str, float] = field(init=False)

    _parameter: ClassVar[str]
    _values: ClassVar[tuple[str, tuple[float, float]]]  # name of its candidates, default ends
    _mse: ClassVar[Callable[..., np.ndarray]]

    @validated
    def fit(self, X: ArrayLike, y: ArrayLike, groups: ArrayLike | None = None) -> Self:
        """Choose bandwidth and penalty (or time) by cross-validation, then fit all rows.

        `groups`, of shape (n_samples,), are for splitters that need them.
        """
        X, y, _ = self._training_data(X, y)
        groups = as_numpy(groups)
        bandwidths = _grid("bandwidths", self.bandwidths, _BANDWIDTHS)
        name, ends = self._values
        values = _grid(name, getattr(self, name), ends)
        # Every fold is centred again; centring here first keeps the digits.
        mse = self._mse(
            X,
            self._centred(y),
            get_kernel(self.kernel),
            bandwidths,
            values,
            self._splits(X, y, groups),
            fit_intercept=self.fit_intercept,
            n_jobs=self.n_jobs,
        )
        i, j = best_cell(mse)
        self.cv_results_ = _results(mse, bandwidths, self._parameter, values)
        best = i * len(values) + j
        self.best_score_ = float(self.cv_results_["mean_test_score"][best])
        self.best_params_ = self.cv_results_["params"][best]
        return self._refit(X, y, self.best_params_)

    def _splits(self, X: np.ndarray, y: np.ndarray, groups: ArrayLike | None) -> list[Fold]:
        rows, leave_one_out = np.arange(len(X)), isinstance(self.cv, str)
        if leave_one_out and len(X) < 2:
            raise ValueError("cv='loo' needs at least 2 rows; got n_samples=1")
        cv = LeaveOneOut() if leave_one_out else check_cv(self.cv)
        splits = [(rows[a], rows[b]) for a, b in cv.split(X, y, groups)]
        if not splits or any(len(a) == 0 or len(b) == 0 for a, b in splits):
            raise ValueError("cv must give at least one split, each with rows on both sides")
        return splits


@estimator
class KernelRidgeCV(_CrossValidatedRegressor):
    """Kernel ridge regression, bandwidth and penalty chosen by cross-validation (KRR-CV).

    One eigendecomposition per bandwidth serves all penalties and all folds: the residuals
    of held-out rows follow in closed form from the kernel matrix of all rows.

    Parameters
    ----------
    kernel : str, Kernel or callable, default="gaussian"
        See `bandfall.kernels.get_kernel`.
    bandwidths : array-like of shape (n_bandwidths,), optional
        Candidates in [0, inf]; by default the paper's 30, log-spaced from 0.01 to 10.
    penalties : array-like of shape (n_penalties,), optional
        Candidates >= 0; by default the paper's 30, log-spaced from 1e-6 to 1.
    cv : int, "loo", splitter or iterable, default=10
        Number of consecutive folds, leave-one-out, a scikit-learn splitter, or pairs of
        (training rows, held-out rows), as `bandfall.rivals.permutation_folds` makes them.
    fit_intercept : bool, default=True
        As in `KernelRidgeRegressor`, in every fold. The paper's experiments use False.
    n_jobs : int, optional
        joblib workers; threads unless `joblib.parallel_config` says otherwise.
    memory_budget : int, default=2**30
        Bytes per worker; a kernel matrix that does not fit is refused before allocation.

    Attributes
    ----------
    bandwidth_, penalty_ : float
        The first pair with the smallest mean squared error, averaged over folds.
    best_score_ : float
        Minus that mean squared error.
    cv_results_ : dict of arrays
        As in `GridSearchCV`, without times.
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

    penalties: Candidates = None
    penalty_: float = field(init=False)

    _parameter, _values = "penalty", ("penalties", _PENALTIES)
    _mse = staticmethod(ridge_cv_mse)


@estimator
class KernelFlowCV(_CrossValidatedRegressor):
    """Kernel gradient flow, bandwidth and training time chosen by cross-validation (KGF-CV).

    One eigendecomposition per bandwidth and fold serves all times.

    Parameters
    ----------
    kernel, bandwidths, fit_intercept, n_jobs, memory_budget
        As in `KernelRidgeCV`.
    times : array-like of shape (n_times,), optional
        Candidates in [0, inf]; by default one over the paper's 30 penalties: 1e6 to 1.
    cv : int, "loo", splitter or iterable, default=10
        As in `KernelRidgeCV`; "loo" has no closed form here and needs one decomposition per row.

    Attributes
    ----------
    bandwidth_, time_, best_score_, best_params_, n_features_in_, feature_names_in_
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

    times: Candidates = None
    time_: float = field(init=False)

    _parameter, _values = "time", ("times", _TIMES)
    _mse = staticmethod(flow_cv_mse)
    _regressor = KernelFlowRegressor


@estimator
class KernelRidgeMML(_SelectedRegressor):
    """Kernel ridge regression, bandwidth and penalty by marginal likelihood (KRR-MML).

    Minimises yᵀ(K + λI)⁻¹y + log det(K + λI) over σ and λ, or, with `fit_amplitude`, the
    evidence of a Gaussian process of any amplitude; see `bandfall.rivals._evidence`. The
    paper's experiments do the first. It assumes targets of unit scale and does badly on others:
    standardise the targets, or fit the amplitude.

    Parameters
    ----------
    kernel, fit_intercept, memory_budget
        As in `KernelRidgeRegressor`.
    fit_amplitude : bool, default=False
        Fit the amplitude of the process; the scale of the targets then does not matter.
    bandwidth_bounds : (float, float), default=(0.01, 10.0)
        Suitable for standardised features.
    penalty_bounds : (float, float), default=(1e-6, 1.0)
    n_starts : int >= 1, default=5
        L-BFGS-B starts from a jittered grid of n_starts × n_starts points.
    random_state : int, RandomState instance or None, default=0
        Seed for the jitter.

    Attributes
    ----------
    bandwidth_, penalty_ : float
    amplitude_ : ndarray of shape (n_outputs,)
        Amplitude of the process; ones unless `fit_amplitude`.
    criterion_ : float
        The smallest value found.
    optima_ : ndarray of shape (n_starts**2, 3)
        Bandwidth, penalty and criterion at which each start ended, the best first.
    best_estimator_ : KernelRidgeRegressor
        Fitted to all rows.
    n_features_in_, feature_names_in_

    Examples
    --------
    >>> import numpy as np
    >>> from bandfall import KernelRidgeMML
    >>> X = np.linspace(-1, 1, 40)[:, None]
    >>> y = 1000 * np.sin(3 * X[:, 0])
    >>> KernelRidgeMML(fit_amplitude=True).fit(X, y).penalty_ < 1e-5
    True
    >>> round(KernelRidgeMML().fit(X, y).penalty_, 2)  # takes y to be noise of unit scale
    1.0
    """

    fit_amplitude: Flag = False
    bandwidth_bounds: Bounds = _BANDWIDTHS
    penalty_bounds: Bounds = _PENALTIES
    n_starts: Count = 5
    random_state: Seed = 0

    penalty_: float = field(init=False)
    criterion_: float = field(init=False)
    optima_: np.ndarray = field(init=False)
    amplitude_: np.ndarray = field(init=False)

    @validated
    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Choose bandwidth and penalty by marginal likelihood, then fit all rows."""
        X, y, _ = self._training_data(X, y)
        evidence = Evidence(X, self._centred(y), get_kernel(self.kernel), self.fit_amplitude)
        self.optima_ = maximise_evidence(
            evidence,
            _bounds("bandwidth_bounds", self.bandwidth_bounds),
            _bounds("penalty_bounds", self.penalty_bounds),
            n_starts=int(self.n_starts),
            random_state=check_random_state(self.random_state),
        )
        bandwidth, penalty, self.criterion_ = self.optima_[0].tolist()
        self.amplitude_ = np.ones(y.shape[1])
        if self.fit_amplitude:
            self.amplitude_ = evidence.amplitude(bandwidth, penalty)
        return self._refit(X, y, {"bandwidth": bandwidth, "penalty": penalty})


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


def _bounds(name: str, bounds: Sequence[float]) -> tuple[float, float]:
    """Both bounds as floats; raises ValueError if invalid."""
    try:
        low, high = (float(value) for value in bounds)
    except (TypeError, ValueError):
        raise ValueError(f"{name}={bounds!r} must be a pair of numbers (low, high)") from None
    if not 0 < low <= high < np.inf:
        raise ValueError(f"{name}={bounds!r} must have 0 < low <= high < inf")
    return low, high


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
