"""Compiled loops: as accurate as they say, the same numbers as NumPy's, and no nuisance."""

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import reference
from bandfall import BandfallRegressor
from bandfall._products import SymmetricOperator, WeightedOperator
from bandfall._products import loops as inner
from bandfall._products.base import RepeatedRowsOperator
from bandfall.descent._krylov import KrylovSpace
from bandfall.kernels._kernel import KERNELS, Kernel, get_kernel, vanishing_bandwidth
from tolerances import rounding

numba = pytest.importorskip("numba")
compiled = pytest.importorskip("bandfall._products.loops_numba")

SOURCE = Path(inner.__file__).parents[2]
EPS = float(np.finfo(np.float32).eps)
NAMES = [*KERNELS, *reference.OTHER_KERNELS, "laplace-1.25", "laplace-1.4^1.4", "cauchy-1^0.6"]


@numba.njit
def exponentials(x, out):
    for j in range(x.size):
        out[j] = compiled.exp_of(x[j])


@numba.njit
def powers(t, high, low, out):
    for j in range(t.size):
        out[j] = compiled.power_of(t[j], high, low)


def test_exponentials_over_the_whole_range():
    normal = np.finfo(np.float32).tiny
    x = np.concatenate(
        [-np.linspace(0, 110, 2_000_001), -np.geomspace(1e-45, 1e38, 500_001), [-0.0, -np.inf]]
    ).astype(np.float32)
    found = np.empty_like(x)
    exponentials(x, found)
    exact = np.exp(x.astype(np.float64))
    clear = exact > 1.01 * normal
    assert np.abs(found[clear] / exact[clear] - 1).max() <= 2e-7
    assert np.all(np.abs(found[~clear] - exact[~clear]) <= 1.02 * normal)  # 0 for subnormal ones
    assert found[-1] == 0.0
    assert found[-2] == 1.0
    assert np.all(np.diff(found[:2_000_001]) <= 2e-7)


@pytest.mark.parametrize("exponent", [0.1, 0.4, 0.7, 5 / 7, 0.8, 1.1, 1.4, 1.9, 2.0])
def test_powers_over_the_whole_range(exponent):
    t = np.concatenate([np.geomspace(1.2e-38, 3e38, 1_000_001), [0.0]]).astype(np.float32)
    exact = t.astype(np.float64) ** exponent
    inside = (exact > 3e-38) & (exact < 1.5e38)
    high = round(exponent * 1024) / 1024
    found = np.empty_like(t)
    powers(t, np.float32(high), np.float32(exponent - high), found)
    assert np.abs(found[inside] / exact[inside] - 1).max() <= 4e-7
    assert found[-1] == 0.0


