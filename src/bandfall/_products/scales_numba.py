"""Compiled loops for p-norms whose features have scales, in float64, with numba.

Both run over pairs of rows i > j once. Features are passed as contiguous columns, (d, n).
"""

from __future__ import annotations

import math

import numpy as np

from bandfall._products.loops_numba import compiled, inner, summing


@inner
def _powers(a, b, p, out):
    """|a − b_j|^p."""
    if p == 1.0:
        for j in range(b.size):
            out[j] = abs(a - b[j])
    elif p == 1.5:
        for j in range(b.size):
            z = abs(a - b[j])
            out[j] = z * math.sqrt(z)
    elif p == 1.25:
        for j in range(b.size):
            z = abs(a - b[j])
            out[j] = z * math.sqrt(math.sqrt(z))
    else:
        for j in range(b.size):
            out[j] = abs(a - b[j]) ** p


@inner
def _add(total, x):
    for j in range(x.size):
        total[j] += x[j]


@summing
def _dot(x, y):
    total = 0.0
    for j in range(x.size):
        total += x[j] * y[j]
    return total


@compiled
def distances(columns, p, out):
    """Σ_k |x_ik − x_jk|^p into out (n, n), both halves."""
    n = columns.shape[1]
    work = np.empty(n)
    for i in range(n):
        row = out[i, : i + 1]
        for j in range(row.size):
            row[j] = 0.0
        for k in range(columns.shape[0]):
            _powers(columns[k, i], columns[k, : i + 1], p, work[: i + 1])
            _add(row, work[: i + 1])
        for j in range(i):
            out[j, i] = out[i, j]


@compiled
def weighted_powers(columns, p, weights, out):
    """Σ_ij weights_ij |x_ik − x_jk|^p into out (d,), for symmetric weights."""
    n = columns.shape[1]
    work = np.empty(n)
    out[:] = 0.0
    for i in range(n):
        for k in range(columns.shape[0]):
            _powers(columns[k, i], columns[k, :i], p, work[:i])
            out[k] += 2.0 * _dot(work[:i], weights[i, :i])
