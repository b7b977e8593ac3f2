"""Kernel logistic regression in the kernel of a path: its minimum."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from sklearn.metrics import log_loss

from bandfall._models.logistic import ClassTarget, fit_logistic, path_kernel, with_log_loss
from class_problems import path_of, problem
from reference import kernel as reference_kernel


def kernel_of(path, X_new=None, **options):
    return path_kernel(path.undivided, path.durations, X_new, **options)


def naive_objective(alpha, K, target, penalty):
    """J as its formula says, row by row."""
    g = K @ alpha
    total = 0.5 * penalty * np.trace(alpha.T @ K @ alpha)
    for i, label in enumerate(target.labels):
        outputs = np.array([-g[i, 0], g[i, 0]]) if g.shape[1] == 1 else g[i]
        shares = target.prior * np.exp(outputs)
        weight = 1.0 if target.weights is None else target.weights[i]
        total -= weight * np.log(shares[label] / shares.sum())
    return total


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("penalty", [1.0, 0.01])
def test_the_minimum_is_that_of_a_general_optimiser(n_classes, weighted, penalty):
    X, target = problem(n_classes, n=25, weighted=weighted)
    K = kernel_of(path_of(X, target))
    alpha = fit_logistic(K, target, penalty)
    value = naive_objective(alpha, K, target, penalty)
    best = minimize(
        lambda a: naive_objective(a.reshape(alpha.shape), K, target, penalty), alpha.ravel()
    ).fun
    assert best <= value <= best * (1 + 2e-3)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("penalty", [1.0, 0.01])
def test_the_minimum_in_float32_is_that_in_float64(n_classes, penalty):
    X, target = problem(n_classes, n=200)
    path = path_of(X, target)
    K, K_32 = kernel_of(path), kernel_of(path, dtype=np.float32)
    assert K_32.dtype == np.float32
    assert_allclose(K_32, K, rtol=1e-6)
    values = [
        naive_objective(fit_logistic(matrix, target, penalty), K, target, penalty)
        for matrix in (K, K_32)
    ]
    assert values[1] == pytest.approx(values[0], rel=1e-3)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_that_repeat_are_no_obstacle(dtype):
    """Their kernel matrix is singular, and rounding may make it indefinite."""
    X, target = problem(2, n=30)
    many = np.arange(900) % 30
    K = kernel_of(path_of(X, target), dtype=dtype)[np.ix_(many, many)]
    K -= np.asarray(1e-6 if dtype == np.float32 else 1e-12) * np.trace(K) * np.eye(900, dtype=dtype)
    rows = ClassTarget(target.labels[many], target.prior)
    outputs = K @ fit_logistic(K, rows, 1e-5)
    assert rows.loss(outputs)[0] < 0.2 * rows.loss(np.zeros_like(outputs))[0]


def test_a_start_changes_nothing():
    X, target = problem(3)
    K = kernel_of(path_of(X, target))
    cold = fit_logistic(K, target, 0.1)
    warm = fit_logistic(K, target, 0.1, fit_logistic(K, target, 1.0))
    values = [naive_objective(alpha, K, target, 0.1) for alpha in (cold, warm)]
    assert values[0] == pytest.approx(values[1], rel=1e-3)


def test_a_weight_of_two_is_a_row_that_stands_there_twice():
    X, target = problem(2)
    twice = np.append(np.arange(60), np.arange(10))
    weights = np.where(np.arange(60) < 10, 2.0, 1.0)
    weighted = ClassTarget(target.labels, target.prior, weights)
    repeated = ClassTarget(target.labels[twice], target.prior)
    path = path_of(X, target)
    K = kernel_of(path)
    K_twice = K[np.ix_(twice, twice)]
    values = [
        naive_objective(fit_logistic(matrix, rows, 0.1), matrix, rows, 0.1)
        for matrix, rows in ((K, weighted), (K_twice, repeated))
    ]
    assert values[0] == pytest.approx(values[1], rel=1e-3)


@pytest.mark.parametrize("kernel", ["gaussian", "matern12", "laplace-1.5"])
def test_the_kernel_of_a_path_weighs_bandwidths_by_their_time(kernel):
    X, target = problem(2, n=20)
    path = path_of(X, target, kernel)
    K = sum(
        duration * reference_kernel(kernel, X[:5], X, bandwidth)
        for bandwidth, duration in zip(path.bandwidths, path.durations, strict=True)
    )
    assert_allclose(kernel_of(path, X[:5]), K, rtol=1e-9)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_path_with_log_loss_predicts_log_odds(n_classes):
    X, target = problem(n_classes)
    path = path_of(X, target)
    refitted = with_log_loss(path, target, 0.1)
    K = kernel_of(path)
    outputs = refitted.evaluate(X)
    assert_allclose(outputs, K @ fit_logistic(K, target, 0.1), rtol=1e-6, atol=1e-9)
    probabilities = np.exp(target.log_probabilities(outputs))
    truth = np.eye(n_classes)[target.labels]
    assert_allclose(refitted.residual, (truth - probabilities)[:, -outputs.shape[1] :])
    assert 0 < refitted.r2 < 1
    assert log_loss(target.labels, probabilities) < -np.log(target.prior) @ target.prior
