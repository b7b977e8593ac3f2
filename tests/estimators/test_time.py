"""Rows in the order of time: the latest are held out."""

import numpy as np
import pandas as pd
import pytest

from bandfall import BandfallClassifier, BandfallRegressor

FAST = {"kernels": ("gaussian",), "max_rounds": 0, "n_members": 1}


def drifting(n):
    """A target that follows a random walk: random folds know the days around a held-out day."""
    random = np.random.default_rng(0)
    X = pd.DataFrame({"day": np.arange(n, dtype=float), "x": random.standard_normal(n)})
    y = np.cumsum(random.standard_normal(n)) + 2.0 * X["x"].to_numpy()
    order = random.permutation(n)
    return X.iloc[order].reset_index(drop=True), y[order]


@pytest.mark.parametrize("leaf_rows", [10_000, 100])
def test_the_latest_rows_are_held_out(leaf_rows):
    X, y = drifting(400)
    model = BandfallRegressor(**FAST, leaf_rows=leaf_rows).fit(X, y, time="day")
    days = X["day"].to_numpy()[model.held_out_rows_]
    assert days.min() > np.delete(X["day"].to_numpy(), model.held_out_rows_).max()
    assert len(days) >= 50


def test_scores_and_intervals_are_those_of_later_rows():
    X, y = drifting(300)
    ordered, mixed = (BandfallRegressor(**FAST).fit(X, y, time=t) for t in ("day", None))
    assert mixed.best_score_ > 0.8
    assert ordered.best_score_ < 0.5
    wide, narrow = (np.ptp(m.predict_interval(X), axis=1).mean() for m in (ordered, mixed))
    assert wide > 2 * narrow


def test_times_are_a_column_numbers_or_dates_and_rows_of_one_time_stay_together():
    X, y = drifting(200)
    weeks = X["day"].to_numpy() // 7
    dates = pd.Timestamp("2020-01-01") + pd.to_timedelta(7 * weeks, unit="D")
    held_out = [
        BandfallRegressor(**FAST).fit(X.to_numpy(), y, time=time).held_out_rows_
        for time in (weeks, dates.to_numpy(), [str(d.date()) for d in dates])
    ]
    for rows in held_out:
        assert set(rows) == set(held_out[0])
        assert not set(weeks[rows]) & set(np.delete(weeks, rows))


def test_weights_of_zero_leave_the_order_of_time():
    X, y = drifting(200)
    weights = (np.arange(200) % 3 > 0).astype(float)
    model = BandfallClassifier(**FAST).fit(X, y > 0, sample_weight=weights, time="day")
    used = np.flatnonzero(weights)
    days = X["day"].to_numpy()
    rest = np.setdiff1d(used, model.held_out_rows_)
    assert days[model.held_out_rows_].min() > days[rest].max()


@pytest.mark.parametrize(
    ("time", "message"),
    [
        ("week", "'week' is not a column"),
        (np.zeros(40), "at least two groups or times"),
        (np.full(40, np.nan), "for each row"),
        (["a", "b"] * 20, "a number or a date"),
        (np.arange(39), "inconsistent numbers of samples"),
    ],
)
def test_bad_times(time, message):
    with pytest.raises(ValueError, match=message):
        BandfallRegressor(**FAST).fit(*drifting(40), time=time)


def test_groups_and_time_exclude_each_other():
    with pytest.raises(ValueError, match="not both"):
        BandfallRegressor(**FAST).fit(*drifting(40), groups=np.arange(40) % 5, time="day")
