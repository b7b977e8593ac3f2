"""Bandfall: kernel regression whose bandwidth falls to zero while it trains."""

from bandfall.estimators import KernelDescentRegressor, KernelFlowRegressor, KernelRidgeRegressor

__all__ = [
    "KernelDescentRegressor",
    "KernelFlowRegressor",
    "KernelRidgeRegressor",
]

__version__ = "0.1.0"
