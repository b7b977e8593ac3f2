"""Bandfall: kernel regression whose bandwidth falls to zero while it trains."""

from importlib import import_module
from typing import TYPE_CHECKING

from bandfall._version import __version__

if TYPE_CHECKING:
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

_ROOMS = {
    "ModelFileError": "_files",
    "load_model": "_files",
    "save_model": "_files",
    "floor_sweep": "descent",
    "show_versions": "_environment",
    "to_onnx": "_onnx",
}
_PUBLIC_ROOMS = {
    *("datasets", "demo", "descent", "kernels", "neural"),
    *("plotting", "report", "rivals", "tables", "theory"),
}


def __getattr__(name: str) -> object:
    """Import a name when it is first used: NumPy, SciPy and scikit-learn take a second."""
    if name in _PUBLIC_ROOMS:
        return import_module(f"bandfall.{name}")
    if name not in __all__:
        raise AttributeError(f"module 'bandfall' has no attribute {name!r}")
    import_module("bandfall._estimators")  # registers the classes that model files may hold
    value = getattr(import_module(f"bandfall.{_ROOMS.get(name, '_estimators')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_PUBLIC_ROOMS})
