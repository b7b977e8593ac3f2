"""The contract that every registered encoding of numbers keeps."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bandfall.tables import TableEncoder
from bandfall.tables._numbers import NUMBERS
from onnx_graphs import run_form


def numbers(seed, n=60, missing=False):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 4)) * [1.0, 100.0, 1e-3, 1.0] + [0.0, 1e4, 0.0, -3.0]
    X[:, 3] = np.round(X[:, 3])  # ties
    if missing:
        X[random.random(X.shape) < 0.1] = np.nan
    return X


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000), missing=st.booleans())
@pytest.mark.parametrize("name", NUMBERS)
def test_training_rows_are_encoded_like_later_ones(name, seed, missing):
    X = numbers(seed, missing=missing)
    encoder = TableEncoder(name)
    Z = encoder.fit_transform(X)
    np.testing.assert_allclose(encoder.transform(X), Z, atol=1e-12)
    one_by_one = [encoder.transform(X[i : i + 1])[0] for i in range(12)]
    np.testing.assert_allclose(one_by_one, Z[:12], atol=1e-12)
    assert Z.shape == (60, len(encoder.sources)) == (60, len(encoder.names_out))


@pytest.mark.parametrize("name", NUMBERS)
def test_the_order_of_values_is_kept_in_and_out_of_range(name):
    X = np.random.default_rng(0).lognormal(size=(50, 1))
    encoder = TableEncoder(name)
    encoder.fit_transform(X)
    x = np.linspace(-2 * X.max(), 3 * X.max(), 500)[:, None]
    rises = np.diff(encoder.transform(x, warn=False).sum(axis=1))
    assert np.all(rises >= 0)
    if name != "quantile":  # which ends at the edges
        assert np.all(rises > 0)


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("scale", [1e-300, 1e-150, 1e150, 1e299])
def test_any_unit_gives_the_same_columns(name, scale):
    X = np.clip(numbers(1)[:, :1], -3, 3)
    expected, found = (TableEncoder(name).fit_transform(rows) for rows in (X, X * scale))
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e299])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_no_value_is_too_far(name, scale, dtype):
    X = np.clip(numbers(2)[:, :1], -3, 3) * scale
    encoder = TableEncoder(name)
    Z = encoder.fit_transform(X, dtype=dtype)
    far = encoder.transform(np.array([[-1e300], [1e300], [0.0], [1e-308]]), warn=False)
    assert Z.dtype == far.dtype == dtype
    assert np.isfinite(far).all()
    assert np.isfinite(encoder.jacobian(np.array([[-1e300], [1e300], [0.0]]))).all()


@pytest.mark.parametrize("name", NUMBERS)
def test_one_huge_value_among_others(name):
    X = numbers(3)[:, :1]
    X[0] = 1e300
    assert np.isfinite(TableEncoder(name).fit_transform(X)).all()


@pytest.mark.parametrize("name", NUMBERS)
def test_constant_columns_are_dropped(name):
    X = numbers(0)
    X[:, 1] = 0.1 + 0.2  # whose mean rounds
    X[:, 2] = np.where(np.arange(60) % 2, 0.3, 0.1 + 0.2)  # differ by rounding
    encoder = TableEncoder(name)
    with pytest.warns(UserWarning, match=r"column 2 \(its values differ only by rounding\)"):
        Z = encoder.fit_transform(X)
    assert set(encoder.sources.tolist()) == {0, 3}
    assert np.all(np.ptp(Z, axis=0) > 0)
    assert "x1: number, dropped: constant" in encoder.describe()


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("offset", [2**53 - 1001, -(2**53) + 1, 1_700_000_000_123_456_789])
def test_large_counters_and_timestamps_are_no_constants(name, offset):
    """Their spread is 1e-14 and less of what they are."""
    counter = np.arange(1000) * (1 if abs(offset) < 2**53 else 1000)
    random = np.random.default_rng(0)
    X = np.column_stack([random.permutation(counter) + offset, random.normal(size=1000)])
    plain = np.column_stack([X[:, 0] - float(offset), X[:, 1]])
    Z, expected = (TableEncoder(name).fit_transform(rows) for rows in (X, plain))
    np.testing.assert_allclose(Z, expected, atol=0.02)


@pytest.mark.parametrize("name", NUMBERS)
def test_missing_values_are_marked_and_the_empty_column_is_named(name):
    X = numbers(0)
    X[:, 2] = np.nan
    X[::6, 0] = np.nan
    encoder = TableEncoder(name)
    with pytest.warns(UserWarning, match=r"left out: column 2 \(no value\)"):
        Z = encoder.fit_transform(X)
    assert np.isfinite(Z).all()
    mark = Z[:, encoder.names_out.index("x0_missing")]
    assert len(np.unique(mark)) == 2
    np.testing.assert_array_equal(mark == mark.max(), np.isnan(X[:, 0]))
    assert encoder.describe()[2] == "x2: number, dropped: no value"


@pytest.mark.parametrize("name", NUMBERS)
def test_jacobian_is_the_derivative(name):
    X = numbers(4)
    encoder = TableEncoder(name)
    encoder.fit_transform(X)
    random = np.random.default_rng(5)
    rows = X[:20] + random.normal(size=(20, 4)) * [0.1, 10.0, 1e-4, 0.1]
    step = 1e-7 * np.array([1.0, 100.0, 1e-3, 1.0])
    upper, lower = (encoder.transform(rows + sign * step, warn=False) for sign in (0.5, -0.5))
    expected = (upper - lower) / step[encoder.sources]
    found = encoder.jacobian(rows)
    # Two of a piecewise linear function's rows may lie on both sides of a knot.
    close = np.isclose(found, expected, rtol=1e-3, atol=1e-5 / step[encoder.sources] * 1e-3)
    assert close.mean() > 0.99


@pytest.mark.parametrize("name", ["standard", "steps"])
def test_numbers_weigh_the_same(name):
    encoder = TableEncoder(name)
    variance = encoder.fit_transform(numbers(6, missing=True)).var(axis=0)
    outputs = [(output.source, output.part) for output in encoder.fitted.outputs]
    totals = np.bincount([outputs.index(output) for output in outputs], weights=variance)
    totals = totals[sorted(set(map(outputs.index, outputs)))]
    np.testing.assert_allclose(totals, 1.0)


def learned(name, X):
    return NUMBERS[name].learn(X, np.ones(X.shape, dtype=bool), 12)


@pytest.mark.parametrize("name", NUMBERS)
def test_it_is_made_of_its_stored_fields(name):
    encoding = learned(name, numbers(0))
    state = {field.name: getattr(encoding, field.name) for field in dataclasses.fields(encoding)}
    again, new = NUMBERS[name](**state), numbers(1)
    np.testing.assert_array_equal(again.transform(new), encoding.transform(new))
    for field, array in state.items():
        for wrong in (None, "text", array[None], array.astype(object), array[:0]):
            with pytest.raises((ValueError, TypeError)):
                NUMBERS[name](**{**state, field: wrong})


@pytest.mark.parametrize("name", NUMBERS)
def test_it_fits_as_many_columns_as_it_learned(name):
    encoder = TableEncoder(name)
    encoder.fit_transform(numbers(0)[:, :3])
    with pytest.raises(ValueError, match="learned from another number of columns"):
        dataclasses.replace(encoder.fitted, scaling=learned(name, numbers(0)))


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_its_onnx_form_gives_the_same_numbers(name, seed):
    pytest.importorskip("onnxruntime")
    X = numbers(seed)
    encoding = learned(name, X)
    new = np.concatenate([X[:20], numbers(seed + 10), 1e9 * numbers(seed + 20)[:5]])
    found = run_form(encoding.onnx, new)
    np.testing.assert_allclose(found, encoding.transform(new), rtol=1e-12, atol=1e-12)
