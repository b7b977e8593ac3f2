"""Distances between rows: the only module that computes norms.

The same code works on NumPy arrays and torch tensors, through an array namespace ``xp``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from types import ModuleType

import numpy as np

from bandfall._threads import row_blocks, rows_within
from bandfall._typing import Array

# ‖x‖² + ‖z‖² − 2xᵀz loses −log10(threshold) digits; below it, differences are taken directly.
_CANCELLATION = 1e-6
_DIRECT_ENTRIES = 1 << 22
_CACHE_ENTRIES = 1 << 16  # of a block that every feature reads and writes once
_DEVICE_ENTRIES = 1 << 24  # on a GPU, where launching a pass costs more than memory traffic


@dataclass(frozen=True)
class Geometry:
    """The norm ``‖z‖_p = (Σ_k |z_k|^p)^(1/p)``, 1 ≤ p ≤ 2.

    Euclidean distances (p = 2) are matrix products, recomputed where those cancel. Other norms are
    computed from differences, so rows may be float32. They depend on the axes: differences in many
    features count for more than the same difference in one.

    Examples
    --------
    >>> import numpy as np
    >>> from bandfall.kernels import Geometry
    >>> Geometry().block(np.array([[3.0, 4.0]]), np.zeros((1, 2)))
    array([[5.]])
    >>> Geometry(1).block(np.array([[3.0, 4.0]]), np.zeros((1, 2)))
    array([[7.]])
    """

    p: float = 2.0

    def __post_init__(self) -> None:
        if not isinstance(self.p, Real) or isinstance(self.p, bool) or not 1 <= self.p <= 2:
            raise ValueError(f"p={self.p!r} must be a number in [1, 2]")
        object.__setattr__(self, "p", float(self.p))

    @property
    def rotates(self) -> bool:
        """Whether distances are invariant under rotations."""
        return self.p == 2.0

    def squares(self, rows: np.ndarray) -> np.ndarray | None:
        """What `block` reuses of its rows B, shape (n,); None if nothing."""
        return squared_norms(rows) if self.rotates else None

    def block(
        self, A: Array, B: Array, power: float = 1, xp: ModuleType = np, *, squares: Array = None
    ) -> Array:
        """``‖a_i − b_j‖**power`` for rows with the same mean subtracted, shape (m, n).

        Exactly zero for identical rows. `squares` is `self.squares(B)`.
        """
        if self.rotates:
            return to_power(squared_distances(A, B, xp, squares=squares), 0.5 * power, xp)
        shape = (len(A), len(B))
        D = np.zeros(shape, A.dtype) if xp is np else A.new_zeros(shape)
        for rows in row_blocks(len(A), rows_within(_entries(xp), len(B))):
            for k in range(A.shape[1]):
                z = A[rows, k, None] - B[:, k]
                D[rows] += to_power(xp.abs(z, out=z), self.p, xp)
            to_power(D[rows], power / self.p, xp)
        return D

    def pull(self, W: Array, A: Array, B: Array, xp: ModuleType = np) -> Array:
        """``Σ_j W_ij sgn(z_k) |z_k|^(p−1)`` with z = a_i − b_j, shape (m, d).

        Since ``∂‖z‖/∂z_k = sgn(z_k) |z_k|^(p−1) / ‖z‖^(p−1)``, this is the gradient of
        Σ_j k(‖a_i − b_j‖/σ) c_j if W_ij = c_j k′(u) u^(1−p) / σ^p, u = ‖z‖/σ.
        """
        if self.rotates:
            return A * W.sum(1)[:, None] - W @ B
        total = xp.zeros_like(A)
        for rows in row_blocks(len(A), rows_within(_entries(xp), len(B))):
            for k in range(A.shape[1]):
                z = A[rows, k, None] - B[:, k]
                slopes = xp.sign(z)
                if self.p > 1.0:
                    slopes = slopes * to_power(xp.abs(z, out=z), self.p - 1.0, xp)
                total[rows, k] = (W[rows] * slopes).sum(1)
        return total

    def norms(self, Z: np.ndarray) -> np.ndarray:
        """‖z_i‖ of float64 rows, shape (n,)."""
        return np.linalg.norm(Z, ord=self.p, axis=1)

    def diameter(self, X: np.ndarray, block: int) -> float:
        """The largest distance between two float64 rows, in blocks of `block` × `block` pairs.

        A pair at distance D satisfies ‖x − c‖ + ‖z − c‖ ≥ D for any c. With c in the middle of
        a pair that is nearly the farthest, only few outer rows remain to be compared.
        """
        start, end = X[0], X[0]
        for _ in range(4):  # hop to the farthest row, and from there again
            start, end = end, X[int(np.argmax(self.norms(X - end)))]
        best = float(self.norms((start - end)[None])[0])
        radii = self.norms(X - 0.5 * (start + end))
        order = np.argsort(-radii)
        rows, radii = X[order], radii[order]
        for i in range(0, len(rows), block):
            n_partners = int(np.searchsorted(-radii, radii[i] - best, side="right"))
            for j in range(i, n_partners, block):
                powers = self.block(rows[i : i + block], rows[j : j + block], self.p)
                best = max(best, float(powers.max()) ** (1.0 / self.p))
            if n_partners <= i:
                break
        return best


EUCLIDEAN = Geometry()


def _entries(xp: ModuleType) -> int:
    return _CACHE_ENTRIES if xp is np else _DEVICE_ENTRIES


def squared_norms(A: Array, xp: ModuleType = np) -> Array:
    """‖a_i‖², shape (m,)."""
    return xp.einsum("ij,ij->i", A, A)


def squared_distances(A: Array, B: Array, xp: ModuleType = np, *, squares: Array = None) -> Array:
    """‖a_i − b_j‖² for float64 rows with the same mean subtracted, shape (m, n).

    Exactly zero for identical rows; relative error about 1e-9 at worst. `squares` are ‖b_j‖².
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
    # A common threshold first: only the few entries below it need their own.
    i, j = xp.where(float(a2.max() + b2.max()) * _CANCELLATION >= D)
    close = D[i, j] <= _CANCELLATION * (a2[i] + b2[j])
    i, j = i[close], j[close]
    for part in row_blocks(len(i), rows_within(_DIRECT_ENTRIES, A.shape[1])):
        difference = A[i[part]] - B[j[part]]
        D[i[part], j[part]] = xp.einsum("ij,ij->i", difference, difference)


