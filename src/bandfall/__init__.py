"""Bandfall: kernel regression whose bandwidth falls to zero while it trains."""

from bandfall.descent import floor_sweep
from bandfall.estimators import (
    KernelDescentRegressor,
    KernelFlowCV,
    KernelFlowRegressor,
    KernelRidgeCV,
    KernelRidgeMML,
    KernelRidgeRegressor,
    NeuralDescentRegressor,
    PaperMLPRegressor,
)

__all__ = [
    "KernelDescentRegressor",
    "KernelFlowCV",
    "KernelFlowRegressor",
    "KernelRidgeCV",
    "KernelRidgeMML",
    "KernelRidgeRegressor",
    "NeuralDescentRegressor",
    "PaperMLPRegressor",
    "floor_sweep",
]

__version__ = "0.1.0"
