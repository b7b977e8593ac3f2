"""The contract that every operator keeps, given only how to build one and its dense truth."""

import tracemalloc
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import reference
from bandfall._products import (
    HOST,
    BlockedOperator,
    DenseOperator,
    NumpyBackend,
    SymmetricOperator,
    WeightedOperator,
    base,
    cross_gradient,
    cross_product,
    kept,
    largest_eigenvalue,
)
from bandfall._products.base import RepeatedRowsOperator, distinct_rows, group_rows
from bandfall._products.torch_backend import TorchOperator
from bandfall.kernels._kernel import KERNELS, get_kernel
from problems import seeds
from tolerances import rounding

NAMES = [*KERNELS, *reference.OTHER_KERNELS]
BANDWIDTHS = [0.0, 1e-70, 1e-3, 0.3, 1.0, 10.0, 1e100, np.inf]


def repeated_rows_operator(X, kernel, dtype):
    """Over the distinct rows, whatever their number."""
    labels, n_distinct = group_rows(X)
    distinct = np.empty((n_distinct, X.shape[1]))
    distinct[labels] = X
    return RepeatedRowsOperator(DenseOperator(distinct, kernel, dtype), labels)


FACTORIES = {
    "dense": DenseOperator,
    # One strip, and several with tiles of one strip's width.
    "symmetric": SymmetricOperator,
    "symmetric-strips": lambda X, k, dtype: SymmetricOperator(X, k, dtype, strip_rows=16),
    # A budget too small to keep any tile, one for a few tiles, and the usual one.
    "blocked-tiny": lambda X, k, dtype: BlockedOperator(X, k, dtype, budget=1),
    "blocked-small": lambda X, k, dtype: BlockedOperator(X, k, dtype, budget=60_000),
    "blocked": BlockedOperator,
    "repeated": repeated_rows_operator,
    # Kept matrices, and chunks of a few rows.
    "torch": TorchOperator,
    "torch-chunks": lambda X, k, dtype: TorchOperator(X, k, dtype, budget=20_000),
}


needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


ON_A_GPU = [pytest.param(name, marks=[pytest.mark.gpu, needs_gpu]) for name in ("cuda", "fused")]


# Compiled loops, however little there is to do; they take rows in float32.
COMPILED = ("dense", "symmetric-strips", "blocked-tiny", "blocked-small", "blocked")


@pytest.fixture(params=[*FACTORIES, *(f"{name}-compiled" for name in COMPILED), *ON_A_GPU])
def build(request):
    """(X, kernel, dtype) -> operator."""
    if request.param.endswith("-compiled"):
        request.getfixturevalue("always_compiled")
        return compiled_factory(FACTORIES[request.param.removesuffix("-compiled")])
    if request.param == "fused":
        request.getfixturevalue("always_fused")
    if request.param in ("cuda", "fused"):
        return lambda X, k, dtype: TorchOperator(X, k, dtype, "cuda")
    return FACTORIES[request.param]


def compiled_factory(factory):
    def build(X, kernel, dtype):
        # What float32 would round away is the input's, not the operator's.
        exact = X.astype(np.float32) if dtype == np.float32 and np.abs(X).max() < 1e3 else X
        return factory(exact, kernel, dtype)

    return build


@pytest.fixture(params=[np.float32, np.float64])
def dtype(request):
    return request.param


