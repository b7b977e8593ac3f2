"""Rows and targets from Python as strangers have them: sane, or an error that says what to do."""

import warnings
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest

from bandfall import BandfallClassifier, BandfallRegressor, KernelDescentRegressor
from bandfall.tables import TableEncoder, prepare_table, read_table

N = 60
A = np.random.default_rng(0).normal(size=N)
Y = np.sin(A)
QUICK = {"kernels": ("gaussian",), "max_rounds": 0}
DAYS = pd.date_range("2024-01-01", periods=N)


@pytest.mark.parametrize("target", [DAYS, DAYS.to_numpy(), DAYS - DAYS[0]])
@pytest.mark.parametrize("rows", [A[:, None], pd.DataFrame({"a": A})])
def test_a_target_of_dates_or_durations_is_refused(rows, target):
    """It was predicted in whatever unit its library counts."""
    with pytest.raises(ValueError, match="y must hold numbers"):
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
def test_a_row_without_a_class_is_refused(rows, labels):
    with pytest.raises(ValueError, match="Input y contains NaN"):
        BandfallClassifier(**QUICK).fit(rows, labels)


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


@pytest.mark.parametrize("value", [1 + 2j, np.complex128(1j), b"x", [1], {"u": 1}])
def test_values_that_no_column_may_hold(value):
    values = np.empty(2, dtype=object)
    values[:] = [value, value]
    with pytest.raises(ValueError, match=r"column 'c' holds .* convert the column, or drop it"):
        read_table({"c": values})


def test_complex_columns_of_frames_are_no_ids():
    with pytest.raises(ValueError, match="column 'c' holds values of type complex"):
        read_table(pd.DataFrame({"a": A, "c": A + 1j}))


