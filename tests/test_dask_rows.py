"""Rows of dask arrays and dataframes: gathered to fit, left where they are to predict."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from bandfall import (
    BandfallClassifier,
    BandfallRegressor,
    KernelDescentRegressor,
    KernelRidgeRegressor,
)
from problems import problem

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")

X, y, X_NEW = problem(n=80, n_new=30)
ROWS = da.from_array(X_NEW, chunks=(7, 2))  # columns are in several blocks as well
QUICK = {"max_rounds": 0, "kernels": ["gaussian"], "n_members": 1, "device": None}


@pytest.fixture(scope="module", autouse=True)
def in_this_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.fixture(scope="module")
def tuned():
    return BandfallRegressor(**QUICK).fit(X, y)


def table(rows, target=None):
    frame = pd.DataFrame(rows, columns=["a", "b", "c"])
    frame["colour"] = np.where(rows[:, 0] > 0, "red", "blue")
    return frame if target is None else frame.assign(target=target)


def assert_lazy_and_equal(lazy, expected):
    assert isinstance(lazy, da.Array)
    assert lazy.dtype == np.asarray(expected).dtype
    # Sizes of errors are smoothed in float32, whose sums depend on the block.
    assert_allclose(lazy.compute(), expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("estimator", [KernelDescentRegressor, KernelRidgeRegressor])
def test_predictions_at_an_array(estimator):
    model = estimator().fit(X, y)
    found = model.predict(ROWS)
    assert found.chunks == (ROWS.chunks[0],)
    assert_lazy_and_equal(found, model.predict(X_NEW))
    several = estimator().fit(X, np.column_stack([y, y**2]))
    assert_lazy_and_equal(several.predict(X=ROWS), several.predict(X_NEW))


def test_nothing_is_computed_before_it_is_asked_for():
    def fail(block):
        raise ZeroDivisionError

    model = KernelDescentRegressor().fit(X, y)
    found = model.predict(ROWS.map_blocks(fail, dtype=float, meta=np.zeros((0, 0))))
    with pytest.raises(ZeroDivisionError):
        found.compute()


def test_intervals_gradients_novelty_and_stages(tuned):
    assert_lazy_and_equal(tuned.predict(ROWS), tuned.predict(X_NEW))
    for coverage in (0.8, [0.5, 0.8]):
        found = tuned.predict_interval(ROWS, coverage=coverage)
        assert_lazy_and_equal(found, tuned.predict_interval(X_NEW, coverage=coverage))
    assert_lazy_and_equal(tuned.gradient(ROWS), tuned.gradient(X_NEW))
    assert_lazy_and_equal(tuned.novelty(ROWS), tuned.novelty(X_NEW))
    stages = tuned.staged_predict(ROWS)
    expected = list(tuned.staged_predict(X_NEW))
    assert len(stages) == len(expected)
    for stage, one in zip(dask.compute(*stages), expected, strict=True):
        assert_allclose(stage, one, rtol=1e-9)


def test_a_score_is_about_all_rows():
    model = KernelDescentRegressor().fit(X, y)
    assert model.score(da.from_array(X, chunks=(20, 3)), y) == model.score(X, y)


def test_fit_to_arrays():
    found = KernelDescentRegressor().fit(
        da.from_array(X, chunks=(30, 2)),
        da.from_array(y, chunks=30),
        sample_weight=da.ones(len(y), chunks=30),
    )
    assert_array_equal(found.path_.X, X)
    assert_array_equal(found.predict(X_NEW), KernelDescentRegressor().fit(X, y).predict(X_NEW))


@pytest.mark.parametrize("estimator", [KernelDescentRegressor, BandfallRegressor])
def test_an_array_over_the_budget_is_refused_before_anything_is_computed(estimator):
    rows = da.zeros((10**9, 3), chunks=(10**7, 3))
    with pytest.raises(MemoryError, match=r"22\.352 GiB, over the memory_budget of 1\.000 GiB"):
        estimator().fit(rows, np.zeros(3))


def test_blocks_of_unknown_size():
    frame = dd.from_pandas(pd.DataFrame(X, columns=list("abc")), npartitions=3)
    model = KernelDescentRegressor().fit(frame.values, y)
    assert_array_equal(model.path_.X, X)
    assert_allclose(model.predict(frame.values).compute(), model.predict(X))


def test_parquet_to_predictions(tmp_path):
    """A dataframe on disk, with text, and partitions of which one turns out empty."""
    rows = table(X, y)
    for number in range(4):
        rows.iloc[20 * number : 20 * (number + 1)].to_parquet(tmp_path / f"{number}.parquet")
    frame = dd.read_parquet(tmp_path)
    features = frame.drop(columns="target")
    model = BandfallRegressor(**QUICK).fit(features, frame["target"])
    whole = features.compute()
    expected = model.predict(whole)
    assert_allclose(model.predict(features).compute(), expected)
    assert_allclose(
        expected, BandfallRegressor(**QUICK).fit(whole, frame["target"].compute()).predict(whole)
    )
    some = features[features["a"] > np.sort(X[:, 0])[-3]]
    found = model.predict(some)
    assert np.isnan(found.shape[0])
    assert_allclose(found.compute(), model.predict(some.compute()))


def test_classes():
    classes = np.where(y > 0, "high", "low")
    model = BandfallClassifier(**QUICK).fit(X, classes)
    assert_array_equal(model.predict(ROWS).compute(), model.predict(X_NEW))
    assert_allclose(model.predict_proba(ROWS).compute(), model.predict_proba(X_NEW), rtol=1e-9)


def test_a_model_that_was_trained_on_a_cluster_predicts_on_any_worker():
    model = KernelDescentRegressor().fit(X, y)
    expected = model.predict(X_NEW)
    model.device = "tcp://127.0.0.1:1"  # where nobody is
    assert_allclose(model.predict(ROWS).compute(), expected)
    assert model.device == "tcp://127.0.0.1:1"