def rows(seed=0, n=70, d=3):
    """Rows in two clusters, some of them repeated."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) + np.where(rng.random(n) < 0.5, 0.0, 20.0)[:, None]
    X[n // 2] = X[0]
    X[-1] = X[0]
    return X


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("bandwidth", BANDWIDTHS)
@pytest.mark.parametrize("n_columns", [1, 3])
def test_product_is_the_dense_truth(build, dtype, name, bandwidth, n_columns):
    X = rows()
    V = np.random.default_rng(1).normal(size=(len(X), n_columns))
    operator = build(X, get_kernel(name), dtype)
    product = operator.numpy(operator.product(bandwidth, operator.array(V)))
    truth = reference.kernel(name, X, X, bandwidth) @ V
    assert product.dtype == dtype
    assert product.shape == V.shape
    # Errors of distances near zero are amplified by 1/bandwidth², hence the wider float32.
    tolerance = rounding(dtype, 1e4 if dtype == np.float64 else 400)
    assert_allclose(product, truth, atol=tolerance * np.abs(V).sum() / 10, rtol=0)


@given(seed=seeds, bandwidth=st.floats(0.05, 50), n=st.integers(1, 40))
def test_product_is_linear_symmetric_and_positive(seed, bandwidth, n):
    rng = np.random.default_rng(seed)
    X, V, W = rng.normal(size=(n, 2)), rng.normal(size=(n, 2)), rng.normal(size=(n, 2))
    for factory in FACTORIES.values():
        operator = factory(X, get_kernel("matern32"), np.float64)
        KV, KW, both = (
            operator.numpy(operator.product(bandwidth, operator.array(block)))
            for block in (V, W, 2 * V - W)
        )
        assert_allclose(both, 2 * KV - KW, atol=1e-11)
        assert_allclose((W * KV).sum(), (V * KW).sum(), atol=1e-10)
        assert (V * KV).sum() >= -1e-10


def test_max_distance_and_trace(build, dtype):
    X = rows()
    for name in ("cauchy", *reference.OTHER_KERNELS):
        operator = build(X, get_kernel(name), dtype)
        largest = reference.distances(X, X, reference.norm_of(name)).max()
        assert_allclose(operator.max_distance(), largest, rtol=1e-6)
    assert operator.trace == len(X)
    assert operator.n_rows == len(X)


@pytest.mark.parametrize("bandwidth", [0.0, 0.1, 1.0, 100.0, np.inf])
def test_largest_eigenvalue_is_a_tight_upper_bound(build, bandwidth):
    X = rows()
    operator = build(X, get_kernel("gaussian"), np.float64)
    truth = np.linalg.eigvalsh(reference.kernel("gaussian", X, X, bandwidth))[-1]
    bound = largest_eigenvalue(operator, bandwidth)
    assert bound >= truth * (1 - 1e-12)
    assert bound <= 1.5 * truth


def test_offset_of_a_million_costs_no_accuracy(build, dtype):
    X = rows(n=40)
    V = np.ones((40, 1))
    shifted = build(X + 1e6, get_kernel("gaussian"), dtype)
    product = shifted.numpy(shifted.product(1.0, shifted.array(V)))
    assert_allclose(product, reference.kernel("gaussian", X, X, 1.0) @ V, rtol=1e-5)


@pytest.mark.parametrize("n", [1, 2])
def test_one_and_two_rows(build, n):
    X = np.arange(float(n))[:, None]
    operator = build(X, get_kernel("gaussian"), np.float64)
    product = operator.numpy(operator.product(1.0, operator.array(np.ones((n, 1)))))
    assert_allclose(product[:, 0], reference.kernel("gaussian", X, X, 1.0).sum(axis=1))
    assert operator.max_distance() == n - 1


def test_own_arrays(build, dtype):
    operator = build(rows(), get_kernel("gaussian"), dtype)
    values = np.arange(6.0).reshape(2, 3)
    assert_array_equal(operator.numpy(operator.array(values)), values)
    assert_array_equal(operator.numpy(operator.zeros((2, 3))), np.zeros((2, 3)))


@pytest.mark.parametrize("n_columns", [1, 2, 7, 9])
def test_both_ways_to_multiply_a_dense_matrix(monkeypatch, dtype, n_columns):
    operator = DenseOperator(rows(), get_kernel("gaussian"), dtype)
    block = operator.array(np.random.default_rng(0).normal(size=(n_columns, 70))).T
    expected = operator.product(0.5, block)  # few rows: the general product
    monkeypatch.setattr(kept, "_SMALL_MATRIX", 0)
    product = operator.product(0.5, block)
    assert product.dtype == dtype
    assert_allclose(product, expected, atol=100 * np.finfo(dtype).eps)


@pytest.mark.parametrize("n_columns", [1, 3, 20])
def test_strips_are_multiplied_tile_by_tile_and_over_threads(monkeypatch, n_columns):
    X = rows(n=150)
    block = np.random.default_rng(0).normal(size=(150, n_columns))
    expected = DenseOperator(X, get_kernel("matern12")).product(0.7, block)
    operator = partial(SymmetricOperator, X, get_kernel("matern12"), strip_rows=16)
    whole = operator()
    assert whole.product(0.7, block) == pytest.approx(expected, rel=1e-12)
    assert whole._kept.distances.size < 0.6 * 150**2
    monkeypatch.setattr(kept, "_SMALL_PRODUCT", 16 * 24 * n_columns)  # tiles of 24 columns
    assert operator().product(0.7, block) == pytest.approx(expected, rel=1e-12)
    monkeypatch.setattr(kept, "FEW_ROWS", 100)
    operator = operator()
    shared = operator.product(0.7, block)
    assert shared == pytest.approx(expected, rel=1e-12)
    monkeypatch.setattr(kept, "for_each", lambda f, tasks, parallel: [f(t) for t in tasks])
    assert_array_equal(operator.product(0.7, block), shared)  # whatever the number of threads


def test_distinct_rows():
    X = np.array([[1.0, -0.0], [1.0, 2.0], [1.0, 0.0], [1.0, 2.0], [0.0, 1.0]], np.float32)
    first, labels = distinct_rows(X)
    assert sorted(first) == [0, 1, 4]
    assert_array_equal(X[first][labels] + 0.0, X + 0.0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_distinct_rows_that_all_differ(dtype):
    """In one value by one unit in the last place, or in the order of their values."""
    X = np.random.default_rng(0).uniform(1.0, 2.0, size=(60, 5)).astype(dtype)
    X[1] = X[0]
    X[1, 2] = np.nextafter(X[0, 2], dtype(3.0))
    X[2] = X[0, ::-1]
    first, labels = distinct_rows(X)
    assert len(first) == 60
    assert_array_equal(X[first][labels], X)
    huge = np.full((2, 3), np.finfo(dtype).max)
    assert len(distinct_rows(huge)[0]) == 1


def test_distinct_rows_of_one_fingerprint(monkeypatch):
    X = np.array([[1.0], [2.0], [1.0]])
    monkeypatch.setattr(base, "_fingerprints", lambda rows: np.zeros(len(rows), np.uint64))
    first, labels = distinct_rows(X)
    assert_array_equal(X[first][labels], X)
    assert len(first) == 2


def bandwidths_evaluated(operator):
    """The bandwidths at which a dense operator evaluates K from now on."""
    evaluate, bandwidths = operator._kept._evaluate, []

    def watched(distances, bandwidth, out):
        bandwidths.append(bandwidth)
        evaluate(distances, bandwidth, out)

    operator._kept._evaluate = watched
    return bandwidths


def test_dense_evaluates_a_bandwidth_once():
    operator = DenseOperator(rows(), get_kernel("gaussian"))
    evaluated = bandwidths_evaluated(operator)
    V = np.ones((operator.n_rows, 1))
    for bandwidth in (1.0, 1.0, 0.0, 1.0, 0.5, 0.5):
        operator.product(bandwidth, V)
    assert evaluated == [1.0, 0.5]


@pytest.mark.parametrize("weights", [[1.0, 2.0, 0.5], [1e-6, 1.0, 1e6]])
def test_weighted_operator(weights):
    X, w = np.arange(3.0)[:, None], np.array(weights)
    operator = WeightedOperator(DenseOperator(X, get_kernel("gaussian")), w)
    S = np.diag(np.sqrt(w))
    truth = S @ reference.kernel("gaussian", X, X, 1.0) @ S
    assert_allclose(operator.product(1.0, np.eye(3)), truth, rtol=1e-12)
    assert operator.trace == pytest.approx(w.sum())
    assert largest_eigenvalue(operator, 1.0) >= np.linalg.eigvalsh(truth)[-1] * (1 - 1e-12)


@pytest.mark.parametrize(("name", "bandwidth"), [("gaussian", 0.5), ("laplace-1", 0.2)])
def test_skipping_far_tiles_changes_nothing_visible(name, bandwidth):
    X = np.random.default_rng(0).random((3000, 2)) * 100
    V = np.random.default_rng(1).normal(size=(3000, 1))
    operator = BlockedOperator(X, get_kernel(name), budget=10**6)
    product = operator.product(bandwidth, V)
    n_leaves = len(operator._leaves.slices)
    assert len(operator._tiles) < 0.3 * n_leaves * (n_leaves + 1) / 2
    assert_allclose(product, DenseOperator(X, get_kernel(name)).product(bandwidth, V), atol=1e-12)


def test_blocked_stays_inside_its_budget():
    X = np.random.default_rng(0).normal(size=(6000, 4))
    V, budget = np.ones((6000, 1)), 24 * 2**20
    tracemalloc.start()
    operator = BlockedOperator(X, get_kernel("matern52"), np.float64, budget=budget)
    operator.product(1.0, V)
    operator.product(0.5, V)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    rows_and_vectors = 20 * X.nbytes
    assert peak < budget + rows_and_vectors
    assert peak < 0.25 * 2 * 6000**2 * 8  # and far below what dense matrices would take


def test_operator_is_chosen_by_memory_and_repeats():
    kernel = get_kernel("gaussian")
    X = np.random.default_rng(0).normal(size=(600, 2))
    assert isinstance(HOST.operator(X, kernel), DenseOperator)
    assert isinstance(NumpyBackend(10**6).operator(X, kernel), BlockedOperator)
    more = np.random.default_rng(0).normal(size=(700, 2))
    assert isinstance(HOST.operator(more, kernel), SymmetricOperator)
    assert isinstance(NumpyBackend(2**21).operator(more, kernel), BlockedOperator)
    twice = np.vstack([X, X])
    repeated = HOST.operator(twice, kernel)
    assert isinstance(repeated, RepeatedRowsOperator)
    V = np.random.default_rng(1).normal(size=(1200, 2))
    assert_allclose(
        repeated.product(0.7, V), DenseOperator(twice, kernel).product(0.7, V), atol=1e-10
    )


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("budget", [2**12, 2**30])
def test_cross_product_sums_stages(name, budget, dtype):
    rng = np.random.default_rng(0)
    X, X_new = rng.normal(size=(30, 2)) + 1e3, rng.normal(size=(17, 2)) + 1e3
    X_new[3] = X[5]
    bandwidths, C = [3.0, 0.4, 0.0, np.inf], rng.normal(size=(4, 30, 2)).astype(dtype)
    parts = np.stack(
        [reference.kernel(name, X_new, X, s) @ c for s, c in zip(bandwidths, C, strict=True)]
    )
    tolerance = rounding(dtype, 200 if dtype == np.float32 else 1e7)
    total = cross_product(X_new, X, get_kernel(name), bandwidths, C, budget=budget)
    assert total.dtype == np.float64  # whatever the dtype of the coefficients
    assert_allclose(total, parts.sum(axis=0), atol=tolerance * 30)
    staged = cross_product(
        X_new, X, get_kernel(name), bandwidths, C, budget=budget, cumulative=True
    )
    assert_allclose(staged, np.cumsum(parts, axis=0), atol=tolerance * 30)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("bandwidth", [1e-6, 1e-14, 1e-20, 1e-40, 1e-160])
def test_gradient_at_training_rows_ignores_what_has_become_a_spike(name, bandwidth, dtype):
    """k′ at a row itself is zero, and far rows are out of reach, at whatever bandwidth."""
    X = rows(d=2).astype(dtype)
    C = np.random.default_rng(1).normal(size=(2, len(X), 1)).astype(dtype)
    both = cross_gradient(X, X, get_kernel(name), [1.0, bandwidth], C)
    alone = cross_gradient(X, X, get_kernel(name), [1.0], C[:1])
    if "cauchy" in name or "^" in name:  # heavy tails: 2σ²/d³ is small, not nothing
        assert_allclose(both, alone, atol=1e-3 * np.abs(alone).max())
    else:
        assert_allclose(both, alone, rtol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_cross_gradient_against_finite_differences(name):
    rng = np.random.default_rng(0)
    X, X_new = rng.normal(size=(25, 3)), rng.normal(size=(6, 3))
    kernel, bandwidths, C = get_kernel(name), [2.0, 0.7, 0.0], rng.normal(size=(3, 25, 2))
    gradient = cross_gradient(X_new, X, kernel, bandwidths, C)
    step = 1e-5
    for feature in range(3):
        shift = step * np.eye(3)[feature]
        ahead = cross_product(X_new + shift, X, kernel, bandwidths, C)
        behind = cross_product(X_new - shift, X, kernel, bandwidths, C)
        assert_allclose(gradient[:, feature], (ahead - behind) / (2 * step), atol=1e-7)
