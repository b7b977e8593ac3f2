"""What the estimators that select a constant bandwidth share."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np

from bandfall.estimators._base import KernelRegressor
from bandfall.estimators._constraints import COUNT, FLAG, KERNEL
from bandfall.kernels import get_kernel
from bandfall.model import KernelSum

# Where the paper's experiments search (Appendix B); flow uses time = 1/penalty.
BANDWIDTH_RANGE = (0.01, 10.0)
PENALTY_RANGE = (1e-6, 1.0)


class SelectedRegressor(KernelRegressor):
    """Chooses the parameters of a constant-bandwidth regressor, then is that regressor."""

    _parameter_constraints: ClassVar[dict[str, list]] = {
        "kernel": KERNEL,
        "fit_intercept": FLAG,
        "memory_budget": COUNT,
    }

    def _refit(self, regressor: Any, X: Any, y: Any) -> Self:
        self.best_estimator_ = regressor.fit(X.astype(np.float64), y)
        return self

    @property
    def kernel_sum_(self) -> KernelSum:
        """The fitted model, a `KernelSum`."""
        return self.best_estimator_.kernel_sum_

    def predict(self, X: Any) -> np.ndarray:
        """Predict.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_outputs)
        """
        rows = self._new_rows(X).astype(np.float64, copy=False)
        return self._shaped(self.best_estimator_.predict(rows))

    def _validate_params(self) -> None:
        super()._validate_params()
        get_kernel(self.kernel)