def to_power(values: Array, exponent: float, xp: ModuleType = np) -> Array:
    """values**exponent in place, values ≥ 0; by roots if possible, which are faster than pow."""
    if exponent == 1.0:
        return values
    if exponent == 0.5:
        return xp.sqrt(values, out=values)
    if exponent == 0.25:
        return xp.sqrt(xp.sqrt(values, out=values), out=values)
    if exponent in (1.25, 1.5):
        values *= to_power(xp.sqrt(values), 2.0 * exponent - 2.0, xp)
        return values
    if math.isclose(exponent, 2.0 / 3.0) and xp is np:
        np.cbrt(values, out=values)
        values *= values
        return values
    values **= exponent
    return values


def scaled(X: np.ndarray, root: np.ndarray) -> np.ndarray:
    """Rows in the coordinates of a metric, in the dtype of X.

    `root` is the root of the metric: a symmetric matrix (d, d), or a vector (d,) of scales.
    """
    root = root.astype(X.dtype)
    if root.ndim == 1:
        return X * root
    # The order in which BLAS adds depends on the number of rows, but a row must have the same bits
    # alone and among others, because stages of bandwidth zero look rows up by them. So float32 is
    # multiplied in float64 and rounded, and float64 is added column by column.
    if X.dtype != np.float64:
        return (X.astype(np.float64) @ root.astype(np.float64)).astype(X.dtype)
    total = np.zeros_like(X)
    for column, row in zip(np.moveaxis(X, -1, 0), root, strict=True):
        total += column[..., None] * row
    return total