def table(n=70, m=33, d=5, seed=0):
    """Rows in two clusters, some of them repeated, and new rows of which one is among them."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, d)) + np.where(random.random(n) < 0.5, 0.0, 8.0)[:, None]
    X[n // 2] = X[0]
    X_new = random.normal(size=(m, d))
    X_new[3] = X[5]
    return X.astype(np.float32), X_new.astype(np.float32)


def both_loops(X, kernel):
    plain = inner.Loops(kernel, X, np.float32)
    return plain, inner.CompiledLoops(kernel, X)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("d", [1, 2, 5])
def test_distances_are_accurate_and_zero_for_equal_rows(name, d):
    kernel, (X, X_new) = get_kernel(name), table(d=d, n=2100)  # several chunks of columns
    exact = reference.distances(X_new.astype(float), X.astype(float), kernel.geometry.p)
    for loops in both_loops(X, kernel):
        rows = loops.placed(X_new)
        for columns in (slice(0, 2100), slice(7, 1999)):
            out = np.empty((len(X_new), columns.stop - columns.start), np.float32)
            assert loops.distances(rows, columns, out) is out
            # Sums of d terms, each rounded a few times; a power p of them is raised to power/p.
            tolerance = rounding(np.float32, 8 + d)
            assert_allclose(out, exact[:, columns] ** kernel.power, rtol=tolerance, atol=1e-30)
        own = loops.distances(loops.own[:1], slice(0, 2100), np.empty((1, 2100), np.float32))
        assert own[0, 0] == own[0, 1050] == 0.0
        assert np.count_nonzero(own) == 2098


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("bandwidth", [0.0, 1e-30, 1e-12, 1e-3, 0.3, 7.0, 1e30, np.inf])
def test_profiles(name, bandwidth):
    kernel = get_kernel(name)
    distances = np.concatenate([[0.0], np.geomspace(1e-6, 1e6, 3000)]).astype(np.float32)
    results = []
    for loops in both_loops(table()[0], kernel):
        out = np.empty_like(distances)
        assert loops.evaluate(distances, bandwidth, out) is out
        results.append(out)
    plain, fast = results
    assert np.all(np.isfinite(fast))
    assert fast[0] == 1.0
    # The argument of exp, up to 87, is rounded once in either form.
    # Factors of a vanishing exp, and arguments that NumPy's form cuts off, are next to nothing.
    nothing = 1e-9 if "cauchy" in name else 1e-34
    assert_allclose(fast, plain, rtol=rounding(np.float32, 100), atol=nothing)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("bandwidth", [0.0, 1e-3, 1.0, np.inf])
def test_tiles_are_distances_and_profiles_in_one_pass(name, bandwidth):
    kernel, (X, X_new) = get_kernel(name), table()
    loops = inner.CompiledLoops(kernel, X)
    rows = loops.placed(X_new)
    distances = loops.distances(rows, slice(0, 70), np.empty((33, 70), np.float32))
    expected = loops.evaluate(distances, bandwidth, np.empty_like(distances))
    columns = np.ascontiguousarray(loops.own.T)
    out = np.empty_like(distances)
    found = inner.fill_tile(kernel, inner.form_of(kernel), rows, columns, bandwidth, out)
    assert_array_equal(found, expected)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("n_outputs", [1, 3])
def test_gradients(name, n_outputs):
    kernel, (X, X_new) = get_kernel(name), table(n=2100)
    bandwidths = [np.inf, 5.0, 1.0, 0.3, vanishing_bandwidth(np.finfo(np.float32)), 0.0]
    random = np.random.default_rng(1)
    C = random.normal(size=(len(bandwidths), 2100, n_outputs)).astype(np.float32)
    plain, fast = (
        sum(
            loops.gradient(loops.placed(X_new), columns, bandwidths, C)
            for columns in (slice(0, 1000), slice(1000, 2100))
        )
        for loops in both_loops(X, kernel)
    )
    assert fast.shape == (33, 5, n_outputs)
    assert fast.dtype == np.float32
    assert_allclose(fast, plain, atol=rounding(np.float32, 200) * np.abs(plain).max())


def test_which_loops_serve(request):
    X = np.zeros((600, 3), np.float32)
    kernel, many = get_kernel("laplace-1.5"), 600**2
    single = np.dtype(np.float32)
    assert isinstance(inner.loops_over(X, kernel, single, many), inner.CompiledLoops)
    for rows, dtype, one, n in (
        (X, single, get_kernel("laplace"), 399**2),  # not worth compiling
        (X, single, kernel, 399**2 / 3),  # three features, each with a power of its own
        (X.astype(float), single, kernel, many),  # rounding the rows would cost accuracy
        (X, np.dtype(float), kernel, many),
        (X, single, get_kernel(lambda u: 1 / (1 + u)), many),
        (np.zeros((600, 300), np.float32), single, get_kernel("gaussian"), many),
    ):
        assert type(inner.loops_over(rows, one, dtype, n)) is inner.Loops
    assert isinstance(inner.loops_for_sums(X, kernel, single), inner.CompiledLoops)
    assert type(inner.loops_for_sums(X[:100], kernel, single)) is inner.Loops
    assert inner.loops_for_sums(X[:100], kernel, single).dtype == np.float64
    laplace = get_kernel("laplace")
    own_slope = Kernel("mine", 1, laplace.profile, lambda q, xp: -xp.exp(-q))
    assert type(inner.loops_over(X, own_slope, single, many)) is inner.Loops
    request.getfixturevalue("without_numba")
    assert type(inner.loops_over(X, kernel, single, many)) is inner.Loops


def test_numba_without_its_compiler_is_not_used(monkeypatch):
    inner.can_compile.cache_clear()
    monkeypatch.setattr(numba.config, "DISABLE_JIT", 1)
    assert not inner.can_compile()
    monkeypatch.undo()
    inner.can_compile.cache_clear()
    assert inner.can_compile()


def test_a_fit_without_numba_is_the_same_up_to_rounding(request):
    random = np.random.default_rng(0)
    X = random.normal(size=(700, 4))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * random.normal(size=700)
    model = BandfallRegressor(kernels=("laplace-1.5",), max_rounds=1, n_members=1)
    fast = model.fit(X, y).predict(X)
    request.getfixturevalue("without_numba")
    assert_allclose(model.fit(X, y).predict(X), fast, atol=0.02 * y.std())


COMPILE = """
import sys
import numpy as np
from bandfall.kernels import get_kernel
from bandfall._products import SymmetricOperator, WeightedOperator, loops as inner
from bandfall._products.base import RepeatedRowsOperator
from bandfall._products import loops_numba as compiled

