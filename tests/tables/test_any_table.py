"""Whatever a table holds, it is encoded in finite numbers, or refused by name."""

import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bandfall._files.codec import decode, encode
from bandfall.tables import TableEncoder, prepare_table, read_table
from bandfall.tables._encoder import CATEGORIES
from bandfall.tables._numbers import NUMBERS

# Any text at all, and text of the characters that numbers and dates are made of.
texts = st.text(max_size=6) | st.text(st.sampled_from("0123456789.,:-/ %eTZ"), max_size=10)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_infinity=False, min_value=-1e300, max_value=1e300) | st.just(float("nan")),
    st.datetimes(),
    st.dates(),
    st.timedeltas(),
    texts,
)


@st.composite
def tables(draw):
    n = draw(st.integers(1, 25))
    kinds = st.sampled_from(
        [scalars, texts, st.floats(-1e300, 1e300), st.datetimes(), st.integers(0, 3), st.dates()]
    )
    names = draw(st.lists(st.text(max_size=4), min_size=1, max_size=3, unique=True))
    return {name: draw(st.lists(st.none() | draw(kinds), min_size=n, max_size=n)) for name in names}


@pytest.mark.parametrize("numbers", NUMBERS)
@pytest.mark.parametrize("categories", CATEGORIES)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=tables(), new=tables())
def test_any_table(numbers, categories, data, new):
    try:
        table = read_table(data)
    except ValueError as error:  # integers of more than 300 digits
        assert "column" in str(error)  # noqa: PT017
        return
    encoder = TableEncoder(numbers, categories, n_steps=4)
    y = np.arange(len(table)) % 3.0
    with warnings.catch_warnings():
        warnings.filterwarnings("error")
        warnings.filterwarnings("ignore", "Column .*text read as|columns are left out")
        Z = encoder.fit_transform(table, y, dtype=np.float32)
        assert np.isfinite(Z).all()
        later = encoder.transform(table)
    assert later.shape == Z.shape == (len(table), encoder.width)
    if not encoder.uses_target:
        np.testing.assert_array_equal(later, Z)
    part = prepare_table(table, warn=False).take([0])
    np.testing.assert_allclose(encoder.transform(part), later[:1], rtol=1e-6, atol=1e-6)
    arrays = {}
    loaded = decode(encode(encoder, arrays, "encoder"), arrays)
    np.testing.assert_array_equal(loaded.transform(table), later)
    assert len(encoder.describe()) == table.width
    assert len(encoder.names_out) == len(encoder.sources) == Z.shape[1]
    n_new = len(next(iter(new.values())))
    other = {**dict.fromkeys(data, [None] * n_new), **dict(zip(data, new.values(), strict=False))}
    try:  # other values under the same names
        encoded = encoder.transform(other, warn=False)
    except ValueError as error:
        assert "column" in str(error)  # noqa: PT017
        return
    assert np.isfinite(encoded).all()
