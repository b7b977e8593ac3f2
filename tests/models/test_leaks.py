"""Features that predict the target alone are named."""

import warnings

import numpy as np
import pandas as pd
import pytest

from bandfall import BandfallClassifier, BandfallRegressor, load_model
from bandfall._models.leaks import leaks
from bandfall.tables import prepare_table, read_table

FAST = {"kernels": ("gaussian",), "max_rounds": 0, "n_members": 1}


def table(n=200):
    random = np.random.default_rng(0)
    X = pd.DataFrame(random.standard_normal((n, 3)), columns=["a", "b", "c"])
    return X, X["a"].to_numpy() + random.standard_normal(n)


def named(X, y, **settings):
    codes = np.reshape((y - y.mean(axis=0)) / y.std(axis=0), (len(y), -1))
    prepared = prepare_table(read_table(X), warn=False)
    return list(leaks(prepared, codes, np.arange(len(y)), **settings))


def test_copies_ids_levels_and_dates_that_predict_alone():
    X, y = table()
    order = np.argsort(np.argsort(y))
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(order, unit="D")
    X = X.assign(copy=-np.exp(y), id=order, day=days, level=pd.Categorical([f"{v:.1f}" for v in y]))
    assert named(X, y) == ["copy", "id", "day"]
    rounded = np.round(y)
    assert named(X.assign(level=pd.Categorical(rounded.astype(str))), rounded) == ["level"]


def test_good_features_and_short_tables_are_not_named():
    X, y = table()
    assert named(X, y) == []
    noisy = X.assign(near=y + 0.15 * y.std() * np.random.default_rng(1).standard_normal(len(y)))
    assert named(noisy, y) == []
    assert named(X[["a"]], X["a"].to_numpy()) == []  # nothing is left without it
    assert named(X[:90], X["a"].to_numpy()[:90]) == []
    assert named(X.assign(hole=np.nan, text="same"), y) == []


@pytest.mark.parametrize("classes", [False, True])
def test_fit_warns_and_the_model_remembers(tmp_path, classes):
    X, y = table(120)
    y = (y > 0).astype(int) if classes else y
    model = (BandfallClassifier if classes else BandfallRegressor)(**FAST)
    with pytest.warns(UserWarning, match="column 'copy': alone it explains 100.0 %"):
        model.fit(X.assign(copy=y * 2.0), y)
    assert list(model.leaks_) == ["copy"]
    model.save(tmp_path / "model.bandfall")
    assert load_model(tmp_path / "model.bandfall").leaks_ == model.leaks_
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert model.fit(X, y).leaks_ == {}


def test_one_class_warns():
    with pytest.warns(UserWarning, match="one class, 'no'"):
        BandfallClassifier(**FAST).fit(np.arange(10.0)[:, None], ["no"] * 10)
