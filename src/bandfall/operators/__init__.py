"""Operators: products with the kernel matrix K(σ), dense, triangular or in blocks."""

from bandfall.operators.base import KernelOperator, WeightedOperator, largest_eigenvalue
from bandfall.operators.blocked import BlockedOperator
from bandfall.operators.cross import cross_gradient, cross_product
from bandfall.operators.dense import DenseOperator, dense_bytes
from bandfall.operators.select import make_operator
from bandfall.operators.symmetric import SymmetricOperator

__all__ = [
    "BlockedOperator",
    "DenseOperator",
    "KernelOperator",
    "SymmetricOperator",
    "WeightedOperator",
    "cross_gradient",
    "cross_product",
    "dense_bytes",
    "largest_eigenvalue",
    "make_operator",
]
