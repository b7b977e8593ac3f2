"""Kernels: profiles of the distance, and the norms that measure it."""

from bandfall.kernels._geometry import Geometry
from bandfall.kernels._kernel import Kernel, get_kernel, kernel_matrix

__all__ = ["Geometry", "Kernel", "get_kernel", "kernel_matrix"]
