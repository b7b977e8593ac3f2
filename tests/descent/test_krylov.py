"""Krylov spaces against dense spectra, and the events inside them."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import reference
from bandfall._products import DenseOperator
from bandfall.descent._krylov import Decay, KrylovSpace
from bandfall.kernels._kernel import get_kernel
from problems import problem, problems, seeds

GAUSSIAN = get_kernel("gaussian")


@given(problems(max_rows=40), seeds, st.floats(0.2, 5.0), st.floats(-3.0, 6.0))
def test_krylov_error_bound_holds(data, seed, bandwidth, decade):
    """At times of nine decades: the defect of a long flow may have come and gone early."""
    X, _, _ = data
    time = 10.0**decade
    operator = DenseOperator(X, GAUSSIAN)
    K = reference.kernel("gaussian", X, X, bandwidth)
    r = np.random.default_rng(seed).normal(size=(len(X), 2))
    space = KrylovSpace(operator, bandwidth, r, operator.product(bandwidth, r), 50)
    eigenvalues, U = np.linalg.eigh(K)
    exact = U @ (np.exp(-time * np.maximum(eigenvalues, 0.0))[:, None] * (U.T @ r))
    rounding = 1e-12 * len(X) * max(1.0, time)
    while True:
        space.diagonalise()
        coefficients, residual = space.advance(time)
        # The coefficients leave exactly the residual that is reported.
        assert_allclose(residual, r - K @ coefficients, atol=1e-9 * max(1.0, time))
        allowed = space.errors(time) + rounding
        assert np.linalg.norm(residual - exact) <= allowed
        small = np.sqrt(max(0.0, space.squared_norm.at(time)))
        assert abs(small - np.linalg.norm(exact)) <= allowed
        if space.exhausted or space.dimension >= space.max_dimension:
            break
        space.expand()


def test_krylov_error_bound_is_tight_where_the_defect_is_early():
    """One dimension at t = 1e6: what it misses has vanished long before the end."""
    X, y, _ = problem(n=60)
    operator = DenseOperator(X, GAUSSIAN)
    r = (y - y.mean())[:, None] / np.linalg.norm(y - y.mean())
    space = KrylovSpace(operator, 1.0, r, operator.product(1.0, r), 50)
    space.diagonalise()
    assert 0.1 < space.errors(1e6) < 100.0


def test_events_are_located():
    decay = Decay(np.array([2.0, 0.01]), np.array([3.0, 1.0]))
    t = decay.first_below(1.5, 1e6)
    assert_allclose(3 * np.exp(-2 * t) + np.exp(-0.01 * t), 1.5, rtol=1e-9)
    assert decay.first_below(5.0, 1e6) == 0.0
    assert decay.first_below(0.5, 1.0) == np.inf
    assert decay.first_below(0.0, 1e6) == np.inf


@given(seeds)
def test_an_event_at_the_level_of_terms_that_never_fall(seed):
    """Two ways to add up such terms differ in the last bit, and no further step is possible."""
    rng = np.random.default_rng(seed)
    weights = rng.uniform(0.0, 1.0, 20)
    rates = np.append(np.zeros(19), 1.0)
    decay = Decay(rates, weights)
    level = decay.at(1e6)
    assert 0.0 < decay.first_below(level, 1e6) <= 1e6
    many = Decay(rates[None], weights[None]).first_below(level, 1e6)
    assert np.all((many > 0.0) & ~np.isnan(many))


@given(seeds, st.floats(0.0, 1.0))
def test_events_among_rates_of_all_scales(seed, share):
    """The far side of the crossing, and no more than rounding beyond it."""
    rng = np.random.default_rng(seed)
    decay = Decay(10.0 ** rng.uniform(-9, 9, size=30), 10.0 ** rng.uniform(-12, 0, size=30))
    start = decay.at(0.0)
    level = start * 10.0 ** (-12 * share)
    t = decay.first_below(level, 1e12)
    assert decay.at(t) <= level * (1 + 1e-9)
    assert decay.at(t * (1 - 1e-11)) >= level * (1 - 1e-9)


@given(seeds, st.integers(1, 6))
def test_events_of_many_sums_are_those_of_each(seed, n_terms):
    """Never reached, reached before the limit or at once: row by row as `Decay` says."""
    rng = np.random.default_rng(seed)
    rates = 10.0 ** rng.uniform(-4, 2, (8, n_terms)) * (rng.random((8, n_terms)) > 0.1)
    weights = rng.uniform(0, 1, (8, n_terms))
    levels = weights.sum(axis=1) * rng.uniform(-0.1, 1.2, 8)
    limit = 10.0 ** rng.uniform(0, 6)
    alone = [
        Decay(*row).first_below(level, limit)
        for *row, level in zip(rates, weights, levels, strict=True)
    ]
    assert_allclose(Decay(rates, weights).first_below(levels, limit), alone, rtol=1e-6)


def three_paths(n=50):
    """An operator, and two columns for each of three paths of very different sizes."""
    X, _, _ = problem(n=n)
    columns = np.random.default_rng(0).normal(size=(n, 6)) * np.repeat([1.0, 0.1, 1e-3], 2)
    return DenseOperator(X, GAUSSIAN), columns


def space_of(operator, columns, max_dimension=40, n_paths=None):
    image = operator.product(1.0, columns)
    return KrylovSpace(operator, 1.0, columns, image, max_dimension, n_paths)


def test_paths_in_one_space_are_as_in_spaces_of_their_own():
    operator, columns = three_paths()
    times = np.array([0.5, 3.0, 40.0])
    together = space_of(operator, columns, n_paths=3)
    together.expand(7)
    together.diagonalise()
    coefficients, residual = together.advance(times)
    for path, time in enumerate(times):
        own = slice(2 * path, 2 * path + 2)
        alone = space_of(operator, columns[:, own])
        alone.expand(7)
        alone.diagonalise()
        for mine, theirs in zip(alone.advance(time), (coefficients, residual), strict=True):
            assert_allclose(mine, theirs[:, own], rtol=1e-9, atol=1e-15)
        assert_allclose(together.errors(times)[path], alone.errors(time), rtol=1e-6)
        assert_allclose(together.speed.at(times)[path], alone.speed.at(time), rtol=1e-9)
        assert_allclose(together.squared_norm.at(times)[path], alone.squared_norm.at(time))
        allowed = together.allowed_errors(1e-2)[path]
        assert_allclose(allowed, alone.allowed_errors(1e-2))


def test_a_space_grows_until_the_caller_is_content_or_it_is_full():
    operator, columns = three_paths()
    space = space_of(operator, columns)
    seen = [space.dimension for _ in space.grow(first_check=8, growth=0.5)]
    assert seen == [8, 13, 20, 31, 40]
    space = space_of(operator, columns)
    for _ in space.grow():
        if space.dimension == 5:
            break
    assert space.dimension == 5
    assert [space.dimension for _ in space.grow(ended=lambda: True)] == [5]


def test_a_space_that_is_too_small_shortens_the_times_of_the_paths_that_need_it():
    operator, columns = three_paths()
    space = space_of(operator, columns, max_dimension=6, n_paths=3)
    for _ in space.grow():
        pass
    wanted, allowed = np.array([1e-3, 5.0, 50.0]), np.array([1e-3, 1e-4, 1e-6])
    times = space.longest_accurate(wanted, allowed)
    assert times[0] == wanted[0]
    assert np.all(times[1:] < wanted[1:])
    assert np.all(space.errors(times) <= allowed)
    assert np.all(space.errors(1.2 * times)[1:] > allowed[1:])
