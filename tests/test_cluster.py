"""A cluster of real processes: same model, whatever happens to its workers."""

import signal
import threading
import time

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

pytest.importorskip("distributed")

from distributed.utils import key_split

from bandfall import BandfallClassifier, BandfallRegressor, KernelDescentRegressor
from bandfall._estimators.training import FitProgress
from bandfall._products import ClusterError, dask_backend
from bandfall._products.dask_backend import Crew, DaskOperator, connect
from bandfall._products.device import is_cluster
from bandfall._progress import PathProgress
from bandfall._search.settings import Settings
from bandfall.descent import Flow
from bandfall.kernels import get_kernel
from clusters import (
    Cluster,
    Faulty,
    has_computed,
    run_python,
    slow_gaussian,
    task_prefixes,
    wait_until,
)
from problems import problem

pytestmark = pytest.mark.skipif(
    not hasattr(signal, "SIGSTOP"), reason="processes are killed and stopped by signals"
)
X, y, X_NEW = problem(n=200, n_new=50)
# Some thirty products in six stages: what takes time here is the way to the workers.
QUICK = {"min_speed": 1.0, "max_r2": 0.6, "solver": Flow(resolution=0.3, tolerance=1e-4)}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """One scheduler for all tests; they start and kill workers as they like."""
    made = Cluster(tmp_path_factory.mktemp("cluster"))
    yield made
    made.close()


@pytest.fixture
def three(cluster):
    """A cluster of three workers that are well; nothing may be left on it afterwards."""
    cluster.grow_to(3)
    yield cluster
    wait_until(lambda: not cluster.held(), "rows removed from the workers")


def regressor(cluster, **options):
    return KernelDescentRegressor(device=cluster.address, **QUICK, **options)


class At:
    """Does something after some stages, or trials, of the fits inside this context."""

    def __init__(self, where=(PathProgress, "reach"), **actions):
        self.owner, self.name = where
        self.actions = {int(name.removeprefix("stage_")): do for name, do in actions.items()}
        self.n_stages = 0

    def __enter__(self):
        self.original = getattr(self.owner, self.name)

        def called(*arguments):
            self.n_stages += 1
            self.actions.get(self.n_stages, lambda: None)()
            return self.original(*arguments)

        setattr(self.owner, self.name, called)
        return self

    def __exit__(self, *exception):
        setattr(self.owner, self.name, self.original)


@pytest.fixture(scope="module")
def expected(cluster):
    """What three workers make of the problem if nothing happens."""
    cluster.grow_to(3)
    return regressor(cluster).fit(X, y).path_


def assert_same_bits(path, expected):
    assert_array_equal(path.coefficients, expected.coefficients)
    assert_array_equal(path.bandwidths, expected.bandwidths)
    assert_array_equal(path.residual, expected.residual)


def test_equal_to_the_local_fit_and_the_same_bits_for_any_number_of_workers(cluster):
    local = KernelDescentRegressor(**QUICK).fit(X, y)
    paths = []
    for n_workers in (1, 2, 3):
        cluster.grow_to(n_workers)
        model = regressor(cluster).fit(X, y)
        paths.append(model.path_)
        assert_allclose(model.predict(X_NEW), local.predict(X_NEW), atol=1e-6)
    for path in paths[1:]:
        assert_same_bits(path, paths[0])
    wait_until(lambda: not cluster.held(), "rows removed from the workers")


@pytest.mark.parametrize("kernel", ["laplace-1.5", "cauchy-1.3^0.7"])
def test_other_norms_and_exponents(cluster, kernel):
    """Equal to the local fit, to the bit for any number of workers, far leaves left out."""
    local = KernelDescentRegressor(kernel, **QUICK).fit(X, y)
    paths = []
    for n_workers in (1, 3):
        cluster.grow_to(n_workers)
        model = regressor(cluster, kernel=kernel).fit(X, y)
        paths.append(model.path_)
        assert_allclose(model.predict(X_NEW), local.predict(X_NEW), atol=1e-6)
    assert_same_bits(*paths)


def test_float32_several_targets_weights_and_repeated_rows(three):
    rows = np.concatenate([X[:150], X[:50]]).astype(np.float32)
    targets = np.column_stack([np.concatenate([y[:150], y[:50]])] * 2)
    targets[:, 1] **= 2
    weights = 1.0 + np.arange(200) % 3
    local = KernelDescentRegressor(**QUICK).fit(rows, targets, sample_weight=weights)
    found = regressor(three).fit(rows, targets, sample_weight=weights)
    assert_allclose(found.predict(X_NEW), local.predict(X_NEW), atol=2e-4)


