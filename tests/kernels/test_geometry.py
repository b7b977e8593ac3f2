"""Norms: distances, gradients, bounds, and which kernels are positive definite in them."""

import copy
import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import reference
from bandfall._models.metric import learned_root
from bandfall._models.novelty import nearest_distances
from bandfall._products import NumpyBackend
from bandfall._products.blocked import Leaves
from bandfall.descent._sum import KernelSum
from bandfall.kernels._geometry import Geometry, scaled, to_power
from bandfall.kernels._kernel import KERNELS, get_kernel
from problems import seeds
from tolerances import rounding

norms = st.sampled_from([1.0, 1.2, 1.5, 2.0])


def clouds(seed, shape=(23, 17, 3)):
    random = np.random.default_rng(seed)
    m, n, d = shape
    A, B = random.normal(size=(m, d)), random.normal(size=(n, d))
    A[0] = B[0]
    return A, B


@given(seed=seeds, p=norms, power=st.sampled_from([0.3, 0.7, 1, 1.5, 2]))
def test_distances_are_those_of_the_norm(seed, p, power):
    A, B = clouds(seed)
    expected = reference.distances(A, B, p) ** power
    for dtype in (np.float32, np.float64):
        if p == 2.0 and dtype == np.float32:
            continue  # by a matrix product, whose rows are float64
        found = Geometry(p).block(A.astype(dtype), B.astype(dtype), power)
        assert found.dtype == dtype
        assert found[0, 0] == 0.0
        # Differences of rounded rows; a matrix product keeps fewer digits of near rows.
        rtol = 1e-8 if p == 2.0 else rounding(dtype, 1e3)
        assert_allclose(found, expected, atol=rounding(dtype, 100), rtol=rtol)


def test_rows_in_float32_lose_nothing_however_near():
    rows = (np.arange(5)[:, None] * np.float32(1e-4) + np.float32(1000.0)).astype(np.float32)
    exact = reference.distances(rows.astype(float), rows.astype(float), 1.5)
    assert_allclose(Geometry(1.5).block(rows, rows), exact, rtol=rounding(np.float32, 4))


@given(seed=seeds, p=norms)
def test_a_bound_between_boxes_is_below_every_distance_and_attained_by_corners(seed, p):
    X = np.random.default_rng(seed).normal(size=(60, 2))
    leaves = Leaves(X, 8)
    geometry = Geometry(p)
    bounds = leaves.distance_bounds(geometry)
    for i, one in enumerate(leaves.slices):
        for j, other in enumerate(leaves.slices):
            nearest = reference.distances(X[leaves.order[one]], X[leaves.order[other]], p).min()
            assert bounds[i, j] <= nearest + 1e-12


@given(seed=seeds, p=norms, n=st.integers(1, 80))
def test_the_diameter_is_the_largest_distance(seed, p, n):
    X = np.random.default_rng(seed).normal(size=(n, 3)) ** 3
    largest = reference.distances(X, X, p).max()
    assert_allclose(Geometry(p).diameter(X, block=7), largest, rtol=1e-9)


@given(seed=seeds, p=norms)
def test_a_pull_is_the_weighted_derivative_of_a_distance(seed, p):
    A, B = clouds(seed)
    W = np.random.default_rng(seed).normal(size=(len(A), len(B)))
    z = A[:, None, :] - B
    expected = np.einsum("ij,ijk->ik", W, np.sign(z) * np.abs(z) ** (p - 1))
    assert_allclose(Geometry(p).pull(W, A, B), expected, atol=1e-12)


def test_torch_computes_the_same_distances_and_pulls():
    torch = pytest.importorskip("torch")
    A, B = clouds(0)
    W = np.random.default_rng(0).normal(size=(len(A), len(B)))
    tensors = [torch.from_numpy(M) for M in (W, A, B)]
    for p in (1.0, 1.3, 1.5, 2.0):
        geometry = Geometry(p)
        found = geometry.block(*tensors[1:], 0.7, torch)
        assert_allclose(found.numpy(), geometry.block(A, B, 0.7), rtol=1e-9)
        pulled = geometry.pull(*tensors, torch)
        assert_allclose(pulled.numpy(), geometry.pull(W, A, B), atol=1e-12)


