"""The scikit-learn surface: validation and one call."""

from bandfall.estimators._constant import KernelFlowRegressor, KernelRidgeRegressor
from bandfall.estimators._descent import KernelDescentRegressor

__all__ = ["KernelDescentRegressor", "KernelFlowRegressor", "KernelRidgeRegressor"]
