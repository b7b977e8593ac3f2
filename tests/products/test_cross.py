"""Sums at new rows: the same for a row alone and among others."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from bandfall import BandfallRegressor
from bandfall._products import cross_product
from bandfall.kernels import get_kernel

KERNELS = ["gaussian", "laplace", "matern52", "cauchy", "laplace-1.25", "laplace-1.5^0.7"]


@pytest.fixture(params=["compiled", "numpy"])
def loops(request):
    if request.param == "compiled":
        pytest.importorskip("numba")
    else:
        request.getfixturevalue("without_numba")


def large_sum(kernel, n=1500):
    """Rows, centres, bandwidths, and coefficients that nearly cancel, in float32."""
    random = np.random.default_rng(0)
    rows, centres = (random.normal(size=(size, 6)).astype(np.float32) for size in (300, n))
    bandwidths = np.append(np.geomspace(20.0, 0.3, 6), 0.0)
    coefficients = (1e3 * random.normal(size=(7, n, 2))).astype(np.float32)
    centres[:5] = rows[:5]  # which bandwidth 0 finds
    return rows, centres, get_kernel(kernel), bandwidths, coefficients


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("cumulative", [False, True])
def test_one_row_has_the_sum_it_has_among_others(loops, kernel, cumulative):
    rows, *model = large_sum(kernel)
    together = cross_product(rows, *model, cumulative=cumulative)
    alone = [cross_product(rows[i : i + 1], *model, cumulative=cumulative) for i in range(20)]
    alone = np.concatenate(alone, axis=-2)
    assert_allclose(alone, together[..., :20, :], rtol=0, atol=1e-12 * np.abs(together).max())
    small = cross_product(rows, *model, cumulative=cumulative, budget=2**16)
    assert_allclose(small, together, rtol=0, atol=1e-12 * np.abs(together).max())


@pytest.mark.parametrize("kernel", KERNELS)
def test_sums_are_those_in_double_precision_up_to_the_rounding_of_k(loops, kernel):
    rows, centres, kernel, bandwidths, coefficients = large_sum(kernel)
    exact = (rows.astype(float), centres.astype(float), kernel, bandwidths)
    expected = cross_product(*exact, coefficients.astype(float))
    found = cross_product(rows, centres, kernel, bandwidths, coefficients)
    size = np.sqrt((coefficients.astype(float) ** 2).sum(axis=(0, 1)))
    assert np.all(np.abs(found - expected) < 10 * np.finfo(np.float32).eps * size)


def test_one_row_is_predicted_as_among_others():
    """In float32 from 500 rows on, where coefficients are large because there is little noise."""
    random = np.random.default_rng(0)
    X = random.uniform(-1, 1, size=(600, 2))
    y = np.sin(6 * X[:, 0]) * np.cos(4 * X[:, 1]) + 0.03 * random.normal(size=600)
    model = BandfallRegressor(kernels=("gaussian",), max_rounds=0, n_members=1).fit(X, y)
    assert model.members_[0].path.X.dtype == np.float32
    new = random.uniform(-1, 1, size=(40, 2))
    together = model.predict(new)
    alone = np.concatenate([model.predict(new[i : i + 1]) for i in range(len(new))])
    assert np.abs(alone - together).max() < 1e-6 * y.std()
