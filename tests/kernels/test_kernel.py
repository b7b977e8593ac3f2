"""Kernel profiles against the paper's table, finite differences and their limits."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize_scalar

import reference
from bandfall.kernels._geometry import Geometry, squared_distances
from bandfall.kernels._kernel import KERNELS, get_kernel, kernel_matrices, kernel_matrix
from tolerances import rounding

NAMES = [*sorted(KERNELS), *reference.OTHER_KERNELS]
GRID = np.concatenate([[0.0], np.geomspace(1e-4, 30, 60)])


def inverse_square(u):
    """A user's own profile."""
    return 1 / (1 + u) ** 2


@pytest.mark.parametrize("name", NAMES)
def test_profile_is_the_papers(name):
    assert_allclose(get_kernel(name)(GRID), reference.profile(name, GRID), rtol=1e-13, atol=1e-300)


@pytest.mark.parametrize("name", NAMES)
def test_derivative_against_finite_differences(name):
    u, step = GRID[1:], 1e-6
    centred = (reference.profile(name, u + step) - reference.profile(name, u - step)) / (2 * step)
    # Step 1e-6: truncation about 1e-12, rounding about 1e-10.
    away = u > 1e-3
    assert_allclose(get_kernel(name).derivative(u[away]), centred[away], atol=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_max_derivative_is_the_maximum(name):
    kernel = get_kernel(name)
    if kernel.power < 1:  # infinitely steep at 0
        assert kernel.max_derivative == np.inf
        return
    found = minimize_scalar(
        lambda u: -abs(float(kernel.derivative(np.array(u)))), bounds=(1e-9, 5), method="bounded"
    )
    assert_allclose(kernel.max_derivative, -found.fun, rtol=1e-5)
    assert np.all(np.abs(kernel.derivative(GRID)) <= kernel.max_derivative * (1 + 1e-12))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_limits_of_bandwidth(name, dtype):
    kernel = get_kernel(name)
    D = np.array([0.0, 1e-3, 1.0, 1e6], dtype) ** kernel.power
    assert_array_equal(kernel_matrix(kernel, D, 0.0), [1, 0, 0, 0])
    assert_array_equal(kernel_matrix(kernel, D, np.inf), [1, 1, 1, 1])
    for bandwidth in (1e-300, 1e-100, 1e-30, 1e-12, 1e12, 1e30):
        K = kernel_matrix(kernel, D, bandwidth)
        assert K.dtype == dtype
        assert np.all(np.isfinite(K))
        assert K[0] == 1
        assert np.all((K >= 0) & (1 + rounding(dtype, 4) >= K))


@pytest.mark.parametrize("name", NAMES)
def test_matrix_in_place_equals_fresh(name):
    kernel = get_kernel(name)
    D = np.random.default_rng(0).random((7, 5)) ** kernel.power
    out, work = np.empty_like(D), np.empty_like(D)
    expected = reference.profile(name, D ** (1 / kernel.power) / 0.3)
    assert_allclose(kernel_matrix(kernel, D, 0.3), expected, rtol=1e-12)
    assert kernel_matrix(kernel, D, 0.3, out=out, work=work) is out
    assert_allclose(out, expected, rtol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_torch_gives_the_same_numbers(name):
    torch = pytest.importorskip("torch")
    kernel = get_kernel(name)
    D = np.random.default_rng(0).random((7, 5)) ** kernel.power
    K = kernel_matrix(kernel, torch.from_numpy(D.copy()), 0.3, torch)
    assert_allclose(K.numpy(), kernel_matrix(kernel, D, 0.3), rtol=1e-12)


def test_names_aliases_and_pickling():
    assert get_kernel("laplace") is get_kernel("matern12")
    assert get_kernel(get_kernel("cauchy")) is get_kernel("cauchy")
    for name in NAMES:
        assert pickle.loads(pickle.dumps(get_kernel(name))) == get_kernel(name)
    own = pickle.loads(pickle.dumps(get_kernel(inverse_square)))
    assert_allclose(own(GRID), inverse_square(GRID))


@pytest.mark.parametrize("bad", ["rbf", "", "Gaussian"])
def test_unknown_names_are_refused(bad):
    with pytest.raises(ValueError, match=r"kernel=.*allowed: gaussian"):
        get_kernel(bad)


@pytest.mark.parametrize("bad", [3, None, ["gaussian"]])
def test_wrong_types_are_refused(bad):
    with pytest.raises(TypeError, match="kernel must be"):
        get_kernel(bad)


@pytest.mark.parametrize(
    "bad",
    [
        lambda u: 2 * np.exp(-u),
        lambda u: np.ones_like(u),
        lambda u: np.cos(u) * np.exp(-u),
        lambda u: np.exp(-u[:-1]),
        lambda u: np.where(u > 1, np.nan, 1.0),
    ],
)
def test_profiles_that_are_no_kernels_are_refused(bad):
    with pytest.raises(ValueError, match=r"k\(0\) = 1, never rising"):
        get_kernel(bad)


def test_user_profile_without_derivative_says_so():
    with pytest.raises(ValueError, match="without a derivative"):
        get_kernel(inverse_square).derivative(GRID)


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e6])
def test_distances_are_exact_for_equal_rows_and_accurate_for_near_ones(offset):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 5)) + offset
    X[1], X[2] = X[0], X[0] + 1e-7
    X = X - X.mean(axis=0)
    D = squared_distances(X, X)
    exact = reference.distances(X, X) ** 2
    assert D[0, 1] == 0.0
    assert np.all(D >= 0)
    assert_allclose(D, exact, rtol=rounding(np.float64, 1e7))


def test_distances_of_clusters_far_apart():
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(size=(20, 3)), 1e7 + rng.normal(size=(20, 3))])
    X = X - X.mean(axis=0)
    near = squared_distances(X[:20], X[:20])
    assert_allclose(near, reference.distances(X[:20], X[:20]) ** 2, rtol=1e-6)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("shape", [(1, 2), (2, 1), (50, 2), (3000, 3)])
def test_largest_distance_is_the_largest(seed, shape):
    X = np.random.default_rng(seed).standard_cauchy(size=shape)
    X = X - X.mean(axis=0)
    brute = max(reference.distances(X[i : i + 500], X).max() for i in range(0, len(X), 500))
    assert_allclose(Geometry().diameter(X, block=256), brute, rtol=1e-12)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("bandwidths", [[3.0, 0.5, 0.5, 1e-3], [np.inf, 2.0, 1e-30, 0.0], [1e-12]])
def test_several_bandwidths_in_one_call(name, bandwidths):
    """Against the profile itself; at bandwidth 0 rows that coincide alone, at ∞ all rows."""
    kernel, u = get_kernel(name), np.array([[0.0, 0.1, 2.0], [40.0, 1e-5, 7.0]])
    out, work = np.empty((2, len(bandwidths), 2, 3))
    found = kernel_matrices(kernel, u**kernel.power, np.array(bandwidths), out, work)
    assert found is out
    for K, bandwidth in zip(found, bandwidths, strict=True):
        if bandwidth in (0.0, np.inf):
            expected = (u == 0) | (bandwidth > 0)
        else:
            expected = reference.profile(name, u / bandwidth)
        assert_allclose(K, expected, rtol=1e-11, atol=1e-60)
