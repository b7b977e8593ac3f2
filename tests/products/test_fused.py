"""The fused GPU products in small blocks: on a GPU, or else in Triton's interpreter."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import reference
from bandfall._products import cross_gradient
from bandfall.kernels._kernel import KERNELS, get_kernel
from tolerances import rounding

torch = pytest.importorskip("torch")
pytest.importorskip("triton", minversion="3.3")  # as fused_available asks
from bandfall._products import fused as fused_module  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
# log2(0) = −∞ and exp2 beyond the largest number are meant; the interpreter warns, a GPU does not.
pytestmark = [
    pytest.mark.filterwarnings("ignore:divide by zero encountered in log2:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:overflow encountered in exp2:RuntimeWarning"),
]


@pytest.fixture(scope="module", autouse=True)
def _small_blocks():
    """Tiles that are parts of small blocks in both directions."""

    def launch(rows, n_outputs, direct=False):
        return (
            fused_module.Launch(rows=64, columns=16) if rows.depth else fused_module.Launch(16, 32)
        )

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fused_module, "_BLOCK", 64)
        patch.setattr(fused_module, "_launch", launch)
        yield


def tensor(values):
    return torch.as_tensor(values, device=DEVICE)


def rows(n=70, d=3, dtype=np.float32):
    """Rows of which some are near each other and none repeats."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    X[1] = X[0] + 1e-3
    return X.astype(dtype)


def product(X, name, bandwidth, V):
    engine = fused_module.FusedProduct(tensor(X), get_kernel(name), 2**30)
    return engine.product(bandwidth, tensor(V)).cpu().numpy()


@pytest.mark.parametrize(
    ("name", "d", "bandwidth"),
    [
        *((name, d, s) for name in KERNELS for d, s in [(3, 0.7), (20, 3.0), (20, 0.05)]),
        *((name, d, s) for name in reference.OTHER_KERNELS for d, s in [(3, 0.7), (20, 3.0)]),
    ],
)
def test_product(name, d, bandwidth):
    X = rows(d=d)
    V = np.random.default_rng(1).normal(size=(len(X), 3)).astype(np.float32)
    truth = reference.kernel(name, X.astype(float), X.astype(float), bandwidth) @ V
    assert_allclose(
        product(X, name, bandwidth, V),
        truth,
        atol=rounding(np.float32, 20) * np.abs(V).sum(0).max(),
    )


@pytest.mark.parametrize(
    ("name", "d"),
    [("matern52", 2), ("matern52", 20), *((name, 2) for name in reference.OTHER_KERNELS)],
)
def test_product_in_float64(name, d):
    X = rows(n=40, d=d, dtype=np.float64)
    V = np.ones((40, 1))
    truth = reference.kernel(name, X, X, 1.0) @ V
    assert_allclose(product(X, name, 1.0, V), truth, rtol=1e-13)


@pytest.mark.parametrize("scale", [1e-30, 1e30])
@pytest.mark.parametrize(
    ("name", "d"), [("gaussian", 2), ("gaussian", 20), ("laplace-1.5", 2), ("laplace-1.3^0.7", 2)]
)
def test_any_scale_of_the_data(scale, name, d):
    X, V = rows(n=20, d=d), np.ones((20, 1), np.float32)
    assert_allclose(
        product(X * np.float32(scale), name, scale, V), product(X, name, 1.0, V), rtol=1e-5
    )


@pytest.mark.parametrize(
    "name", ["laplace^0.02", "cauchy-1^0.1", "laplace-1.3^0.3", "cauchy-1.5^1"]
)
def test_nothing_but_equal_rows_is_left_at_bandwidth_zero(name):
    """However slowly a profile falls with a small exponent."""
    X, C = rows(n=40), np.random.default_rng(1).normal(size=(2, 40, 1)).astype(np.float32)
    cross = fused_module.FusedCross(tensor(X), tensor(X), get_kernel(name), 2**30)
    assert_allclose(cross.product([0.0], tensor(C[:1])).cpu(), C[0], rtol=1e-6)
    everything = cross.product([0.0, np.inf], tensor(C)).cpu()
    assert_allclose(everything, C[0] + C[1].sum(), rtol=1e-5)


