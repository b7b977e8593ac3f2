"""What the estimators that select a constant bandwidth share."""

from __future__ import annotations

import numpy as np

from bandfall.estimators._base import KernelRegressor, check_flag, check_number
from bandfall.kernels import get_kernel

# Where the paper's experiments search (Appendix B); flow uses time = 1/penalty.
BANDWIDTH_RANGE = (0.01, 10.0)
PENALTY_RANGE = (1e-6, 1.0)


class SelectedRegressor(KernelRegressor):
    """Chooses the parameters of a constant-bandwidth regressor, then is that regressor."""

    def _refit(self, regressor, X, y):
        # In float64 whatever X is: small penalties drown in float32.
        self.best_estimator_ = regressor.fit(X.astype(np.float64), y.astype(np.float64))
        self._dtype = X.dtype
        return self

    def predict(self, X):
        """Predict.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_outputs)
        """
        X = self._new_rows(X)
        predictions = self.best_estimator_.predict(X.astype(np.float64, copy=False))
        return self._shaped(predictions).astype(self._dtype, copy=False)

    def _check_parameters(self):
        get_kernel(self.kernel)
        check_number("memory_budget", self.memory_budget, low=1, integer=True)
        check_flag("fit_intercept", self.fit_intercept)
