"""Charts: axes with round ticks for anything, names that do not touch, tooltips, films."""

import re

import numpy as np
import pandas as pd
import pytest

from bandfall._drawing.chart import Axis, Bar, Chart, number, ranking


@pytest.mark.parametrize("ends", [(0.93, 0.97), (5.4, 6.6), (0.003, 0.004), (1e-9, 1e9), (3, 40)])
def test_log_axes_have_ticks_whatever_they_span(ends):
    axis = Axis("x", *ends, log=True)
    assert 2 <= len(axis.ticks()) <= 8
    assert all(ends[0] <= tick <= ends[1] for tick in axis.ticks())


def test_long_ticks_get_room_and_close_ones_are_left_out():
    wide = Chart(Axis("x", 0, 1), Axis("y", 1e6, 9e6), "t")
    assert wide.left > Chart(Axis("x", 0, 1), Axis("y", 0, 1), "t").left + 30
    names = tuple(f"a long category {i}" for i in range(9))
    crowded = Chart(Axis("x", -0.5, 8.5, names=names), Axis("y", 0, 1), "t", width=400)
    assert crowded.svg().count(">a long") < 5
    assert 'data-tip="a long category 0">a long catego…<' in crowded.svg()


def test_names_that_do_not_fit_in_one_line_get_a_second():
    names = ("Mitte", "Neukölln", "Pankow", "Spandau", "Wedding")
    chart = Chart(Axis("", -0.5, 4.5, names=names), Axis("y", 0, 4e5), "t", width=400)
    assert all(f">{name}<" in chart.svg() for name in names)


@pytest.mark.parametrize("values", [[0.0], [1e-12, 1e12], [-5.0, -5.0], [np.nan, 1.0], []])
@pytest.mark.parametrize("log", [False, True])
def test_axes_hold_anything(values, log):
    axis = Axis.around("x", values, log=log)
    assert axis.low < axis.high
    assert all(axis.low <= tick <= axis.high for tick in axis.ticks())


@pytest.mark.parametrize(
    ("ends", "name"),
    [
        (("1890-05-01", "2020-01-01"), "1900"),
        (("2019-11-20", "2020-09-01"), "Jan 2020"),
        (("2020-01-01", "2020-01-12"), "2 Jan"),
        (("2020-01-01T01:00", "2020-01-01T19:00"), "1 Jan 06:00"),
    ],
)
def test_ticks_of_dates_are_round(ends, name):
    low, high = (float(pd.Timestamp(end).timestamp()) for end in ends)
    axis = Axis("when", low, high, dates=True)
    assert 2 <= len(axis.ticks()) <= 6
    assert all(low <= tick <= high for tick in axis.ticks())
    assert name in [axis.tick_name(tick) for tick in axis.ticks()]


@pytest.mark.parametrize("values", [[3.0, 9.0], [-3.0, -9.0], [-3.0, 9.0], [0.0, 0.0]])
def test_bars_stand_on_zero(values):
    axis = Axis.around("y", values, [0.0])
    assert axis.low <= 0.0 <= axis.high
    chart = Chart(Axis("x", -0.5, 1.5, names=("a", "b")), axis, "t")
    chart.bars([-0.5, 0.5, 1.5][: len(values) + 1], values, ["a"] * len(values))
    assert f" {chart.py(0.0):.1f}L" in chart.svg()


def test_ticks_of_an_axis_have_one_notation():
    axis = Axis("x", 0.0, 1.3e7)
    assert [axis.tick_name(tick) for tick in axis.ticks()] == ["0", "5 × 10⁶", "1 × 10⁷"]
    axis = Axis("y", 0.0, 15_000.0)
    assert [axis.tick_name(tick) for tick in axis.ticks()] == ["0", "5,000", "10,000", "15,000"]
    axis = Axis("y", 0.0, 5000.0)
    assert axis.tick_name(axis.ticks()[-1]) == "5000"


def test_years_need_no_month():
    start, end = (pd.Timestamp(day).timestamp() for day in ("2020-01-01", "2023-10-24"))
    axis = Axis("joined", start, end, dates=True)
    names = [axis.tick_name(tick) for tick in axis.ticks()]
    assert names == ["2020", "2021", "2022", "2023"]


def test_reversed_axis():
    chart = Chart(Axis("x", 10.0, 1.0, log=True), Axis("y", 0.0, 1.0), "t")
    assert chart.px(10.0) < chart.px(1.0)
    assert "<svg" in chart.svg()


@pytest.mark.parametrize(
    ("value", "text"), [(0.5, "0.5"), (100.0, "100"), (12345.6, "12,346"), (-0.25, "−0.25")]
)
def test_numbers(value, text):
    assert number(value) == text


def test_points_have_tooltips_in_words():
    start = pd.Timestamp("2024-03-01").timestamp()
    when = Axis("sold", start, start + 1e6, dates=True)
    chart = Chart(when, Axis("price", 0.0, 9.0), "t")
    chart.dots([start, start + 3600], [1.5, 2.0], "a", names=["row 7", "row 8"])
    tips = re.findall(r'data-tip="([^"]*)"', chart.svg())
    assert tips == ["row 7\nsold 2024-03-01\nprice 1.5", "row 8\nsold 2024-03-01 01:00\nprice 2"]
    zero = Axis.around("bandwidth", [0.1, 5.0], log=True, zero=0.1)
    assert [zero.words(0.1), zero.words(5.0)] == ["bandwidth 0", "bandwidth 5"]


@pytest.mark.parametrize("draw", ["path", "band"])
def test_a_film_ends_with_what_is_drawn(draw):
    values = np.linspace(0.0, 1.0, 4)[:, None] * np.array([1.0, 2.0, 3.0])
    chart = Chart(Axis("x", 0.0, 2.0), Axis("y", 0.0, 6.0), "t")
    last = [2 * values] if draw == "band" else ["line a"]
    svg = getattr(chart, draw)([0, 1, 2], values, *last, name="f").svg()
    assert len(set(chart.films["f"])) == len(chart.films["f"]) == 4
    assert f'd="{chart.films["f"][-1]}" data-film="f"' in svg


def test_a_gap_begins_a_new_line():
    chart = Chart(Axis("x", 0.0, 2.0), Axis("y", 0.0, 6.0), "t")
    svg = chart.line([0.0, 1.0, np.nan, 1.0, 2.0, np.nan], [1.0] * 6, "a").svg()
    (drawn,) = re.findall(r'<path class="line a" d="([^"]*)"', svg)
    assert re.fullmatch(r"M[\d. ]+L[\d. ]+M[\d. ]+L[\d. ]+", drawn)


def test_bars_begin_at_zero_and_keep_their_labels():
    bars = [Bar("gain", 2.0, "2.0", 0.5), Bar("<loss>", -1.0, "−1.0", 0.1)]
    html = ranking(bars, "change")
    drawn = re.findall(r'class="bar [^"]*" style="left: ([\d.]+)%; width: ([\d.]+)%"', html)
    (left, _), (start, width) = ([float(part) for part in one] for one in drawn)
    assert left == pytest.approx(start + width, abs=0.2)
    assert 'data-tip="gain\nchange 2.0 ± 0.5000"' in html
    assert "<span>&lt;loss&gt;</span>" in html
    assert html.count('class="error"') == 2
