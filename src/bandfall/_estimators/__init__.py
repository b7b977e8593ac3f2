"""The scikit-learn estimators: each validates its input and calls one function."""

from bandfall._estimators.base import Storable
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
from bandfall._estimators.self_tuning import BandfallRegressor
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

# Model files may hold every estimator with a method `save`.
_ESTIMATORS = [globals()[name] for name in __all__]
register_estimators(*(cls for cls in _ESTIMATORS if issubclass(cls, Storable)))
