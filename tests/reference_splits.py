"""Naive reference for the paper's splits, written from the protocol."""

import numpy as np


def naive_splits(X, y, sizes, n_trains):
    """Tuples (X_train, y_train, X_test, y_test), one row at a time."""
    rows = np.array([[target, *features] for target, features in zip(y, X, strict=True)])
    np.random.RandomState(0).shuffle(rows)
    start = 0
    for size, n_train in zip(sizes, n_trains, strict=True):
        part = rows[start : start + size].copy()
        start += size
        part[:, 0] -= sum(part[:, 0]) / size
        for column in range(1, part.shape[1]):
            centred = part[:, column] - sum(part[:, column]) / size
            part[:, column] = centred / np.sqrt(sum(centred**2) / size)
        yield part[:n_train, 1:], part[:n_train, 0], part[n_train:, 1:], part[n_train:, 0]


def ridge_test_r2(split, bandwidth, penalty):
    """Test R² of Gaussian kernel ridge regression, from the textbook formula."""

    def gaussian(A, B):
        squared = ((A[:, None, :] - B[None, :, :]) ** 2).sum(axis=-1)
        return np.exp(-squared / (2 * bandwidth**2))

    K = gaussian(split.X_train, split.X_train)
    weights = np.linalg.solve(K + penalty * np.eye(len(K)), split.y_train)
    residual = split.y_test - gaussian(split.X_test, split.X_train) @ weights
    return 1 - np.mean(residual**2) / np.var(split.y_test)