@pytest.mark.parametrize("exponent", [0.25, 0.5, 2 / 3, 0.8, 1.0, 1.25, 1.5, 2.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_powers_by_way_of_roots_are_powers(exponent, dtype):
    values = np.abs(np.random.default_rng(0).normal(size=200)).astype(dtype)
    values[0] = 0.0
    powers = to_power(values.copy(), exponent)
    assert powers.dtype == dtype
    assert_allclose(powers, values**exponent, rtol=rounding(dtype, 4))


@pytest.mark.parametrize("bad", [0.99, 2.01, math.nan, math.inf, "1", None, True])
def test_only_norms_between_1_and_2_are_allowed(bad):
    with pytest.raises((TypeError, ValueError), match=r"must be a number in \[1, 2\]"):
        Geometry(bad)


ADMITTED = [
    *KERNELS,
    *(f"{name}-{p}^{q}" for name in ("laplace", "cauchy") for p in (1, 1.5, 2) for q in (0.5, 1)),
    *(f"{name}-{p}^{p}" for name in ("laplace", "cauchy") for p in (1.2, 1.5, 1.8, 2)),
]


@pytest.mark.parametrize("name", ADMITTED)
@pytest.mark.parametrize("d", [1, 2, 5, 40])
def test_admitted_kernels_are_positive_definite(name, d):
    """Over random rows, and over corners of cubes, where norms differ most."""
    random = np.random.default_rng(d)
    kernel = get_kernel(name)
    corners = random.choice([-1.0, 0.0, 1.0], size=(60, d))
    for X in (random.normal(size=(60, d)), corners):
        distances = kernel.geometry.block(X, X, 1)
        for bandwidth in (0.3, 1.0, 10.0):
            K = kernel(distances / bandwidth / d ** (1 / kernel.geometry.p))
            assert np.linalg.eigvalsh(K)[0] >= -rounding(np.float64, 1e3)


@pytest.mark.parametrize(
    ("name", "p"), [("gaussian", 1.5), ("gaussian", 1), ("matern32", 1), ("matern52", 1.5)]
)
def test_refused_pairs_are_not_positive_definite(name, p):
    with pytest.raises(ValueError, match=r"not positive definite in the 1(\.5)?-norm"):
        get_kernel(f"{name}-{p}")
    grid = np.stack(np.meshgrid(np.arange(7.0), np.arange(7.0)), axis=-1).reshape(-1, 2)
    distances = reference.distances(grid, grid, p)
    lowest = [np.linalg.eigvalsh(reference.profile(name, distances / s))[0] for s in (4.0, 8.0)]
    assert min(lowest) < -0.02


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("laplace-1^1.2", "above 0 and at most 1"),
        ("cauchy-1.5", "above 0 and at most 1.5"),
        ("laplace-3", r"must be a number in \[1, 2\]"),
        ("laplace^0", "exponent above 0"),
        ("gaussian^1.5", "has no exponent"),
        ("laplace-1..5", "is unknown"),
        ("laplace-", "is unknown"),
        ("rbf-1.5", "is unknown"),
    ],
)
def test_what_makes_no_kernel_is_refused_with_the_reason(name, message):
    with pytest.raises(ValueError, match=message):
        get_kernel(name)


def test_kernels_are_values():
    kernel = get_kernel("laplace-1.5^0.7")
    assert str(kernel) == "laplace-1.5^0.7"
    assert repr(kernel) == "get_kernel('laplace-1.5^0.7')"
    assert kernel.built_in
    for same in (
        get_kernel("matern12-1.5^.7"),
        pickle.loads(pickle.dumps(kernel)),
        copy.deepcopy(kernel),
    ):
        assert same == kernel
        assert hash(same) == hash(kernel)
    others = ["laplace-1.5", "laplace^0.7", "cauchy-1.5^0.7", "laplace-1.4^0.7"]
    assert len({kernel, *map(get_kernel, others)}) == 5


@pytest.mark.parametrize(
    ("name", "usual"),
    [("laplace-2", "matern12"), ("cauchy-2^2", "cauchy"), ("laplace^1", "matern12")],
)
def test_usual_norms_and_exponents_give_the_usual_kernels(name, usual):
    assert get_kernel(name) is KERNELS[usual]


def test_a_metric_of_another_norm_scales_features_one_by_one():
    random = np.random.default_rng(0)
    X, c = random.normal(size=(50, 4)), random.normal(size=(1, 50, 1))
    root = np.array([1.0, 0.5, 0.2, 0.0])
    model = KernelSum(X * root, get_kernel("laplace-1.5"), np.ones(1), c, np.zeros(1))
    found = learned_root(model, np.ones(1), root, diagonal=True)
    slopes = np.sqrt(np.mean(model.gradient(X * root)[:, :, 0] ** 2, axis=0)) * root
    assert_allclose(found, np.maximum(slopes / slopes.max(), 1e-3))


def test_nearest_rows_in_another_norm():
    A, B = clouds(3, (40, 30, 4))
    nearest = nearest_distances(A, B, geometry=Geometry(1.5))
    expected = reference.distances(A, B, 1.5)
    assert_allclose(nearest, expected.min(axis=1), rtol=1e-12)
    small = nearest_distances(A, B, geometry=Geometry(1.5), backend=NumpyBackend(1))
    assert_array_equal(small, nearest)
    own = np.arange(30)
    others = reference.distances(B, B, 1.5) + np.diag(np.full(30, np.inf))
    found = nearest_distances(B, B, own=own, geometry=Geometry(1.5))
    assert_allclose(found, others.min(axis=1), rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_scaled_row_has_the_same_bits_alone_and_among_others(dtype):
    random = np.random.default_rng(0)
    X = random.normal(size=(500, 37)).astype(dtype)
    root = random.normal(size=(37, 37))
    whole = scaled(X, root + root.T)
    assert whole.dtype == dtype
    for rows in (slice(0, 1), slice(7, 8), slice(3, 90), slice(100, 500)):
        assert_array_equal(scaled(X[rows], root + root.T), whole[rows])
