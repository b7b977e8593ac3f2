"""Equal data give equal columns, whatever library holds them."""

import datetime
import sys
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bandfall.tables import TableEncoder, read_table

LIBRARIES = {
    "pandas": lambda data: pd.DataFrame(data),
    "nullable": lambda data: pd.DataFrame(data).convert_dtypes(),
    "arrow": lambda data: pa.table(data).to_pandas(types_mapper=pd.ArrowDtype),
    "pyarrow": lambda data: pa.table(data),
    "polars": lambda data: pl.DataFrame(data),
    "lazy": lambda data: pl.LazyFrame(data),
}

moments = st.datetimes(
    datetime.datetime(1900, 1, 1), datetime.datetime(2100, 1, 1), allow_imaginary=False
)
VALUES = {
    "float": st.floats(-1e6, 1e6),
    "integer": st.integers(-(2**40), 2**40),
    "flag": st.booleans(),
    "text": st.sampled_from(["red", "grün", "b l u e"]),
    "when": moments,
    "day": st.dates(datetime.date(1900, 1, 1), datetime.date(2100, 1, 1)),
    "lasts": st.timedeltas(datetime.timedelta(-1000), datetime.timedelta(1000)),
    "amount": st.sampled_from(["1,5", "20", "3 000,25"]),
}


@st.composite
def tables(draw):
    """One column of each kind; one value at least, so that libraries can tell the type."""
    n = draw(st.integers(0, 4))
    return {
        name: [draw(values), *draw(st.lists(st.none() | values, min_size=n, max_size=n))]
        for name, values in VALUES.items()
    }


def encoded(frame):
    encoder = TableEncoder()
    return encoder.fit_transform(read_table(frame), warn=False), encoder


@pytest.mark.parametrize("library", LIBRARIES)
@settings(max_examples=10, deadline=None)
@given(data=tables())
def test_every_library_gives_what_a_dict_gives(library, data):
    expected, of_dict = encoded(data)
    found, of_frame = encoded(LIBRARIES[library](data))
    np.testing.assert_array_equal(found, expected)
    assert of_frame.names_out == of_dict.names_out
    assert of_frame.schema.readings == of_dict.schema.readings


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"a": pd.Categorical(["1", "2", "1"])}),
        pd.DataFrame({"a": pd.Categorical([1, 2, 1])}),
        pl.DataFrame({"a": ["1", "2", "1"]}, schema={"a": pl.Categorical}),
        pl.DataFrame({"a": ["1", "2", "1"]}, schema={"a": pl.Enum(["2", "1", "3"])}),
        pa.table({"a": pa.array(["1", "2", "1"]).dictionary_encode()}),
    ],
    ids=["pandas", "pandas-integers", "polars", "enum", "pyarrow"],
)
def test_declared_categories_are_not_read_as_numbers(frame):
    (column,) = read_table(frame).columns
    assert column.kind == "category"
    assert column.declared
    assert TableEncoder().fit_transform(frame).tolist() == [[1, 0], [0, 1], [1, 0]]


def test_time_zones_keep_their_clock():
    plain = pd.date_range("2024-03-01", periods=5, freq="7h")
    aware = pd.DataFrame({"t": plain.tz_localize("Asia/Tokyo")})
    for frame in (aware, pl.from_pandas(aware), pa.Table.from_pandas(aware)):
        np.testing.assert_array_equal(
            read_table(frame).columns[0].values, read_table({"t": plain}).columns[0].values
        )


def test_units_of_time():
    for unit in ("s", "ms", "us", "ns"):
        frame = pd.DataFrame({"t": np.array([1, 2], f"datetime64[{unit}]")})
        frame["d"] = np.array([3, 4], f"timedelta64[{unit}]")
        scale = np.timedelta64(1, unit) / np.timedelta64(1, "s")
        t, d = read_table(frame).columns
        np.testing.assert_allclose(t.values, np.array([1, 2]) * scale, atol=1e-6)
        np.testing.assert_allclose(d.values, np.array([3, 4]) * scale, atol=1e-6)


def test_decimals_and_times_of_day():
    frame = pl.DataFrame(
        {
            "price": pl.Series([Decimal("1.50"), Decimal("2.25")]),
            "at": [datetime.time(1, 30), datetime.time(2, 0, 1)],
        }
    )
    price, at = read_table(frame).columns
    assert (price.kind, price.values.tolist()) == ("number", [1.5, 2.25])
    assert (at.kind, at.values.tolist()) == ("duration", [5400.0, 7201.0])


def test_objects_of_pandas():
    frame = pd.DataFrame(
        {
            "number": pd.Series([1, 2.5, None], dtype=object),
            "flag": pd.Series([True, pd.NA, False], dtype=object),
            "mixed": pd.Series(["a", 1, np.nan], dtype=object),
            "empty": pd.Series([None, None, None], dtype=object),
        }
    )
    kinds = [column.kind for column in read_table(frame).columns]
    assert kinds == ["number", "boolean", "category", "number"]


def test_numbers_of_a_frame_stand_side_by_side():
    frame = pd.DataFrame(np.arange(6.0).reshape(3, 2))
    table = read_table(frame)
    assert table.names == ["0", "1"]
    np.testing.assert_array_equal(table.matrix, frame.to_numpy())


def test_nested_values_are_refused_by_name():
    with pytest.raises(ValueError, match="column 'a' holds values of type"):
        read_table(pl.DataFrame({"a": [[1, 2], [3]]}))


def test_infinities_are_refused_by_name():
    with pytest.raises(ValueError, match="column 'b' holds infinite values"):
        read_table(pl.DataFrame({"a": [1.0, 2.0], "b": [1.0, np.inf]}))


def test_duplicated_names_are_named():
    frame = pd.DataFrame(np.eye(3), columns=["a", "b", "a"])
    with pytest.raises(ValueError, match="'a'"):
        read_table(frame)


def test_something_else_with_columns():
    class Chart:
        columns = ("a",)

    with pytest.raises(TypeError, match="X of type Chart is not a table"):
        read_table(Chart())


def test_arrays_need_no_frame_library(monkeypatch):
    for name in ("narwhals", "narwhals.stable.v2", "pandas", "polars", "pyarrow"):
        monkeypatch.setitem(sys.modules, name, None)
    X = np.random.default_rng(0).normal(size=(30, 3))
    assert TableEncoder("steps").fit_transform(X).shape[0] == 30
    assert TableEncoder().fit_transform({"a": [1, 2], "b": ["x", "y"]}).shape == (2, 3)
