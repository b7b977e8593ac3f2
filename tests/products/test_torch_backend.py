"""Training and predicting with torch: the same numbers, clear refusals, answers in kind."""

import importlib.util

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import reference
from bandfall import KernelDescentRegressor
from bandfall._products import HOST, DenseOperator, WeightedOperator, check_device, resolve_backend
from bandfall._products.torch_backend import TorchBackend
from bandfall.descent import Euler
from bandfall.descent._krylov import KrylovSpace
from bandfall.descent._sum import KernelSum
from bandfall.kernels._kernel import KERNELS, get_kernel
from tolerances import rounding

torch = pytest.importorskip("torch")
from bandfall._products import torch_backend as torch_operators  # noqa: E402

needs_no_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
on_devices = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=needs_gpu)])


def problem(n=70, dtype=np.float64):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    y = np.column_stack([np.sin(2 * X[:, 0]), X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=n)])
    return X.astype(dtype), y.astype(dtype)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"kernel": "matern12", "max_r2": 0.9},
        {"solver": Euler(max_iter=40), "max_time": 0.2},
        {"validation_fraction": 0.2, "random_state": 0},
        {"memory_budget": 40_000, "max_r2": 0.8},
    ],
)
def test_same_model_on_torch_as_on_numpy(options):
    X, y = problem()
    weights = np.linspace(0.5, 2.0, len(X))
    models = [
        KernelDescentRegressor(device=device, **options).fit(X, y, sample_weight=weights)
        for device in (None, "torch")
    ]
    host, tensor = models
    assert host.path_.status is tensor.path_.status
    assert_allclose(tensor.path_.bandwidths, host.path_.bandwidths, rtol=1e-7)
    assert_allclose(tensor.predict(X[:30] + 0.1), host.predict(X[:30] + 0.1), atol=1e-6)
    staged = [list(model.staged_predict(X[:5])) for model in models]
    assert_allclose(staged[1], staged[0], atol=1e-6)


def float32_problem(n_features):
    """Rows that all repeat once, and new rows of which half are among them."""
    rng = np.random.default_rng(0)
    X = np.repeat(rng.normal(size=(150, n_features)), 2, axis=0).astype(np.float32)
    y = (np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=300)).astype(np.float32)
    return X, y, X[::3] + np.float32(0.1) * (np.arange(100) % 2)[:, None].astype(np.float32)


def assert_same_model_in_float32(kernel, device, n_features):
    """As good as the host's model, and what a device makes of it is what the host makes of it.

    Which of the last stages, of durations around 1e-6, exist at all is a matter of rounding.
    """
    X, y, X_new = float32_problem(n_features)
    host, other = (
        KernelDescentRegressor(kernel=kernel, device=name).fit(X, y) for name in (None, device)
    )
    assert host.path_.status is other.path_.status
    assert_allclose(other.predict(X_new), host.predict(X_new), atol=1e-3)
    backend, model = resolve_backend(device), other.path_.model
    staged = (
        model.evaluate_staged(X_new, backend=backend),
        model.evaluate_staged(X_new),
    )
    assert_allclose(*staged, atol=1e-3)
    gradients = backend.gradient(model, X_new), HOST.gradient(model, X_new)
    assert_allclose(*gradients, atol=1e-3 * np.abs(gradients[1]).max())
    return host, other


@pytest.mark.parametrize("n_features", [3, 30])
@pytest.mark.parametrize("kernel", ["gaussian", "laplace-1.5", "laplace-1^0.7"])
def test_same_model_in_float32(n_features, kernel):
    assert_same_model_in_float32(kernel, "torch", n_features)


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("n_features", [3, 30])
@pytest.mark.parametrize("kernel", ["gaussian", "laplace-1.5", "laplace-1^0.7"])
def test_same_model_on_a_gpu(request, fused, n_features, kernel):
    if fused:
        request.getfixturevalue("always_fused")
    host, gpu = assert_same_model_in_float32(kernel, "cuda", n_features)
    if kernel == "gaussian":  # smooth enough that stages are the same one by one
        X_new = float32_problem(n_features)[2]
        staged = [np.array(list(model.staged_predict(X_new))) for model in (gpu, host)]
        assert_allclose(*staged, atol=1e-3)
        gradients = [
            model.path_.gradient(X_new, backend=resolve_backend(model.device))
            for model in (gpu, host)
        ]
        assert_allclose(*gradients, atol=1e-3 * np.abs(gradients[1]).max())


