"""Bandfall: kernel regression whose bandwidth falls to zero while it trains."""

from bandfall import _startup  # noqa: F401  (first: the other imports take seconds)
from bandfall._environment import show_versions
from bandfall._estimators import (
    BandfallClassifier,
    BandfallRegressor,
    KernelDescentRegressor,
    KernelFlowCV,
    KernelFlowRegressor,
    KernelRidgeCV,
    KernelRidgeMML,
    KernelRidgeRegressor,
    NeuralDescentRegressor,
    PaperMLPRegressor,
)
from bandfall._files import ModelFileError, load_model, save_model
from bandfall._onnx import to_onnx
from bandfall._version import __version__
from bandfall.descent import floor_sweep

__all__ = [
    "BandfallClassifier",
    "BandfallRegressor",
    "KernelDescentRegressor",
    "KernelFlowCV",
    "KernelFlowRegressor",
    "KernelRidgeCV",
    "KernelRidgeMML",
    "KernelRidgeRegressor",
    "ModelFileError",
    "NeuralDescentRegressor",
    "PaperMLPRegressor",
    "__version__",
    "floor_sweep",
    "load_model",
    "save_model",
    "show_versions",
    "to_onnx",
]
