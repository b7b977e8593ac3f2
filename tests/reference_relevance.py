"""Scales by marginal likelihood, term by term from the definition of a Gaussian process."""

import math

import numpy as np


def negative_log_evidence(profile, p, X, y, scales, penalty, weights):
    """Mean over targets of −log N(y; 0, a·A) with the best a, without constants; see `relevance`.

    `profile` is k(u); pairs are visited one by one.
    """
    n, n_targets = y.shape
    A = np.empty((n, n))
    for i in range(n):
        for j in range(n):
            u = sum(abs(s * (a - b)) ** p for s, a, b in zip(scales, X[i], X[j], strict=True)) ** (
                1.0 / p
            )
            A[i, j] = profile(u)
        A[i, i] += penalty / weights[i]
    log_det = np.linalg.slogdet(A)[1]
    total = 0.0
    for k in range(n_targets):
        amplitude = y[:, k] @ np.linalg.solve(A, y[:, k]) / n
        total += 0.5 * n * math.log(amplitude) + 0.5 * log_det
    return total / n_targets
