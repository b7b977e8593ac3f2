"""Naive versions of the paper's equations, written from the paper alone.

Loops and dense algebra, nothing shared with the library: what the library computes cleverly is
computed here plainly.
"""

import numpy as np
from scipy.linalg import expm

# Kernels of other norms and exponents: exp(−u^q) and 1/(1 + u^q), as "name-p^q".
OTHER_KERNELS = ("laplace-1", "laplace-1.5", "laplace-1.3^0.7", "laplace^1.4", "cauchy-1.5^1")


def norm_of(name):
    """The p of a kernel's norm."""
    return float(name.split("^")[0].partition("-")[2] or 2)


def profile(name, u):
    """Table 3 and Section 5, as functions of u = distance / bandwidth; powers of u beside."""
    front, _, exponent = name.partition("^")
    base = front.split("-")[0]
    if base == "laplace":
        return np.exp(-(u ** float(exponent or 1)))
    if base == "cauchy":
        return 1 / (1 + u ** float(exponent or 2))
    if name == "gaussian":
        return np.exp(-(u**2) / 2)
    if name == "matern12":
        return np.exp(-u)
    if name == "matern32":
        return (1 + np.sqrt(3) * u) * np.exp(-np.sqrt(3) * u)
    if name == "matern52":
        return (1 + np.sqrt(5) * u + 5 * u**2 / 3) * np.exp(-np.sqrt(5) * u)
    raise ValueError(name)


def distances(A, B, p=2.0):
    """‖a_i − b_j‖_p from differences."""
    return (np.abs(A[:, None, :] - B[None, :, :]) ** p).sum(axis=2) ** (1 / p)


def kernel(name, A, B, bandwidth):
    """K_ij = k(‖a_i − b_j‖_p/σ), with its limits at σ = 0 and ∞."""
    D = distances(A, B, norm_of(name))
    if bandwidth == 0:
        return (D == 0).astype(float)
    return profile(name, D / bandwidth)


def kgdd_transductive(
    X,
    y,
    X_new,
    *,
    name="gaussian",
    min_speed=0.1,
    bandwidth=None,
    min_bandwidth=0.0,
    step_size=0.01,
    max_r2=0.999,
    max_time=np.inf,
    smallest=1e-9,
):
    """Algorithm 1 with X* included while training, as printed.

    The bandwidth is held at the floor once it gets there ("minimum allowed bandwidth"), and one
    below `smallest` is taken for zero: lines 6 to 8 would go on forever otherwise.

    Returns predictions at X, at X_new, and rows (time, bandwidth, R², speed).
    """
    mean = y.mean()
    y = y - mean
    f, f_new = np.zeros(len(y)), np.zeros(len(X_new))  # line 1
    sigma = distances(X, X).max() if bandwidth is None else bandwidth
    sigma = max(sigma, min_bandwidth)  # line 2
    K, K_new = kernel(name, X, X, sigma), kernel(name, X_new, X, sigma)
    time, rows = 0.0, []
    while True:  # line 3
        r = y - f
        r2 = 1 - r @ r / (y @ y)
        if r2 >= max_r2 or time >= max_time - 1e-9:  # line 13
            return f + mean, f_new + mean, np.array(rows)
        speed = 2 * (r @ K @ r) / (y @ y)  # line 4
        if speed < min_speed and sigma > min_bandwidth:  # line 5
            while speed < min_speed and sigma > min_bandwidth:  # lines 6 and 8
                sigma = max(sigma / (1 + step_size), min_bandwidth)  # line 7
                if sigma < smallest:
                    sigma = min_bandwidth
                K = kernel(name, X, X, sigma)
                speed = 2 * (r @ K @ r) / (y @ y)
            K_new = kernel(name, X_new, X, sigma)  # line 9
        rows.append((time, sigma, r2, speed))
        f, f_new = f + step_size * (K @ r), f_new + step_size * (K_new @ r)  # line 11
        time += step_size  # line 12


def ridge(X, y, X_new, *, name, bandwidth, penalty):
    """Equation 4, on centred targets."""
    K = kernel(name, X, X, bandwidth)
    coefficients = np.linalg.solve(K + penalty * np.eye(len(X)), y - y.mean())
    return kernel(name, X_new, X, bandwidth) @ coefficients + y.mean()


def flow(X, y, X_new, *, name, bandwidth, time):
    """Equation 3, on centred targets, by a matrix exponential and an inverse."""
    K = kernel(name, X, X, bandwidth)
    gained = (np.eye(len(X)) - expm(-time * K)) @ (y - y.mean())
    return kernel(name, X_new, X, bandwidth) @ np.linalg.solve(K, gained) + y.mean()


def kernel_sum(name, X, X_new, bandwidths, coefficients):
    """Σ_s k_{σ_s}(x, X) c_s after every stage, (S + 1, m, k), starting from zero."""
    sums = [np.zeros((len(X_new), coefficients.shape[2]))]
    for sigma, c in zip(bandwidths, coefficients, strict=True):
        sums.append(sums[-1] + kernel(name, X_new, X, sigma) @ c)
    return np.array(sums)


def pooled_r2(y, residual, weights):
    """Mean over the columns that vary of 1 − Σ w r² / Σ w (y − ȳ)²."""
    centred = y - np.average(y - y[0], axis=0, weights=weights) - y[0]
    varying = np.ptp(y, axis=0) > 0
    total = (weights[:, None] * centred**2).sum(axis=0)[varying]
    left = (weights[:, None] * residual**2).sum(axis=0)[varying]
    return float(np.mean(1 - left / total)) if varying.any() else 1.0


def r2_speed(name, X, y, residual, weights, bandwidth):
    """Equation 7, 2 rᵀKr / yᵀy, for columns of unit norm and rows counted `weights` times."""
    centred = y - np.average(y - y[0], axis=0, weights=weights) - y[0]
    varying = np.ptp(y, axis=0) > 0
    weighted = weights[:, None] * residual[:, varying]
    progress = (weighted * (kernel(name, X, X, bandwidth) @ weighted)).sum(axis=0)
    total = (weights[:, None] * centred[:, varying] ** 2).sum(axis=0)
    return float(np.mean(2 * progress / total))
