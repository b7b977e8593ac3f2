"""Backends: devices on which kernel sums are computed, with a memory budget."""

from bandfall.backends.base import (
    HOST,
    Backend,
    CrossProduct,
    Helpers,
    NumpyBackend,
    Sum,
    check_dense_budget,
    operator_over,
)
from bandfall.backends.cluster import ClusterError
from bandfall.backends.device import check_device, resolve_backend

__all__ = [
    "HOST",
    "Backend",
    "ClusterError",
    "CrossProduct",
    "Helpers",
    "NumpyBackend",
    "Sum",
    "check_dense_budget",
    "check_device",
    "operator_over",
    "resolve_backend",
]
