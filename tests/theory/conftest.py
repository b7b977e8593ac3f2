import pytest

from bandfall import KernelDescentRegressor
from reference_theory import sine_data

KERNELS = ["gaussian", "matern12", "matern32", "matern52", "cauchy"]


@pytest.fixture(params=KERNELS)
def kernel(request):
    return request.param


@pytest.fixture(params=["euler", "flow"])
def solver(request):
    return request.param


@pytest.fixture
def fitted(kernel, solver):
    """A short path over few rows with every kernel and solver, down to bandwidth zero."""
    X, f, noise = sine_data(8, n=8)
    return KernelDescentRegressor(kernel, solver=solver, step_size=0.05).fit(X, f + noise)
