"""Sections 3.2–3.5 and Appendix A written naively from the paper: loops, inverses, expm."""

import math

import numpy as np
from scipy.integrate import trapezoid
from scipy.linalg import expm

PROFILES = {
    "gaussian": lambda u: math.exp(-u * u / 2),
    "matern12": lambda u: math.exp(-u),
    "matern32": lambda u: (1 + math.sqrt(3) * u) * math.exp(-math.sqrt(3) * u),
    "matern52": lambda u: (1 + math.sqrt(5) * u + 5 * u * u / 3) * math.exp(-math.sqrt(5) * u),
    "cauchy": lambda u: 1 / (1 + u * u),
    "laplace-1.5^1.2": lambda u: math.exp(-(u**1.2)),
}
NORMS = {"laplace-1.5^1.2": 1.5}


def sine_data(seed, n=20, noise=0.2):
    """The synthetic data of the paper's Figure 1: x, f(x), ε."""
    rng = np.random.RandomState(seed)
    x = rng.uniform(-1, 1, n)
    return x[:, None], np.sin(2 * np.pi * x), noise * rng.standard_normal(n)


def kernel(a, b, name, bandwidth):
    """k(‖a − b‖_p/σ) of two points."""
    p = NORMS.get(name, 2.0)
    distance = sum(abs(one - other) ** p for one, other in zip(a, b, strict=True)) ** (1 / p)
    if bandwidth == 0:
        return 1.0 if distance == 0 else 0.0
    return PROFILES[name](0.0 if math.isinf(bandwidth) else distance / bandwidth)


def matrix(A, B, name, bandwidth):
    return np.array([[kernel(a, b, name, bandwidth) for b in B] for a in A])


def kernel_shift(x_new, X, name, bandwidth):
    """Δk₂ of Theorem 1 for one point."""
    n = len(X)
    total = 0.0
    for j in range(n):
        mean = sum(kernel(X[i], X[j], name, bandwidth) for i in range(n)) / n
        total += (kernel(x_new, X[j], name, bandwidth) - mean) ** 2
    return math.sqrt(n * total)


def kernel_moments(X, name, bandwidth):
    """μ, μ², ς², c by brute force over distinct pairs, triples and quadruples."""
    n = len(X)
    k = matrix(X, X, name, bandwidth)
    span = range(n)
    pairs = [k[i, j] for i in span for j in span if i != j]
    squares = [k[i, j] ** 2 for i in span for j in span if i != j]
    triples = [k[i, j] * k[i, m] for i in span for j in span for m in span if len({i, j, m}) == 3]
    quadruples = [
        k[i, j] * k[m, p]
        for i in span
        for j in span
        for m in span
        for p in span
        if len({i, j, m, p}) == 4
    ]
    squared_mean = np.mean(quadruples)
    return (
        np.mean(pairs),
        squared_mean,
        np.mean(squares) - squared_mean,
        np.mean(triples) - squared_mean,
    )


def expected_kernel_shift(n, mean, squared_mean, variance, covariance):
    """Equation 6, linear in its unbiased ingredients: (μ − 1)² = μ² − 2μ + 1."""
    return squared_mean - 2 * mean + 1 + (n**2 + n - 2) * (variance - covariance) + variance


def steps(path, name):
    """(bandwidth, duration, P, ∫‖r‖/‖y‖) for each step of a one-target path's log.

    P multiplies the residual: I − ΔtK for Euler, e^{−tK} for flow. The residual is followed
    from y; its norm is summed over Euler steps and integrated on a fine grid for flow.
    """
    n = len(path.X)
    weights = np.ones(n) if path.weights is None else path.weights
    starts = [stage.time for stage in path.stages]
    residual = path.residual[:, 0] + path.evaluate(path.X)[:, 0] - path.offset
    size = np.sqrt(weights @ residual**2)
    for time, bandwidth, duration in zip(
        path.log.time, path.log.bandwidth, path.log.duration, strict=True
    ):
        K = matrix(path.X, path.X, name, bandwidth) * weights
        stage = path.stages[max(i for i, start in enumerate(starts) if start <= time)]
        if stage.step_size:
            P = np.eye(n) - duration * K
            integral = duration * np.sqrt(weights @ residual**2)
        else:
            P = expm(-duration * K)
            values, left = np.linalg.eig(K)
            amounts = np.linalg.solve(left, residual)
            grid = duration * np.linspace(0, 1, 801) ** 2
            inside = left @ (np.exp(-np.outer(values, grid)) * amounts[:, None])
            integral = trapezoid(np.sqrt(weights @ inside.real**2), grid)
        yield bandwidth, duration, P, integral / size
        residual = P @ residual


def residual_map(path, name):
    """P with r = P y for the schedule in a path's log, step by step."""
    total = np.eye(len(path.X))
    for _, _, P, _ in steps(path, name):
        total = P @ total
    return total


def mean_shift(path, x_new, name):
    """Δk̄₂ at the end of a path."""
    shifts, weights = [], []
    for bandwidth, _, _, integral in steps(path, name):
        shifts.append(kernel_shift(x_new, path.X, name, bandwidth))
        weights.append(integral)
    return np.average(shifts, weights=weights)


def exponent(path, name):
    """∫ s_min dτ over a path."""
    total = 0.0
    for bandwidth, duration in zip(path.log.bandwidth, path.log.duration, strict=True):
        total += np.linalg.svd(matrix(path.X, path.X, name, bandwidth))[1][-1] * duration
    return total


def bound_terms(path, x_new, name):
    """Both kernel terms of Equation 5 at the end of a path."""
    passed = integral = 0.0
    for bandwidth, duration in zip(path.log.bandwidth, path.log.duration, strict=True):
        s_min = np.linalg.svd(matrix(path.X, path.X, name, bandwidth))[1][-1]
        parts = 100
        for i in range(parts):  # the midpoint rule for ∫ e^{−∫s}
            middle = (i + 0.5) * duration / parts
            integral += math.exp(-passed - middle * s_min) * duration / parts
        passed += s_min * duration
    scale = float(path.scale[0]) / math.sqrt(len(path.X))
    return math.exp(-passed) * scale, mean_shift(path, x_new, name) * integral * scale