def test_only_the_euclidean_distance_is_taken_from_tensor_cores():
    X = tensor(rows(n=20, d=20))
    depths = [
        fused_module.FusedProduct(X, get_kernel(name), 2**30).rows.depth
        for name in ("gaussian", "laplace^0.7", "laplace-1.5")
    ]
    assert depths == [32, 32, 0]


@pytest.mark.parametrize("n", [1, 65, 150])
def test_any_number_of_rows(n):
    X = rows(n=max(2, n))[:n]
    V = np.ones((n, 1), np.float32)
    truth = reference.kernel("gaussian", X.astype(float), X.astype(float), 1.0) @ V
    assert_allclose(product(X, "gaussian", 1.0, V), truth, rtol=1e-5)


def test_rows_that_span_too_far_for_two_parts_take_differences():
    X = rows(n=20, d=20)
    X[0] *= 1e9
    X[1] = -X[0]
    engine = fused_module.FusedProduct(tensor(X), get_kernel("gaussian"), 2**30)
    assert engine.rows.depth == 0
    V = np.ones((20, 1), np.float32)
    truth = reference.kernel("gaussian", X.astype(float), X.astype(float), 3.0) @ V
    assert_allclose(engine.product(3.0, tensor(V)).cpu().numpy(), truth, rtol=1e-5)


@pytest.mark.parametrize("name", ["gaussian", "laplace-1", "laplace-1.5", "laplace-1.3^0.7"])
@pytest.mark.parametrize("d", [3, 20])
def test_largest_distance(name, d):
    X = rows(d=d)
    engine = fused_module.FusedProduct(tensor(X), get_kernel(name), 2**30)
    truth = reference.distances(X.astype(float), X.astype(float), reference.norm_of(name)).max()
    assert_allclose(engine.max_distance(), truth, rtol=1e-6)


@pytest.mark.parametrize("name", ["gaussian", "matern12", "cauchy", *reference.OTHER_KERNELS])
@pytest.mark.parametrize("d", [3, 20])
def test_cross_product_sums_stages(name, d):
    rng = np.random.default_rng(0)
    X, X_new = rows(n=40, d=d), rng.normal(size=(17, d)).astype(np.float32)
    X_new[3] = X[5]
    bandwidths, C = [3.0, 0.4, 0.0, np.inf], rng.normal(size=(4, 40, 3)).astype(np.float32)
    truth = sum(
        reference.kernel(name, X_new.astype(float), X.astype(float), s) @ c
        for s, c in zip(bandwidths, C, strict=True)
    )
    tensors = [tensor(a) for a in (X_new, X)]
    cross = fused_module.FusedCross(*tensors, get_kernel(name), 2**30)
    total = cross.product(bandwidths, tensor(C))
    assert_allclose(total.cpu().numpy(), truth, atol=rounding(np.float32, 400))
    parts = sum(cross.product([s], tensor(c[None])) for s, c in zip(bandwidths, C, strict=True))
    assert_allclose(parts.cpu().numpy(), truth, atol=rounding(np.float32, 400))


@pytest.mark.parametrize("d", [20, 100])
@pytest.mark.parametrize("bandwidth", [0.0, 1e-5, 1e-3, 1e-2])
def test_coinciding_rows_far_from_the_origin_at_tiny_bandwidths(d, bandwidth):
    rng = np.random.default_rng(0)
    X = (5.0 * rng.normal(size=(60, d))).astype(np.float32)
    C = rng.normal(size=(1, 60, 1)).astype(np.float32)
    cross = fused_module.FusedCross(tensor(X), tensor(X), get_kernel("gaussian"), 2**30)
    assert_allclose(cross.product([bandwidth], tensor(C)).cpu(), C[0], rtol=1e-6)
    if bandwidth > 0:
        assert_allclose(product(X, "gaussian", bandwidth, C[0]), C[0], rtol=1e-6)


