"""Bandfall: kernel regression whose bandwidth falls to zero while it trains."""

from bandfall import startup as _startup  # noqa: F401  (first: the other imports take seconds)
from bandfall.descent import floor_sweep
from bandfall.environment import show_versions
from bandfall.estimators import (
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
from bandfall.onnx_export import to_onnx
from bandfall.persistence import ModelFileError, load_model, save_model
from bandfall.version import __version__

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
