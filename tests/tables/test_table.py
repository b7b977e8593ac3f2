"""Anything with rows and columns becomes a table, or an error that names the column."""

import datetime

import numpy as np
import pytest
from scipy import sparse

from bandfall.tables import read_table


def kinds(X):
    return [column.kind for column in read_table(X).columns]


def test_arrays_are_taken_as_they_are():
    X = np.arange(6.0).reshape(3, 2)
    table = read_table(X)
    assert table.matrix is X
    assert (table.names, table.width, len(table)) == (None, 2, 3)
    assert read_table(table) is table
    assert read_table(X.astype(np.float32)).matrix.dtype == np.float64
    assert kinds(X > 2) == kinds(X.astype(int)) == ["number", "number"]


def test_rows_of_anything():
    rows = [[1, "a", True], [None, "b", False]]
    assert kinds(rows) == kinds(np.array(rows, dtype=object)) == ["number", "category", "boolean"]
    assert kinds([[1, 2.5], [3, 4]]) == ["number", "number"]
    assert read_table(rows).columns[0].values.tolist()[0] == 1.0
    assert kinds(np.array([["2024-01-01"], ["NaT"]], dtype="datetime64[D]")) == ["datetime"]


def test_a_dict_of_columns():
    table = read_table({"a": np.array([1, 2]), "b": np.array([True, False]), "c": ["x", None]})
    assert table.names == ["a", "b", "c"]
    assert [column.kind for column in table.columns] == ["number", "boolean", "category"]
    assert table.columns[2].missing.tolist() == [False, True]
    assert table.columns[1].missing.tolist() == [False, False]


def test_objects_of_time():
    table = read_table(
        {
            "date": [datetime.date(1970, 1, 2), None],
            "time": [datetime.time(0, 1), None],
            "numpy": [np.datetime64("1970-01-01T00:00:02"), np.datetime64("NaT", "s")],
            "far": [np.datetime64("12024-01-01"), None],
            "lasts": [np.timedelta64(3, "m"), np.timedelta64("NaT", "s")],
            "zone": [datetime.datetime(1970, 1, 1, 1, tzinfo=datetime.UTC), None],
        }
    )
    values = [column.values[0] for column in table.columns]
    assert values == [86400.0, 60.0, 2.0, 317273587200.0, 180.0, 3600.0]
    assert all(np.isnan(column.values[1]) for column in table.columns)
    assert [c.kind for c in table.columns] == [
        *("datetime", "duration", "datetime", "datetime", "duration", "datetime")
    ]


def test_levels_are_text():
    column = read_table({"a": ["x", 1, 1.0, 2.5, True, "", " ", None]}).columns[0]
    assert column.levels == ("x", "1", "2.5")  # True equals 1
    assert column.values.tolist() == [0, 1, 1, 2, 1, -1, -1, -1]


@pytest.mark.parametrize("rows", [[2, 0], np.array([2, 0]), [True, False, True], slice(0, 2)])
def test_take_and_columns(rows):
    numbers = {"a": [1.0, 2.0, 3.0], "b": [4.0, 5.0, 6.0]}
    for data in (numbers, {**numbers, "c": ["x", "y", "z"]}):
        table = read_table(data)
        taken = table.take(rows)
        assert taken.names == table.names
        np.testing.assert_array_equal(taken.columns[1].values, table.columns[1].values[rows])


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.zeros(3), "Expected 2D array, got 1D"),
        (np.zeros((0, 2)), "0 sample"),
        (np.zeros((2, 0)), "0 feature"),
        ({}, "0 feature"),
        ({"a": []}, "0 sample"),
        (np.zeros((2, 2), dtype=complex), "Complex data not supported"),
        (np.array([[1.0, 2.0], [1.0, np.inf]]), "column 1 holds infinite values"),
        (np.array([[1.0, -2e305]]), r"column 1 holds values beyond ±1e\+300"),
        ({"a": [1.0], "b": [-np.inf]}, "column 'b' holds infinite values"),
        ({"a": [1e301, 1.0]}, "column 'a' holds values beyond"),
        ({"a": [10**400, 1]}, "column 'a' holds infinite values"),
        ({"a": [1, 2], "b": [1]}, r"different lengths: \[1, 2\]"),
        ({"a": "text"}, "column 'a' must be a list"),
        ({"a": 3}, "column 'a' must be a list"),
        ({"a": [[1, 2], [3]]}, "column 'a' holds values of type list"),
        ({1: [1], "1": [2]}, "several columns with the same name: '1'"),
        ([[1, 2], [3]], "rows of X have no common length"),
    ],
)
def test_what_is_no_table(X, message):
    with pytest.raises(ValueError, match=message):
        read_table(X)


def test_sparse_matrices_are_refused():
    with pytest.raises(TypeError, match="toarray"):
        read_table(sparse.csr_matrix(np.eye(3)))


def test_missing_values_are_not_infinite():
    assert np.isnan(read_table(np.array([[np.nan]])).matrix[0, 0])