@pytest.mark.parametrize(
    ("longest", "budget", "n_parts"),
    [(100, 2**30, 1), (2, 2**30, 3), (1, 2**30, 5), (1, 3 * 4 * 320, 3), (1, 0, 1)],
)
def test_long_sums_are_split_as_memory_allows(monkeypatch, longest, budget, n_parts):
    monkeypatch.setattr(fused_module, "_LONGEST_SUM", longest)
    monkeypatch.setattr(fused_module, "_n_cores", lambda device: 1)
    X = rows(n=300)  # five blocks
    C = np.random.default_rng(1).normal(size=(1, 300, 1)).astype(np.float32)
    cross = fused_module.FusedCross(tensor(X), tensor(X), get_kernel("gaussian"), budget)
    (_, parts), _ = cross._grid(fused_module.Launch(16, 32), tensor(C), 1)
    assert parts == n_parts
    truth = reference.kernel("gaussian", X.astype(float), X.astype(float), 1.0) @ C[0]
    assert_allclose(cross.product([1.0], tensor(C)).cpu(), truth, atol=rounding(np.float32, 400))


@pytest.mark.parametrize("name", [*KERNELS, *reference.OTHER_KERNELS, "cauchy^1", "laplace-1^0.5"])
@pytest.mark.parametrize("d", [3, 20])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gradient(name, d, dtype):
    rng = np.random.default_rng(0)
    X, X_new = rows(n=80, d=d, dtype=dtype), rng.normal(size=(17, d)).astype(dtype)
    X_new[3] = X[5]
    bandwidths, C = [3.0, 0.4, 40.0], rng.normal(size=(3, 80, 2)).astype(dtype)
    truth = cross_gradient(
        X_new.astype(float), X.astype(float), get_kernel(name), bandwidths, C.astype(float)
    )
    cross = fused_module.FusedCross(tensor(X_new), tensor(X), get_kernel(name), 2**30)
    gradient = cross.gradient(bandwidths, tensor(C))
    assert_allclose(gradient.cpu().numpy(), truth, atol=rounding(dtype, 400))


def test_gradients_at_bandwidths_far_too_small_or_too_wide():
    X, X_new = rows(n=30), rows(n=30) + np.float32(0.5)
    C = np.ones((2, 30, 1), np.float32)
    for name in ("laplace-1.5", "cauchy-1.5^1", "laplace^0.7", "cauchy-1^0.5"):
        cross = fused_module.FusedCross(tensor(X_new), tensor(X), get_kernel(name), 2**30)
        assert np.isfinite(cross.gradient([1e-15, 1e15], tensor(C)).cpu().numpy()).all()


def test_budget_too_small_for_one_plane():
    engine = fused_module.FusedProduct(tensor(rows()), get_kernel("gaussian"), 100)
    with pytest.raises(MemoryError, match="memory_budget"):
        engine.product(1.0, tensor(np.ones((70, 1), np.float32)))


@given(n=st.integers(1, 900), seed=st.integers(0, 99))
def test_nearby_order_is_a_permutation(n, seed):
    X = torch.as_tensor(np.random.default_rng(seed).normal(size=(n, 3)))
    assert sorted(fused_module._nearby_order(X).tolist()) == list(range(n))


@given(length=st.integers(1, 10_000))
def test_leaps_visit_every_step(length):
    assert math.gcd(fused_module._coprime(length), length) == 1


@given(n_outputs=st.integers(1, 40))
def test_passes_cover_all_outputs(n_outputs):
    covered = [
        i for first, count in fused_module._passes(n_outputs) for i in range(first, first + count)
    ]
    assert covered == list(range(n_outputs))
