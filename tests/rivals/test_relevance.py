"""Automatic relevance: the evidence against its definition, its gradient, and limits."""

import math
from itertools import count

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import approx_fprime

from bandfall._products import scales as products
from bandfall.kernels._kernel import get_kernel
from bandfall.rivals import Evidence, relevance
from bandfall.rivals._relevance import ScaledEvidence
from reference_relevance import negative_log_evidence
from tolerances import rounding

KERNELS = (
    "gaussian", "laplace^1.4", "matern32", "laplace", "laplace-1", "laplace-1.25", "laplace-1.5",
    "cauchy-1.1^0.7",
)  # fmt: skip


def rows(n=25, d=3, k=2, seed=0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, d))
    y = np.stack([np.sin(2.0 * X[:, 0]) + 0.3 * X[:, 1], X[:, 1] ** 2], axis=1)[:, :k]
    return X, y - y.mean(axis=0) + 0.1 * random.normal(size=(n, k))


@pytest.fixture(params=[False, True], ids=["numpy", "compiled"])
def compiled(request, monkeypatch):
    """Every norm but the Euclidean one by compiled loops, or none."""
    if request.param:
        pytest.importorskip("numba")
    limit = 0 if request.param else 2**62
    monkeypatch.setattr(products, "WORTH_COMPILING", limit)


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("name", KERNELS)
def test_evidence_is_its_definition(name):
    (X, y), kernel = rows(), get_kernel(name)
    weights = np.linspace(0.5, 2.0, len(X))
    scales, penalty = np.array([0.8, 0.3, 1.7]), 0.05
    value, _ = ScaledEvidence(X, y, kernel, weights)(np.log(scales), math.log(penalty))
    p = kernel.geometry.p
    expected = negative_log_evidence(lambda u: float(kernel(u)), p, X, y, scales, penalty, weights)
    assert_allclose(value, expected, rtol=rounding(np.float64, 1e6))


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("name", KERNELS)
def test_gradient_agrees_with_differences(name):
    X, y = rows()
    X = np.concatenate([X, X[:4]])  # repeated rows
    y = np.concatenate([y, y[:4] + 0.1])
    evidence = ScaledEvidence(X, y, get_kernel(name), np.linspace(0.5, 2.0, len(X)))
    theta = np.log([0.8, 0.3, 1.7, 0.05])
    _, gradient = evidence(theta[:-1], theta[-1])
    differences = approx_fprime(theta, lambda one: evidence(one[:-1], one[-1])[0], 1e-7)
    assert_allclose(gradient, differences, rtol=1e-4, atol=1e-5 * abs(gradient).max())


def test_one_scale_is_the_bandwidth_of_the_papers_evidence():
    X, y = rows(k=1)
    kernel = get_kernel("gaussian")
    value, gradient = ScaledEvidence(X, y, kernel)(np.full(3, -math.log(2.0)), math.log(0.1))
    known, slopes = Evidence(X, y, kernel, fit_amplitude=True)(2.0, 0.1)
    assert_allclose(2.0 * value + len(X), known)
    assert_allclose([-2.0 * gradient[:3].sum(), 2.0 * gradient[3]], slopes)


def test_scales_see_frequency_and_not_slope():
    X = np.random.default_rng(0).uniform(size=(200, 3))
    scales = relevance(X, np.sin(10.0 * X[:, 0]) + 5.0 * X[:, 1]).scales
    assert scales[0] > 3.0 * scales[1]
    assert scales[1] > 5.0 * scales[2]  # which is useless


def test_multiplying_a_column_divides_its_scale_and_changes_nothing_else():
    X, y = rows()
    factors = np.array([100.0, 1.0, 1e-3])
    known, scaled = relevance(X, y), relevance(X * factors + 5.0, 7.0 * y - 1.0)
    assert_allclose(scaled.scales * factors, known.scales, rtol=1e-3)
    assert_allclose([scaled.penalty, scaled.value], [known.penalty, known.value], rtol=1e-3)


def test_units_say_where_the_prior_expects_equal_scales():
    X, y = rows()
    units = np.array([1.0, 10.0, 0.1])
    equal = relevance(X, y, prior=1e-3, units=units).scales * units
    assert_allclose(equal, equal[0], rtol=1e-2)


def test_equal_columns_have_equal_scales():
    X, y = rows()
    scales = relevance(np.column_stack([X, X[:, 0]]), y).scales
    assert_allclose(scales[3], scales[0], rtol=1e-6)


def test_order_of_columns_does_not_matter():
    X, y = rows(60)
    order = [2, 0, 1]
    assert_allclose(relevance(X[:, order], y).scales, relevance(X, y).scales[order], rtol=1e-2)


def test_one_column():
    X, y = rows(d=3, k=1)
    optimum = relevance(X[:, :1], y)
    evidence = ScaledEvidence(X[:, :1] - X[:, :1].mean(), y / y.std(), get_kernel("gaussian"))
    for factor in (0.8, 1.25):
        worse = evidence(np.log(optimum.scales * factor), math.log(optimum.penalty))[0]
        assert worse > optimum.value - 0.05


def test_constant_columns_and_targets():
    X, y = rows()
    X[:, 1] = 3.0
    assert relevance(X, y).scales[1] == 0.0
    assert_allclose(
        relevance(X, np.column_stack([y, np.ones(len(y))])).scales, relevance(X, y).scales
    )
    assert_allclose(relevance(X, np.ones(len(X))).scales[[0, 2]] * X.std(axis=0)[[0, 2]], 1.0)
    assert not relevance(np.ones((5, 2)), y[:5]).scales.any()


def test_weights_count_as_precision_and_zero_leaves_rows_out():
    X, y = rows(40)
    noisy = y.copy()
    noisy[::4] += 20.0 * np.random.default_rng(1).normal(size=noisy[::4].shape)
    weights = np.ones(len(X))
    weights[::4] = 0.0
    left_out = relevance(np.delete(X, np.s_[::4], 0), np.delete(y, np.s_[::4], 0))
    assert_allclose(relevance(X, noisy, weights=weights).scales, left_out.scales)


def test_evaluations_rows_and_time_are_bounded():
    X, y = rows(80)
    assert relevance(X, y, max_evaluations=3).n_evaluations <= 5  # L-BFGS ends a line search
    capped = relevance(X, y, max_rows=30)
    assert_allclose(capped.scales, relevance(X, y, max_rows=30).scales)
    calls = count()
    ended = relevance(X, y, ended=lambda: next(calls) >= 2)
    assert ended.n_evaluations == 2
    assert np.all(ended.scales > 0.0)
    at_once = relevance(X, y, ended=lambda: True)
    assert at_once.n_evaluations == 0
    assert_allclose(at_once.scales, at_once.scales[0] * X.std(axis=0)[0] / X.std(axis=0))


def test_kernels_without_a_derivative_are_refused():
    X, y = rows()
    with pytest.raises(ValueError, match="without a derivative"):
        relevance(X, y, lambda u: np.exp(-u))
