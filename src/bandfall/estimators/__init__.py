"""The scikit-learn estimators: each validates its input and calls one function."""

from bandfall.estimators import _storage as _storage  # registers the classes for model files
from bandfall.estimators._bandfall import BandfallRegressor
from bandfall.estimators._classifier import BandfallClassifier
from bandfall.estimators._constant import KernelFlowRegressor, KernelRidgeRegressor
from bandfall.estimators._cross_validation import KernelFlowCV, KernelRidgeCV
from bandfall.estimators._descent import KernelDescentRegressor
from bandfall.estimators._marginal_likelihood import KernelRidgeMML
from bandfall.estimators._mlp import PaperMLPRegressor
from bandfall.estimators._neural import NeuralDescentRegressor

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
