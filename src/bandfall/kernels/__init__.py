"""Kernels: profiles of the distance, and the norms that measure it."""

from bandfall.kernels._geometry import Euclidean, Geometry, Minkowski
from bandfall.kernels._kernel import Kernel, get_kernel, kernel_matrix

__all__ = ["Euclidean", "Geometry", "Kernel", "Minkowski", "get_kernel", "kernel_matrix"]
