"""Rows of dask arrays and dataframes that stay on the workers of a cluster, leaf by leaf."""

import logging
import threading
import time
from functools import partial

import numpy as np
import pytest
from sklearn.datasets import make_friedman1

from bandfall import BandfallClassifier, BandfallRegressor
from bandfall._estimators.arrays import row_blocks
from bandfall._fitting import remote_leaves
from bandfall._products.dask_cluster import connect

da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
from bandfall._products.dask_tasks import Blocks, computed  # noqa: E402
from clusters import Cluster, task_prefixes  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:Sending large graph")
SETTINGS = {
    "kernels": ("gaussian",),
    "max_rounds": 1,
    "n_members": 1,
    "search_rows": 400,
    "leaf_rows": 500,
}
N, SAMPLE = 2400, 900
X, y = make_friedman1(N + 300, n_features=5, noise=1.0, random_state=0)
X, X_NEW, y, Y_NEW = X[:N], X[N:], y[:N], y[N:]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    cluster = Cluster(tmp_path_factory.mktemp("leaves"))
    cluster.grow_to(1)
    yield cluster
    cluster.close()


@pytest.fixture(autouse=True)
def small_sample(monkeypatch):
    monkeypatch.setattr(remote_leaves, "SAMPLE_ROWS", SAMPLE)


def rows_of(cluster, chunk=500):
    """Rows on workers."""
    X_there = da.from_array(X, chunks=(chunk, 3)).rechunk({1: -1})
    return cluster.client.persist(X_there), cluster.client.persist(da.from_array(y, chunks=chunk))


@pytest.fixture(scope="module")
def alone(cluster):
    """A model trained by one worker."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(remote_leaves, "SAMPLE_ROWS", SAMPLE)
        return BandfallRegressor(device=cluster.address, **SETTINGS).fit(*rows_of(cluster))


def test_rows_are_divided_where_they_are_and_never_gathered(cluster, monkeypatch, caplog):
    def fail(rows):
        raise AssertionError("all rows were brought here")

    monkeypatch.setattr("dask.array.Array.compute", fail)
    with caplog.at_level(logging.INFO, "bandfall.cluster"):
        model = BandfallRegressor(device=cluster.address, **SETTINGS).fit(*rows_of(cluster))
    assert f"{N} rows stay on the workers, {SAMPLE} come here" in caplog.text
    prefixes = cluster.client.run_on_scheduler(task_prefixes)
    assert {"bandfall-divide", "bandfall-leaf", "bandfall-piece"} <= set(prefixes)
    assert model.path_.n_leaves > 3
    assert max(len(leaf.model.X) for leaf in model.path_.model.leaves) < 1.2 * 500


def test_the_model_is_as_good_as_one_of_gathered_rows(alone):
    gathered = BandfallRegressor(device=None, **SETTINGS).fit(X, y)
    scores = [one.score(X_NEW, Y_NEW) for one in (alone, gathered)]
    assert scores[0] > scores[1] - 0.02
    assert len(alone.path_.X) == N
    assert alone.average_.complete
    low, high = alone.predict_interval(X_NEW, 0.9).T
    assert 0.84 < np.mean((low <= Y_NEW) & (high >= Y_NEW)) < 0.96
    assert np.allclose(alone.feature_importances_, gathered.feature_importances_, atol=0.05)
    residuals = y[alone.held_out_rows_] - alone.held_out_predictions_
    assert np.allclose(residuals, alone.held_out_residuals_)


def test_the_model_holds_the_rows_that_predictions_find(alone):
    assert np.array_equal(alone._model_rows(X), alone.path_.X)


def test_any_number_of_workers_gives_the_same_bits_even_if_one_is_lost(cluster, alone):
    cluster.grow_to(3)
    rows, target = rows_of(cluster, chunk=500)
    model = BandfallRegressor(device=cluster.address, **SETTINGS)
    victim, ended = cluster.alive[-1], threading.Event()

    def kill_one_in_the_middle():
        while "bandfall-leaf" not in str(cluster.client.processing()) and not ended.is_set():
            time.sleep(0.02)
        victim.kill()

    killer = threading.Thread(target=kill_one_in_the_middle)
    killer.start()
    model.fit(rows, target)
    ended.set()
    killer.join()
    assert victim.wait() != 0
    assert np.array_equal(model.predict(X_NEW), alone.predict(X_NEW))
    assert np.array_equal(model.held_out_predictions_, alone.held_out_predictions_)


def test_frames_with_text_and_whole_numbers(cluster):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=list("abcde"))
    frame["colour"] = np.where(X[:, 0] > 0.5, "red", "blue")
    frame["count"] = (10 * X[:, 1]).astype(int)
    there = dd.from_pandas(frame, npartitions=3)
    model = BandfallRegressor(device=cluster.address, **SETTINGS).fit(there, y)
    assert model.path_.n_leaves > 3
    assert np.array_equal(model._model_rows(frame), model.path_.X)
    assert model.score(frame, y) > 0.8


def test_classes(cluster):
    labels = np.where(y > np.median(y), "high", "low")
    rows, _ = rows_of(cluster)
    model = BandfallClassifier(device=cluster.address, **SETTINGS).fit(rows, labels)
    assert model.path_.n_leaves > 3
    assert model.score(X_NEW, np.where(np.median(y) < Y_NEW, "high", "low")) > 0.8


def test_rows_that_another_client_has_yet_to_send_are_awaited(cluster, monkeypatch):
    user = cluster.client
    send = user._send_to_scheduler
    late = partial(user.loop.call_later, 1.0, send)
    with monkeypatch.context() as patch:
        patch.setattr(user, "_send_to_scheduler", late)
        rows = user.persist(da.from_array(X + 1.0, chunks=(500, 5)))
    client = connect(cluster.address)
    assert len(Blocks(client, computed(client, rows, row_blocks(rows)[0]))) == N


def test_few_rows_and_weights_bring_all_rows_here(cluster):
    rows, target = da.from_array(X, chunks=(500, 5)), da.from_array(y, chunks=500)
    settings = {**SETTINGS, "leaf_rows": 10**6}
    model = BandfallRegressor(device=cluster.address, **settings).fit(rows[:400], target[:400])
    assert model.path_.n_leaves == 1
    weighted = BandfallRegressor(device=cluster.address, **SETTINGS)
    weighted.fit(rows, target, sample_weight=np.ones(N))
    assert weighted.path_.n_leaves > 3


def test_bad_rows_are_told(cluster):
    rows, target = rows_of(cluster)
    with pytest.raises(ValueError, match="but X has 2400"):
        BandfallRegressor(device=cluster.address, **SETTINGS).fit(rows, target[:-1])
    worse = da.where(rows > 2 * X.max(), 0.0, rows)
    worse = da.concatenate([worse[:-1], np.full((1, 5), np.inf)])
    with pytest.raises(ValueError, match="infin"):
        BandfallRegressor(device=cluster.address, **SETTINGS).fit(worse, target)
