"""The scikit-learn estimators: each validates its input and calls one function."""

from bandfall._estimators import storage as _storage  # noqa: F401  registers the classes for model files
from bandfall._estimators.classifier import BandfallClassifier
from bandfall._estimators.constant import (
    KernelFlowCV,
    KernelFlowRegressor,
    KernelRidgeCV,
    KernelRidgeMML,
    KernelRidgeRegressor,
)
from bandfall._estimators.descent import KernelDescentRegressor
from bandfall._estimators.mlp import PaperMLPRegressor
from bandfall._estimators.neural import NeuralDescentRegressor
from bandfall._estimators.regressor import BandfallRegressor

__all__ = [
    "BandfallClassifier",
    "BandfallRegressor",
    "KernelDescentRegressor",
    "KernelFlowCV",
    "KernelFlowRegressor",
    "KernelRidgeCV",
    "KernelRidgeMML",
    "KernelRidgeRegressor",
    "NeuralDescentRegressor",
    "PaperMLPRegressor",
]