def test_a_worker_is_killed_while_idle(three, expected):
    victim = three.alive[0]
    with At(stage_2=lambda: three.kill(victim)):
        path = regressor(three).fit(X, y).path_
    assert_same_bits(path, expected)


def test_a_worker_is_killed_in_the_middle_of_a_product(three):
    undisturbed = regressor(three, kernel=slow_gaussian).fit(X, y).path_
    victim = three.alive[0]

    def kill_while_busy():
        wait_until(lambda: three.client.processing()[victim.address], "a busy worker")
        victim.kill()

    killer = threading.Thread(target=kill_while_busy)
    with At(stage_1=killer.start):
        path = regressor(three, kernel=slow_gaussian).fit(X, y).path_
    killer.join()
    victim.wait()
    assert_same_bits(path, undisturbed)


def test_two_workers_are_killed_in_one_fit(three, expected):
    first, second = three.alive[:2]
    with At(stage_2=first.kill, stage_4=second.kill):
        path = regressor(three).fit(X, y).path_
    assert_same_bits(path, expected)


def test_a_worker_that_joins_gets_work(three, expected):
    joined, worked = [], []

    def join():
        joined.append(three.start_worker())

    def look():
        worked.append(three.client.run(has_computed, workers=[joined[0].address]))

    with At(stage_2=join, stage_5=look):
        path = regressor(three).fit(X, y).path_
    assert_same_bits(path, expected)
    assert worked == [{joined[0].address: True}]
    three.kill(joined[0])


def test_a_lost_scheduler_ends_the_fit_in_bounded_time(tmp_path):
    lost = Cluster(tmp_path)
    try:
        lost.grow_to(1)
        model, start = regressor(lost), time.monotonic()
        with (
            At(stage_2=lost.scheduler.kill),
            pytest.raises(ClusterError, match="the Dask cluster was lost"),
        ):
            model.fit(X, y)
        assert time.monotonic() - start < 300  # it does not wait for ever, on busy machines either
        assert not hasattr(model, "path_")
    finally:
        lost.close()


def test_a_killed_client_leaves_nothing_on_the_cluster(three, tmp_path):
    np.savez(tmp_path / "data.npz", X=X, y=y)
    done = run_python(FIT_AND_DIE, three.address, tmp_path / "data.npz")
    assert done.returncode == -signal.SIGKILL, done.stderr
    wait_until(lambda: not three.held(), "rows taken back from a client that is gone")


FIT_AND_DIE = """
import os, signal, sys
import numpy as np
from test_cluster import At, QUICK
from bandfall import BandfallClassifier, BandfallRegressor, KernelDescentRegressor

address, data = sys.argv[1:]
arrays = np.load(data)
model = KernelDescentRegressor(device=address, **QUICK)
with At(stage_2=lambda: os.kill(os.getpid(), signal.SIGKILL)):
    model.fit(arrays["X"], arrays["y"])
"""


