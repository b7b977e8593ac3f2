"""Constant bandwidth, selected by marginal likelihood: KRR-MML (Section 5, Appendix B)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Self

import numpy as np
from sklearn.utils import check_random_state

from bandfall._estimators.base import COUNT, FLAG, RANDOM, validated
from bandfall._estimators.constant import (
    BANDWIDTH_RANGE,
    PENALTY_RANGE,
    KernelRidgeRegressor,
    SelectedRegressor,
)
from bandfall._products import check_dense_budget
from bandfall._typing import ArrayLike, RandomLike
from bandfall.descent._centring import column_means
from bandfall.kernels._kernel import KernelLike, get_kernel
from bandfall.rivals import Evidence, maximise_evidence


class KernelRidgeMML(SelectedRegressor):
    """Kernel ridge regression, bandwidth and penalty by marginal likelihood (KRR-MML).

    Minimises yᵀ(K + λI)⁻¹y + log det(K + λI) over σ and λ, or, with `fit_amplitude`, the
    evidence of a Gaussian process of any amplitude; see `bandfall.rivals._evidence`. The
    paper's experiments do the first. It assumes targets of unit scale and does badly on others:
    standardise the targets, or fit the amplitude.

    Parameters
    ----------
    kernel : str, Kernel or callable, default="gaussian"
        See `bandfall.kernels.get_kernel`.
    fit_amplitude : bool, default=False
        Fit the amplitude of the process as well; the choice then does not depend on the
        scale of the targets.
    bandwidth_bounds : (float, float), default=(0.01, 10.0)
        Suitable for standardised features.
    penalty_bounds : (float, float), default=(1e-6, 1.0)
    n_starts : int >= 1, default=5
        L-BFGS-B starts from a jittered grid of n_starts × n_starts points.
    fit_intercept : bool, default=True
        Subtract the mean of the training targets before training and add it after.
    random_state : int, RandomState instance or None, default=0
        Seed for the jitter.
    memory_budget : int, default=2**30
        Bytes; a kernel matrix that does not fit is refused before allocation.

    Attributes
    ----------
    bandwidth_, penalty_ : float
    amplitude_ : ndarray of shape (n_outputs,)
        Amplitude of the process; ones unless `fit_amplitude`.
    criterion_ : float
        The smallest value found.
    optima_ : ndarray of shape (n_starts**2, 3)
        Bandwidth, penalty and criterion at which each start ended.
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

    _parameter_constraints: ClassVar[dict[str, list]] = {
        **SelectedRegressor._parameter_constraints,
        "fit_amplitude": FLAG,
        "bandwidth_bounds": ["array-like"],
        "penalty_bounds": ["array-like"],
        "n_starts": COUNT,
        "random_state": RANDOM,
    }

    def __init__(
        self,
        kernel: KernelLike = "gaussian",
        *,
        fit_amplitude: bool = False,
        bandwidth_bounds: Sequence[float] = BANDWIDTH_RANGE,
        penalty_bounds: Sequence[float] = PENALTY_RANGE,
        n_starts: int = 5,
        fit_intercept: bool = True,
        random_state: RandomLike = 0,
        memory_budget: int = 2**30,
    ) -> None:
        self.kernel = kernel
        self.fit_amplitude = fit_amplitude
        self.bandwidth_bounds = bandwidth_bounds
        self.penalty_bounds = penalty_bounds
        self.n_starts = n_starts
        self.fit_intercept = fit_intercept
        self.random_state = random_state
        self.memory_budget = memory_budget

    @validated
    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Choose bandwidth and penalty by marginal likelihood, then fit.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)

        Returns
        -------
        self
        """
        X, y, _ = self._training_data(X, y)
        check_dense_budget(len(X), np.dtype(np.float64), self.memory_budget)
        centred = y - column_means(y) if self.fit_intercept else y
        evidence = Evidence.of(X, centred, get_kernel(self.kernel), self.fit_amplitude)
        optimum = maximise_evidence(
            evidence,
            _bounds("bandwidth_bounds", self.bandwidth_bounds),
            _bounds("penalty_bounds", self.penalty_bounds),
            n_starts=int(self.n_starts),
            random_state=check_random_state(self.random_state),
        )
        self.bandwidth_, self.penalty_ = optimum.bandwidth, optimum.penalty
        self.criterion_, self.optima_ = optimum.value, optimum.optima
        self.amplitude_ = np.ones(y.shape[1])
        if self.fit_amplitude:
            self.amplitude_ = evidence.amplitude(self.bandwidth_, self.penalty_)
        regressor = KernelRidgeRegressor(
            self.kernel,
            bandwidth=self.bandwidth_,
            penalty=self.penalty_,
            fit_intercept=self.fit_intercept,
            memory_budget=self.memory_budget,
        )
        return self._refit(regressor, X, y)

    def _validate_params(self) -> None:
        super()._validate_params()
        for name in ("bandwidth_bounds", "penalty_bounds"):
            _bounds(name, getattr(self, name))


def _bounds(name: str, bounds: Sequence[float]) -> tuple[float, float]:
    """Both bounds as floats; raises ValueError if invalid."""
    try:
        low, high = (float(value) for value in bounds)
    except (TypeError, ValueError):
        raise ValueError(f"{name}={bounds!r} must be a pair of numbers (low, high)") from None
    if not 0 < low <= high < np.inf:
        raise ValueError(f"{name}={bounds!r} must have 0 < low <= high < inf")
    return low, high
