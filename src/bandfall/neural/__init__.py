"""Descent with a controlled tangent kernel, for PyTorch networks (Section 4, Appendix D)."""

try:
    import torch  # noqa: F401
except ImportError as error:
    raise ImportError("bandfall.neural needs PyTorch: pip install torch") from error

from bandfall.neural._optimizer import TangentDescent, TangentLog, TangentStatus
from bandfall.neural._plain import PlainNetwork, train_plain
from bandfall.neural._step import TangentStep, mixed_anchors, tangent_step, uniform_anchors
from bandfall.neural._tangent import empirical_ntk
from bandfall.neural._training import PlainDescent, fit_network, make_network

__all__ = [
    "PlainDescent",
    "PlainNetwork",
    "TangentDescent",
    "TangentLog",
    "TangentStatus",
    "TangentStep",
    "empirical_ntk",
    "fit_network",
    "make_network",
    "mixed_anchors",
    "tangent_step",
    "train_plain",
    "uniform_anchors",
]