loops = inner.CompiledLoops(get_kernel("laplace-1"), np.ones((3, 2), np.float32))
out = loops.distances(loops.own * 2, slice(0, 3), np.empty((3, 3), np.float32))
assert out.tolist() == [[2.0] * 3] * 3, out
print(sum(compiled.fill.stats.cache_hits.values()))
"""


def started(environment, source=SOURCE):
    usual = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", COMPILE],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**usual, "PYTHONPATH": str(source), **environment},
    )


def hits(process):
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    assert errors == ""
    return int(output)


def test_two_processes_may_compile_at_once_and_the_next_one_need_not(tmp_path):
    environment = {"NUMBA_CACHE_DIR": str(tmp_path)}
    both = [started(environment) for _ in range(2)]
    assert all(hits(process) in (0, 1) for process in both)
    assert hits(started(environment)) == 1


def test_a_package_in_a_directory_that_cannot_be_written(tmp_path):
    """Compiled code goes to the user's cache directory, and nowhere if there is none."""
    source = tmp_path / "site"
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(SOURCE / "bandfall", source / "bandfall", ignore=ignore)
    # A file where the directory would be made: as root, permissions stop nothing.
    (source / "bandfall" / "_products" / "__pycache__").write_text("")
    home = tmp_path / "home"
    home.mkdir()
    environment = {"HOME": str(home), "XDG_CACHE_HOME": str(home / "cache")}
    assert hits(started(environment, source)) == 0
    assert hits(started(environment, source)) == 1
    assert any(home.rglob("*.nbi"))
    (tmp_path / "file").write_text("")
    nowhere = {"HOME": str(tmp_path / "file"), "XDG_CACHE_HOME": str(tmp_path / "file")}
    assert hits(started(nowhere, source)) == 0


@pytest.mark.parametrize("n_rows", [1, 3, 4, 6, 257, 1300])
@pytest.mark.parametrize("n_columns", [1, 2, 7])
def test_symmetric_products_of_strips(n_rows, n_columns):
    """Strips that end anywhere, rows beyond one chunk of columns, and shares that add up."""
    random = np.random.default_rng(n_rows)
    K = random.uniform(size=(n_rows, n_rows))
    K = ((K + K.T) / 2).astype(np.float32)
    block = random.normal(size=(n_rows, n_columns)).astype(np.float32)
    height = 102
    strips = [K[a : a + height, a:].reshape(-1) for a in range(0, n_rows, height)]
    parts = [
        inner.symmetric_product(np.concatenate(strips), height, share, 3, block)
        for share in range(3)
    ]
    expected = K.astype(np.float64) @ block
    scale = np.abs(K).astype(np.float64) @ np.abs(block)
    assert np.all(np.abs(sum(parts) - expected) <= 4 * EPS * np.sqrt(n_rows) * scale + EPS)
    assert parts[0].shape == block.shape


def test_vectors_are_made_orthogonal_as_by_numpy():
    random = np.random.default_rng(0)
    n_rows, n_columns, dimension = 700, 3, 5
    basis = np.zeros((n_columns, 9, n_rows), np.float32)
    for one in basis:
        one[:dimension] = np.linalg.qr(random.normal(size=(n_rows, dimension)))[0].T
    image = random.normal(size=(n_columns, n_rows)).astype(np.float32)
    assert inner.compiled_vectors(basis, n_rows)
    left, overlaps, squares = inner.orthogonalised(basis, dimension, image)
    plain = inner.orthogonalised(basis.astype(np.float64), dimension, image.astype(np.float64))
    norm = np.linalg.norm(image, axis=1).max()
    assert_allclose(left, plain[0], atol=20 * EPS * norm)
    assert_allclose(overlaps, plain[1], atol=20 * EPS * norm)
    assert_allclose(squares, plain[2], rtol=20 * EPS)
    assert np.abs(basis[:, :dimension] @ left[:, :, None]).max() < 10 * EPS * norm
    assert image is not left  # the image stays as it is