def test_cutting_on_torch():
    X, y = problem()
    at_once = KernelDescentRegressor(max_r2=0.95, device="torch").fit(X, y)
    cut = at_once.path_.truncate(r2=0.8, backend=resolve_backend("torch"))
    assert_allclose(cut.evaluate(X), at_once.path_.truncate(r2=0.8).evaluate(X), atol=1e-6)


@pytest.mark.parametrize("make", ["operator", "cross"])
def test_an_interrupted_pass_does_not_pass_for_a_finished_one(monkeypatch, make):
    """K(σ) is kept from one product to the next, but not one that is half written."""
    X, _ = problem()
    backend, kernel, V = TorchBackend("cpu"), get_kernel("gaussian"), np.ones((len(X), 1))

    def products():
        if make == "cross":
            return backend.cross(X, X, kernel).product
        operator = backend.operator(X, kernel)
        return lambda bandwidth, V: operator.numpy(operator.product(bandwidth, operator.array(V)))

    expected, product = products()(1.0, V), products()
    product(1.0, V)
    kernel_matrix = torch_operators.kernel_matrix

    def interrupted(kernel, distances, bandwidth, xp, out):
        kernel_matrix(kernel, distances[:9], bandwidth, xp, out=out[:9])
        raise KeyboardInterrupt

    monkeypatch.setattr(torch_operators, "kernel_matrix", interrupted)
    with pytest.raises(KeyboardInterrupt):
        product(3.0, V)
    monkeypatch.undo()
    assert_array_equal(product(1.0, V), expected)


@pytest.mark.parametrize("name", [*KERNELS, *reference.OTHER_KERNELS])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("budget", [3_000, 2**30])
def test_sums_and_gradients_as_on_numpy(name, dtype, budget):
    rng = np.random.default_rng(0)
    X, X_new, C = (rng.normal(size=shape).astype(dtype) for shape in ((30, 2), (17, 2), (3, 30, 2)))
    X_new[4] = X[2]
    parts = (get_kernel(name), np.array([2.0, 0.3, 0.0]))
    model = KernelSum(X, *parts, C, np.zeros(2))
    truth = KernelSum(X.astype(float), *parts, C.astype(float), np.zeros(2))
    backend, X_true = TorchBackend("cpu", budget), X_new.astype(float)
    tolerance = rounding(dtype, 1e3)
    assert_allclose(model.evaluate(X_new, backend=backend), truth.evaluate(X_true), atol=tolerance)
    assert_allclose(
        model.evaluate_staged(X_new, backend=backend),
        truth.evaluate_staged(X_true),
        atol=tolerance,
    )
    gradient = HOST.gradient(truth, X_true)
    assert_allclose(
        backend.gradient(model, X_new), gradient, atol=tolerance * np.abs(gradient).max()
    )


@pytest.mark.parametrize("offset", [0.0, 1e5])
def test_float32_rows_far_from_the_origin_keep_their_differences(offset):
    """In other norms distances are sums of differences, which need no centring."""
    rng = np.random.default_rng(0)
    X = (offset + rng.normal(size=(50, 3))).astype(np.float32)
    V = np.ones((50, 1), np.float32)
    for name in ("laplace-1.5", "laplace-1"):
        operator = TorchBackend("cpu").operator(X, get_kernel(name))
        found = operator.numpy(operator.product(0.5, operator.array(V)))
        truth = reference.kernel(name, X.astype(float), X.astype(float), 0.5) @ V
        assert_allclose(found, truth, rtol=rounding(np.float32, 50))


@pytest.mark.parametrize(
    ("device", "error", "message"),
    [
        ("gpu", ValueError, "'gpu' is unknown; allowed"),
        ("cuda:x", ValueError, "unknown; allowed"),
        ("cuda:99", ValueError, "not available"),
        (0, TypeError, r"must be .*None"),
    ],
)
def test_devices_that_are_refused(device, error, message):
    with pytest.raises(error, match=message):
        check_device(device)
    with pytest.raises(error, match=message):
        KernelDescentRegressor(device=device).fit(*problem(10))


