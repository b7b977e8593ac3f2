"""Gradients of kernel sums, a block at a time, with NumPy or torch."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from bandfall._typing import Array, Values
from bandfall.kernels._kernel import Kernel, vanishing_bandwidth

if TYPE_CHECKING:
    import torch


def gradient_block(
    new: Array,
    train: Array,
    distances: Array,
    kernel: Kernel,
    bandwidths: Values,
    coefficients: Array,
    xp: ModuleType = np,
) -> Array:
    """The contribution of one block to `cross_gradient`, shape (m, d, k), with NumPy or torch."""
    if kernel.slope is None:
        raise ValueError(f"kernel {kernel.name!r} was given without a derivative")
    limits = xp.finfo(distances.dtype)
    largest = float(limits.max) / 4.0  # finite, and slopes vanish long before
    used = usable_bandwidths(bandwidths, limits)
    weights = [xp.zeros_like(distances) for _ in range(coefficients.shape[2])]
    q, work = xp.empty_like(distances), xp.empty_like(distances)
    for s in used:  # slopes once for all outputs
        bandwidth = float(bandwidths[s])
        with np.errstate(over="ignore"):
            scaled = xp.multiply(distances, bandwidth**-kernel.power, out=q)
            slopes = kernel.slope(xp.clip(scaled, 0.0, largest, out=q), xp)
            for output, W in enumerate(weights):
                W += xp.multiply(
                    slopes, coefficients[s, :, output] / bandwidth**kernel.geometry.p, out=work
                )
    elsewhere = distances > 0
    parts = []
    for W in weights:
        W *= elsewhere  # a row's own term is zero; as a difference of large numbers it is noise
        parts.append(kernel.geometry.pull(W, new, train, xp))
    return xp.stack(parts, -1)


def usable_bandwidths(bandwidths: Values, limits: np.finfo | torch.finfo) -> np.ndarray:
    """Which stages have a gradient: not those of bandwidth ∞ or (practically) 0."""
    values = np.asarray(bandwidths, dtype=float)
    return np.flatnonzero((values > vanishing_bandwidth(limits)) & np.isfinite(values))
