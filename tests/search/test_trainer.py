"""Tasks of a search over threads."""

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from bandfall import BandfallRegressor, _threads
from bandfall._estimators.training import FitProgress
from bandfall._threads import FEW_ROWS, _blas_pools, parallel_map


def blas_threads():
    return max(pool.num_threads for pool in _blas_pools())


@pytest.mark.parametrize("n_jobs", [1, 2, None])
@pytest.mark.parametrize("n_rows", [10, 1000, 10**6])
def test_results_come_in_order(n_rows, n_jobs):
    found = parallel_map(np.sqrt, [4.0, 9.0, 1.0], n_rows=n_rows, n_jobs=n_jobs)
    assert found == [2.0, 3.0, 1.0]


def test_blas_has_one_thread_for_the_whole_of_a_search_over_few_rows():
    before = blas_threads()
    inside = parallel_map(lambda _: blas_threads(), [0], n_rows=FEW_ROWS, n_jobs=1)
    assert inside == [1]
    assert blas_threads() == before
    inside = parallel_map(lambda _: blas_threads(), [0], n_rows=FEW_ROWS + 1, n_jobs=1)
    assert inside == [before]


@pytest.mark.parametrize(("n_rows", "expected"), [(199, 1), (200, 8), (FEW_ROWS, 8), (10**5, 1)])
def test_threads_where_they_pay(monkeypatch, n_rows, expected):
    asked = []

    def pool(n_jobs, **options):
        asked.append(n_jobs)
        return ThreadPoolExecutor(n_jobs, **options)

    monkeypatch.setattr(_threads, "n_threads", lambda: 8)
    monkeypatch.setattr(_threads, "ThreadPoolExecutor", pool)
    assert parallel_map(abs, [-1] * 9, n_rows=n_rows, n_jobs=None) == [1] * 9
    assert (asked or [1]) == [expected]
    parallel_map(abs, [-1], n_rows=n_rows, n_jobs=None)  # one task needs no thread
    assert (asked or [1]) == [expected]


class Wrong(Exception):
    """What a task may raise."""


@pytest.mark.parametrize("error", [Wrong, KeyboardInterrupt])
def test_no_thread_is_at_work_after_an_error(error):
    stopped, ended = threading.Event(), []

    def task(number):
        if number == 1:
            raise error
        assert stopped.wait(30)
        ended.append(number)

    before = blas_threads()
    with pytest.raises(error):
        parallel_map(task, list(range(9)), n_rows=1000, n_jobs=3, stop=stopped.set)
    assert len(ended) <= 3  # those at work were waited for, the others never began
    assert not [one for one in threading.enumerate() if one.name.startswith("bandfall-search")]
    assert blas_threads() == before


def test_a_fit_that_fails_leaves_no_thread_behind(monkeypatch):
    n_trials = itertools.count(1)

    def fails(*_):
        if next(n_trials) == 3:
            raise Wrong

    X = np.random.default_rng(0).normal(size=(400, 3))
    monkeypatch.setattr(FitProgress, "tried", fails)
    before = blas_threads()
    with pytest.raises(Wrong):
        BandfallRegressor(n_jobs=3).fit(X, np.sin(2 * X[:, 0]))
    assert not [one for one in threading.enumerate() if one.name.startswith("bandfall-search")]
    assert blas_threads() == before