def test_two_fits_at_once(three, expected):
    other = regressor(three, kernel="matern32").fit(X, y).path_
    found = {}

    def fit(kernel):
        found[kernel] = regressor(three, kernel=kernel).fit(X, y).path_

    threads = [threading.Thread(target=fit, args=(name,)) for name in ("gaussian", "matern32")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert_same_bits(found["gaussian"], expected)
    assert_same_bits(found["matern32"], other)


def test_rows_are_given_back_after_an_error(three):
    with At(stage_2=lambda: 1 / 0), pytest.raises(ZeroDivisionError):
        regressor(three).fit(X, y)
    wait_until(lambda: not three.held(), "rows removed from the workers")


def test_an_error_of_the_computation_is_raised_at_once(three):
    crew = Crew(three.client, Faulty())
    with pytest.raises(ZeroDivisionError):
        crew.call([("fail", ())])
    crew.close()


def test_tasks_have_a_name_for_the_dashboard(three, expected):
    prefixes = three.client.run_on_scheduler(task_prefixes)
    assert "bandfall-product" in prefixes
    assert key_split(("bandfall-product-0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f", 1)) in prefixes


def test_large_vectors_are_sent_once_and_survive_the_loss_of_their_holder(three, monkeypatch):
    rows = np.random.default_rng(0).normal(size=(2000, 2))
    vector = np.random.default_rng(1).normal(size=(2000, 1))
    operator = DaskOperator(
        three.client, rows, get_kernel("gaussian"), np.dtype(float), 2**20, 2**20
    )
    expected = operator.product(0.5, vector)
    monkeypatch.setattr(dask_backend, "_INLINE_BYTES", 100)
    assert_array_equal(operator.product(0.5, vector), expected)
    submit = Crew._submit

    def submit_and_lose(crew, function, *arguments, worker=""):
        future = submit(crew, function, *arguments, worker=worker)
        if function is dask_backend._itself:
            future.result()
            (holder,) = next(iter(three.client.who_has([future]).values()))
            three.kill(next(one for one in three.alive if one.address == holder))
        return future

    monkeypatch.setattr(Crew, "_submit", submit_and_lose)
    assert_array_equal(operator.product(0.5, vector), expected)
    operator.close()


def test_a_search_on_a_cluster_finds_what_it_finds_without(three):
    options = {"max_rounds": 1, "n_members": 3, "max_seconds": 3000.0}
    local = BandfallRegressor(device=None, **options).fit(X, y)
    found = BandfallRegressor(device=three.address, **options).fit(X, y)
    assert "bandfall-search" in three.client.run_on_scheduler(task_prefixes)
    assert local.selection_.keys() == found.selection_.keys()
    assert_array_equal(found.selection_["encoding"], local.selection_["encoding"])
    assert_allclose(found.selection_["loss"], local.selection_["loss"], rtol=1e-6)
    assert [one.candidate for one in found.members_] == [one.candidate for one in local.members_]
    for one, other in zip(found.members_, local.members_, strict=True):
        # Long training at one bandwidth ends in a Krylov space of which rounding decides the rest:
        # such paths agree to the tolerance of the flow.
        allowed = 1e-3 if one.candidate.width else 1e-9
        expected = other.path.coefficients
        error = np.linalg.norm(one.path.coefficients - expected) / np.linalg.norm(expected)
        assert error < allowed
    held_out_error = np.sqrt(1.0 - local.best_score_) * y.std()
    tolerance = Settings.final_tolerance * held_out_error
    assert_allclose(found.predict(X_NEW), local.predict(X_NEW), rtol=0.0, atol=tolerance)


def test_leaves_trained_on_a_cluster_are_those_trained_without(three):
    X = np.random.default_rng(0).uniform(-1, 1, size=(1600, 4))
    y = np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2]
    settings = {"kernels": ("gaussian",), "max_rounds": 1, "n_members": 1, "search_rows": 400}
    alone = BandfallRegressor(leaf_rows=600, device=None, **settings).fit(X, y)
    shared = BandfallRegressor(leaf_rows=600, device=three.address, **settings).fit(X, y)
    assert shared.path_.n_leaves == alone.path_.n_leaves > 2
    assert np.array_equal(shared.predict(X[:50]), alone.predict(X[:50]))
    assert np.array_equal(shared.held_out_predictions_, alone.held_out_predictions_)


def test_a_search_over_folds_survives_the_loss_of_a_worker(three):
    classes = np.where(y > np.median(y), "high", "low")
    local = BandfallClassifier(device=None, max_rounds=0).fit(X, classes)
    victim = three.alive[0]
    model = BandfallClassifier(device=three.address, max_rounds=0)
    with At((FitProgress, "tried"), stage_2=lambda: three.kill(victim)) as trials:
        model.fit(X, classes)
    assert trials.n_stages > 2
    assert_allclose(model.predict_proba(X_NEW), local.predict_proba(X_NEW), atol=1e-6)


def test_no_client_and_no_scheduler_are_told():
    with pytest.raises(ClusterError, match="from distributed import Client"):
        KernelDescentRegressor(device="dask").fit(X, y)
    with pytest.raises(ClusterError, match=r"device='tcp://127\.0\.0\.1:1': no scheduler answers"):
        connect("tcp://127.0.0.1:1", seconds=0.5)
    assert not is_cluster("cuda:1")


def test_without_any_worker_there_is_an_error(cluster, monkeypatch):
    empty = Cluster(cluster.directory / "empty")
    monkeypatch.setattr(dask_backend, "_WORKER_SECONDS", 0.5)
    try:
        with pytest.raises(ClusterError, match="was lost"):
            Crew(empty.client, Faulty())
    finally:
        empty.close()
