"""∂f̂/∂x by finite differences, and Proposition 4."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from bandfall import KernelDescentRegressor, KernelFlowRegressor, KernelRidgeRegressor
from bandfall.kernels import get_kernel
from bandfall.theory import gradient_bound
from reference_theory import sine_data


def steepness(predict, points, h=1e-6):
    """‖∂f̂/∂x‖ at each point by central differences."""
    columns = [
        (predict(points + h * axis) - predict(points - h * axis)) / (2 * h)
        for axis in np.eye(points.shape[1])
    ]
    return np.linalg.norm(columns, axis=0)


def test_path_gradient_is_the_finite_difference(kernel):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(15, 3))
    y = np.c_[np.sin(X[:, 0]), X[:, 1] * X[:, 2]]
    path = KernelDescentRegressor(kernel).fit(X, y).path_
    points = rng.normal(size=(6, 3))  # away from the rows, where Laplace has a kink
    gradient = path.gradient(points)
    h = 1e-6
    for axis in range(3):
        ahead, behind = points.copy(), points.copy()
        ahead[:, axis] += h
        behind[:, axis] -= h
        difference = (path.evaluate(ahead) - path.evaluate(behind)) / (2 * h)
        assert_allclose(gradient[:, axis], difference, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("penalty", [1e-3, 0.1])
def test_proposition_4_holds(kernel, penalty):
    X, f, noise = sine_data(8)
    points = np.linspace(-1.5, 1.5, 101)[:, None]
    for bandwidth in (0.05, 0.3, 1.0):
        bound = gradient_bound(X, f + noise, kernel, bandwidth, penalty)
        ridge = KernelRidgeRegressor(kernel, bandwidth=bandwidth, penalty=penalty)
        assert np.all(steepness(ridge.fit(X, f + noise).predict, points) <= bound)
        flow = KernelFlowRegressor(kernel, bandwidth=bandwidth, time=1 / penalty)
        assert np.all(steepness(flow.fit(X, f + noise).predict, points) <= bound)


def test_bound_is_inverse_in_bandwidth_and_exact_at_its_ends():
    X, f, noise = sine_data(8)
    wide = gradient_bound(X, f, "gaussian", [1.0, 2.0, 0.0, np.inf], 0.1)
    assert_allclose(wide[0] / wide[1], 2.0)
    assert wide[2] == np.inf
    assert wide[3] == 0.0
    assert gradient_bound(X, np.c_[f, noise, 0 * f], penalty=0.1).shape == (3,)
    assert gradient_bound(X, 0 * f, penalty=0.0, bandwidth=0.0) == 0.0


def test_it_is_reached_for_one_row_at_the_steepest_point(kernel):
    """Two rows ±1 far apart against each other: each is steepest near itself."""
    X, y = np.array([[0.0], [1e6]]), np.array([1.0, -1.0])
    model = KernelRidgeRegressor(kernel, bandwidth=1.0, penalty=1e-9).fit(X, y)
    steep = steepness(model.predict, np.linspace(1e-4, 3, 3000)[:, None]).max()
    bound = gradient_bound(X, y, kernel, 1.0, 1e-9)
    assert_allclose(2 * steep, bound, rtol=1e-3)  # ‖y‖√n counts both rows


@pytest.mark.parametrize("name", ["matern12", "laplace-1.5", "laplace-1", "laplace-1.3^1.2"])
def test_the_norm_enters_as_a_power_of_the_number_of_features(name):
    """Reached next to a row in a direction of equal coordinates; random ones stay below."""
    d = 4
    kernel = get_kernel(name)
    X, y = np.stack([np.zeros(d), np.full(d, 1e6)]), np.array([1.0, -1.0])
    model = KernelRidgeRegressor(kernel, bandwidth=1.0, penalty=1e-9).fit(X, y)
    bound = gradient_bound(X, y, kernel, 1.0, 1e-9)
    diagonal = np.linspace(1e-4, 1, 1000)[:, None] * np.ones(d)
    steep = steepness(model.predict, diagonal, h=1e-7).max()
    assert_allclose(2 * steep, bound, rtol=2e-3)  # ‖y‖√n counts both rows
    points = np.random.default_rng(0).normal(size=(200, d))
    assert np.all(2 * steepness(model.predict, points) <= bound)
    euclidean = gradient_bound(X, y, get_kernel(f"laplace^{kernel.power}"), 1.0, 1e-9)
    assert_allclose(bound / euclidean, d ** (1 / kernel.geometry.p - 0.5))


def test_kernels_that_are_infinitely_steep_have_no_bound():
    X, f, noise = sine_data(8)
    bounds = gradient_bound(X, f + noise, "laplace^0.7", [1.0, np.inf], 0.1)
    assert bounds.tolist() == [np.inf, 0.0]


def test_bad_input_is_named():
    X = np.ones((3, 1))
    with pytest.raises(ValueError, match="y must be"):
        gradient_bound(X, [1.0, 2.0])
    with pytest.raises(ValueError, match="penalty=-1"):
        gradient_bound(X, [1.0, 2.0, 3.0], penalty=-1)
    with pytest.raises(ValueError, match="largest derivative"):
        gradient_bound(X, [1.0, 2.0, 3.0], lambda u: np.exp(-u))
