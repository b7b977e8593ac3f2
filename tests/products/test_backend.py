"""The contract of every backend: products, sums at new rows, gradients, limits, memory.

A new backend is added to `BACKENDS` and passes.
"""

import gc
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

import reference
from bandfall import KernelDescentRegressor
from bandfall._products import HOST, NumpyBackend, WeightedOperator, resolve_backend, torch_backend
from bandfall._products import backend as base
from bandfall._products.torch_backend import TorchBackend
from bandfall.descent import Flow, Stopping, fit_path
from bandfall.descent._schedules import MinimumSpeed
from bandfall.descent._sum import KernelSum
from bandfall.kernels._kernel import KERNELS, get_kernel, vanishing_bandwidth
from problems import problem
from tolerances import rounding

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
BACKENDS = {
    "numpy": NumpyBackend,
    # Too small for any matrix: blocks of a few rows.
    "numpy-small": lambda: NumpyBackend(20_000),
    # The same with compiled loops, however little there is to do.
    "compiled": NumpyBackend,
    "compiled-small": lambda: NumpyBackend(20_000),
    "torch": TorchBackend,
    "torch-small": lambda: TorchBackend("cpu", 20_000),
}
ON_A_GPU = pytest.param("cuda", marks=[pytest.mark.gpu, needs_gpu])
FUSED = pytest.param("cuda-fused", marks=[pytest.mark.gpu, needs_gpu])
BANDWIDTHS = np.array([np.inf, 4.0, 0.8, 1e-3, 0.0])


@pytest.fixture(scope="module")
def cluster():
    """Two workers as threads of this process, with their client as the current one."""
    distributed = pytest.importorskip("distributed")
    workers = distributed.LocalCluster(
        processes=False, n_workers=2, threads_per_worker=1, dashboard_address=":0"
    )
    with workers, distributed.Client(workers) as client:
        yield client


@pytest.fixture(params=[*BACKENDS, "dask", ON_A_GPU, FUSED])
def backend(request):
    if request.param.startswith("compiled"):
        request.getfixturevalue("always_compiled")
    if request.param == "dask":
        request.getfixturevalue("cluster")
        from bandfall._products.dask_backend import DaskBackend

        return DaskBackend()
    if request.param == "cuda-fused":
        request.getfixturevalue("always_fused")
    return TorchBackend("cuda") if "cuda" in request.param else BACKENDS[request.param]()


@pytest.fixture(params=[np.float32, np.float64])
def dtype(request):
    return request.param


