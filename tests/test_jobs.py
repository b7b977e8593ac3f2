"""Tasks of a search over threads."""

import numpy as np
import pytest

from bandfall.operators.rows import FEW_ROWS, _blas_pools
from bandfall.selection import jobs


def blas_threads():
    return max(pool.num_threads for pool in _blas_pools())


@pytest.mark.parametrize("n_jobs", [1, 2, None])
@pytest.mark.parametrize("n_rows", [10, 1000, 10**6])
def test_results_come_in_order(n_rows, n_jobs):
    found = jobs.parallel_map(np.sqrt, [4.0, 9.0, 1.0], n_rows=n_rows, n_jobs=n_jobs)
    assert found == [2.0, 3.0, 1.0]


def test_blas_has_one_thread_for_the_whole_of_a_search_over_few_rows():
    before = blas_threads()
    inside = jobs.parallel_map(lambda _: blas_threads(), [0], n_rows=FEW_ROWS, n_jobs=1)
    assert inside == [1]
    assert blas_threads() == before
    inside = jobs.parallel_map(lambda _: blas_threads(), [0], n_rows=FEW_ROWS + 1, n_jobs=1)
    assert inside == [before]


@pytest.mark.parametrize(("n_rows", "expected"), [(199, 1), (200, 8), (FEW_ROWS, 8), (10**5, 1)])
def test_threads_where_they_pay(monkeypatch, n_rows, expected):
    asked = []

    def parallel(n_jobs, **_):
        asked.append(n_jobs)
        return list

    monkeypatch.setattr(jobs, "n_threads", lambda: 8)
    monkeypatch.setattr(jobs.joblib, "Parallel", parallel)
    jobs.parallel_map(abs, [1], n_rows=n_rows, n_jobs=None)
    assert asked == [expected]
