import pytest

from bandfall import KernelDescentRegressor
from bandfall.descent import Euler
from reference_theory import sine_data

KERNELS = ["gaussian", "matern12", "matern32", "matern52", "cauchy", "laplace-1.5^1.2"]


@pytest.fixture(params=KERNELS)
def kernel(request):
    return request.param


@pytest.fixture(params=["euler", "flow"])
def solver(request):
    return request.param


@pytest.fixture
def coarse_solver(solver):
    """Euler with steps of 0.05, stable for few rows, or the flow."""
    return Euler(0.05) if solver == "euler" else solver


@pytest.fixture
def fitted(kernel, coarse_solver):
    """A short path over few rows with every kernel and solver, down to bandwidth zero."""
    X, f, noise = sine_data(8, n=8)
    return KernelDescentRegressor(kernel, solver=coarse_solver).fit(X, f + noise)
