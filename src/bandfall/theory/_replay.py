"""The map y ↦ y − f̂ of a fixed schedule: a product of (I − ΔtK)^m or e^{−tK}, by stages."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.polynomial import chebyshev
from scipy import fft

from bandfall._closed_form import Spectrum, euler_filter, flow_filter
from bandfall._products import KernelOperator, largest_eigenvalue
from bandfall._products.base import as_matrix
from bandfall.descent import Path, Stage
from bandfall.theory._inputs import path_operator

Multiplier = Callable[[np.ndarray], np.ndarray]


def residual_factor(stage: Stage) -> Multiplier:
    """p(λ) with P = p(K) for a stage: (1 − Δtλ)^m or e^{−tλ}."""
    step_size, n_steps = stage.step_size, _n_steps(stage)
    if step_size is None:
        return lambda eigenvalues: 1.0 - eigenvalues * flow_filter(eigenvalues, stage.duration)
    return lambda eigenvalues: 1.0 - eigenvalues * euler_filter(eigenvalues, step_size, n_steps)


def replay(path: Path, block: np.ndarray) -> Iterator[np.ndarray]:
    """P_s ⋯ P₁ block after each stage s, for a block of shape (n, p).

    With weights, in the coordinates √w r. Each factor is applied by a Chebyshev expansion or, if
    that is faster, by one eigendecomposition.
    """
    with path_operator(path) as operator:
        wide = block.shape[1] >= operator.n_rows
        for stage in path.stages:
            factor = residual_factor(stage)
            upper = min(operator.trace, largest_eigenvalue(operator, stage.bandwidth))
            # The degree of (1 − Δtλ)^m, or a large number for flow.
            limit = 1 << 20 if stage.step_size is None else _n_steps(stage)
            series = _chebyshev_series(factor, upper, limit)
            if wide and len(series) > 12:  # a decomposition of K costs 12 products with n columns
                K = as_matrix(operator, stage.bandwidth)
                spectrum = Spectrum(K)
                block = spectrum.coefficients(block, factor(spectrum.eigenvalues))
            else:
                block = _chebyshev_product(operator, stage.bandwidth, upper, series, block)
            yield block


def _n_steps(stage: Stage) -> int:
    return max(1, round(stage.duration / stage.step_size)) if stage.step_size else 0


def _chebyshev_series(factor: Multiplier, upper: float, limit: int) -> np.ndarray:
    """Coefficients a_k with p(λ) = Σ a_k T_k(2λ/upper − 1) on [0, upper]."""
    # A factor that decays before the first node looks like zero, so compare between nodes too.
    probes = np.append(0.0, np.geomspace(1e-9, 1.0, 64))
    wanted = factor(upper * probes)
    degree = 8
    while True:
        degree = min(degree, limit)
        nodes = np.cos(np.pi * (np.arange(degree + 1) + 0.5) / (degree + 1))
        values = factor(0.5 * upper * (nodes + 1.0))
        series = fft.dct(values, type=2) / (degree + 1)
        series[0] *= 0.5
        small = np.abs(series) <= 1e-14
        missed = np.abs(chebyshev.chebval(2.0 * probes - 1.0, series) - wanted).max()
        if degree == limit or (small[-3:].all() and missed <= 1e-10):
            kept = np.flatnonzero(~small)
            return series[: kept[-1] + 1] if len(kept) else series[:1]
        degree *= 2


def _chebyshev_product(
    operator: KernelOperator, bandwidth: float, upper: float, series: np.ndarray, block: np.ndarray
) -> np.ndarray:
    """p(K) @ block by Clenshaw's recurrence: one product per coefficient."""
    block = operator.array(block)

    def scaled(values: np.ndarray) -> np.ndarray:  # (2K/upper − I) @ values
        return (2.0 / upper) * operator.product(bandwidth, values) - values

    last, before = series[-1] * block, 0.0 * block
    if len(series) == 1:
        return operator.numpy(last)
    for coefficient in series[-2:0:-1]:
        last, before = coefficient * block + 2.0 * scaled(last) - before, last
    return operator.numpy(series[0] * block + scaled(last) - before)
