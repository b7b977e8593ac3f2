"""Naive cross-validation, marginal likelihood and training at floors, from the equations."""

import numpy as np
from scipy.linalg import expm
from scipy.spatial.distance import cdist


def gaussian(A, B, bandwidth):
    return np.exp(-cdist(A, B, "sqeuclidean") / (2 * bandwidth**2))


def ridge_prediction(X, y, X_new, bandwidth, penalty):
    """Equation 4."""
    K = gaussian(X, X, bandwidth)
    return gaussian(X_new, X, bandwidth) @ np.linalg.solve(K + penalty * np.eye(len(X)), y)


def flow_prediction(X, y, X_new, bandwidth, time):
    """Equation 3, K⁻¹(I − e^{−tK}) y as the upper right block of one matrix exponential."""
    n = len(X)
    block = np.zeros((n + 1, n + 1))
    block[:n, :n] = -time * gaussian(X, X, bandwidth)
    block[:n, n] = time * y
    return gaussian(X_new, X, bandwidth) @ expm(block)[:n, n]


def cross_validation_mse(predict, X, y, bandwidths, values, splits, fit_intercept=True):
    """One fit per cell and split: mean squared errors (n_splits, n_bandwidths, n_values)."""
    mse = np.empty((len(splits), len(bandwidths), len(values)))
    for s, (train, held_out) in enumerate(splits):
        offset = y[train].mean() if fit_intercept else 0.0
        for i, bandwidth in enumerate(bandwidths):
            for j, value in enumerate(values):
                f = predict(X[train], y[train] - offset, X[held_out], bandwidth, value) + offset
                mse[s, i, j] = np.mean((y[held_out] - f) ** 2)
    return mse


def evidence(X, y, bandwidth, penalty, amplitude=1.0):
    """Minus twice the log density of y ~ N(0, amplitude·(K + λI)), without n log 2π."""
    A = amplitude * (gaussian(X, X, bandwidth) + penalty * np.eye(len(X)))
    return y @ np.linalg.solve(A, y) + np.linalg.slogdet(A)[1]


def descent_at_floor(X, y, X_new, floor, *, speed=0.1, step=0.01, max_time=1000.0, max_r2=0.999):
    """Algorithm 1 with the Gaussian kernel and a floor, updating training and new rows alike."""
    offset = y.mean()
    y = y - offset
    bandwidth = max(cdist(X, X).max(), floor)
    f, f_new = np.zeros(len(X)), np.zeros(len(X_new))
    for _ in range(round(max_time / step)):
        residual = y - f
        if 1 - residual @ residual / (y @ y) >= max_r2:
            break
        while (
            2 * residual @ gaussian(X, X, bandwidth) @ residual / (y @ y) < speed
            and bandwidth > floor
        ):
            bandwidth = max(bandwidth / (1 + step), floor)
        f = f + step * gaussian(X, X, bandwidth) @ residual
        f_new = f_new + step * gaussian(X_new, X, bandwidth) @ residual
    return f_new + offset
