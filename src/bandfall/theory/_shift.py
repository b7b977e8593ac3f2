"""The kernel shift Δk₂: the difference of the kernel at a new point and at the training rows.

Section 3.3: Δk₂ is 1 at bandwidth 0 and 0 at bandwidth ∞ whatever the data (the one-region
and the zero-region), and random and of the order of n in between (the peak-region).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from bandfall._products import HOST, operator_over
from bandfall._threads import row_blocks, rows_within
from bandfall._typing import ArrayLike
from bandfall.kernels._kernel import Kernel, KernelLike, get_kernel, kernel_matrix
from bandfall.theory._inputs import non_negative, row_weights, rows


def kernel_shift(
    X: ArrayLike,
    X_new: ArrayLike,
    kernel: KernelLike = "gaussian",
    bandwidth: ArrayLike = 1.0,
    *,
    weights: ArrayLike | None = None,
) -> np.ndarray:
    """Δk₂(x*, X) = √n ‖k(x*, X) − (1/n) Σᵢ k(xᵢ, X)‖₂ (Theorem 1).

    The result has the shape of `bandwidth`, followed by that of the m points, if `X_new` is not one
    point of shape (d,). A row of weight w counts as w equal rows.

    Examples
    --------
    >>> import numpy as np
    >>> from bandfall.theory import kernel_shift
    >>> X = np.linspace(-1, 1, 20)[:, None]
    >>> kernel_shift(X, [0.3], bandwidth=[0.0, 0.2, np.inf]).round(3)
    array([1.   , 6.478, 0.   ])
    """
    X = rows(X, "X")
    single = np.ndim(X_new) == 1
    new = rows(np.atleast_2d(X_new) if single else X_new, "X_new", X.shape[1])
    kernel, bandwidths = get_kernel(kernel), non_negative(bandwidth, "bandwidth")
    w = row_weights(weights, len(X))
    total = w.sum()
    distinct, index = np.unique(bandwidths, return_inverse=True)
    with operator_over(HOST, X, kernel, np.float64) as operator:
        column = operator.array(w[:, None])
        means = [operator.numpy(operator.product(b, column))[:, 0] / total for b in distinct]
    shift = np.empty((len(distinct), len(new)))
    for part, b, k in _kernel_blocks(new, X, kernel, distinct):
        difference = k - means[b]
        shift[b, part] = np.sqrt(total * (difference * difference @ w))
    shift = shift[index.reshape(bandwidths.shape)]
    return shift[..., 0] if single else shift


class KernelMoments(NamedTuple):
    """μ_k, ς_k² and c_k of Proposition 1, each with the shape of `bandwidths`."""

    mean: np.ndarray
    variance: np.ndarray
    covariance: np.ndarray


def kernel_moments(
    X: ArrayLike,
    kernel: KernelLike = "gaussian",
    bandwidth: ArrayLike = 1.0,
) -> KernelMoments:
    """Mean and variance of k(x, x′), covariance of k(x, x′) and k(x, x″) (Proposition 1).

    Unbiased for iid rows: U-statistics over pairs, triples and (for the squared mean)
    quadruples of distinct rows, in O(N²) operations for N ≥ 4 rows.
    """
    pairs, squares, triples, quadruples = _u_statistics(X, kernel, bandwidth)
    # Moments of 1 − k, which has the same variance and covariance and does not cancel.
    return KernelMoments(1.0 - pairs, squares - quadruples, triples - quadruples)


def expected_kernel_shift(
    X: ArrayLike,
    kernel: KernelLike = "gaussian",
    bandwidth: ArrayLike = 1.0,
    *,
    n_rows: int | None = None,
) -> np.ndarray:
    """E(Δk₂²) over iid training rows and a new point (Proposition 1, Equation 6).

        E(Δk₂²) = (μ_k − k(0))² + (n² + n − 2)(ς_k² − c_k) + ς_k²

    is estimated without bias from a sample of N ≥ 4 rows: the squared mean cancels, and the rest is
    linear in U-statistics over pairs and triples of rows. Never negative. `n_rows` is n, the number
    of training rows of Δk₂; N by default. The result has the shape of `bandwidth`.
    """
    _, squares, triples, _ = _u_statistics(X, kernel, bandwidth)
    n = np.shape(X)[0] if n_rows is None else n_rows
    if n != int(n) or n < 1:
        raise ValueError(f"n_rows={n_rows!r} must be an integer of at least 1")
    # With d = k(0) − k: (E d)² + Var d = E d², and ς² − c = E d² − E d d′ ≥ 0.
    return squares + (n * n + n - 2.0) * np.maximum(squares - triples, 0.0)


class ShiftRegions(NamedTuple):
    """Bandwidths at which the one-region ends and the zero-region begins."""

    one_below: float
    zero_above: float


def shift_regions(
    bandwidths: ArrayLike, shift: ArrayLike, *, tolerance: float = 0.1
) -> ShiftRegions:
    """Split a curve Δk₂(σ) into its one-, peak- and zero-region (Section 3.3).

    The paper does not define where the regions end. Here, the one-region ends at the first
    bandwidth with Δk₂ > 1 + `tolerance`, and the zero-region begins at the last one with
    Δk₂ > 1 − `tolerance`. If there is no peak, both are at the last crossing of 1 − `tolerance`.
    `shift` is Δk₂ of one point at the rising `bandwidths`, a median over points, or the root of
    `expected_kernel_shift`.
    """
    bandwidths = non_negative(bandwidths, "bandwidths")
    shift = np.asarray(shift, dtype=np.float64)
    rising = bandwidths.ndim == 1 and len(bandwidths) > 0 and np.all(np.diff(bandwidths) > 0)
    if not rising or shift.shape != bandwidths.shape:
        raise ValueError("bandwidths must rise, and shift be of equal length")
    high = np.flatnonzero(shift > 1.0 + tolerance)
    above = np.flatnonzero(shift > 1.0 - tolerance)
    zero_above = float(bandwidths[above[-1]]) if len(above) else 0.0
    return ShiftRegions(float(bandwidths[high[0]]) if len(high) else zero_above, zero_above)


def _u_statistics(X: ArrayLike, kernel: KernelLike, bandwidth: ArrayLike) -> tuple[np.ndarray, ...]:
    """E d, E d², E d d′ (one row shared) and (E d)² for d = k(0) − k."""
    X, kernel, bandwidths = rows(X, "X"), get_kernel(kernel), non_negative(bandwidth, "bandwidth")
    n = len(X)
    if n < 4:
        raise ValueError(f"X must have at least 4 rows; got {n}")
    sums, squares = np.empty((2, bandwidths.size, n))
    for part, b, k in _kernel_blocks(X, X, kernel, bandwidths.ravel()):
        shortfall = 1.0 - k  # 0 on the diagonal
        sums[b, part] = shortfall.sum(axis=1)
        squares[b, part] = np.einsum("ij,ij->i", shortfall, shortfall)
    pairs, square = sums.sum(axis=1), squares.sum(axis=1)
    triples = (sums * sums - squares).sum(axis=1)
    # (Σ_{i≠j} d_ij)² also counts pairs that share one row (in four ways) or both (in two).
    quadruples = pairs * pairs - 4.0 * triples - 2.0 * square
    n_pairs = n * (n - 1.0)
    mean_square = quadruples / (n_pairs * (n - 2) * (n - 3))
    statistics = (pairs / n_pairs, square / n_pairs, triples / (n_pairs * (n - 2)), mean_square)
    return tuple(statistic.reshape(bandwidths.shape) for statistic in statistics)


def _kernel_blocks(
    A: np.ndarray, B: np.ndarray, kernel: Kernel, bandwidths: np.ndarray
) -> Iterator[tuple[slice, int, np.ndarray]]:
    """K between a block of rows of A, as many as fit, and B: (rows, number of bandwidth, K)."""
    centre = B.mean(axis=0)
    B = B - centre
    # 48 bytes per entry: distances, kernel block, difference, its square, and masks
    for part in row_blocks(len(A), rows_within(HOST.budget, 48 * len(B))):
        distances = kernel.geometry.block(A[part] - centre, B, kernel.power)
        for b, bandwidth in enumerate(bandwidths):
            yield part, b, kernel_matrix(kernel, distances, bandwidth)
