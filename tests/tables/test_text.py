"""Numbers and dates that come as text."""

import datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from bandfall.tables._text import (
    is_ambiguous_date,
    is_number,
    plain_numbers,
    read,
    slips,
    style_of,
    usual_style,
)


@pytest.mark.parametrize(
    ("levels", "style", "values"),
    [
        (["31,7", "2"], "comma", [31.7, 2.0]),
        (["1 234", "12\u202f345,5"], "comma", [1234.0, 12345.5]),
        (["1 234", "12\u00a0345.5"], "point", [1234.0, 12345.5]),
        (["1.234,5", "1.234.567"], "comma", [1234.5, 1234567.0]),
        (["1,234.5", "999"], "point", [1234.5, 999.0]),
        (["1'234"], "point", [1234.0]),
        (["12 %", "3.5%"], "point", [12.0, 3.5]),
        ([" 1e3 ", "-2.5E-1", "+.5", "3."], "point", [1000.0, -0.25, 0.5, 3.0]),
        (["−4", "0"], "point", [-4.0, 0.0]),
        (["0,123", "1,234"], "comma", [0.123, 1.234]),
        (["1", "n/a", "?", "NaN"], "point", [1.0, np.nan, np.nan, np.nan]),
        (["1", "#DIV/0!", "#N/A", "#VALUE!"], "point", [1.0, np.nan, np.nan, np.nan]),
        (["$1,000.50", "-$3", "$ 7", "$-8"], "point", [1000.5, -3.0, 7.0, -8.0]),
        (["1.000,50 €", "−3€"], "comma", [1000.5, -3.0]),
    ],
)
def test_numbers(levels, style, values):
    assert style_of("number", levels) == style
    np.testing.assert_array_equal(read(levels, style), values)


@pytest.mark.parametrize(
    "levels",
    [
        *(
            [],
            ["?"],
            ["a", "1"],
            ["01234", "10115"],
            ["1,2,3"],
            ["1 23"],
            ["12 %", "13"],
            ["1e999"],
        ),
        *(["$5", "7"], ["$5", "€7"], ["$5", "7 %"], ["$"], ["$5€"], ["$%"]),
        *(["1_000"], ["0x10"], ["inf"], ["1.2.3"], ["12:30"], ["٣"], ["1,5", "1.5"]),
    ],
)
def test_no_numbers(levels):
    assert style_of("number", levels) is None


@pytest.mark.parametrize(
    ("levels", "wrong"),
    [
        (["total"], ["total"]),
        (["total", "n/a"], ["total"]),
        (["01"], []),
        (["a", "b", "c", "d"], []),
        ([], []),
    ],
)
def test_a_few_slips_of_the_pen_are_found(levels, wrong):
    assert slips([*map(str, range(30)), *levels]) == wrong


def test_a_level_that_is_no_number_is_named():
    with pytest.raises(ValueError, match="'many' is not a number"):
        read(["1", "many"], "point")


@given(values=st.lists(st.floats(-1e9, 1e9), min_size=1))
def test_what_python_writes_is_read(values):
    levels = [repr(value) for value in values]
    assert style_of("number", levels) == "point"
    assert read(levels, "point").tolist() == values
    commas = [text.replace(".", ",") for text in levels]
    assert read(commas, "comma").tolist() == values


MOMENT = datetime.datetime(2024, 3, 31, 14, 5, 9)
SECONDS = (MOMENT - datetime.datetime(1970, 1, 1)).total_seconds()


@pytest.mark.parametrize(
    ("text", "style"),
    [
        ("2024-03-31T14:05:09", "iso"),
        ("2024-03-31 14:05:09.000", "iso"),
        ("2024-03-31T14:05:09Z", "iso"),
        ("2024-03-31 14:05:09+02:00", "iso"),
        ("2024/3/31 14:05:09", "iso"),
        ("31.3.2024 14:05:09", "day first"),
        ("31/03/2024 2:05:09 PM", "day first"),
        ("31-03-2024 14:05:09", "day first"),
        ("03/31/2024 14:05:09", "month first"),
        ("3/31/2024 02:05:09 pm", "month first"),
    ],
)
def test_dates(text, style):
    assert style_of("datetime", [text]) == style
    assert read([text], style).tolist() == [SECONDS]


def test_fractions_of_seconds():
    assert read(["1970-01-01 00:00:01.25"], "iso").tolist() == [1.25]


@pytest.mark.parametrize(
    "levels",
    [
        *([], ["2024"], ["2024-13-01"], ["2024-02-30"], ["2024-03-31", "soon"], ["2024-03/31"]),
        *(["31/03/2024", "03/31/2024"], ["31/03/24"], ["2024-01-01 25:00"], ["1/13/2024 13:00 PM"]),
    ],
)
def test_no_dates(levels):
    assert style_of("datetime", levels) is None
    assert not is_ambiguous_date(levels)


def test_day_and_month_in_doubt():
    assert style_of("datetime", ["1/2/2024", "3/4/2024"]) is None
    assert is_ambiguous_date(["1/2/2024", "3/4/2024"])
    assert style_of("datetime", ["1/2/2024", "13/4/2024"]) == "day first"
    assert style_of("datetime", ["1/2/2024", "4/13/2024"]) == "month first"
    assert style_of("datetime", ["1.2.2024", "3.4.2024"]) == "day first"
    assert not is_ambiguous_date(["1.2.2024", "3.4.2024"])


def test_clocks():
    assert style_of("duration", ["7:30", "23:59:59"])
    assert read(["7:30", " 23:59:59"], "clock").tolist() == [27000.0, 86399.0]
    days = ["2 days", "1 day, 2:00:00", "0 days 01:00:00.500000", "-1 days +23:00:00", "100:00"]
    assert style_of("duration", days)
    assert read(days, "clock").tolist() == [172800.0, 93600.0, 3600.5, -3600.0, 360000.0]
    assert not style_of("duration", ["7:30", "7:60"])
    assert not any(
        style_of("duration", [text]) for text in ("days", "1 days 3:7", "3", "1 days 2", "1 days x")
    )
    with pytest.raises(ValueError, match=r"'late' is not a time \(12:30\)"):
        read(["late"], "clock")


def test_a_level_that_is_no_date_is_named():
    with pytest.raises(ValueError, match=r"'soon' is not a date \(iso\)"):
        read(["soon"], "iso")


def test_a_number_in_both_styles():
    assert [is_number("1.234", style) for style in ("point", "comma")] == [True, True]
    assert not is_number("1.234,5", "point")
    assert style_of("number", ["41.435", "950"]) == "point"
    with usual_style("comma"):
        assert style_of("number", ["41.435", "950"]) == "comma"
        assert style_of("number", ["1.5"]) == "point"


def test_plain_numbers_need_no_interpretation():
    assert_array_equal(
        plain_numbers(["1.5", "007", "n/a", "inf"], "point"), [1.5, 7, np.nan, np.inf]
    )
    assert_array_equal(plain_numbers(["1,5", "-2"], "comma"), [1.5, -2])
    for levels in (["1_000"], ["１"], ["3 kg"], ["1,5"], ["n/a", "NaN"]):
        assert plain_numbers(levels, "point") is None
