"""Bandfall: kernel regression whose bandwidth falls to zero while it trains."""

from bandfall.estimators import (
    KernelDescentRegressor,
    KernelFlowCV,
    KernelFlowRegressor,
    KernelRidgeCV,
    KernelRidgeMML,
    KernelRidgeRegressor,
    NeuralDescentRegressor,
)

__all__ = [
    "KernelDescentRegressor",
    "KernelFlowCV",
    "KernelFlowRegressor",
    "KernelRidgeCV",
    "KernelRidgeMML",
    "KernelRidgeRegressor",
    "NeuralDescentRegressor",
]

__version__ = "0.1.0"
