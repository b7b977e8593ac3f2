"""Squared Euclidean distances: fast by matrix product, right where that cancels."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from bandfall.operators.rows import row_blocks, rows_within

Array = Any  # NumPy array or torch tensor

# ‖x‖² + ‖z‖² − 2xᵀz loses −log10(threshold) digits; below it, differences are taken directly.
_CANCELLATION = 1e-6
_DIRECT_ENTRIES = 1 << 22


def squared_norms(A: Array, xp: ModuleType = np) -> Array:
    """‖a_i‖², shape (m,)."""
    return xp.einsum("ij,ij->i", A, A)


def squared_distances(
    A: Array, B: Array, xp: ModuleType = np, *, squares: Array | None = None
) -> Array:
    """‖a_i − b_j‖² for float64 rows that were centred together, shape (m, n).

    Never negative; exactly zero for identical rows; relative error about 1e-9 at worst,
    because entries that cancel are computed again from differences. `squares` are the squared
    norms of B, where they are known.
    """
    if A.shape[1] == 1:  # a product would save nothing, and cancel
        D = A - B.T
        D *= D
        return D
    a2 = squared_norms(A, xp)
    b2 = squared_norms(B, xp) if squares is None else squares
    D = A @ B.T
    D *= -2.0
    D += a2[:, None]
    D += b2[None, :]
    xp.clip(D, 0.0, None, out=D)
    for rows in row_blocks(len(A), rows_within(_DIRECT_ENTRIES, len(B))):
        _refine(D[rows], A[rows], B, a2[rows], b2, xp)
    return D


def _refine(D: Array, A: Array, B: Array, a2: Array, b2: Array, xp: ModuleType) -> None:
    """Replace the entries of D that suffered cancellation by ‖a_i − b_j‖² itself."""
    if not len(A) or not len(B):
        return
    # One number first: few entries come near, and only those need a threshold of their own.
    i, j = xp.where(float(a2.max() + b2.max()) * _CANCELLATION >= D)
    close = D[i, j] <= _CANCELLATION * (a2[i] + b2[j])
    i, j = i[close], j[close]
    for part in row_blocks(len(i), rows_within(_DIRECT_ENTRIES, A.shape[1])):
        difference = A[i[part]] - B[j[part]]
        D[i[part], j[part]] = xp.einsum("ij,ij->i", difference, difference)


def largest_distance(X: np.ndarray, block: int) -> float:
    """The largest distance between two float64 rows, looking only at rows far out.

    `block` rows at a time are compared with as many others.

    A pair at distance D satisfies ‖x − c‖ + ‖z − c‖ ≥ D for any c. With c in the middle of a
    pair that is already nearly the farthest, few rows are left to compare.
    """
    start, end = X[0], X[0]
    for _ in range(4):  # hop to the farthest row, and from there again
        start, end = end, X[int(np.argmax(((X - end) ** 2).sum(axis=1)))]
    best = float(np.linalg.norm(start - end))
    radii = np.linalg.norm(X - 0.5 * (start + end), axis=1)
    order = np.argsort(-radii)
    rows, radii = X[order], radii[order]
    for i in range(0, len(rows), block):
        n_partners = int(np.searchsorted(-radii, radii[i] - best, side="right"))
        for j in range(i, n_partners, block):
            A, B = rows[i : i + block], rows[j : j + block]
            squares = (A * A).sum(axis=1) + ((B * B).sum(axis=1)[:, None] - 2.0 * (B @ A.T)).max(0)
            best = max(best, float(squares.max()) ** 0.5)  # large: nothing cancels
        if n_partners <= i:
            break
    return best


def to_power(squared: Array, power: int, xp: ModuleType = np) -> Array:
    """Squared distances in place to distance**power, power in {1, 2}."""
    return xp.sqrt(squared, out=squared) if power == 1 else squared
