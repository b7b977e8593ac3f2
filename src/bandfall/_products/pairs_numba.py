"""Compiled loops over pairs of rows in memory, with numba.

Products and Lanczos steps with a triangle of K, in float32; p-norms whose features have scales, in
float64, from features as contiguous columns (d, n).
"""

from __future__ import annotations

import math

import numpy as np

from bandfall._products.loops_numba import add_multiple, compiled, dot, inner, summing

float32, int64 = np.float32, np.int64

# Columns of a product with a kept K: memory is read in long pieces, and vectors stay in the
# second-level cache.
_LONG_CHUNK = 4096


@summing
def _four_rows(a, b, c, d, x, total, xa, xb, xc, xd):
    """Products of four rows of K with x; adds their multiples, by x at these rows, to total."""
    sa = sb = sc = sd = float32(0.0)
    for j in range(x.size):
        sa += a[j] * x[j]
        sb += b[j] * x[j]
        sc += c[j] * x[j]
        sd += d[j] * x[j]
        total[j] += a[j] * xa + b[j] * xb + c[j] * xc + d[j] * xd
    return sa, sb, sc, sd


@inner
def _strip_product(K, start, block, total):
    """Add the products of a strip of rows, K (h, n − start) from its diagonal on, both ways."""
    height, width = K.shape
    n_fours = height - height % 4
    for first in range(0, width, _LONG_CHUNK):
        last = min(first + _LONG_CHUNK, width)
        for i in range(0, n_fours, 4):
            low, row = max(first, i + 4), start + i
            for o in range(block.shape[0]):
                if low < last:
                    sa, sb, sc, sd = _four_rows(
                        K[i, low:last],
                        K[i + 1, low:last],
                        K[i + 2, low:last],
                        K[i + 3, low:last],
                        block[o, start + low : start + last],
                        total[o, start + low : start + last],
                        block[o, row],
                        block[o, row + 1],
                        block[o, row + 2],
                        block[o, row + 3],
                    )
                    total[o, row] += sa
                    total[o, row + 1] += sb
                    total[o, row + 2] += sc
                    total[o, row + 3] += sd
                if first <= i < last:  # the square on the diagonal has no other side
                    for j in range(i, i + 4):
                        for k in range(i, i + 4):
                            total[o, start + j] += K[j, k] * block[o, start + k]
        for i in range(n_fours, height):
            low = max(first, i + 1)
            for o in range(block.shape[0]):
                if low < last:
                    row, x = K[i, low:last], block[o, start + low : start + last]
                    total[o, start + i] += dot(row, x)
                    add_multiple(total[o, start + low : start + last], block[o, start + i], row)
                if first <= i < last:
                    total[o, start + i] += K[i, i] * block[o, start + i]


@compiled
def symmetric_product(entries, n_rows, height, share, n_shares, block, total):
    """Add what every n_shares-th strip of K, from `share` on, gives to total, like block (k, n).

    Strips of `height` rows follow each other in `entries`, each from its diagonal to the right.
    """
    place = 0
    for number in range((n_rows + height - 1) // height):
        start = number * height
        shape = (min(height, n_rows - start), n_rows - start)
        size = shape[0] * shape[1]
        if number % n_shares == share:
            _strip_product(entries[place : place + size].reshape(shape), start, block, total)
        place += size


@compiled
def orthogonalise(basis, n_vectors, vectors, overlaps, squares):
    """Orthogonalise vectors[i] against basis[i, :n_vectors], twice; basis is (k, m, n).

    overlaps[i] becomes the product with the last basis vector, and squares[i] the squared norm of
    the result.
    """
    n_rows = vectors.shape[1]
    products = np.empty(n_vectors, np.float32)
    for i in range(vectors.shape[0]):
        for again in range(2):
            for j in range(n_vectors):
                products[j] = dot(vectors[i], basis[i, j, :n_rows])
            for j in range(n_vectors):
                add_multiple(vectors[i], -products[j], basis[i, j, :n_rows])
            if not again:
                overlaps[i] = products[n_vectors - 1]
        squares[i] = dot(vectors[i], vectors[i])


@inner
def _copy(source, target):
    """One vector into another: numba takes two seconds to compile `target[:] = source`."""
    for j in range(target.size):
        target[j] = source[j]


@inner
def _matrix_times(entries, n_rows, height, vectors, factors, labels, image):
    """S E K Eᵀ S times vectors (k, n) into image; see `lanczos`. The vectors are overwritten."""
    image[:] = 0
    if factors.size > 0:
        for i in range(vectors.shape[0]):
            for j in range(factors.size):
                vectors[i, j] *= factors[j]
    sums, products = vectors, image
    if labels.size > 0:
        sums = np.zeros((vectors.shape[0], n_rows), np.float32)
        products = np.zeros((vectors.shape[0], n_rows), np.float32)
        for i in range(vectors.shape[0]):
            for j in range(labels.size):
                sums[i, labels[j]] += vectors[i, j]
    symmetric_product(entries, n_rows, height, int64(0), int64(1), sums, products)
    if labels.size > 0:
        for i in range(vectors.shape[0]):
            for j in range(labels.size):
                image[i, j] = products[i, labels[j]]
    if factors.size > 0:
        for i in range(vectors.shape[0]):
            for j in range(factors.size):
                image[i, j] *= factors[j]


@compiled
def lanczos(entries, n_rows, height, basis, first, alpha, beta, negligible, factors, labels):
    """Extend bases (k, m, n), of vectors up to `first`, by as many vectors as alpha and beta have.

    Row by row alpha and beta (steps, k) are those of T; beta[0] has what came before. A vector
    of which no more than `negligible` is left becomes zero, and so does its beta. The matrix is
    S E K Eᵀ S, S = diag(factors) and E_ig = [labels_i = g]; empty arrays stand for identities.
    """
    n_values = labels.size if labels.size > 0 else n_rows
    image = np.empty((basis.shape[0], n_values), np.float32)
    newest = np.empty((basis.shape[0], n_values), np.float32)
    squares = np.empty(basis.shape[0])
    for step in range(alpha.shape[0]):
        place = first + step
        for i in range(basis.shape[0]):
            _copy(basis[i, place], newest[i])
        _matrix_times(entries, n_rows, height, newest, factors, labels, image)
        orthogonalise(basis, place + 1, image, alpha[step], squares)
        for i in range(basis.shape[0]):
            left = math.sqrt(squares[i])
            if left <= negligible * (abs(alpha[step, i]) + beta[step, i]):
                left = 0.0
            beta[step + 1, i] = left
            inverse = float32(1.0 / left if left > 0.0 else 0.0)
            for j in range(n_values):
                basis[i, place + 1, j] = inverse * image[i, j]


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
def _add_to(total, x):
    for j in range(x.size):
        total[j] += x[j]


@summing
def _dot64(x, y):
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
            _add_to(row, work[: i + 1])
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
            out[k] += 2.0 * _dot64(work[:i], weights[i, :i])