@pytest.mark.parametrize("n_columns", [1, 3])
@pytest.mark.parametrize("repeated", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_steps_of_lanczos_in_one_call_are_those_one_by_one(n_columns, repeated, weighted):
    """Several steps at once against a product and an orthogonalisation each, in float64."""
    random = np.random.default_rng(0)
    X = random.normal(size=(720, 2)).astype(np.float32)
    labels = random.integers(720, size=900) if repeated else np.arange(720)
    target = random.normal(size=(len(labels), n_columns)).astype(np.float32)
    weights = random.uniform(0.0, 2.0, size=len(labels))
    spaces = []
    for dtype in (np.float32, np.float64):
        operator = SymmetricOperator(X, get_kernel("matern12"), dtype)
        if repeated:
            operator = RepeatedRowsOperator(operator, labels)
        if weighted:
            operator = WeightedOperator(operator, weights)
        block = target.astype(dtype)
        assert operator.extends(0.5, n_columns) == (dtype == np.float32)
        assert not operator.extends(0.0, n_columns)
        space = KrylovSpace(operator, 0.5, block, operator.product(0.5, block), 12)
        space.expand(4)
        space.expand()
        space.expand(100)
        assert space.dimension == 12
        space.diagonalise()
        spaces.append(space)
    fast, exact = spaces
    largest = exact.eigenvalues.max()
    assert_allclose(fast.eigenvalues, exact.eigenvalues, atol=1000 * EPS * largest)
    for one, other in zip(fast.advance(2.0), exact.advance(2.0), strict=True):
        assert_allclose(one, other, atol=1000 * EPS * np.abs(other).max())


def test_a_column_of_nothing_stays_nothing():
    X = np.random.default_rng(0).normal(size=(700, 2)).astype(np.float32)
    operator = SymmetricOperator(X, get_kernel("gaussian"), np.float32)
    block = np.zeros((700, 2), np.float32)
    empty = KrylovSpace(operator, 1.0, block, operator.product(1.0, block), 10)
    assert empty.exhausted
    block[:, 0] = np.sin(X[:, 0])
    space = KrylovSpace(operator, 1.0, block, operator.product(1.0, block), 10)
    for one in (empty, space):
        one.expand(9)
        one.diagonalise()
    assert empty.exhausted
    assert not space.exhausted
    coefficients, residual = space.advance(5.0)
    assert_array_equal(coefficients[:, 1], 0.0)
    assert_array_equal(residual[:, 1], 0.0)
    left = block - operator.product(1.0, coefficients)
    assert_allclose(residual, left, atol=1000 * EPS)


def one_more(x):
    return x + 1.0


def compiled_anew():
    return compiled.compiled(one_more)


class TestCacheOfCompiledCode:
    """A damaged file or a full disk costs time and one warning, and ends no fit."""

    @pytest.fixture(autouse=True)
    def own_directory(self, tmp_path, monkeypatch):
        monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))

    @pytest.mark.parametrize("pattern", ["*.nbi", "*.nbc"])
    def test_damaged_files_are_replaced(self, tmp_path, pattern):
        assert compiled_anew()(1.0) == 2.0
        damaged = list(tmp_path.rglob(pattern))
        for file in damaged:
            file.write_bytes(file.read_bytes()[:20] + b"damaged")
        with pytest.warns(RuntimeWarning, match="cache in .* cannot be used") as warnings:
            assert compiled_anew()(1.0) == compiled_anew()(1.0) == 2.0
        assert len(warnings) == len(damaged) == 1
        read_again = compiled_anew()
        assert read_again(1.0) == 2.0
        assert read_again.stats.cache_hits

    def test_a_full_disk(self, monkeypatch):
        def full(self, name, mode="w"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(numba.core.caching.IndexDataCacheFile, "_open_for_write", full)
        with pytest.warns(RuntimeWarning, match="No space left on device"):
            assert compiled_anew()(1.0) == compiled_anew()(1) == 2.0
