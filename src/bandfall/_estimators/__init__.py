"""The scikit-learn estimators: each validates its input and calls one function."""

from bandfall._estimators.classifier import BandfallClassifier
from bandfall._estimators.constant import (
    KernelFlowCV,
    KernelFlowRegressor,
    KernelRidgeCV,
    KernelRidgeMML,
    KernelRidgeRegressor,
)
from bandfall._estimators.descent import KernelDescentRegressor
from bandfall._estimators.neural import NeuralDescentRegressor, PaperMLPRegressor
from bandfall._estimators.regressor import BandfallRegressor
from bandfall._files import register_estimators

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

register_estimators(  # which model files may hold
    BandfallClassifier,
    BandfallRegressor,
    KernelDescentRegressor,
    KernelFlowCV,
    KernelFlowRegressor,
    KernelRidgeCV,
    KernelRidgeMML,
    KernelRidgeRegressor,
    PaperMLPRegressor,
)
