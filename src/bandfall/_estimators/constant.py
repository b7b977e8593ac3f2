"""Constant bandwidth: kernel ridge regression (Equation 4) and gradient flow (Equation 3)."""

from __future__ import annotations

from typing import ClassVar, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from bandfall._closed_form import (
    SpectralFilter,
    Spectrum,
    flow_filter,
    ridge_coefficients,
    ridge_filter,
)
from bandfall._estimators.base import COUNT, FLAG, KERNEL, KernelRegressor, number, validated
from bandfall._products import DenseOperator, check_dense_budget
from bandfall._typing import ArrayLike, Estimator
from bandfall.descent._centring import column_means
from bandfall.descent._sum import KernelSum
from bandfall.kernels._kernel import KernelLike, get_kernel


class _ConstantBandwidthRegressor(KernelRegressor):
    """f̂(x) = ȳ + k_σ(x, X) c, with c in closed form."""

    _parameter_constraints: ClassVar[dict[str, list]] = {
        "kernel": KERNEL,
        "bandwidth": [number(0, closed="both")],
        "fit_intercept": FLAG,
        "memory_budget": COUNT,
    }

    @validated
    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        sample_weight : array-like of shape (n_samples,), optional
            A row of weight w counts as w equal rows.

        Returns
        -------
        self
        """
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

    @property
    def X_fit_(self) -> np.ndarray:
        """Training rows, shape (n_samples, n_features)."""
        return self.kernel_sum_.X

    @property
    def coefficients_(self) -> np.ndarray:
        """c, shape (n_samples, n_outputs)."""
        return self.kernel_sum_.coefficients[0]

    @property
    def offset_(self) -> np.ndarray:
        """ȳ, shape (n_outputs,)."""
        return self.kernel_sum_.offset

    def _smoother(self) -> tuple[KernelSum, np.ndarray | None, SpectralFilter]:
        """See `bandfall.theory.degrees_of_freedom`."""
        check_is_fitted(self)
        return self.kernel_sum_, self.weights_, self._filter


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
        The fitted model; what follows is its own.
    coefficients_ : ndarray of shape (n_samples, n_outputs)
    offset_ : ndarray of shape (n_outputs,)
    X_fit_ : ndarray of shape (n_samples, n_features)
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

    _parameter_constraints: ClassVar[dict[str, list]] = {
        **_ConstantBandwidthRegressor._parameter_constraints,
        "penalty": [number(0)],
    }

    def __init__(
        self,
        kernel: KernelLike = "gaussian",
        *,
        bandwidth: float = 1.0,
        penalty: float = 1e-3,
        fit_intercept: bool = True,
        memory_budget: int = 2**30,
    ) -> None:
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.penalty = penalty
        self.fit_intercept = fit_intercept
        self.memory_budget = memory_budget

    def _solve(self, K: np.ndarray, y: np.ndarray) -> np.ndarray:
        return ridge_coefficients(K, y, float(self.penalty))

    def _filter(self, eigenvalues: np.ndarray) -> np.ndarray:
        return ridge_filter(eigenvalues, float(self.penalty))


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
    kernel_sum_, coefficients_, offset_, X_fit_, weights_, n_features_in_, feature_names_in_
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

    _parameter_constraints: ClassVar[dict[str, list]] = {
        **_ConstantBandwidthRegressor._parameter_constraints,
        "time": [number(0, closed="both")],
    }

    def __init__(
        self,
        kernel: KernelLike = "gaussian",
        *,
        bandwidth: float = 1.0,
        time: float = 1000.0,
        fit_intercept: bool = True,
        memory_budget: int = 2**30,
    ) -> None:
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.time = time
        self.fit_intercept = fit_intercept
        self.memory_budget = memory_budget

    def _solve(self, K: np.ndarray, y: np.ndarray) -> np.ndarray:
        spectrum = Spectrum(K)
        return spectrum.coefficients(y, self._filter(spectrum.eigenvalues))

    def _filter(self, eigenvalues: np.ndarray) -> np.ndarray:
        return flow_filter(eigenvalues, float(self.time))


# Search ranges of the paper's experiments (Appendix B); flow uses time = 1/penalty.
BANDWIDTH_RANGE = (0.01, 10.0)
PENALTY_RANGE = (1e-6, 1.0)


class SelectedRegressor(KernelRegressor):
    """Chooses the parameters of a constant-bandwidth regressor and predicts with it."""

    _parameter_constraints: ClassVar[dict[str, list]] = {
        "kernel": KERNEL,
        "fit_intercept": FLAG,
        "memory_budget": COUNT,
    }

    def _refit(self, regressor: Estimator, X: np.ndarray, y: np.ndarray) -> Self:
        self.best_estimator_ = regressor.fit(X.astype(np.float64), y)
        return self

    @property
    def kernel_sum_(self) -> KernelSum:
        """The fitted model, a `KernelSum`."""
        return self.best_estimator_.kernel_sum_
