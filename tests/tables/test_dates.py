"""Cycles of dates, where the training rows show them."""

import numpy as np
import pytest

from bandfall.tables import TableEncoder
from bandfall.tables._numbers import Cycles
from onnx_graphs import run_form


def seconds(start, n, step):
    moments = np.datetime64(start, "s") + np.arange(n) * np.timedelta64(step, "s")
    return moments.astype(np.float64)


HOUR, DAY = 3600, 86400


@pytest.mark.parametrize(
    ("values", "periods"),
    [
        (seconds("2024-01-01", 20, HOUR), ()),
        (seconds("2024-01-01", 72, HOUR), ("day",)),
        (seconds("2024-01-01", 20, DAY), ("week",)),
        (seconds("2023-01-01", 365, DAY), ("week", "year")),
        (seconds("2024-01-01", 2000, 7 * HOUR), ("day", "week", "year")),
        (seconds("2024-01-01", 60, 7 * DAY), ("year",)),  # one weekday only
        (seconds("2024-01-01", 1, DAY), ()),
        (np.empty(0), ()),
    ],
)
def test_periods_that_rows_show(values, periods):
    assert Cycles.learn(0, values).periods == periods


def test_phases():
    cycles = Cycles(0, ("day", "week", "year"))
    monday = seconds("2024-01-01T06:00", 1, 1)
    np.testing.assert_allclose(
        cycles.transform(monday), [[1, 0, 0, 1, *_point(0.25 / 366)]], atol=1e-12
    )
    same = [seconds(start, 1, 1) for start in ("2023-07-03T06:00", "2023-07-10T06:00")]
    np.testing.assert_allclose(*(cycles.transform(s)[:, :4] for s in same), atol=1e-9)
    assert np.abs(np.diff(cycles.transform(seconds("2023-12-31T23:00", 2, 2 * HOUR))[:, 4:])).max()
    turn = cycles.transform(seconds("2023-12-31T23:59:59", 2, 2))
    np.testing.assert_allclose(turn[0, [0, 1, 4, 5]], turn[1, [0, 1, 4, 5]], atol=1e-3)


def _point(phase):
    return np.sin(2 * np.pi * phase), np.cos(2 * np.pi * phase)


def test_slopes_are_derivatives():
    cycles = Cycles(0, ("day", "week", "year"))
    at = seconds("2023-03-01T05:00", 9, 11 * HOUR)
    step = 10.0
    expected = (cycles.transform(at + step) - cycles.transform(at - step)) / (2 * step)
    np.testing.assert_allclose(cycles.jacobian(at), expected, rtol=1e-4, atol=1e-12)


def test_any_date_has_phases():
    cycles = Cycles(0, ("day", "week", "year"))
    assert np.isfinite(cycles.transform(np.array([-1e300, -1e12, 0.0, 1e12, 1e300]))).all()


def test_a_date_is_a_number_with_cycles():
    days = np.datetime64("2020-01-01") + np.arange(0, 1000, 7).astype("timedelta64[D]")
    encoder = TableEncoder()
    Z = encoder.fit_transform({"day": list(days), "x": np.arange(len(days)) % 5})
    assert encoder.names_out == ["day", "x", "day_year_sin", "day_year_cos"]
    assert encoder.sources.tolist() == [0, 1, 0, 0]
    np.testing.assert_allclose(Z[:, 0], (np.arange(143) - 71) / np.arange(143).std(), rtol=1e-9)
    assert encoder.describe()[0] == "day: datetime → 3 columns (year)"
    assert np.isfinite(encoder.jacobian({"day": days[:3], "x": [1, 2, 3]})).all()


def test_years_are_those_of_the_calendar():
    """The calendar in whole numbers against NumPy's, from the first year to the last."""
    days = np.arange(-719_162, 2_932_897, 13)
    moments = days * 86400.0 + np.random.default_rng(0).random(len(days)) * 86399
    years = moments.astype("datetime64[s]").astype("datetime64[Y]")
    start, end = (
        bound.astype("datetime64[s]").astype(float) for bound in (years, years + np.timedelta64(1))
    )
    angle = 2 * np.pi * (moments - start) / (end - start)
    expected = np.column_stack([np.sin(angle), np.cos(angle)])
    np.testing.assert_allclose(Cycles(0, ("year",)).transform(moments), expected, atol=1e-9)


@pytest.mark.parametrize("day", ["2023-12-31T23:59:59", "2024-01-01", "2024-02-29", "1900-03-01"])
def test_the_onnx_form_gives_the_same_numbers(day):
    pytest.importorskip("onnxruntime")
    cycles, moments = Cycles(0, ("day", "week", "year")), seconds(day, 50, 100_003)
    found = run_form(cycles.onnx, moments[:, None])
    np.testing.assert_allclose(found, cycles.transform(moments), atol=1e-12)
