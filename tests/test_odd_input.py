"""Rows and targets from Python as strangers have them: sane, or an error that says what to do."""

import datetime
import warnings

import numpy as np
import pandas as pd
import pytest

from bandfall import BandfallClassifier, BandfallRegressor, KernelDescentRegressor
from bandfall.encoding import TableEncoder, read_table

N = 60
A = np.random.default_rng(0).normal(size=N)
Y = np.sin(A)
QUICK = {"kernels": ("gaussian",), "max_rounds": 0}
DAYS = pd.date_range("2024-01-01", periods=N)


@pytest.mark.parametrize("target", [DAYS, DAYS.to_numpy(), DAYS - DAYS[0]])
@pytest.mark.parametrize("rows", [A[:, None], pd.DataFrame({"a": A})])
def test_a_target_of_dates_or_durations_is_refused(rows, target):
    """It was predicted in whatever unit its library counts."""
    with pytest.raises(ValueError, match="y holds dates or durations"):
        BandfallRegressor(**QUICK).fit(rows, target)


@pytest.mark.parametrize(
    "labels",
    [
        ["u", None] * 30,
        [1.0, np.nan] * 30,
        pd.Series([1, pd.NA] * 30, dtype="Int64"),
        pd.Series([True, pd.NA] * 30, dtype="boolean"),
        pd.Categorical(["u", None] * 30),
    ],
    ids=["objects", "floats", "integers", "truth values", "categories"],
)
@pytest.mark.parametrize("rows", [A[:, None], pd.DataFrame({"a": A})])
def test_a_row_without_a_class_is_named(rows, labels):
    with pytest.raises(ValueError, match="contains NaN"):
        BandfallClassifier(**QUICK).fit(rows, labels)
    with pytest.raises(ValueError, match="row 1 has no class; leave out such rows"):
        BandfallClassifier(**QUICK).fit(pd.DataFrame({"a": A}), labels)


def test_what_a_mask_hides_is_missing():
    hidden = np.ma.array(np.column_stack([A, A**2]), mask=np.column_stack([A > 1, A < -1]))
    plain = hidden.filled(np.nan)
    model = BandfallRegressor(**QUICK).fit(hidden, Y)
    expected = BandfallRegressor(**QUICK).fit(plain, Y)
    np.testing.assert_array_equal(model.predict(hidden), expected.predict(plain))
    with pytest.raises(ValueError, match="NaN"):
        KernelDescentRegressor().fit(hidden, Y)
    integers = np.ma.array(np.arange(N), mask=np.arange(N) > 50)
    with pytest.raises(ValueError, match="Input y contains NaN"):
        BandfallRegressor(**QUICK).fit(plain, integers)
    shown = np.ma.array(A[:, None], mask=False)
    assert BandfallRegressor(**QUICK).fit(shown, Y).score(shown, Y) > 0.9


@pytest.mark.parametrize(
    "rows", [[{"a": 1.0}] * 9, np.array([(1.0, 2)] * 9, dtype=[("a", "f8"), ("b", "i8")])]
)
def test_records_are_refused_with_a_remedy(rows):
    with pytest.raises(TypeError, match=r"use pandas\.DataFrame\(X\)"):
        BandfallRegressor(**QUICK).fit(rows, np.arange(9.0))


@pytest.mark.parametrize("value", [1 + 2j, np.complex128(1j), b"x", [1], {"u": 1}])
def test_values_that_no_column_may_hold(value):
    values = np.empty(2, dtype=object)
    values[:] = [value, value]
    with pytest.raises(ValueError, match=r"column 'c' holds .* convert it, or leave it out"):
        read_table({"c": values})


def test_complex_columns_of_frames_are_no_ids():
    with pytest.raises(ValueError, match="column 'c' holds values of type complex"):
        read_table(pd.DataFrame({"a": A, "c": A + 1j}))


def test_periods_are_dates():
    months = pd.period_range("2020-01", periods=N, freq="M")
    (column,) = read_table(pd.DataFrame({"month": months})).columns
    assert column.kind == "datetime"
    first = datetime.datetime(2020, 2, 1) - datetime.datetime(1970, 1, 1)
    assert column.values[1] == first.total_seconds()


class TestNumbersWithSlips:
    """One word makes text of a column of numbers: it is neither an id nor quietly a category."""

    def warning(self, values):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            TableEncoder().fit_transform(pd.DataFrame({"a": A, "c": values}))
        return [str(one.message) for one in caught]

    def test_all_different(self):
        (message,) = self.warning([*map(str, A[1:]), "total"])
        assert message == (
            "columns are left out: column 'c' (numbers but for 'total'; correct or empty these)"
        )

    def test_with_repeats(self):
        ages = [str(20 + i % 30) for i in range(N - 1)]
        (message,) = self.warning([*ages, "unknown"])
        assert message == (
            "columns are taken as categories: column 'c' (numbers but for 'unknown'; correct or "
            "empty these)"
        )
        assert self.warning(pd.Categorical([*ages, "unknown"])) == []

    def test_texts_stay_what_they_are(self):
        assert self.warning([f"level {i % 9}" for i in range(N)]) == []
        (message,) = self.warning([f"id-{i}" for i in range(N)])
        assert "as those of an id" in message