def table(dtype=np.float64, n=60, m=23, d=3):
    """Training rows of which some repeat, and new rows of which some are among them."""
    rng = np.random.default_rng(0)
    X, X_new = rng.normal(size=(n, d)), rng.normal(size=(m, d))
    X[-1] = X[n // 2] = X[0]
    X_new[3], X_new[7] = X[5], X[0]
    return X.astype(dtype), X_new.astype(dtype)


def kernel_sum(name, dtype, n_outputs=2, offset=1.5):
    X, X_new = table(dtype)
    C = np.random.default_rng(1).normal(size=(len(BANDWIDTHS), len(X), n_outputs)).astype(dtype)
    return KernelSum(X, get_kernel(name), BANDWIDTHS, C, np.full(n_outputs, offset)), X_new


def parts(model, X_new):
    """What each bandwidth adds at new rows, shape (S, m, k), naively."""
    X, X_new = model.X.astype(float), X_new.astype(float)
    return np.stack(
        [
            reference.kernel(model.kernel.name, X_new, X, bandwidth) @ block
            for bandwidth, block in zip(model.bandwidths, model.coefficients, strict=True)
        ]
    )


@pytest.mark.parametrize("name", [*KERNELS, *reference.OTHER_KERNELS])
@pytest.mark.parametrize("bandwidth", BANDWIDTHS)
def test_products(backend, dtype, name, bandwidth):
    X, _ = table(dtype)
    V = np.random.default_rng(2).normal(size=(len(X), 3))
    operator = backend.operator(X, get_kernel(name), n_columns=3)
    found = operator.numpy(operator.product(bandwidth, operator.array(V)))
    assert found.dtype == dtype
    expected = reference.kernel(name, X.astype(float), X.astype(float), bandwidth) @ V
    assert_allclose(found, expected, atol=rounding(dtype, 1e3) * len(X))


def test_products_in_another_dtype(backend):
    X, _ = table(np.float32)
    operator = backend.operator(X, get_kernel("gaussian"), np.float64)
    assert operator.dtype == np.float64
    assert_allclose(operator.max_distance(), reference.distances(X, X).max(), rtol=1e-6)


@pytest.mark.parametrize("name", [*KERNELS, *reference.OTHER_KERNELS])
@pytest.mark.parametrize("bandwidth", BANDWIDTHS)
def test_products_between_new_and_training_rows(backend, dtype, name, bandwidth):
    X, X_new = table(dtype)
    V = np.random.default_rng(2).normal(size=(len(X), 3)).astype(dtype)
    cross = backend.cross(X_new, X, get_kernel(name))
    expected = reference.kernel(name, X_new.astype(float), X.astype(float), bandwidth) @ V
    for columns in (slice(None), slice(1)):  # K is evaluated for the first, and kept
        found = cross.product(bandwidth, V[:, columns])
        assert found.dtype == dtype
        assert_allclose(found, expected[:, columns], atol=rounding(dtype, 1e3) * len(X))


@pytest.mark.parametrize("name", [*KERNELS, *reference.OTHER_KERNELS])
def test_sums_at_new_rows(backend, dtype, name):
    model, X_new = kernel_sum(name, dtype)
    expected = model.offset + parts(model, X_new).sum(axis=0)
    tolerance = rounding(dtype, 1e3) * len(model.X)
    assert_allclose(model.evaluate(X_new, backend=backend), expected, atol=tolerance)
    assert_allclose(model.evaluate(X_new, backend=backend), expected, atol=tolerance)


@pytest.mark.parametrize("name", [*KERNELS, *reference.OTHER_KERNELS])
def test_staged_sums(backend, dtype, name):
    model, X_new = kernel_sum(name, dtype)
    expected = model.offset + np.cumsum(parts(model, X_new), axis=0)
    found = model.evaluate_staged(X_new, backend=backend)
    assert_allclose(found, expected, atol=rounding(dtype, 1e3) * len(model.X))
    assert_allclose(
        found[-1], model.evaluate(X_new, backend=backend), atol=rounding(dtype, 1e3) * 60
    )


@pytest.mark.parametrize("name", [*KERNELS, *reference.OTHER_KERNELS])
def test_gradients(backend, name):
    model, X_new = kernel_sum(name, np.float64)
    X_new = np.random.default_rng(3).normal(size=(9, 3))  # no row of training: no kink
    found = backend.gradient(model, X_new)
    assert found.shape == (9, 3, 2)
    for feature in range(3):
        step = 1e-5 * np.eye(3)[feature]
        ahead, behind = (
            model.evaluate(X_new + step),
            model.evaluate(X_new - step),
        )
        assert_allclose(found[:, feature], (ahead - behind) / 2e-5, atol=1e-6)


@pytest.mark.parametrize("name", [*KERNELS, *reference.OTHER_KERNELS])
def test_one_threshold_below_which_a_bandwidth_is_as_good_as_zero(backend, dtype, name):
    """In products, sums and gradients alike: no overflow, and nothing left but equal rows."""
    X, X_new = table(dtype)
    C = np.random.default_rng(1).normal(size=(1, len(X), 1)).astype(dtype)
    bandwidth = vanishing_bandwidth(np.finfo(dtype))
    zero, small = (
        KernelSum(X, get_kernel(name), np.array([one]), C, np.zeros(1)) for one in (0.0, bandwidth)
    )
    assert_array_equal(
        small.evaluate(X_new, backend=backend), zero.evaluate(X_new, backend=backend)
    )
    assert_array_equal(backend.gradient(small, X_new), 0.0)
    operator = backend.operator(X, get_kernel(name))
    block = operator.array(C[0])
    assert_allclose(
        operator.numpy(operator.product(bandwidth, block)),
        operator.numpy(operator.product(0.0, block)),
        atol=rounding(dtype, 10),
    )


def test_a_large_offset_keeps_its_digits(backend):
    model, X_new = kernel_sum("gaussian", np.float32, offset=1.7e9)
    moved = model.evaluate(X_new, backend=backend) - 1.7e9
    assert_allclose(moved, parts(model, X_new).sum(axis=0), atol=1e-3)


def test_no_bandwidths_and_no_rows(backend):
    model, X_new = kernel_sum("gaussian", np.float64)
    empty = model.part(slice(0, 0))
    assert_array_equal(empty.evaluate(X_new, backend=backend), np.zeros((len(X_new), 2)))
    assert empty.evaluate_staged(X_new, backend=backend).shape == (0, len(X_new), 2)
    assert_array_equal(backend.gradient(empty, X_new), np.zeros((len(X_new), 3, 2)))
    assert model.evaluate(X_new[:0], backend=backend).shape == (0, 2)


@pytest.mark.parametrize("shape", [(3,), (4, 2), (2, 3, 1)])
def test_rows_of_another_shape_are_refused(backend, shape):
    model, _ = kernel_sum("gaussian", np.float64)
    for method in (backend.sums, backend.gradient):
        with pytest.raises(ValueError, match=r"shape \(m, 3\).*got shape"):
            method(model, np.zeros(shape))


def test_weighted_training_is_repetition(backend):
    X, y, X_new = problem(n=40)
    counts = 1 + np.arange(len(y)) % 3
    weights = counts.astype(float)
    options = {
        "solver": Flow(),
        "schedule": MinimumSpeed(0.1, 0.1),
        "stopping": Stopping(max_r2=0.95),
    }
    kernel, targets = get_kernel("gaussian"), y[:, None]
    repeated = fit_path(
        X.repeat(counts, axis=0), targets.repeat(counts, axis=0), kernel, backend=backend, **options
    )
    weighted = fit_path(X, targets, kernel, weights=weights, backend=backend, **options)
    assert_allclose(
        weighted.evaluate(X_new, backend=backend),
        repeated.evaluate(X_new, backend=backend),
        atol=1e-5,
    )
    operator = backend.operator(X, kernel)
    product = WeightedOperator(operator, weights)
    V = np.ones((len(X), 1))
    root = np.sqrt(counts)[:, None]
    expected = root * (reference.kernel("gaussian", X, X, 1.0) @ (root * V))
    assert_allclose(product.numpy(product.product(1.0, product.array(V))), expected, atol=1e-9)


def test_every_backend_trains_the_same_model(backend):
    X, y, X_new = problem(n=60)
    options = {"solver": Flow(), "schedule": MinimumSpeed(0.1, 0.1), "stopping": Stopping()}
    paths = [
        fit_path(X, y[:, None], get_kernel("matern32"), backend=where, **options)
        for where in (HOST, backend)
    ]
    assert_allclose(paths[1].evaluate(X_new, backend=backend), paths[0].evaluate(X_new), atol=1e-6)
    assert paths[1].n_products == paths[0].n_products > 0
    cut = paths[1].truncate(r2=0.7, backend=backend)
    assert_allclose(cut.evaluate(X_new), paths[0].truncate(r2=0.7).evaluate(X_new), atol=1e-6)


def test_memory_of_sums_stays_inside_the_budget():
    """Of what NumPy allocates: the distances alone would take 24 MB."""
    rng = np.random.default_rng(0)
    X, X_new = rng.normal(size=(1000, 2)), rng.normal(size=(3000, 2))
    model = KernelSum(
        X, get_kernel("matern52"), np.array([1.0, 0.1]), np.ones((2, 1000, 1)), np.zeros(1)
    )
    budget = 2**21
    for method in (NumpyBackend(budget).sums, NumpyBackend(budget).gradient):
        tracemalloc.start()
        try:
            found = method(model, X_new)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < budget + 4 * (X_new.nbytes + X.nbytes) + 2 * found.nbytes


def test_rows_and_coefficients_are_uploaded_once_per_model(monkeypatch):

    uploaded = []
    upload = torch_backend.upload
    monkeypatch.setattr(
        torch_backend, "upload", lambda array, *more: uploaded.append(array) or upload(array, *more)
    )
    X, y, X_new = problem()
    model = KernelDescentRegressor(device="torch", max_r2=0.5).fit(X, y)
    held = model.path_.model
    assert sum(array is held.coefficients for array in uploaded) == 1  # to check the sums
    uploaded.clear()
    for _ in range(3):
        model.predict(X_new)
    assert not any(array is own for array in uploaded for own in (held.X, held.coefficients))
    backend = resolve_backend("torch")
    assert held in backend._uploads
    n_held = len(backend._uploads)
    del model, held
    uploaded.clear()
    gc.collect()
    assert len(backend._uploads) < n_held


def test_training_rows_are_prepared_once_and_kept_while_the_model_lives():
    model, X_new = kernel_sum("gaussian", np.float64)
    first = model.evaluate(X_new)
    kept = base._loops[model]
    assert_array_equal(model.evaluate(X_new), first)
    assert_array_equal(model.evaluate_staged(X_new)[-1], first)
    assert base._loops[model] is kept
    n_kept = len(base._loops)
    del model
    gc.collect()
    assert len(base._loops) < n_kept


def test_many_training_rows_are_not_kept_twice():
    few, X_new = kernel_sum("matern12", np.float32, n_outputs=1)
    n_copies = base._KEPT_ENTRIES // few.X.size + 1
    C = np.tile(few.coefficients, (1, n_copies, 1))
    many = replace(few, X=np.tile(few.X, (n_copies, 1)), coefficients=C)
    expected = n_copies * (few.evaluate(X_new[:2]) - few.offset)
    assert_allclose(many.evaluate(X_new[:2]) - few.offset, expected, rtol=1e-3)
    assert many not in base._loops
    assert few in base._loops


def test_resolving():
    assert resolve_backend() == HOST
    assert resolve_backend(None, 2**20) == NumpyBackend(2**20)
    assert resolve_backend("torch", 2**20) is resolve_backend("torch", 2**20)
    assert resolve_backend("auto", n_rows=2000) == HOST
    assert "TorchBackend(device='cpu'" in repr(resolve_backend("torch"))
    with pytest.raises(ValueError, match="device='tpu' is unknown"):
        resolve_backend("tpu")


def test_parts_of_a_sum_are_checked_once():
    model, _ = kernel_sum("gaussian", np.float64)
    with pytest.raises(ValueError, match="do not fit coefficients"):
        KernelSum(model.X[:-1], model.kernel, model.bandwidths, model.coefficients, model.offset)


def test_shares_of_a_product_are_the_same_bits_kept_or_overtaken():
    """On a worker: tiles that are kept, evaluated again, or overwritten in the middle of a call."""
    from bandfall._products import dask_backend
    from bandfall._products.blocked import Leaves

    X, _ = table(n=200)
    leaves, V = Leaves(X, 16), np.random.default_rng(2).normal(size=(200, 2))
    everything = range(len(leaves.slices))

    def products(budget):
        rows = dask_backend.WorkerRows(X, leaves, get_kernel("gaussian"), np.dtype(float), budget)
        return dask_backend.TileProducts(rows)

    expected = products(0).product(0.7, everything, V)
    engine = products(2**20)
    assert_array_equal(engine.product(0.7, everything, V), expected)
    assert len(engine._kept) == len(leaves.slices) ** 2
    assert_array_equal(engine.product(0.7, everything, V), expected)
    parts = [engine.product(0.7, range(i, i + 1), V) for i in everything]
    assert_array_equal(np.concatenate(parts), expected)
    distances_from, asked = leaves.distances_from, []

    def overtaken(i, geometry):
        asked.append(i)
        if len(asked) == 5:
            engine.product(0.1, everything, V)
        return distances_from(i, geometry)

    leaves.distances_from = overtaken
    assert_array_equal(engine.product(0.7, everything, V), expected)


@pytest.mark.parametrize("device", ["cpu", ON_A_GPU])
def test_shares_of_a_product_on_a_worker_with_a_device(device, dtype):
    pytest.importorskip("distributed")
    from bandfall._products.blocked import Leaves
    from bandfall._products.dask_backend import DeviceProducts, TileProducts, WorkerRows

    X, _ = table(dtype, n=200)
    leaves = Leaves(X.astype(float), 16)
    V = np.random.default_rng(2).normal(size=(200, 2)).astype(dtype)
    held = WorkerRows(X, leaves, get_kernel("matern32"), np.dtype(dtype), 2**20)
    for bandwidth in (np.inf, 2.0, 1e-3):
        found = DeviceProducts(held, device).product(bandwidth, range(3, 9), V)
        expected = TileProducts(held).product(bandwidth, range(3, 9), V)
        assert_allclose(found, expected, atol=rounding(dtype, 1e3) * 200)


def test_a_kernel_that_knows_numpy_only_is_computed_on_the_host_of_a_worker(monkeypatch):
    from bandfall._products import dask_backend
    from bandfall._products.blocked import Leaves

    on_device = dask_backend.DeviceProducts
    monkeypatch.setattr(dask_backend, "DeviceProducts", lambda held: on_device(held, "cpu"))
    monkeypatch.setattr(dask_backend, "check_device", lambda device: "cuda")
    X, _ = table(n=60)
    kernel = get_kernel(lambda u: np.exp(-np.asarray(u)))
    held = dask_backend.WorkerRows(X, Leaves(X, 16), kernel, np.dtype(float), 2**20)
    found = held.product(1.0, 0, 4, np.ones((60, 1)))
    assert isinstance(held.engine, dask_backend.TileProducts)
    assert len(found) == 60