@needs_no_gpu
def test_without_a_gpu():
    assert check_device("auto") is None
    with pytest.raises(ValueError, match="torch finds 0 CUDA"):
        check_device("cuda")


def test_without_torch(monkeypatch):
    monkeypatch.setattr("bandfall._products.device.find_spec", lambda name: None)
    assert check_device("auto") is None
    assert check_device(None) is check_device("cpu") is None
    with pytest.raises(ImportError, match="pip install torch"):
        check_device("torch")
    assert importlib.util.find_spec("torch") is not None


def test_profiles_of_users():
    X, y = problem()
    expected = KernelDescentRegressor(kernel=rational).fit(X, y)
    model = KernelDescentRegressor(kernel=rational, device="torch").fit(X, y)
    assert_allclose(model.predict(X), expected.predict(X), atol=1e-6)
    with pytest.raises(ValueError, match="cannot be evaluated on torch tensors"):
        KernelDescentRegressor(kernel=numpy_only, device="torch").fit(X, y)


def rational(u):
    return (1 + u**2) ** -2.0


def numpy_only(u):
    return np.interp(u, [0.0, 1.0, 2.0], [1.0, 0.3, 0.0])


@pytest.mark.parametrize("broken", ["product", "sums"])
def test_a_device_that_computes_wrongly_is_refused(monkeypatch, broken):
    X, y = problem()
    owner = torch_operators.TorchOperator if broken == "product" else TorchBackend
    right, calls = getattr(owner, broken), []

    def wrong_once(*arguments, **options):
        calls.append(arguments)
        return right(*arguments, **options) * (2.0 if len(calls) in (1, 40) else 1.0)

    monkeypatch.setattr(owner, broken, wrong_once)
    with pytest.raises(RuntimeError, match="do not agree with each other"):
        KernelDescentRegressor(max_r2=0.95, device="torch").fit(X, y)


@on_devices
@pytest.mark.parametrize("n_columns", [1, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_steps_of_lanczos_in_one_call_are_those_of_numpy(device, n_columns, weighted):
    random = np.random.default_rng(0)
    X, target = random.normal(size=(200, 2)), random.normal(size=(200, n_columns))
    spaces = []
    for operator in (
        torch_operators.TorchOperator(X, get_kernel("matern12"), device=device),
        DenseOperator(X, get_kernel("matern12")),
    ):
        if weighted:
            operator = WeightedOperator(operator, np.linspace(0.0, 2.0, len(X)))
        block = operator.array(target)
        space = KrylovSpace(operator, 0.5, block, operator.product(0.5, block), 12)
        space.expand(4)
        space.expand()
        space.expand(100)
        space.diagonalise()
        spaces.append((space, [operator.numpy(one) for one in space.advance(2.0)]))
    (steps, found), (plain, expected) = spaces
    assert steps.dimension == plain.dimension == 12
    assert_allclose(steps.eigenvalues, plain.eigenvalues, rtol=1e-9, atol=1e-12)
    assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


@on_devices
def test_a_space_that_is_exhausted_stays_so(device):
    """Two columns: one of nothing, and one in the span of two rows that are far apart."""
    X = np.repeat([[0.0], [1e3]], 5, axis=0)
    operator = torch_operators.TorchOperator(X, get_kernel("gaussian"), device=device)
    target = np.zeros((10, 2))
    target[:, 0] = np.repeat([1.0, -2.0], 5)
    block = operator.array(target)
    space = KrylovSpace(operator, 1.0, block, operator.product(1.0, block), 6)
    space.expand(5)
    space.diagonalise()
    coefficients, residual = (operator.numpy(one) for one in space.advance(0.1))
    assert_allclose(residual[:, 0], np.exp(-0.1 * 5) * target[:, 0], rtol=1e-12)
    assert_allclose(coefficients[:, 0], -np.expm1(-0.1 * 5) / 5 * target[:, 0], rtol=1e-12)
    assert not residual[:, 1].any()
    assert not coefficients[:, 1].any()
