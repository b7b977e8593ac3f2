"""Products with the kernel matrix K(σ): operators, and the backends that compute them."""

from bandfall._products.backend import (
    HOST,
    Backend,
    CrossProduct,
    Helpers,
    NumpyBackend,
    Sum,
    check_dense_budget,
    operator_over,
)
from bandfall._products.base import KernelOperator, WeightedOperator, largest_eigenvalue
from bandfall._products.blocked import BlockedOperator
from bandfall._products.cross import cross_gradient, cross_product
from bandfall._products.device import ClusterError, check_device, resolve_backend
from bandfall._products.kept import DenseOperator, SymmetricOperator, dense_bytes

__all__ = [
    "HOST",
    "Backend",
    "BlockedOperator",
    "ClusterError",
    "CrossProduct",
    "DenseOperator",
    "Helpers",
    "KernelOperator",
    "NumpyBackend",
    "Sum",
    "SymmetricOperator",
    "WeightedOperator",
    "check_dense_budget",
    "check_device",
    "cross_gradient",
    "cross_product",
    "dense_bytes",
    "largest_eigenvalue",
    "operator_over",
    "resolve_backend",
]