class TestNumbersWithWords:
    """A few words in a column of numbers are missing values; one word does not make text of it."""

    def warning(self, values, **options):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            table = prepare_table(read_table(pd.DataFrame({"a": A, "c": values})), **options)
        self.column = table.columns[1]
        return [str(one.message) for one in caught]

    @pytest.mark.parametrize("word", ["k.A.", "n/a", "unknown", "-", "?", "on request"])
    def test_a_word_in_a_few_cells_is_missing_and_named(self, word):
        prices = [f"{i % 40},5" for i in range(N)]
        prices[3:9] = [word] * 6
        (message,) = self.warning(prices)
        assert message.startswith("Column 'c': text read as numbers (decimal comma)")
        assert (f"missing: {word!r} (6×)" in message) == (word != "n/a")
        assert np.flatnonzero(np.isnan(self.column.values)).tolist() == [3, 4, 5, 6, 7, 8]

    def test_a_single_word_among_different_numbers(self):
        (message,) = self.warning([*map(str, A[1:]), "total"])
        assert message == "Column 'c': text read as numbers (decimal point), missing: 'total' (1×)"

    def test_dates_and_times_too(self):
        days = [f"2024-{i % 12 + 1:02d}-{i % 28 + 1:02d}" for i in range(N)]
        (message,) = self.warning([*days[1:], "never"])
        assert message == "Column 'c': text read as dates (year first), missing: 'never' (1×)"

    def test_points_group_thousands_if_another_column_has_decimal_commas(self):
        distances = [f"{i // 20 + 1}.{i % 20:03d}" if i % 4 else "950" for i in range(N)]
        (message,) = self.warning(distances)
        assert message.endswith("numbers (decimal point)")
        table = pd.DataFrame({"a": [f"{i},5" for i in range(N)], "c": distances})
        with pytest.warns(UserWarning, match=r"'c': .* \(decimal comma\)"):
            prepared = prepare_table(read_table(table))
        np.testing.assert_array_equal(prepared.columns[1].values[:3], [950.0, 1001.0, 1002.0])
        table["d"] = "1.5"  # which is no thousand
        table.loc[0, "d"] = "2.5"
        with pytest.warns(UserWarning, match=r"'c': .* \(decimal point\)"):
            prepare_table(read_table(table))

    def test_few_numbers_are_levels(self):
        assert self.warning([*map(str, np.arange(N - 1) % 9), "other"]) == []
        assert self.column.kind == "category"

    def test_many_words_are_levels(self):
        """More than a quarter of the cells, or more than five words."""
        self.warning([*map(str, np.arange(N // 2)), *["closed"] * (N // 2)])
        assert self.column.kind == "category"
        self.warning([*map(str, np.arange(N - 6)), *"abcdef"])
        assert self.column.kind == "category"

    def test_what_has_digits_is_a_slip_of_the_pen_and_named(self):
        ages = [str(20 + i % 30) for i in range(N - 1)]
        (message,) = self.warning([*ages, "4o"])
        assert message == (
            "columns are taken as categories: column 'c' (numbers except for '4o'; correct "
            "these cells or leave them empty)"
        )
        assert self.warning(pd.Categorical([*ages, "4o"])) == []

    def test_words_that_are_given_are_missing_everywhere(self):
        ages = [str(20 + i % 30) for i in range(N - 1)]
        (message,) = self.warning([*ages, "4o"], missing=["4o"])
        assert message == "Column 'c': text read as numbers (decimal point), missing: '4o' (1×)"
        words = ["a", "b", "none of these"] * (N // 3)
        assert self.warning(words, missing=["none of these"]) == []
        assert self.column.missing.sum() == N // 3

    def test_new_rows_are_read_in_the_same_way(self):
        encoder = TableEncoder()
        prices = [f"{i},5" for i in range(N - 1)]
        encoder.fit_transform(pd.DataFrame({"a": A, "c": [*prices, "on request"]}), warn=False)
        new = pd.DataFrame({"a": A[:3], "c": ["on request", "n/a", None]})
        Z = encoder.transform(new, warn=False)
        np.testing.assert_array_equal(Z[0, 1:], Z[1, 1:])
        np.testing.assert_array_equal(Z[0, 1:], Z[2, 1:])
        with pytest.raises(ValueError, match="column 'c' was a number in training; 'soon' is no"):
            encoder.transform(pd.DataFrame({"a": A[:1], "c": ["soon"]}))

    def test_texts_stay_what_they_are(self):
        assert self.warning([f"level {i % 9}" for i in range(N)]) == []
        (message,) = self.warning([f"id-{i}" for i in range(N)])
        assert "as in an id" in message


class TestRowsWithText:
    """Lists of rows and arrays of objects are tables without names."""

    rows: ClassVar = [
        [float(a), "high" if a > 0 else "low", f"{i % 37},5"] for i, a in enumerate(A)
    ]

    @pytest.mark.filterwarnings("ignore:Column .*text read as")
    @pytest.mark.parametrize("form", [list, lambda rows: np.array(rows, dtype=object), np.array])
    def test_they_give_the_model_of_a_frame(self, form):
        frame = pd.DataFrame(self.rows, columns=list("abc"))
        expected = BandfallRegressor(**QUICK).fit(frame, Y).predict(frame)
        model = BandfallRegressor(**QUICK).fit(form(self.rows), Y)
        np.testing.assert_allclose(model.predict(form(self.rows)), expected)
        assert model.n_features_in_ == 3
        assert not hasattr(model, "feature_names_in_")
        with pytest.raises(ValueError, match="2 features"):
            model.predict([row[:2] for row in self.rows])

    def test_classes_too(self):
        rows = [row[:2] for row in self.rows]
        model = BandfallClassifier(**QUICK).fit(rows, A > 0.5)
        assert model.predict(rows[:3]).shape == (3,)

    def test_rows_of_different_lengths_are_refused(self):
        with pytest.raises(ValueError, match="rows of X have no common length"):
            BandfallRegressor(**QUICK).fit([self.rows[0], self.rows[1][:2]], Y[:2])

    def test_numbers_as_objects_are_numbers(self):
        X = np.column_stack([A, A**2])
        expected = BandfallRegressor(**QUICK).fit(X, Y).predict(X)
        found = BandfallRegressor(**QUICK).fit(X.astype(object), Y).predict(X.astype(object))
        np.testing.assert_array_equal(found, expected)


def test_repeated_names_are_named():
    frame = pd.DataFrame(np.eye(5), columns=["a", "b", "a", "c", "a"])
    with pytest.raises(ValueError, match="'a'"):
        BandfallRegressor(**QUICK).fit(frame, Y[:5])


def test_a_second_fit_forgets_the_names_of_the_first():
    rows = np.column_stack([A, A**2])
    model = BandfallRegressor(**QUICK).fit(pd.DataFrame({"a": A}), Y).fit(rows, Y)
    assert not hasattr(model, "feature_names_in_")
    assert model.predict(rows).shape == (N,)


def test_words_for_missing_values_can_be_given():
    sizes = [str(i % 4) for i in range(N)]
    sizes[5:9] = ["not measured"] * 4
    model = BandfallRegressor(**QUICK, missing="not measured")
    with pytest.warns(
        UserWarning, match=r"numbers \(decimal point\), missing: 'not measured' \(4×\)"
    ):
        model.fit(pd.DataFrame({"a": A, "size": sizes}), Y)
    new = pd.DataFrame({"a": A[:2], "size": ["not measured", None]})
    new["a"] = A[0]
    assert np.ptp(model.predict(new)) == 0
    with pytest.raises(TypeError, match=r"missing=\[-999\] must hold words"):
        BandfallRegressor(**QUICK, missing=[-999]).fit(A[:, None], Y)
