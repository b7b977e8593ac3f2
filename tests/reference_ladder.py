"""Naive versions of what the search computes: kernel sums, gradients, R² along a ladder."""

import numpy as np

import reference


def staged_sums(name, X_new, X, bandwidths, coefficients):
    """Σ of k_σ(X_new, X) c over the stops so far, shape (L + 1, m, V, k), stop by stop."""
    sums = [np.zeros((len(X_new), *coefficients.shape[2:]))]
    for bandwidth, block in zip(bandwidths, coefficients, strict=True):
        K = reference.kernel(name, X_new, X, bandwidth)
        sums.append(sums[-1] + np.einsum("mn,nvk->mvk", K, block.astype(float)))
    return np.stack(sums)


def staged_r2(name, X, target, ladder, weights=None):
    """R² on training rows, from what the coefficients leave of a target of unit norm."""
    root = np.ones(len(X)) if weights is None else np.sqrt(weights)
    explained = root[:, None, None] * staged_sums(
        name, X, X, ladder.bandwidths, root[:, None, None] * ladder.coefficients
    )
    return 1.0 - ((target[:, None] - explained) ** 2).sum(axis=(1, 3))


def gaussian_gradient(X_new, X, bandwidths, coefficients):
    """∂/∂x Σ e^{−‖x − x_j‖²/2σ²} c_j at each new row, shape (m, d, k); c of shape (L, n, k)."""
    difference = X_new[:, None, :] - X[None, :, :]
    total = np.zeros((len(X_new), X.shape[1], coefficients.shape[2]))
    for bandwidth, block in zip(bandwidths, coefficients, strict=True):
        if bandwidth > 0:
            K = reference.kernel("gaussian", X_new, X, bandwidth)
            total -= np.einsum("mn,mnd,nk->mdk", K, difference, block) / bandwidth**2
    return total
