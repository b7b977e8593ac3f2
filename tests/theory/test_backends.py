"""Theory on every backend: the same numbers as with NumPy, and every operator released."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from bandfall import KernelDescentRegressor, theory
from bandfall._products import HOST, NumpyBackend, operator_over
from bandfall.kernels import get_kernel
from counting import Counting
from reference_theory import sine_data

KERNEL, BANDWIDTHS = "laplace-1.5", np.array([0.0, 0.1, 0.5, np.inf])
FUNCTIONS = {
    "kernel_shift": lambda X, model, **options: theory.kernel_shift(
        X, X[:3] + 0.01, KERNEL, BANDWIDTHS, **options
    ),
    "weighted_kernel_shift": lambda X, model, **options: theory.kernel_shift(
        X, X[0] + 0.01, KERNEL, BANDWIDTHS, weights=1.0 + np.arange(len(X)), **options
    ),
    "kernel_moments": lambda X, model, **options: theory.kernel_moments(
        X, KERNEL, BANDWIDTHS, **options
    ),
    "smallest_eigenvalue": lambda X, model, **options: theory.smallest_eigenvalue(
        X, KERNEL, BANDWIDTHS, **options
    ),
    "smallest_by_lanczos": lambda X, model, **options: theory.smallest_eigenvalue(
        X, KERNEL, BANDWIDTHS, method="lanczos", weights=np.full(len(X), 2.0), **options
    ),
    "gradient_bound": lambda X, model, **options: theory.gradient_bound(
        X, X[:, 0], KERNEL, BANDWIDTHS, **options
    ),
    "ridge_degrees_of_freedom": lambda X, model, **options: theory.ridge_degrees_of_freedom(
        X, KERNEL, 0.5, 0.1, **options
    ),
    "path_degrees_of_freedom": lambda X, model, **options: (
        theory.staged_degrees_of_freedom(model, n_probes=4, **options).value
    ),
    "r2_speed": lambda X, model, **options: theory.r2_speed(model, BANDWIDTHS, **options),
    "r2_acceleration": lambda X, model, **options: theory.r2_acceleration(model, **options),
    "fine_log": lambda X, model, **options: theory.fine_log(model, **options).r2,
    "generalization_bound": lambda X, model, **options: (
        theory.generalization_bound(model, X[:2] + 0.01, **options).kernel_terms
    ),
}


@pytest.fixture(params=["numpy", "torch"])
def backend(request):
    if request.param == "numpy":
        return Counting(NumpyBackend(60_000))
    pytest.importorskip("torch")
    from bandfall._products.torch_backend import TorchBackend

    return Counting(TorchBackend("cpu"))


@pytest.fixture(scope="module")
def data():
    X, f, noise = sine_data(8, n=20)
    return X, KernelDescentRegressor(KERNEL, max_r2=0.9).fit(X, f + noise)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_same_on_every_backend(backend, data, name):
    expected = FUNCTIONS[name](*data, backend=HOST)
    found = FUNCTIONS[name](*data, backend=backend)
    assert_allclose(found, expected, rtol=1e-7, atol=1e-9)
    assert backend.n_made > 0 or name == "kernel_moments"
    assert not backend.open


def test_operators_are_released_after_errors():
    backend = Counting(HOST)
    with pytest.raises(ZeroDivisionError), operator_over(backend, np.eye(3), get_kernel(KERNEL)):
        raise ZeroDivisionError
    assert backend.n_made == 1
    assert not backend.open
